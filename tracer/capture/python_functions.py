"""Python's own functions on traced values: ``range``, ``zip``, ``sum``, ``int`` and more."""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ...ir.dtype import FLOAT64
from ..core.emitting import dtype_argument, emit, lift
from ..core.proxy import Proxy
from ..core.runtime_checks import check
from ..core.symbolic_sizes import Size
from .branches import disjunction, negation, returned
from .lists import arrayed, is_grown
from .math_functions import FUNCTIONS
from .steps import Steps, range_steps, steps_of


def _range(*bounds: Any) -> Any:
    bounds = tuple(b.number() if type(b) is Size else b for b in bounds)
    if any(type(b) is Proxy for b in bounds):
        return range_steps(*((0, *bounds, 1) if len(bounds) == 1 else (*bounds, 1)[:3]))
    return range(*bounds)


def _enumerate(iterable: Any, start: Any = 0) -> Any:
    steps = steps_of(iterable)
    if steps is None or not steps.is_long:
        return enumerate(iterable, start)
    return Steps(
        steps.count, lambda n: (start + n, steps.item(n)), lambda: enumerate(iterable, start)
    )


def _zip(*iterables: Any, **options: Any) -> Any:
    each = [steps_of(iterable) for iterable in iterables]
    steps = [s for s in each if s is not None]
    if options or not each or len(steps) < len(each) or not all(s.is_long for s in steps):
        return zip(*iterables, **options)
    count = OURS[min](*(s.count for s in steps)) if len(steps) > 1 else steps[0].count
    return Steps(count, lambda n: tuple(s.item(n) for s in steps), lambda: zip(*iterables))


def _reversed(sequence: Any) -> Any:
    steps = steps_of(sequence)
    if steps is None or not steps.is_long:
        return reversed(sequence)
    count, item = steps.count, steps.item
    return Steps(count, lambda n: item(count - 1 - n), lambda: reversed(sequence))


def _extreme(name: str) -> Callable[..., Any]:
    plain = getattr(builtins, name)

    def extreme(*values: Any, **options: Any) -> Any:
        items = arrayed(values[0]) if len(values) == 1 and not options else None
        if type(items) is Proxy and items.ndim == 1 and items.type.shape[0] != 0:
            if not isinstance(items.type.shape[0], int):
                check(length(values[0]) < 1, ValueError, f"{name}() arg is an empty sequence")
            return values[0][_place_of_extreme(items, name)]
        listed = len(values) == 1 and isinstance(values[0], list | tuple)
        each: list[Any] = [*values[0]] if listed else [*values]
        if not options and len(each) > 1 and any(type(v) is Proxy for v in each):
            best, *others = each
            for value in others:
                better = value > best if name == "max" else value < best
                best = returned(better, lambda v=value: v, lambda b=best: b)
            return best
        return plain(*values, **options)

    return extreme


def _place_of_extreme(items: Any, name: str) -> Any:
    """Returns where the first item is that no other one is beyond: NaN is beyond none, and none is
    beyond a NaN that is the first."""
    place_of = np.argmax if name == "max" else np.argmin
    if items.dtype.kind != "f":
        return place_of(items)
    is_nan, never = np.isnan(items), -np.inf if name == "max" else np.inf
    return np.where(is_nan[0], 0, place_of(np.where(is_nan, items.dtype.type(never), items)))[()]


def _plain_sum(items: list[Any], start: Any) -> Any:
    """Python's own ``sum``, which adds floats without errors of rounding; it is not captured."""
    return sum(items, start)


def _sum(iterable: Any, /, start: Any = 0) -> Any:
    items = iterable if steps_of(iterable) is not None else [*iterable]
    if type(items) is list and not any(type(v) is Proxy for v in (*items, start)):
        return _plain_sum(items, start)
    for item in items:
        start = start + item
    return start


def _any(items·: Any, /) -> Any:
    holds = False
    for item in items·:
        if item:
            holds = True
            break
    return holds


def _all(items·: Any, /) -> Any:
    holds = True
    for item in items·:
        if not item:
            holds = False
            break
    return holds


def _number(kind: Any, dtype: Any) -> Callable[..., Any]:
    def number(*values: Any) -> Any:
        if len(values) != 1 or type(values[0]) is not Proxy or values[0].shape:
            return kind(*values)
        converted = lift(values[0].astype(dtype))
        return Proxy(converted.atom, converted.owner, kind)

    return number


def _complex(*values: Any, **options: Any) -> Any:
    numbers = [lift(v) for v in values] if any(type(v) is Proxy for v in values) else []
    kinds = [n.type.dtype.is_complex for n in numbers]
    if options or not numbers or any(n.shape for n in numbers) or (len(kinds) > 1 and any(kinds)):
        return complex(*values, **options)
    if any(kinds):
        made = numbers[0].astype(np.complex128)
    else:
        made = emit("complex", *(lift(n, FLOAT64) for n in (*numbers, lift(0.0))[:2]))
    return Proxy(lift(made).atom, numbers[0].owner, complex)


def _bool(value: Any = False, /) -> Any:
    return negation(negation(value))


def number_of(dtype: Any, *values: Any) -> Any:
    """``np.float32(value)`` and its like."""
    if len(values) != 1 or type(values[0]) is not Proxy:
        return dtype(*values)
    number = lift(values[0], dtype_argument(dtype))
    return Proxy(number.atom, number.owner) if not number.shape else number.copy()


def _rounded(plain: Callable[[Any], Any], ufunc: Any) -> Callable[[Any], Any]:
    return lambda value: OURS[int](ufunc(value)) if type(value) is Proxy else plain(value)


def _isinstance(value: Any, classes: Any, /) -> Any:
    if not hasattr(type(value), "is_made_by"):  # of data types
        return isinstance(value, classes)
    constructors = value.family.constructors
    every = classes if isinstance(classes, tuple) else (classes,)
    others = tuple(c for c in every if c not in constructors)
    asked = (c for c in every if c in constructors)
    return disjunction(isinstance(value, others), *(lambda c=c: value.is_made_by(c) for c in asked))


def length(value: Any) -> Any:
    """Returns ``len(value)``."""
    return value.length() if is_grown(value) else len(value)


def on_arrays(function: Any) -> Any:
    """Returns a function of NumPy's that takes lists whose elements the graph has."""

    def call(*args: Any, **kwargs: Any) -> Any:
        return function(*map(arrayed, args), **kwargs)

    return call


OURS: dict[Any, Any] = {
    range: _range,
    enumerate: _enumerate,
    zip: _zip,
    reversed: _reversed,
    max: _extreme("max"),
    min: _extreme("min"),
    int: _number(int, np.int64),
    float: _number(float, np.float64),
    complex: _complex,
    bool: _bool,
    isinstance: _isinstance,
    math.floor: _rounded(math.floor, np.floor),
    math.ceil: _rounded(math.ceil, np.ceil),
    math.trunc: _rounded(math.trunc, np.trunc),
    **FUNCTIONS,
}
"""Ours for Python's functions."""

OVER_ITEMS: dict[Any, Any] = {any: _any, all: _all, sum: _sum}
"""Those that are loops, which are captured."""
