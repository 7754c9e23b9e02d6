"""Control flow on NumPy's arrays, as Python runs it: the meaning of what is compiled.

What a loop carries is a value: an array that a body is given is its own, so writing to it changes
neither the initial array nor another carry. Bodies read and write the arrays around them as any
Python function does, and so do branches their operands.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from ...ir.errors import LoopwrightOverflowError, LoopwrightTypeError
from ..core.proxy import Proxy, fail_leaked
from ..core.pytree import Structure, flatten, paths, unflatten
from . import leaves as trees
from .leaves import Fixed, LeafType, carried, check_fixed, check_structure, differ, leaf_type


def is_true(operation: str, value: Any) -> bool:
    """Returns a condition as a bool. LoopwrightTypeError unless it is one number."""
    if type(value) is Proxy:
        fail_leaked((value,))
    type_ = leaf_type(value)
    if isinstance(type_, Fixed) or type_.shape:
        raise not_a_condition(operation, type_)
    return bool(value)


def not_a_condition(operation: str, type_: LeafType | Fixed) -> LoopwrightTypeError:
    """Returns the error for a condition that is not a single value."""
    hint = "lw.cond(x > 0, ...)" if isinstance(type_, Fixed) else ".any() or .all() of it"
    return LoopwrightTypeError(
        f"{operation}: a condition is one bool or number, and this is {type_}", hint=hint
    )


def branch(function: Callable[..., Any], operands: Sequence[Any]) -> Any:
    """Returns the result of the branch that was chosen, as arrays of their own."""
    leaves, structure = flatten(function(*operands))
    types = [leaf_type(leaf) for leaf in leaves]
    return unflatten(
        structure,
        [v if isinstance(t, Fixed) else _converted(v, t) for v, t in zip(leaves, types)],
    )


def while_loop(cond_fn: Callable[[Any], Any], body_fn: Callable[[Any], Any], init: Any) -> Any:
    """Returns the last carry of the loop that ``cond_fn`` ends."""
    carry = _Carry("while_loop", init)
    while is_true("while_loop", cond_fn(carry.tree)):
        carry.step(body_fn(carry.tree))
    return carry.tree


def for_loop(lower: Any, upper: Any, body_fn: Callable[[Any, Any], Any], init: Any) -> Any:
    """Returns the last carry of the loop over ``range(lower, upper)``."""
    carry = _Carry("fori_loop", init)
    for index in range(lower, upper):
        carry.step(body_fn(index, carry.tree))
    return carry.tree


def scan(
    operation: str,
    f: Callable[[Any, Any], tuple[Any, Any]],
    init: Any,
    xs: Any,
    length: int,
    reverse: bool,
) -> tuple[Any, Any]:
    """Returns the last carry and the outputs of ``length`` iterations, stacked."""
    carry = _Carry(operation, init)
    inputs, structure = flatten(xs)
    stacked = _Stacked(operation, length)
    for index in reversed(range(length)) if reverse else range(length):
        row = unflatten(structure, [np.array(x[index])[()] for x in inputs])
        tree, y = f(carry.tree, row)
        carry.step(tree)
        stacked.put(index, y)
    return carry.tree, stacked.tree


def of_no_iterations(init: Any, carry: Any, outputs: Any) -> tuple[Any, Any]:
    """Returns the result of a scan without rows; ``carry`` and ``outputs`` are traced ones."""
    (leaves, structure), (traced, _) = flatten(init), flatten(carry)
    types = [leaf_type(leaf) for leaf in traced]
    last = [v if isinstance(t, Fixed) else _converted(v, t) for v, t in zip(leaves, types)]
    stacked, rows = flatten(outputs)
    empty = [np.empty(each.shape, each.dtype) for each in stacked]
    return unflatten(structure, last), unflatten(rows, empty)


class _Carry:
    """The values that a loop carries, and their types."""

    def __init__(self, operation: str, init: Any) -> None:
        self.operation = operation
        self.leaves, self.structure = flatten(init)
        if any(type(leaf) is Proxy for leaf in self.leaves):
            fail_leaked(self.leaves)
        self.types = [leaf_type(leaf) for leaf in self.leaves]
        self.leaves = [
            v if isinstance(t, Fixed) else _converted(v, t) for v, t in zip(self.leaves, self.types)
        ]

    @property
    def tree(self) -> Any:
        return unflatten(self.structure, self.leaves)

    def step(self, tree: Any) -> None:
        """Goes on with what the body gave."""
        leaves, structure = flatten(tree)
        check_structure(self.operation, "the carry", self.structure, "the body's", structure)
        names = paths(structure, "the carry")
        self.leaves = [self._next(n, p, v) for n, (p, v) in enumerate(zip(names, leaves))]

    def _next(self, number: int, path: str, value: Any) -> Any:
        before, after = self.types[number], leaf_type(value)
        if isinstance(before, Fixed):
            check_fixed(self.operation, path, before.value, value)
            return value
        meeting = None if isinstance(after, Fixed) else carried(before, after)
        if meeting is None:
            raise differ(self.operation, path, "begins as", before, "the body gives", after)
        self.types[number] = meeting
        return value if value is self.leaves[number] else _converted(value, meeting)


class _Stacked:
    """The outputs of a scan, row by row."""

    def __init__(self, operation: str, length: int) -> None:
        self.operation = operation
        self.rows: list[list[Any]] = [[] for _ in range(length)]
        self.types: list[LeafType] = []
        self.structure: Structure | None = None

    def put(self, index: int, tree: Any) -> None:
        leaves, structure = flatten(tree)
        types: list[LeafType] = []
        for path, leaf in zip(paths(structure, "the output"), leaves):
            type_ = leaf_type(leaf)
            if isinstance(type_, Fixed):
                raise not_an_array(self.operation, path, type_)
            types.append(type_)
        if self.structure is None:
            self.structure, self.types = structure, types
        first, second = "the outputs", "the next ones"
        check_structure(self.operation, first, self.structure, second, structure)
        for number, type_ in enumerate(types):
            meeting = trees.joined(self.types[number], type_)
            if meeting is None:
                path = paths(structure, "the output")[number]
                raise differ(self.operation, path, "was", self.types[number], "is now", type_)
            self.types[number] = meeting
        self.rows[index] = [_converted(v, t) for v, t in zip(leaves, self.types)]

    @property
    def tree(self) -> Any:
        assert self.structure is not None
        columns: Iterable[Any] = zip(*self.rows)
        stacked = [
            np.stack([np.asarray(v, t.dtype.numpy) for v in column])
            for column, t in zip(columns, self.types)
        ]
        return unflatten(self.structure, stacked)


def not_an_array(operation: str, path: str, type_: Fixed) -> LoopwrightTypeError:
    """Returns the error for a leaf that is neither an array nor a number."""
    return LoopwrightTypeError(f"{operation}: {path} is {type_}, which is neither array nor number")


def _converted(value: Any, type_: LeafType) -> Any:
    """``value`` as a leaf of that type, an array of its own."""
    dtype = type_.dtype.numpy
    if type_.weak is not None:
        if type_.weak is int and not -(2**63) <= value < 2**63:
            raise LoopwrightOverflowError(f"the Python int {value} does not fit int64")
        return type_.weak(value)
    if type_.array:
        return np.array(value, dtype, order="C")
    return value if isinstance(value, np.generic) and value.dtype == dtype else dtype.type(value)
