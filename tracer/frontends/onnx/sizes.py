"""Arrays of sizes: what models compute of the shapes of tensors, where some sizes are symbolic.

Such a value is known, but not as numbers: a NumPy array of objects, ints and expressions. The
operators of which models make shapes keep it so, for a shape is wanted in the end (``Reshape``,
``Expand``, ``Slice``). Any other operator is given the numbers: a traced array of int64.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ....ir.dims import Dim, IntExpr, floordiv, int_max, int_min, mod
from ....ir.dtype import INT64, Array
from ...core.emitting import lift
from ...core.proxy import Proxy
from ...core.symbolic_sizes import decided
from .table import Value, is_sizes


def _quotient(left: IntExpr, right: IntExpr) -> IntExpr:
    """Returns a quotient rounded toward zero."""
    if decided(right, "==", 0):
        raise ZeroDivisionError("division by zero")
    over, under = decided(0, "<=", left), decided(0, "<", right)
    quotient = floordiv(left if over else -left, right if under else -right)
    return quotient if over == under else -quotient


def _remainder(left: IntExpr, right: IntExpr) -> IntExpr:
    if decided(right, "==", 0):
        raise ZeroDivisionError("division by zero")
    return mod(left, right)


def _relation(name: str) -> Callable[[IntExpr, IntExpr], bool]:
    return lambda left, right: decided(left, name, right)


_ARITHMETIC: dict[str, Callable[[Any, Any], IntExpr]] = {
    "Add": operator.add,
    "Div": _quotient,
    "Max": int_max,
    "Min": int_min,
    "Mod": _remainder,
    "Mul": operator.mul,
    "Sub": operator.sub,
}
_COMPARISONS: dict[str, Callable[[IntExpr, IntExpr], bool]] = {
    "Equal": _relation("=="),
    "Greater": _relation(">"),
    "GreaterOrEqual": _relation(">="),
    "Less": _relation("<"),
    "LessOrEqual": _relation("<="),
}

MOVES = frozenset(
    (
        *("Concat", "Expand", "Flatten", "Identity", "Neg", "ReduceProd", "ReduceSum", "Reshape"),
        *("Slice", "Split", "Squeeze", "Tile", "Transpose", "Unsqueeze", "Where"),
    )
)
"""Operators whose converters take arrays of objects as they are: they move, add or multiply."""


def arithmetic(name: str, inputs: Sequence[Value], attributes: dict[str, Any]) -> Value:
    """Returns what an operator computes of known arrays, some of them of sizes; None if that are
    not sizes again. A comparison that the ranges of sizes leave open becomes a requirement."""
    if name == "Gather":
        return np.take(*inputs, axis=attributes.get("axis", 0)) if _of_ints(inputs[1]) else None
    if name == "Cast" and attributes["to"] == 7:  # int64
        return inputs[0]
    if name in _COMPARISONS and all(map(_of_ints, inputs)):
        compared = np.frompyfunc(_COMPARISONS[name], 2, 1)(*inputs)
        return np.asarray(compared, bool)
    if name in _ARITHMETIC and not attributes.get("fmod") and all(map(_of_ints, inputs)):
        result = inputs[0]
        for value in inputs[1:]:
            result = np.frompyfunc(_ARITHMETIC[name], 2, 1)(result, value)
        return result
    return None


def _of_ints(value: Value) -> bool:
    return is_sizes(value) or value.dtype.kind == "i"


def array_of_sizes(sizes: Any) -> Array:
    """Returns sizes as an array: of int64, if all of them are numbers."""
    array = np.asarray(sizes, object)
    if any(isinstance(size, Dim) for size in array.flat):
        return array
    return array.astype(np.int64)


def as_numbers(value: Array) -> Proxy:
    """Returns an array of sizes as a traced array of int64."""
    numbers = [
        lift(size, INT64) if isinstance(size, Dim) else np.int64(size) for size in value.flat
    ]
    return lift(np.reshape(np.stack(numbers), value.shape))
