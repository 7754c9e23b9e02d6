"""Compute with float32 where values are stored as float16, and with bytes where they are as int4.

Before::

    def @main(%x: Tensor[(4), float16]) -> Tensor[(4), float16] {
      exp(%x)
    }

After::

    def @main(%x: Tensor[(4), float16]) -> Tensor[(4), float16] {
      %0 = cast(%x, dtype="float32");
      %1 = exp(%0);
      cast(%1, dtype="float16")
    }

Each operator rounds its result, as NumPy's do; one that is a composition of others, such as
``nn.softmax``, rounds once. Operators that only choose and order elements move the stored bits, and
``nn.grouped_matmul`` widens what it reads of its operands.
"""

from __future__ import annotations

from ...traits import Trait
from ..builder import Builder
from ..nodes import Atom, Call, Module, Var
from ..operator import OPERATORS
from ..types import TensorType, TupleType, Type
from ..walk import map_functions, rewrite_blocks

_KEEPS_BITS = Trait.MOVES | Trait.LIBRARY | Trait.WIDENS


def widen_halves(module: Module) -> Module:
    """Casts operands of dtypes that are only stored to those computed with, and results back."""
    return map_functions(module, lambda function: rewrite_blocks(function, lambda _calls: _step))


def _step(var: Var, value: Call, builder: Builder) -> Atom | None:
    if not _has_half(var.type) and not any(_has_half(a.type) for a in value.args):
        return None
    if value.operator.traits & _KEEPS_BITS and value.attrs.get("reduction", "none") == "none":
        return None
    wide = [_cast(builder, a, _computed(a.type)) if _has_half(a.type) else a for a in value.args]
    attrs = {
        name: _computed(var.type) if name == "dtype" and _has_half(var.type) else v
        for name, v in value.attrs.items()
    }
    return _narrowed(builder, builder.emit(value.op, wide, attrs), var.type)


def _narrowed(builder: Builder, result: Atom, wanted: Type) -> Atom:
    """Returns ``result`` in the dtypes that it had before it was widened."""
    if isinstance(wanted, TupleType):
        fields = [
            _narrowed(builder, builder.get_item(result, n), kind)
            for n, kind in enumerate(wanted.fields)
        ]
        return builder.make_tuple(fields)
    if result.type == wanted:
        return result
    assert isinstance(wanted, TensorType)
    return _cast(builder, result, wanted.dtype.name)


def _cast(builder: Builder, x: Atom, dtype: str) -> Atom:
    return builder.emit(OPERATORS["cast"], (x,), {"dtype": dtype})


def _has_half(kind: Type) -> bool:
    if isinstance(kind, TupleType):
        return any(map(_has_half, kind.fields))
    return isinstance(kind, TensorType) and kind.dtype.computed is not kind.dtype


def _computed(kind: Type) -> str:
    assert isinstance(kind, TensorType)
    return kind.dtype.computed.name
