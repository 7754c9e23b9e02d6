"""Memory that traced arrays share, as NumPy's arrays would.

::

    Proxy    a reference: a storage, and the view through which it is seen
    Storage  the memory of one array: its present value in the graph, and a version
    View     how an array is seen through another one: an index map of the graph

A write (``tracer/core/array_writes.py``) gives the storage another value and a higher version. A
proxy keeps the atom that it last stood for, and computes another one when its storage has a new
version: where nothing is written, the graph is the same as if there were no storages.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from enum import Enum
from typing import Any, Protocol, TypeAlias
from weakref import ref

import numpy as np

from ...ir.dataclass import dataclass
from ...ir.dims import IntExpr
from ...ir.dtype import dtype_of
from ...ir.graph.nodes import Atom, Constant
from ...ir.graph.types import TensorType
from ...ir.span import Span
from .regions import Emitter, Region, read_region
from .scope import Scope

NEW_ARRAY = "a .copy() of it"
"""Hint for writes through a view that NumPy makes read-only."""


class Kind(Enum):
    """The owner of a piece of memory."""

    FRESH = "made while tracing"
    ARGUMENT = "an argument's"
    CAPTURED = "an array's from outside, which is a constant"
    SCALAR = "none: a NumPy scalar, or a Python number, which cannot be changed"


class Storage:
    """The memory of one array. ``strides`` are those NumPy would give it; ``operand`` is which
    argument it is; ``published``: the user's code may hold it; ``moved``: makes the error of
    looking at it, if a loop writes it under another name; ``scope`` is where it was made."""

    __slots__ = ("atom", "kind", "moved", "operand", "published", "scope", "strides", "version")

    def __init__(self, atom: Atom, kind: Kind = Kind.FRESH, operand: int | None = None) -> None:
        self.atom = atom
        self.kind = kind
        self.operand = operand
        self.version = 0
        self.published = False
        self.moved: Callable[[], Exception] | None = None
        self.scope: Scope | None = None
        assert isinstance(atom.type, TensorType)
        self.strides: Strides = dense_strides(atom.type.shape)


class Owner(Emitter, Protocol):
    """The trace that a reference belongs to."""

    memory: Memory


class Reference(Protocol):
    """A proxy, as views see it."""

    @property
    def owner(self) -> Owner: ...
    @property
    def storage(self) -> Storage: ...
    @property
    def atom(self) -> Atom: ...
    @property
    def shape(self) -> tuple[Any, ...]: ...
    @property
    def ndim(self) -> int: ...
    @property
    def strides(self) -> Strides: ...
    @property
    def alias(self) -> View | None: ...
    def remember(self, atom: Atom, /) -> None: ...


@dataclass(slots=True, eq=False)
class View:
    """A proxy's view of the memory of ``parent``: of a ``region`` of it, through another operator
    ``name``, or by ``replay`` where the map cannot be written through.

    ``readonly``: it cannot be written through; this is what to do instead. ``certain`` is False
    where it depends on an unknown memory layout whether NumPy makes a view or a copy.
    """

    parent: Reference
    name: str
    attrs: Mapping[str, Any]
    replay: Callable[[], Reference] | None = None
    readonly: str = ""
    certain: bool = True
    strides: Strides = None
    region: Region | None = None

    def read(self) -> Atom:
        """Returns the present value of the view."""
        if self.replay is not None:
            return self.replay().atom
        trace, atom = self.parent.owner, self.parent.atom
        if self.region is not None:
            return read_region(trace, atom, self.region, self.attrs)
        return trace.emit(self.name, (atom,), self.attrs)


def _no_failure() -> Storage:
    return Storage(Constant(np.zeros((), np.int64)))


@dataclass(slots=True, eq=False)
class Memory:
    """The effects of one run of a function on memory.

    ``changed``: it wrote somewhere. ``by_layout``: what it means depends on how arguments lie in
    memory, as for a reshape of an array; ``written``: by operand, where it is written first;
    ``unsure``: arrays of which nobody knows if they are views; ``alike``: arrays that values decide
    to be some of several ones, with the memory of those; ``scalars`` are the operands of
    rank 0 that are taken for scalars where an array would behave in another way; ``failure`` is
    what the checks of values have to report.
    """

    changed: bool = False
    written: dict[int, Span | None] = field(default_factory=dict)
    by_layout: bool = False
    scalars: set[int] = field(default_factory=set)
    unsure: list[ref[Any]] = field(default_factory=list)
    alike: list[tuple[ref[Any], frozenset[Storage]]] = field(default_factory=list)
    failure: Storage = field(default_factory=_no_failure)

    @property
    def depends_on_layout(self) -> bool:
        """True if another memory layout of arguments would make it another function."""
        return self.changed and self.by_layout

    def touch(self, storage: Storage) -> None:
        """Records the use of a scalar where an array of rank 0 would behave differently."""
        if storage.kind is Kind.SCALAR and storage.operand is not None:
            self.scalars.add(storage.operand)


def view_by(parent: Reference, name: str, attrs: Mapping[str, Any]) -> View | None:
    """Returns the view of ``parent`` that operator ``name`` is in NumPy; None for a copy."""
    storage = parent.storage
    if storage.kind is Kind.SCALAR:
        parent.owner.memory.touch(storage)
        return None
    strides = parent.strides
    if name == "reshape":
        memory, shape = parent.owner.memory, attrs["newshape"]
        same, new_strides = is_reshape_a_view(parent.shape, strides, shape)
        if same is not True or [s for s in parent.shape if s != 1] != [s for s in shape if s != 1]:
            memory.by_layout = True
        if same is False:
            return None
        return View(parent, name, attrs, certain=same is True, strides=new_strides)
    if name == "broadcast_to":
        return View(parent, name, attrs, readonly=NEW_ARRAY, strides=_repeated(parent, attrs))
    if strides is not None:
        strides = _STRIDES[name](parent, strides, attrs)
    region = Region.of_slice(attrs) if name == "strided_slice" else None
    return View(parent, name, attrs, strides=strides, region=region)


def _repeated(parent: Reference, attrs: Mapping[str, Any]) -> Strides:
    """Returns the strides of a broadcast array: 0 where it is repeated."""
    if parent.strides is None:
        return None
    to = attrs["shape"]
    added = len(to) - parent.ndim
    axes = zip(parent.shape, parent.strides, to[added:], strict=True)
    return (0,) * added + tuple(0 if size != wide else s for size, s, wide in axes)


def _transposed(_parent: Reference, strides: tuple[int, ...], attrs: Mapping[str, Any]) -> Strides:
    return tuple(strides[axis] for axis in attrs["axes"])


def _sliced(_parent: Reference, strides: tuple[int, ...], attrs: Mapping[str, Any]) -> Strides:
    return tuple(s * step for s, step in zip(strides, attrs["strides"], strict=True))


def _reversed(_parent: Reference, strides: tuple[int, ...], attrs: Mapping[str, Any]) -> Strides:
    return tuple(-s if axis in attrs["axis"] else s for axis, s in enumerate(strides))


def _squeezed(_parent: Reference, strides: tuple[int, ...], attrs: Mapping[str, Any]) -> Strides:
    gone = {axis % len(strides) for axis in attrs["axis"]}
    return tuple(s for axis, s in enumerate(strides) if axis not in gone)


def _part(_parent: Reference, strides: tuple[int, ...], _attrs: Mapping[str, Any]) -> Strides:
    return tuple(2 * s for s in strides)


def _bitcast(parent: Reference, strides: tuple[int, ...], attrs: Mapping[str, Any]) -> Strides:
    """Strides in elements of another size, which have an axis of their own if they are smaller."""
    assert isinstance(parent.atom.type, TensorType)
    old, new = parent.atom.type.dtype.bytes, dtype_of(attrs["dtype"]).bytes
    if old >= new:
        ratio = old // new
        return (*(ratio * s for s in strides), 1) if ratio > 1 else strides
    ratio = new // old
    dense_inside = strides[-1] == 1 and all(s % ratio == 0 for s in strides[:-1])
    return tuple(s // ratio for s in strides[:-1]) if dense_inside else None


_STRIDES: dict[str, Callable[[Reference, tuple[int, ...], Mapping[str, Any]], Strides]] = {
    "transpose": _transposed,
    "strided_slice": _sliced,
    "reverse": _reversed,
    "squeeze": _squeezed,
    "real": _part,
    "imag": _part,
    "bitcast": _bitcast,
}

VIEW_OPERATORS = frozenset({*_STRIDES, "reshape", "broadcast_to"})
"""The operators of which NumPy's functions of that name give views."""


