"""Checks that NumPy makes of values, made by compiled code wherever they stand in a function.

``check(failed, IndexError, "index {} is out of bounds for ...", number)`` raises that error when
the function runs and ``failed`` holds, anywhere: also in branches (only if they are taken), loops,
scans and functions. What the checks find is joined in one number that the trace holds in memory of
its own, which bodies write as they write any array from outside. A library function raises the
error (``ir/library/checks.py``), as soon as the last check of the function itself is made: native
code calls it only if there is one.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from ...ir.dims import Dim, IntExpr
from ...ir.dtype import INT64, UINT64
from ...ir.errors import RAISE_FAILED
from ...ir.graph.nodes import Atom, Constant
from ...ir.graph.requirements import Requirement, demands, is_data_size, undemanded
from ...ir.library.checks import LARGEST, failure_code
from ...ir.ops import get
from ..memory.scope import Scope
from .emitting import emit, lift
from .except_clauses import refuse_handlers
from .integer_ranges import as_dim, is_certain
from .proxy import Proxy
from .spans import caret_lines
from .trace import Trace, active


def raise_failed(trace: Trace) -> None:
    """Emits what raises the error of a check that failed, behind the last check of ``main``."""
    failure = trace.memory.failure.atom
    bindings = trace.builder.bindings
    after = next(n for n, b in enumerate(bindings, 1) if b.var is failure)
    rest, bindings[after:] = bindings[after:], []
    attrs = {"function": RAISE_FAILED, "options": (("checks", tuple(trace.checks)),)}
    trace.builder.emit(get("call_library"), (failure,), attrs)
    bindings += rest


def check(
    failed: Any, error: type[Exception], message: str, number: Any = 0, trace: Trace | None = None
) -> None:
    """Raises LoopwrightIndexError, -TypeError or -ValueError, whichever is an ``error``, in calls
    in which ``failed``, a traced bool or an array of bools, holds somewhere.

    In the ``message``, ``{}`` is the ``number`` there: a traced integer, or an array of the shape
    of ``failed``. The error's line is the one that runs in the user's function at the moment.

    ::

        check(np.equal(count, 0), ValueError, "zero-size array to reduction operation maximum")
    """
    trace = trace or active()
    assert trace is not None
    flags = lift(failed)
    if flags.size == 0:
        return
    key = "failed", trace.values.number(flags.atom)
    scope: Scope | None = trace.scope
    while scope is not None:  # what was checked needs no other check
        if (scope, *key) in trace.checked:
            return
        scope = scope.parent if scope is not scope.function else None
    trace.checked.add((trace.scope, *key))
    refuse_handlers(error, "this")
    span = trace.span or trace.here()
    place = () if span is None else tuple(getattr(span, name) for name in span.__slots__)
    source = () if span is None else caret_lines(span)
    number_part = emit("clip", lift(number, INT64), a_min=-LARGEST, a_max=LARGEST)
    number_part = emit("subtract", lift(failure_code(len(trace.checks)), INT64), number_part)
    failure = emit("where", flags, number_part, lift(0, INT64))
    trace.checks.append((error.__name__, message, place, source))
    if failure.ndim:
        if isinstance(failure.size, Dim):  # there may be no elements, and so no failure
            flat = emit("reshape", failure, newshape=(failure.type.size,))
            failure = emit("concatenate", flat, lift(np.zeros(1, np.int64)), axis=0)
        with undemanded():
            failure = emit("max", failure, axis=tuple(range(failure.ndim)))
    before = trace.visible(trace.memory.failure.atom)
    trace.assign(trace.memory.failure, trace.emit("maximum", (before, failure.atom), {}))


_OF_NOTHING = {
    "max": "zero-size array to reduction operation maximum which has no identity",
    "min": "zero-size array to reduction operation minimum which has no identity",
    "argmax": "attempt to get argmax of an empty sequence",
    "argmin": "attempt to get argmin of an empty sequence",
}
"""NumPy's messages for reductions that need an element."""


def check_elements(name: str, x: Proxy, axis: Any) -> None:
    """Checks that a reduction which needs an element has one, along axes with sizes that data
    decides."""
    axes = range(x.ndim) if axis is None else (axis,) if isinstance(axis, int) else axis
    needs = name in _OF_NOTHING and demands()
    for size in dict.fromkeys(x.type.shape[n] for n in axes if needs):
        if is_data_size(size) and not Requirement(1, "<=", size).decided:
            check(emit("less", lift(size, INT64), lift(1, INT64)), ValueError, _OF_NOTHING[name])


def check_taken(x: Proxy, axis: int, count: IntExpr) -> None:
    """Checks that an axis from which ``count`` elements are taken, wherever they are, has one."""
    size = x.type.shape[axis]
    if is_data_size(size) and not Requirement(1, "<=", size).decided:
        some = emit("less", lift(0, INT64), lift(count, INT64))
        none = emit("less", lift(size, INT64), lift(1, INT64))
        message = "cannot do a non-empty take from an empty axes."
        check(emit("logical_and", some, none), IndexError, message)


