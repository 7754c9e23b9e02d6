"""Converters of control flow, and of sequences.

A loop is unrolled if its iterations are few and their number is known when the model is converted:
then shapes that are computed inside of it are known, too. Otherwise it becomes a loop of the graph,
as does a branch whose condition depends on the model's inputs. A sequence is a list of values.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ....ir.dtype import INT64
from ....ir.errors import LoopwrightError, LoopwrightValueError, UnsupportedError
from ...control import cond, scan, while_loop
from ...core.emitting import lift
from .table import Branch, Node, Value, converter, is_known, known, known_ints

LEAST_LOOPED = 65
"""Iterations from which on a loop of a known number of them stays a loop, if it can."""

MOST_UNROLLED = 4096
"""Iterations of the longest loop that is unrolled."""

MOST_LOOPED = 1 << 40
"""Iterations of the longest loop: more take longer than anybody waits, and are a mistake."""


@converter("If", since=1)
def _if(condition: Value, *, then_branch: Branch, else_branch: Branch) -> Value:
    if is_known(condition):
        return then_branch() if bool(np.all(condition)) else else_branch()
    return cond(condition.reshape(()), then_branch, else_branch)


@converter("Loop", since=1)
def _loop(
    node: Node, trips: Value = None, condition: Value = None, *carried: Value, body: Branch
) -> Value:
    count = _known_count(trips)
    _check_length(count or 0, MOST_LOOPED)
    rows_wanted = any(node.wants(n) for n in range(len(carried), len(node.outputs)))
    if is_known(condition) and (trips is None or count is not None):
        goes_on = condition is None or bool(np.all(condition))
        if not goes_on or count is None or count < LEAST_LOOPED:
            unrolled = _unrolled(node, count, goes_on, carried, body)
            if unrolled is not None:
                return unrolled
    if count is not None and is_known(condition):
        try:
            return _counted(count, carried, body)
        except (_GoesOnError, LoopwrightError):
            if rows_wanted or count <= MOST_UNROLLED:
                unrolled = _unrolled(node, count, True, carried, body)
                if unrolled is not None:
                    return unrolled
    if rows_wanted or any(isinstance(value, list | None) for value in carried):
        for value, name in ((trips, "M"), (condition, "cond")):
            if value is not None:
                known(value, name)  # it decides how many rows there are, or elements of a sequence
        raise UnsupportedError(
            "the number of rows of its scan outputs depends on the model's inputs"
        )
    return _while(trips, condition, carried, body)


def _known_count(trips: Value) -> int | None:
    return int(trips.reshape(())) if trips is not None and is_known(trips) else None


def _unrolled(
    node: Node, count: int | None, goes_on: bool, carried: Sequence[Value], body: Branch
) -> Value:
    """Returns the results of all iterations, one after the other; None if it depends on the
    model's inputs how many there are."""
    values, rows = list(carried), list[tuple[Value, ...]]()
    step = 0
    while goes_on and (count is None or step < count):
        _check_length(step + 1, MOST_UNROLLED)
        going, *results = body(np.array(step, np.int64), np.array(True), *values)
        values, row = results[: len(carried)], results[len(carried) :]
        rows.append(tuple(row))
        step += 1
        if not is_known(going):
            return None
        goes_on = bool(np.all(going))
    if not rows and len(node.outputs) > len(carried):
        made = body(np.array(0, np.int64), np.array(True), *carried)[1 + len(carried) :]
        return (*values, *_no_rows(made))
    return (*values, *(np.stack(column) for column in zip(*rows)))


def _no_rows(results: Sequence[Value]) -> list[Value]:
    """Returns the rows of no iterations, of the shapes that one would have."""
    return [np.zeros((0, *each.shape), each.dtype) for each in results]


class _GoesOnError(Exception):
    """A loop of a known number of iterations may end before."""


def _counted(count: int, carried: Sequence[Value], body: Branch) -> Value:
    """Returns the results of a loop of ``count`` iterations."""

    def step(values: tuple[Value, ...], number: Value) -> Any:
        going, *results = body(number, np.array(True), *values)
        if not is_known(going) or not np.all(going):
            raise _GoesOnError
        return tuple(results[: len(carried)]), tuple(results[len(carried) :])

    last, rows = scan(step, tuple(carried), np.arange(count))
    return (*last, *rows)


def _while(trips: Value, condition: Value, carried: Sequence[Value], body: Branch) -> Value:
    """Returns the results of a loop whose end depends on values."""
    count = None if trips is None else trips.reshape(())
    begins: Value = np.array(True) if condition is None else condition.reshape(())

    def goes_on(state: Any) -> Value:
        step, going, _ = state
        return going if count is None else np.logical_and(going, step < count)

    def once(state: Any) -> Any:
        step, going, values = state
        still, *results = body(step, going, *values)
        return step + 1, np.reshape(still, ()), tuple(results)

    zero = lift(np.array(0, np.int64), INT64)
    _, _, last = while_loop(goes_on, once, (zero, begins, tuple(carried)))
    return tuple(last)


@converter("Scan", since=8)
def _scan_of_batches(
    lengths: Value = None,
    *inputs: Value,
    body: Branch,
    num_scan_inputs: int,
    directions: tuple[int, ...] = (),
) -> Value:
    if lengths is not None:
        raise UnsupportedError("sequences of different lengths are not supported")
    samples = [
        _scan(
            *(x[sample] for x in inputs),
            body=body,
            num_scan_inputs=num_scan_inputs,
            scan_input_directions=directions,
        )
        for sample in range(inputs[0].shape[0])
    ]
    return tuple(np.stack(column) for column in zip(*samples))