Strides: TypeAlias = tuple[int, ...] | None


def dense_strides(shape: Sequence[IntExpr]) -> Strides:
    """Returns the strides of an array in C order; None where a size is symbolic.

    >>> dense_strides((2, 3, 4))
    (12, 4, 1)
    """
    if not all(isinstance(size, int) for size in shape):
        return None
    strides: list[int] = []
    step = 1
    for size in reversed(shape):
        assert isinstance(size, int)
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))


def dense(shape: Sequence[IntExpr], strides: Strides) -> bool:
    """True if an array of ``shape`` with ``strides`` is in C order without gaps."""
    wanted = dense_strides(shape)
    if strides is None or wanted is None:
        return False
    pairs = zip(shape, strides, wanted, strict=True)
    return 0 in shape or all(size == 1 or s == w for size, s, w in pairs)


def reshaped_strides(shape: Sequence[int], strides: Sequence[int], to: Sequence[int]) -> Strides:
    """Returns the strides of a reshape that is a view; None if it has to be a copy.

    >>> reshaped_strides((4, 6), (6, 1), (24,))
    (1,)
    >>> reshaped_strides((4, 6), (1, 4), (24,)) is None
    True
    """
    if math.prod(shape) == 0:
        return dense_strides(to)
    old = [(size, s) for size, s in zip(shape, strides, strict=True) if size != 1]
    result = [1] * len(to)
    o = n = 0
    while o < len(old) and n < len(to):
        first_o, first_n = o, n
        taken, made = old[o][0], to[n]
        o, n = o + 1, n + 1
        while taken != made:
            if made < taken:
                made, n = made * to[n], n + 1
            else:
                taken, o = taken * old[o][0], o + 1
        for k in range(first_o, o - 1):
            if old[k][1] != old[k + 1][0] * old[k + 1][1]:
                return None
        step = old[o - 1][1]
        for k in reversed(range(first_n, n)):
            result[k] = step
            step *= to[k]
    return tuple(result)