def check_index(index: Proxy, length: IntExpr, axis: int) -> None:
    """Checks that integers lie inside of an axis of ``length``, from ``-length`` to ``length - 1``,
    unless that is certain. Of an array it looks at the one that is farthest from 0."""
    trace, signed = index.owner, index.type.dtype.is_signed
    least = -length if signed else 0
    each = as_dim(trace, index.atom)
    low = not is_certain(trace, each, ">=", least)
    high = not is_certain(trace, each, "<", length)
    if not signed:  # what is below 0 has become great
        low, high = False, low or high
    if index.size == 0 or not (low or high):
        return
    worst = index if index.ndim == 0 else _farthest(index, low, high)
    if not signed:
        worst = emit("minimum", lift(worst, UINT64), lift(LARGEST, UINT64))
    at = lift(worst, INT64)
    bounds = [("less", least)] * low + [("greater_equal", length)] * high
    failed = functools.reduce(np.logical_or, (emit(n, at, lift(b, INT64)) for n, b in bounds))
    if not is_certain(trace, index.size, ">=", 1) and not is_certain(trace, length, ">=", 1):
        failed = emit("logical_and", failed, emit("less", lift(0, INT64), lift(index.size, INT64)))
    message = f"index {{}} is out of bounds for axis {axis} with size {length}"
    check(failed, IndexError, message, at, trace)


def _farthest(index: Proxy, low: bool, high: bool) -> Proxy:
    """Returns the greatest of the integers, the least of them, or the one farthest from 0, in one
    pass; 0 or any if there are none."""
    dtype, axes = index.type.dtype, tuple(range(index.ndim))
    with undemanded():
        if not (low and high):
            return emit("min" if low else "max", index, axis=axes)
        # 0, -1, 1, -2, 2 ... in the order of 0, 1, 2, 3, 4 ...
        one, unsigned = lift(1, dtype), str(dtype).replace("i", "ui", 1)
        signs = emit("right_shift", index, lift(dtype.bits - 1, dtype))
        order = emit("bitwise_xor", emit("left_shift", index, one), signs)
        last = emit("max", emit("cast", order, dtype=unsigned), axis=axes)
    half = emit("cast", emit("right_shift", last, lift(1, last.type.dtype)), dtype=str(dtype))
    odd = emit("bitwise_and", emit("cast", last, dtype=str(dtype)), one)
    return emit("bitwise_xor", half, emit("negative", odd))


def checked_number(index: Any, shape: Any, axis: int) -> Any:
    """Checks an int that is an index into an axis whose length data decides; one that may lie
    outside becomes a traced one. Returns any other index as it is."""
    length = shape[axis]
    if type(index) is not int or not is_data_size(length):
        return index
    least = index + 1 if index >= 0 else -index
    if Requirement(least, "<=", length).decided:
        return index
    size = lift(length, INT64)
    message = f"index {index} is out of bounds for axis {axis} with size {{}}"
    check(emit("less", size, lift(least, INT64)), IndexError, message, size)
    return lift(np.int64(index))


def check_window(start: Proxy, count: int, step: int, length: IntExpr, axis: int) -> None:
    """Checks that ``x[start:start + count:step]`` of an axis of ``length`` has as many elements as
    far from its ends, unless that is certain."""
    trace = start.owner
    first = as_dim(trace, start.atom)
    last = length - 1 - (count - 1) // step * step
    at = lift(start, INT64)
    conditions: list[Proxy] = []
    if not is_certain(trace, first, "<=", last):
        conditions.append(emit("less", lift(last, INT64), at))
    if not is_certain(trace, first, ">=", 0):  # a negative one whose end is another's is empty
        low, high = (emit("less", at, lift(end, INT64)) for end in (-length, -count))
        below = emit("less", at, lift(0, INT64))
        outside = emit("logical_or", low, emit("logical_not", high))
        conditions.append(emit("logical_and", below, outside))
    if not conditions:
        return
    by = f":{step}" if step > 1 else ""
    message = (
        f"x[i:i + {count}{by}] for i = {{}} is cut off by the border of axis {axis} with size "
        f"{length}, where a window has one size: take x[i:np.minimum(i + {count}, {length}){by}] "
        f"for what there is, or np.clip(i, 0, {last}) for the nearest one"
    )
    failed = conditions[0] if len(conditions) == 1 else emit("logical_or", *conditions)
    check(failed, IndexError, message, at, trace)


def unfailed(trace: Trace, going: Atom) -> Atom:
    """Returns the condition of a loop that goes on while ``going`` holds and no check fails."""
    failure = trace.visible(trace.memory.failure.atom)
    if isinstance(failure, Constant):
        return going
    fine = trace.emit("equal", (failure, lift(0, INT64).atom), {})
    return trace.emit("logical_and", (going, fine), {})
