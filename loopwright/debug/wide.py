"""Evaluates a graph function with NumPy, in its own dtypes or with float64 instead of float32.

Values of all bindings of the function are kept, so that each operation can be looked at: of a
binding inside of a branch or loop, the last one. Function values are not evaluated.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from ..ir.dtype import Array, dtype_of
from ..ir.errors import UnsupportedError
from ..ir.graph.nodes import (
    Atom,
    Block,
    Call,
    Constant,
    Expr,
    For,
    Function,
    GlobalVar,
    If,
    Module,
    Tuple,
    TupleGetItem,
    Var,
    While,
)
from ..ir.graph.operator import Operator
from ..ir.loop.evaluate import evaluate_prim
from ..ir.loop.prim import PrimFunc
from ..ir.loop.widen import widened

Value: TypeAlias = "Array | tuple[Value, ...]"

MOST_EVALUATED = 500_000
"""Operations after which an evaluation gives up: some seconds."""


class TooLongError(UnsupportedError):
    """NumPy would take too long, or has no stack for so deep a recursion."""


def values_of(
    function: Function, args: Sequence[Array], module: Module | None = None, *, wide: bool
) -> dict[Var, Value]:
    """Returns the value of every parameter and binding of ``function`` on ``args``.

    ``module`` has the functions that it calls. With ``wide`` all float32 is float64: literals and
    arguments keep the value that float32 gave them. Raises TooLongError after ``MOST_EVALUATED``.
    """
    with np.errstate(all="ignore"):
        try:
            return Evaluation(module, wide).call(function, args)
        except RecursionError:
            raise TooLongError("the recursion is too deep to be evaluated here") from None


def flat(value: Value) -> list[Array]:
    """Returns the arrays of a value, with tuples flattened."""
    return [a for field in value for a in flat(field)] if isinstance(value, tuple) else [value]


def result_of(function: Function, values: Mapping[Var, Value], *, wide: bool) -> Value:
    """Returns the function's result among the values of its bindings."""
    return _atom(function.body.result, values, wide)


class Evaluation:
    """Evaluates blocks; counts operations. ``around`` are the loops that run, each with the number
    of its iteration, the innermost last."""

    def __init__(self, module: Module | None, wide: bool) -> None:
        self.module, self.wide, self.left = module, wide, MOST_EVALUATED
        self.around: list[tuple[While | For, int]] = []

    def call(self, function: Function, args: Sequence[Value]) -> dict[Var, Value]:
        values = {p: _as(a, self.wide) for p, a in zip(function.params, args, strict=True)}
        self.bind(function.body, values)
        return values

    def count(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise TooLongError(f"this takes more than {MOST_EVALUATED} operations")

    def bind(self, block: Block, values: dict[Var, Value]) -> None:
        """Adds the values of the bindings of ``block``."""
        for binding in block.bindings:
            self.count()
            values[binding.var] = self.value(binding.value, values)

    def block(self, block: Block, values: dict[Var, Value]) -> Value:
        self.bind(block, values)
        return _atom(block.result, values, self.wide)

    def value(self, expr: Expr, values: dict[Var, Value]) -> Value:
        wide = self.wide
        if isinstance(expr, Call):
            return self.applied(expr, [_atom(a, values, wide) for a in expr.args])
        if isinstance(expr, Tuple):
            return tuple(_atom(f, values, wide) for f in expr.fields)
        if isinstance(expr, TupleGetItem):
            fields = _atom(expr.value, values, wide)
            assert isinstance(fields, tuple)
            return fields[expr.index]
        if isinstance(expr, If):
            taken = bool(_atom(expr.condition, values, wide))
            return self.block(expr.then if taken else expr.orelse, values)
        if isinstance(expr, While | For):
            return self.loop(expr, values)
        if isinstance(expr, Var | Constant | GlobalVar):
            return _atom(expr, values, wide)
        raise UnsupportedError(f"{type(expr).__name__} is not compiled", span=expr.span)

    def applied(self, call: Call, args: list[Value]) -> Value:
        op = call.op
        if isinstance(op, Operator):
            return _as(op.reference(args, _attrs(call.attrs, self.wide)), self.wide)
        callee = self.module.functions.get(op.name) if self.module is not None else None
        if isinstance(callee, PrimFunc):
            return _kernel_value(callee, args, self.wide)
        if isinstance(callee, Function):
            arrays = args if len(args) == len(callee.params) else [a for v in args for a in flat(v)]
            return result_of(callee, self.call(callee, arrays), wide=self.wide)
        raise UnsupportedError(f"the function {op.name} is not known", span=call.span)

    def loop(self, loop: While | For, values: dict[Var, Value]) -> Value:
        carry: Value = tuple(_atom(a, values, self.wide) for a in loop.initial)
        depth = len(self.around)
        count = (
            int(np.asarray(_atom(loop.extent, values, self.wide))) if isinstance(loop, For) else 0
        )
        for number in itertools.count():
            assert isinstance(carry, tuple)
            self.around[depth:] = [(loop, number)]
            values.update(zip(loop.params, carry, strict=True))
            if isinstance(loop, While):
                going = bool(self.block(loop.condition, values))
            else:
                going = number < count
                values[loop.index] = np.asarray(number, np.int64)
            if not going:
                break
            self.count()  # the blocks of a loop may be empty
            carry = self.block(loop.body, values)
        del self.around[depth:]
        return carry


def _kernel_value(prim: PrimFunc, args: Sequence[Value], wide: bool) -> Value:
    """Returns the results of a kernel of the module, by its tensor expressions."""
    arrays = {p.name: np.asarray(a) for p, a in zip(prim.params, args, strict=True)}
    results = tuple(evaluate_prim(widened(prim) if wide else prim, arrays).values())
    return results[0] if len(results) == 1 else results


def _atom(atom: Atom, values: Mapping[Var, Value], wide: bool) -> Value:
    if isinstance(atom, GlobalVar):
        raise UnsupportedError(f"@{atom.name} is used as a value", span=atom.span)
    return values[atom] if isinstance(atom, Var) else _as(atom.value, wide)


def _as(value: Any, wide: bool) -> Value:
    if isinstance(value, tuple | list):
        return tuple(_as(v, wide) for v in value)
    array = np.asarray(value)
    return array.astype(dtype_of(array).wide.numpy, copy=False) if wide else array


def _attrs(attrs: Mapping[str, Any], wide: bool) -> Mapping[str, Any]:
    """Returns the attributes, with the wider dtype where one names a dtype and ``wide`` is set."""
    return {k: dtype_of(v).wide.name if wide and k == "dtype" else v for k, v in attrs.items()}