def is_reshape_a_view(
    shape: Sequence[IntExpr], strides: Strides, to: Sequence[IntExpr]
) -> tuple[bool | None, Strides]:
    """Returns whether NumPy's reshape is a view (None: not known), and its strides."""
    if strides is None or not all(isinstance(size, int) for size in (*shape, *to)):
        if [s for s in shape if s != 1] != [s for s in to if s != 1]:
            return None, None
        if strides is None:
            return True, None
        kept = (step for size, step in zip(shape, strides, strict=True) if size != 1)
        return True, tuple(1 if size == 1 else next(kept) for size in to)
    sizes, wanted = [int(str(s)) for s in shape], [int(str(s)) for s in to]
    result = reshaped_strides(sizes, strides, wanted)
    return (True, result) if result is not None else (False, dense_strides(to))


def elementwise_strides(
    shape: Sequence[IntExpr], operands: Sequence[tuple[Sequence[IntExpr], Strides]]
) -> Strides:
    """The strides NumPy gives the result of an elementwise function of such operands: those of
    ``order="K"``. NumPy itself says so, for small arrays whose strides have the same order."""
    if dense_strides(shape) is None:
        return None
    small: list[Any] = []
    for sizes, strides in operands:
        if strides is None:
            return None
        ranks = {s: i + 1 for i, s in enumerate(sorted({abs(s) for s in strides if s}))}
        signed = [8 * ranks[abs(s)] * (1 if s > 0 else -1) if s else 0 for s in strides]
        little = [min(int(str(size)), 2) for size in sizes]
        memory = np.zeros(64, np.int64)
        start = memory[32:] if any(s < 0 for s in signed) else memory
        small.append(np.lib.stride_tricks.as_strided(start, little, signed))
    flags: Any = ["zerosize_ok"]
    allocated: Any = [["readonly"]] * len(small) + [["writeonly", "allocate"]]
    with np.nditer([*small, None], flags, allocated, order="K") as walk:
        given = walk.operands[-1].strides
    order = sorted(range(len(shape)), key=lambda axis: (-abs(given[axis]), axis))
    result = [0] * len(shape)
    step = 1
    for axis in reversed(order):
        result[axis] = step
        step *= max(int(str(shape[axis])), 1)
    return tuple(result)
