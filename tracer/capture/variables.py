"""The user's variables, as cells that captured bodies share, and the values that they may hold."""

from __future__ import annotations

import types
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any
from weakref import ref

import numpy as np

from ..control import traced
from ..control.leaves import LeafType, joined, leaf_type
from ..core.emitting import lift
from ..core.proxy import Proxy
from ..core.pytree import flatten, unflatten
from ..core.trace import Trace
from ..memory.storage import Storage
from .syntax import REST, RESULT

Names = Sequence[str]


class _Unbound:
    """Stands for the value of a variable that has none."""

    def __repr__(self) -> str:
        return "no value"


UNBOUND = _Unbound()
NOTHING = _Unbound()
"""The result of a loop that has not returned yet: it is read only where the loop has."""


class Variables:
    """The cells of some functions, and of those they call for what follows an ``if``, by name."""

    def __init__(self, *functions: types.FunctionType) -> None:
        self.cells: dict[str, types.CellType] = {}
        for function in functions:
            cells = dict(zip(function.__code__.co_freevars, function.__closure__ or ()))
            follows = (c.cell_contents for name, c in cells.items() if name.startswith(REST))
            self.cells |= Variables(*follows).cells | cells

    def get(self, name: str) -> Any:
        cell = self.cells.get(name)
        try:
            return UNBOUND if cell is None else cell.cell_contents
        except ValueError:
            return UNBOUND

    def set(self, name: str, value: Any) -> None:
        if value is not UNBOUND:
            self.cells[name].cell_contents = value
        elif self.get(name) is not UNBOUND:
            del self.cells[name].cell_contents

    def values(self, names: Names) -> tuple[Any, ...]:
        return tuple(map(self.get, names))

    def made(self, trace: Trace, names: Names) -> tuple[Any, ...]:
        """Returns values of which those of data types are made where the trace is now."""
        values = self.values(names)
        return values if trace.region is None else trace.region.made(values)

    def assign(self, names: Names, values: Sequence[Any]) -> None:
        for name, value in zip(names, values, strict=True):
            self.set(name, value)

    @contextmanager
    def kept(self) -> Iterator[None]:
        """All variables are afterwards what they were."""
        names = [*self.cells]
        before = self.values(names)
        try:
            yield
        finally:
            self.assign(names, before)


def arrays_of(values: Any) -> list[Proxy]:
    """Returns the traced arrays among the leaves of values."""
    return [v for v in flatten(values)[0] if type(v) is Proxy and not v.is_scalar]


def memory_of(values: Any) -> set[Storage]:
    """Returns the memory of arrays, and of those that they may be."""
    arrays = arrays_of(values)
    storages = {array.storage for array in arrays}
    for chosen, others in reversed(arrays[0].owner.memory.alike if arrays else []):
        array = chosen()  # what it may be was noted before it was
        if array is not None and array.storage in storages:
            storages |= others
    return storages


def _from_outside(values: Any) -> set[Storage]:
    """Returns the memory of arrays that were not made in a scope that has ended."""
    return {s for s in memory_of(values) if s.scope is None or not s.scope.ended}


def note_alike(trace: Trace, names: Names, results: Sequence[Any], *values: Sequence[Any]) -> None:
    """Notes that ``results``, the values of ``names``, may be the arrays among ``values`` that were
    there before. The result of a loop is read where nothing is written any more."""
    is_result = [name.startswith(RESULT) for name in names]
    given = [[v for v, skip in zip(side, is_result) if not skip] for side in values]
    note_listed(trace, results, values)
    others = frozenset(_from_outside(given))
    if others:
        mine = [v for v, skip in zip(results, is_result) if not skip]
        trace.memory.alike += [(ref(array), others) for array in arrays_of(mine)]


def note_listed(trace: Trace, results: Any, values: Any) -> None:
    """Notes that ``results`` may be arrays among ``values``, if those are elements of a list."""
    keys = [k for v in arrays_of(values) if (k := trace.listed.get(v.storage)) is not None]
    if keys:
        trace.listed |= {array.storage: keys[0] for array in arrays_of(results)}


def _is_array(value: Any) -> bool:
    """True for an array, which ``+=`` changes. What has no axes is taken for a scalar."""
    if type(value) is not Proxy:
        return isinstance(value, np.ndarray)
    if not value.ndim:
        value.owner.memory.touch(value.storage)
    return bool(value.ndim)


def carried_names(variables: Variables, names: Names, in_place: Names) -> list[str]:
    """Returns the names that get new values; an array to which ``+=`` adds is changed itself."""
    return [n for n in names if not (n in in_place and _is_array(variables.get(n)))]


# -- values of two types ---------------------------------------------------------------------------


def like(tree: Any) -> Any:
    """Returns values of the types that those of a tree have."""
    leaves, structure = flatten(tree)
    trace = traced.running()
    types = map(leaf_type, leaves)
    made = [
        traced.new_proxy(trace, traced.stand_in(trace, t), t) if isinstance(t, LeafType) else leaf
        for leaf, t in zip(leaves, types)
    ]
    return unflatten(structure, made)


def promoted(one: Any, other: Any) -> dict[int, Any]:
    """Returns the dtypes of numbers that two trees have in different ones, by the leaf."""
    first, second = flatten(one)[0], flatten(other)[0]
    dtypes: dict[int, Any] = {}
    for number, (x, y) in enumerate(zip(map(leaf_type, first), map(leaf_type, second))):
        if not isinstance(x, LeafType) or not isinstance(y, LeafType) or x.shape or y.shape:
            continue
        if joined(x, y) is None:
            dtypes[number] = np.result_type(x.dtype.numpy, y.dtype.numpy)
    return dtypes


def converted(tree: Any, dtypes: Mapping[int, Any]) -> Any:
    """Returns a tree in which some numbers have other dtypes."""
    if not dtypes:
        return tree
    leaves, structure = flatten(tree)
    for number, dtype in dtypes.items():
        leaves[number] = lift(leaves[number]).astype(dtype)
    return unflatten(structure, leaves)
