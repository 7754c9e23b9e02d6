"""Converters of control flow whose way is known when the model is compiled, and of sequences.

A loop is unrolled. A sequence is a list of values.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ....ir.errors import LoopwrightValueError, UnsupportedError
from .table import Branch, Node, Value, converter, known, known_ints

MOST_UNROLLED = 4096
"""Iterations of the longest loop that is unrolled."""


@converter("If", since=1)
def _if(condition: Value, *, then_branch: Branch, else_branch: Branch) -> Value:
    return then_branch() if bool(np.all(known(condition, "cond"))) else else_branch()


@converter("Loop", since=1)
def _loop(
    node: Node, trips: Value = None, condition: Value = None, *carried: Value, body: Branch
) -> Value:
    count = None if trips is None else int(known(trips, "M").reshape(()))
    goes_on = condition is None or bool(np.all(known(condition, "cond")))
    values, rows = list(carried), list[tuple[Value, ...]]()
    step = 0
    while goes_on and (count is None or step < count):
        _check_length(step + 1)
        going, *results = body(np.array(step, np.int64), np.array(True), *values)
        values, row = results[: len(carried)], results[len(carried) :]
        rows.append(tuple(row))
        step += 1
        goes_on = bool(np.all(known(going, "cond")))
    if not rows and len(node.outputs) > len(carried):
        raise UnsupportedError("it has no iterations, and the shapes of its scan outputs are open")
    return (*values, *(np.stack(column) for column in zip(*rows)))


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
    _check_length(steps)
    slices: list[list[Value]] = []
    for number, (x, axis) in enumerate(zip(scanned, axes, strict=True)):
        parts = [np.take(x, step, axis) for step in range(steps)]
        slices.append(parts[::-1] if scan_input_directions[number : number + 1] == (1,) else parts)
    rows: list[tuple[Value, ...]] = []
    for row in zip(*slices, strict=True):
        results = body(*states, *row)
        rows.append(results[len(states) :])
        states = list(results[: len(states)])
    if not rows:
        raise UnsupportedError("it has no iterations, and the shapes of its scan outputs are open")
    outputs: list[Value] = []
    for number, column in enumerate(zip(*rows)):
        ordered = column[::-1] if scan_output_directions[number : number + 1] == (1,) else column
        outputs.append(np.stack(ordered, scan_output_axes[number] if scan_output_axes else 0))
    return (*states, *outputs)


def _check_length(steps: int) -> None:
    if steps > MOST_UNROLLED:
        raise UnsupportedError(f"it has more than {MOST_UNROLLED} iterations")


# Sequences.


@converter("SequenceConstruct", since=11)
def _sequence_construct(*xs: Value) -> Any:
    return list(xs)


@converter("SequenceEmpty", since=11)
def _sequence_empty(*, dtype: int = 1) -> Any:
    return []


@converter("SequenceInsert", since=11)
def _sequence_insert(sequence: Any, x: Value, position: Value = None) -> Any:
    at = len(sequence) if position is None else int(known(position, "position"))
    return [*sequence[:at], x, *sequence[at:]]


@converter("SequenceErase", since=11)
def _sequence_erase(sequence: Any, position: Value = None) -> Any:
    at = (-1 if position is None else int(known(position, "position"))) % len(sequence)
    return [x for place, x in enumerate(sequence) if place != at]


@converter("SequenceAt", since=11)
def _sequence_at(sequence: Any, position: Value) -> Value:
    return sequence[int(known(position, "position"))]


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


@converter("Optional", since=15)
def _optional(x: Any = None, *, type: Any = None) -> Any:
    return x


@converter("OptionalHasElement", since=15)
def _optional_has_element(x: Any = None) -> Value:
    return np.array(x is not None)


@converter("OptionalGetElement", since=15)
def _optional_get_element(x: Any) -> Any:
    return x
