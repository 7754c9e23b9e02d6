"""Compute now what depends on constants only.

Before::

    def @main(%x: Tensor[(4), float32]) -> Tensor[(4), float32] {
      %0 = multiply(2f, 3f);
      add(%x, %0)
    }

After::

    def @main(%x: Tensor[(4), float32]) -> Tensor[(4), float32] {
      add(%x, 6f)
    }

An ``if`` whose condition is known becomes the branch taken.
"""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from ...dims import Dim
from ..builder import Builder
from ..nodes import (
    Atom,
    Block,
    Call,
    Constant,
    Expr,
    Function,
    GlobalVar,
    If,
    Module,
    Tuple,
    TupleGetItem,
    Var,
)
from ..types import TensorType, Type
from .rewrite import map_functions, rewrite_function

__all__ = ["fold_constants"]

GROWTH_LIMIT = 64 * 1024
"""Bytes by which one folded call may be bigger than its operands.

Transposing a weight costs no memory and saves work in every call of the program. But
``zeros((10000, 10000))`` is better computed where it is used than carried along as 400 MB."""


MOST_WIDENED = 256
"""Elements of a constant of bytes that are widened now. More are widened where they are read."""


def fold_constants(module: Module) -> Module:
    """Replace calls on constants by their value, by the operators' own ``reference``."""
    return map_functions(module, _fold_function)


def _fold_function(function: Function) -> Function:
    tuples: dict[Var, tuple[Atom, ...]] = {}

    def step(var: Var, value: Expr, builder: Builder) -> Atom | None:
        if isinstance(value, Call):
            fields = _fold_call(value, var.type)
            if isinstance(fields, tuple):
                new = builder.make_tuple(fields)
                tuples[new] = fields
                return new
            return fields
        if isinstance(value, Tuple):
            tuples[var] = value.fields
        if isinstance(value, TupleGetItem) and isinstance(value.value, Var):
            known = tuples.get(value.value)
            return known[value.index] if known is not None else None
        if isinstance(value, If) and isinstance(value.condition, Constant):
            return _splice(value.then if bool(value.condition.value) else value.orelse, builder)
        return None

    return rewrite_function(function, step)


def _fold_call(call: Call, kind: Type) -> Constant | tuple[Constant, ...] | None:
    op = call.op
    if isinstance(op, GlobalVar | Var):
        return None
    arrays = [a.value for a in call.args if isinstance(a, Constant)]
    if any(_is_symbolic(value) for value in call.attrs.values()):
        return None
    if len(arrays) != len(call.args) or not _may_grow(kind, arrays, bool(call.args)):
        return None
    if op.name == "cast" and _widens_many(kind, arrays[0]):
        return None
    with np.errstate(all="ignore"):
        result = op.reference(arrays, call.attrs)
    name = next((a.name for a in call.args if isinstance(a, Constant) and a.name), "")
    if isinstance(result, tuple | list):
        return tuple(Constant(_frozen(r), name, call.span) for r in result)
    return Constant(_frozen(result), name, call.span)


def _may_grow(kind: Type, arrays: list[np.ndarray[Any, Any]], has_operands: bool) -> bool:
    """Whether the result is known to be small enough, or no bigger than what it replaces."""
    if not isinstance(kind, TensorType):
        return True
    size = kind.size
    if not isinstance(size, int):
        return False
    # iota, full and arange cost nothing inside a kernel, an array of their values must be read.
    limit = GROWTH_LIMIT + sum(a.nbytes for a in arrays) if has_operands else kind.dtype.bytes
    return size * kind.dtype.bytes <= limit


def _widens_many(kind: Type, array: np.ndarray[Any, Any]) -> bool:
    """Whether a weight of bytes would become one of wider numbers, which take longer to read."""
    assert isinstance(kind, TensorType)
    return array.dtype.itemsize == 1 and kind.dtype.bytes > 1 and array.size > MOST_WIDENED


def _is_symbolic(value: object) -> bool:
    """Whether an attribute holds a size that is not known yet."""
    if isinstance(value, tuple):
        return any(map(_is_symbolic, cast("tuple[object, ...]", value)))
    return isinstance(value, Dim)


def _frozen(value: Any) -> np.ndarray[Any, Any]:
    array = np.array(value)  # a view would keep the operand alive, and be writable through it
    array.flags.writeable = False
    return array


def _splice(block: Block, builder: Builder) -> Atom:
    """Emit the bindings of ``block`` into ``builder``; its result."""
    builder.bindings.extend(block.bindings)
    return block.result
