"""Integers of a traced function as expressions, and what is certain of them while it is traced.

``as_dim`` writes an integer as an expression over the values that it is computed from; the ranges
of those are known of counters of loops, remainders, limited values and elements of constant arrays.
``is_certain`` proves relations of such expressions, so that ``x[i * 4:i * 4 + 4]`` in a loop over
``n // 4`` needs no check that it lies inside of ``x``.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..ir.dims import Dim, IntExpr, floordiv, int_max, int_min, mod, symbol, symbols
from ..ir.graph.nodes import Constant
from .places import Emitter
from .value_numbers import Definition

_MOVES = ("take", "dynamic_slice", "strided_slice", "reshape", "transpose", "reverse")
"""Operators whose elements are elements of their first operand."""


def as_dim(trace: Emitter, value: Any) -> IntExpr:
    """Returns an integer as an expression over the atoms that it is computed from, so that two can
    be compared: ``(i + 1) * 4 - i * 4`` is 4.

    Atoms are not the same in different runs, and so are not their names here.
    """
    if isinstance(value, int | Dim):
        return value
    if isinstance(value, Constant) and value.value.size == 1:
        return int(value.value.reshape(()))
    dims = trace.values.dims
    if value not in dims:
        dims[value] = _as_dim(trace, value)
    return dims[value]


def _as_dim(trace: Emitter, value: Any) -> IntExpr:
    dtype: Any = value.type.dtype
    definition: Any = trace.values.definitions.get(value)
    # Sums and products that wrap around are equal to these expressions once they are in range;
    # narrow integers may be in range and wrap.
    if definition is None or value.type.size != 1 or not dtype.is_integer or dtype.bits < 32:
        return _named(trace, value)
    name, args, attrs = definition
    if name in ("full", "set_size"):
        return attrs["fill_value" if name == "full" else "size"]
    if any(not arg.type.dtype.is_integer for arg in args) or (dtype.bits < 64 and name in _LIMITED):
        return _named(trace, value)
    match name, [as_dim(trace, arg) for arg in args if name in _EXACT]:
        case "add", [one, other]:
            return one + other
        case "subtract", [one, other]:
            return one - other
        case "multiply", [one, other]:
            return one * other
        case "cast" | "reshape", [one]:
            return one
        case "minimum", [one, other]:
            return int_min(one, other)
        case "maximum", [one, other]:
            return int_max(one, other)
        case "clip", [one]:
            return int_min(int_max(one, int(attrs["a_min"])), int(attrs["a_max"]))
        case "floor_divide", [one, int(divisor)] if divisor > 0:
            return floordiv(one, divisor)
        case "floor_mod", [one, int(divisor)] if divisor > 0:
            return mod(one, divisor)
        case _:
            return _named(trace, value)


_LIMITED = ("minimum", "maximum", "clip", "floor_divide", "floor_mod")
_EXACT = ("add", "subtract", "multiply", "cast", "reshape", *_LIMITED)


def _named(trace: Emitter, value: Any) -> IntExpr:
    """A symbol for a value, the same for the same value, as ``x[0]`` is of another ``x[0]``; what
    is known of its range is noted."""
    values, name = trace.values, f"at{trace.values.number(value)}"
    if name not in values.ranges and (ends := _range(trace, value)) is not None:
        values.ranges[name] = ends
    return symbol(name)


def _definition(trace: Emitter, value: Any) -> Definition:
    return trace.values.definitions.get(value) or ("", (), {})


def _range(trace: Emitter, value: Any) -> tuple[IntExpr, IntExpr] | None:
    """The least and the greatest value that an integer may have, as far as that is known."""
    if (extent := trace.values.extents.get(value)) is not None:
        return 0, as_dim(trace, extent) - 1
    name, args, _ = _definition(trace, value)
    if name == "where":
        one, other = (as_dim(trace, arg) for arg in args[1:])
        return int_min(one, other), int_max(one, other)
    source: Any = value
    while name in _MOVES:
        source = args[0]
        name, args, _ = _definition(trace, source)
    dtype = source.type.dtype
    if isinstance(source, Constant) and source.value.size and dtype.is_integer:
        return int(source.value.min()), int(source.value.max())
    if dtype.is_integer and not (dtype.is_signed and dtype.bits == 64):
        limits = np.iinfo(dtype.numpy)
        return int(limits.min), int(limits.max)
    return None


def is_certain(trace: Emitter, left: IntExpr, relation: str, right: IntExpr) -> bool:
    """True if a relation of expressions of ``as_dim`` is proved."""
    from ..ir.dim_proofs import prove  # loaded when it is first needed

    ranges = trace.values.ranges
    needed: set[str] = set()
    work = [left, right]
    while work:
        for name in symbols(work.pop()) - needed:
            needed.add(name)
            work += ranges.get(name, ())
    inside = {name: ends for name, ends in ranges.items() if name in needed}
    return prove(left, relation, right, inside) is True