@converter("Scan", since=9)
def _scan(
    *inputs: Value,
    body: Branch,
    num_scan_inputs: int,
    scan_input_directions: tuple[int, ...] = (),
    scan_output_directions: tuple[int, ...] = (),
    scan_input_axes: tuple[int, ...] = (),
    scan_output_axes: tuple[int, ...] = (),
) -> Value:
    states = list(inputs[: len(inputs) - num_scan_inputs])
    scanned = inputs[len(states) :]
    axes = scan_input_axes or (0,) * len(scanned)
    steps = scanned[0].shape[axes[0]]
    if steps >= LEAST_LOOPED:
        flipped = scan_input_directions, scan_output_directions
        try:
            return _scanned(states, scanned, axes, flipped, scan_output_axes, body)
        except LoopwrightError:
            if steps > MOST_UNROLLED:
                raise
    slices: list[list[Value]] = []
    for number, (x, axis) in enumerate(zip(scanned, axes, strict=True)):
        parts = [np.take(x, step, axis) for step in range(steps)]
        slices.append(parts[::-1] if scan_input_directions[number : number + 1] == (1,) else parts)
    rows: list[tuple[Value, ...]] = []
    for row in zip(*slices, strict=True):
        results = body(*states, *row)
        rows.append(results[len(states) :])
        states = list(results[: len(states)])
    outputs: list[Value] = []
    if not rows:
        row = [np.zeros(np.delete(x.shape, axis), x.dtype) for x, axis in zip(scanned, axes)]
        made = _no_rows(body(*states, *row)[len(states) :])
        outputs = [
            np.moveaxis(y, 0, axis) for y, axis in zip(made, scan_output_axes or (0,) * len(made))
        ]
    for number, column in enumerate(zip(*rows)):
        ordered = column[::-1] if scan_output_directions[number : number + 1] == (1,) else column
        outputs.append(np.stack(ordered, scan_output_axes[number] if scan_output_axes else 0))
    return (*states, *outputs)


def _scanned(
    states: Sequence[Value],
    scanned: Sequence[Value],
    axes: Sequence[int],
    flipped: tuple[Sequence[int], Sequence[int]],
    output_axes: Sequence[int],
    body: Branch,
) -> Value:
    """Returns the results of a Scan as a loop of the graph."""

    def step(values: tuple[Value, ...], row: tuple[Value, ...]) -> Any:
        results = body(*values, *row)
        return tuple(results[: len(states)]), tuple(results[len(states) :])

    rows = [np.moveaxis(x, axis, 0) for x, axis in zip(scanned, axes, strict=True)]
    rows = [x[::-1] if flipped[0][n : n + 1] == (1,) else x for n, x in enumerate(rows)]
    last, outputs = scan(step, tuple(states), tuple(rows))
    ordered = [x[::-1] if flipped[1][n : n + 1] == (1,) else x for n, x in enumerate(outputs)]
    moved = [np.moveaxis(x, 0, output_axes[n] if output_axes else 0) for n, x in enumerate(ordered)]
    return (*last, *moved)


def _check_length(steps: int, most: int) -> None:
    if steps > most:
        raise UnsupportedError(f"it has more than {most} iterations")


# Sequences.


@converter("SequenceConstruct", since=11)
def _sequence_construct(*xs: Value) -> Any:
    return list(xs)


# dtype: the first element has it.
@converter("SequenceEmpty", since=11, ignores=("dtype",))
def _sequence_empty() -> Any:
    return []


@converter("SequenceInsert", since=11)
def _sequence_insert(sequence: Any, x: Value, position: Value = None) -> Any:
    at = len(sequence) if position is None else known_ints(position, "position")[0]
    return [*sequence[:at], x, *sequence[at:]]


@converter("SequenceErase", since=11)
def _sequence_erase(sequence: Any, position: Value = None) -> Any:
    at = (-1 if position is None else known_ints(position, "position")[0]) % len(sequence)
    return [x for place, x in enumerate(sequence) if place != at]


@converter("SequenceAt", since=11)
def _sequence_at(sequence: Any, position: Value) -> Value:
    return sequence[known_ints(position, "position")[0]]


@converter("SequenceLength", since=11)
def _sequence_length(sequence: Any) -> Value:
    return np.array(len(sequence), np.int64)


@converter("ConcatFromSequence", since=11)
def _concat_from_sequence(sequence: Any, *, axis: int, new_axis: int = 0) -> Value:
    return np.stack(sequence, axis) if new_axis else np.concatenate(sequence, axis)


@converter("SplitToSequence", since=11)
def _split_to_sequence(x: Value, split: Value = None, *, axis: int = 0, keepdims: int = 1) -> Any:
    whole = x.shape[axis]
    sizes = [1] if split is None else known_ints(split, "split")
    if split is None or split.ndim == 0:
        (each,) = sizes
        if each < 1:
            raise LoopwrightValueError(f"its parts have {each} elements")
        sizes = [min(each, whole - start) for start in range(0, whole, each)]
    parts = np.split(x, np.cumsum(sizes)[:-1].tolist(), axis)
    drop = split is None and not keepdims
    return [np.squeeze(part, axis) if drop else part for part in parts]


# type: the element has it.
@converter("Optional", since=15, ignores=("type",))
def _optional(x: Any = None) -> Any:
    return x


@converter("OptionalHasElement", since=15)
def _optional_has_element(x: Any = None) -> Value:
    return np.array(x is not None)


@converter("OptionalGetElement", since=15)
def _optional_get_element(x: Any) -> Any:
    return x
