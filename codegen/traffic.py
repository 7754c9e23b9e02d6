"""How many bytes a loop nest moves between the levels of memory: a model read off its loops.

The level of capacity ``C`` holds what a part of the nest touches if that is not more than ``C``.
Then every cache line of it comes in once. Otherwise::

    body       moves what each of its statements moves
    loop       if one turn fits: what all turns touch together, since what a turn shares with the
               one before is still there; else as often as it turns what a turn moves

What statements touch is a box of index ranges, counted in whole cache lines. A line that is written
goes back once, streamed or not; it is fetched only if it is read before it is written. Between
registers and the first cache no lines count but elements, and what stands inside unrolled and
vector loops is loaded once. Each thread has its near caches to itself; the last one is for all.

This is the footprint analysis of "Improving Data Locality with Loop Transformations" (McKinley,
Carr, Tseng, TOPLAS 1996), with capacities.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil, prod

import numpy as np

from ..ir.dims import Dim, FloorDiv, IntExpr, Mod, as_int, bounds, linear, symbols
from ..ir.loop.expr import Const, Expr, Index, Op, Read, index_value, walk
from ..ir.loop.kinds import LoopKind, Scope
from ..ir.loop.nest import Accumulate, Alloc, If, Let, Loop, Nest, Stmt, Store, statements
from ..ir.loop.prim import Buffer
from .target import CACHE_LINE, Target

__all__ = ["LEVELS", "Traffic", "traffic_of"]

LEVELS = ("l1", "l2", "l3", "dram")
"""Where bytes come from and go to: l1 is between registers and the first cache, and so on."""

Ranges = Mapping[str, tuple[int, int]]
MOST_COUNTED = 1 << 16  # of the loops that a condition depends on, to count where it holds


@dataclass(frozen=True, slots=True)
class Traffic:
    """Bytes read from a level and written to it."""

    read: float = 0.0
    written: float = 0.0

    @property
    def total(self) -> float:
        return self.read + self.written

    def __add__(self, other: Traffic) -> Traffic:
        return Traffic(self.read + other.read, self.written + other.written)

    def times(self, factor: float) -> Traffic:
        """The same so many times over."""
        return Traffic(self.read * factor, self.written * factor)


def traffic_of(
    nest: Nest, target: Target, threads: int = 1, distances: Mapping[str, float] | None = None
) -> dict[str, Traffic]:
    """The traffic of one call of ``nest`` with each of ``LEVELS``.

    ``distances`` are, by operand, the bytes touched since it was last used before the call, or
    until it is used again after it: a cache that holds so much still has it. Without it is far.
    What the nest has for itself is used again by the next call.
    """
    roots = _Reader(nest).body(nest.body, {})
    distances = {**_own_distances(nest), **(distances or {})}
    moved = {"l1": _Model(0, 1, threads).body(roots, _NONE)}
    for level, capacity in (("l2", target.l1), ("l3", target.l2), ("dram", target.l3)):
        model = _Model(capacity, CACHE_LINE, 1 if level == "dram" else threads)
        near = {name for name, distance in distances.items() if distance <= capacity}
        moved[level] = model.without(model.body(roots, _NONE), roots, near)
    return moved


def _own_distances(nest: Nest) -> dict[str, float]:
    """Of the workspace, which all operands lie between, and of stack buffers, always at hand."""
    sizes = {name: as_int(b.size) * b.dtype.bytes for name, b in nest.buffers.items()}
    stacks = {s.buffer.name for s in statements(nest.body) if isinstance(s, Alloc)}
    everything = sum(size for name, size in sizes.items() if name not in stacks)
    return {
        **{name: float(sizes[name]) for name in stacks},
        **{b.name: float(everything) for b in nest.workspace},
    }


# -- what a nest touches ----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Touch:
    """A read or a write of a buffer; an index of None is one that is looked up."""

    buffer: Buffer
    indices: tuple[IntExpr | None, ...]
    gathered: frozenset[str]
    writes: bool
    ranges: Ranges
    lets: Mapping[str, IntExpr]


@dataclass(frozen=True, slots=True)
class _Turns:
    """A loop, or with ``extent`` 1 a part that only a ``share`` of the turns around it reaches."""

    loop: Loop | None
    share: float
    parts: tuple[_Touch | _Turns, ...]


_Part = _Touch | _Turns
_NONE: frozenset[str] = frozenset()


class _Reader:
    """From statements to touches and turns."""

    def __init__(self, nest: Nest) -> None:
        self.buffers = nest.buffers
        self.around: list[Expr] = []  # conditions on several loops that hold here
        self.private = {
            s.buffer.name
            for s in statements(nest.body)
            if isinstance(s, Alloc)
            if s.scope == Scope.REGISTERS
        }

    def body(
        self, body: Sequence[Stmt], ranges: Ranges, lets: Mapping[str, IntExpr] | None = None
    ) -> tuple[_Part, ...]:
        lets = dict(lets or {})
        ranges = dict(ranges)
        parts: list[_Part] = []
        for stmt in body:
            if isinstance(stmt, Loop):
                inside = {**ranges, stmt.var: (0, stmt.extent - 1)}
                parts.append(_Turns(stmt, 1.0, self.body(stmt.body, inside, lets)))
            elif isinstance(stmt, Let):
                lets[stmt.var] = stmt.value
                ranges[stmt.var] = bounds(stmt.value, ranges) or (0, 0)
            elif isinstance(stmt, If):
                parts += self.branches(stmt, ranges, lets)
            elif isinstance(stmt, Store | Accumulate):
                parts += self.statement(stmt, ranges, lets)
        return tuple(parts)

    def branches(self, stmt: If, ranges: Ranges, lets: Mapping[str, IntExpr]) -> list[_Part]:
        parts: list[_Part] = list(self.reads(stmt.condition, ranges, lets))
        name, limit = _limit(stmt.condition, ranges) or ("", 0)
        low, high = ranges.get(name, (0, 0))
        share = (limit - low) / (high - low + 1) if name else self.share(stmt.condition, ranges)
        for body, inside, part, holds in (
            (stmt.then, (low, limit - 1), share, [] if name else [stmt.condition]),
            (stmt.orelse, (limit, high), None if share is None else 1 - share, []),
        ):
            self.around += holds
            found = self.body(body, {**ranges, name: inside} if name else ranges, lets)
            del self.around[len(self.around) - len(holds) :]
            parts += found if part is None else [_Turns(None, part, found)]
        return parts

    def share(self, condition: Expr, ranges: Ranges) -> float | None:
        """The share of the turns that reach a condition in which it holds, None if unknown."""
        reached = _share(self.around, ranges)
        both = _share([*self.around, condition], ranges)
        return both / reached if both is not None and reached else None

    def statement(
        self, stmt: Store | Accumulate, ranges: Ranges, lets: Mapping[str, IntExpr]
    ) -> list[_Part]:
        parts: list[_Part] = list(self.reads(stmt.value, ranges, lets))
        if stmt.buffer not in self.private:
            place = _Touch(
                self.buffers[stmt.buffer],
                stmt.indices,
                _NONE,
                True,
                ranges,
                lets,
            )
            if isinstance(stmt, Accumulate):
                parts.append(replace(place, writes=False))
            parts.append(place)
        return parts

    def reads(self, expr: Expr, ranges: Ranges, lets: Mapping[str, IntExpr]) -> Iterable[_Touch]:
        for node in walk(expr):
            if not isinstance(node, Read) or node.buffer in self.private:
                continue
            indices = tuple(i if isinstance(i, int | Dim) else None for i in node.indices)
            gathered = frozenset(
                name
                for i in node.indices
                if not isinstance(i, int | Dim)
                for inner in walk(i)
                for j in (
                    inner.indices
                    if isinstance(inner, Read)
                    else (inner.value,)
                    if isinstance(inner, Index)
                    else ()
                )
                if isinstance(j, Dim)
                for name in symbols(j)
            )
            yield _Touch(self.buffers[node.buffer], indices, gathered, False, ranges, lets)


def _limit(condition: Expr, ranges: Ranges) -> tuple[str, int] | None:
    """``(i, 5)`` for ``index(i) < 5`` where that is neither always true nor never."""
    if not isinstance(condition, Op) or condition.name != "less":
        return None
    left, right = condition.args
    if not isinstance(left, Index) or not isinstance(left.value, Dim):
        return None
    names = symbols(left.value)
    name = min(names)
    if isinstance(right, Const):
        limit = int(right.value)
    elif isinstance(right, Index) and isinstance(right.value, int):
        limit = right.value
    else:
        return None
    if len(names) != 1 or name not in ranges or str(left.value) != name:
        return None
    low, high = ranges[name]
    return (name, limit) if low < limit <= high else None


def _share(conditions: Sequence[Expr], ranges: Ranges) -> float | None:
    """The share of all turns in which comparisons of linear indices hold, None if unknown."""
    places: list[tuple[str, IntExpr]] = []
    for test in conditions:
        if not isinstance(test, Op) or test.name not in ("less", "less_equal"):
            return None
        left, right = (index_value(a) for a in test.args)
        if left is None or right is None or not _symbols(left - right) <= ranges.keys():
            return None
        places.append((test.name, left - right))
    names = sorted({name for _, place in places for name in _symbols(place)})
    if prod(ranges[n][1] - ranges[n][0] + 1 for n in names) > MOST_COUNTED:
        return None
    turns = np.meshgrid(*(np.arange(ranges[n][0], ranges[n][1] + 1) for n in names))
    holds = np.ones(turns[0].shape if turns else (), np.bool_)
    for test, place in places:
        parts = linear(place) if isinstance(place, Dim) else ({}, place)
        if parts is None:
            return None
        total = parts[1] + sum(parts[0].get(n, 0) * turn for n, turn in zip(names, turns))
        holds &= total < 0 if test == "less" else total <= 0
    return float(np.mean(holds))


def _symbols(value: IntExpr) -> frozenset[str]:
    return symbols(value) if isinstance(value, Dim) else frozenset()


# -- what moves -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Box:
    """Index ranges of a buffer, and how many places in each are touched."""

    ranges: tuple[tuple[int, int], ...]
    counts: tuple[int, ...]

    def joined(self, other: _Box) -> _Box:
        ranges, counts = [], []
        for a, b, m, n in zip(self.ranges, other.ranges, self.counts, other.counts):
            both = min(a[0], b[0]), max(a[1], b[1])
            apart = a[1] < b[0] or b[1] < a[0]
            ranges.append(both)
            reach = both[1] - both[0] + 1
            counts.append(min(reach, m + n if apart or a != b else max(m, n)))
        return _Box(tuple(ranges), tuple(counts))


@dataclass(frozen=True)
class _Model:
    """One level: what moves to and from what lies behind ``capacity`` bytes, in ``unit`` bytes."""

    capacity: float
    unit: int
    threads: int

    def body(self, parts: Sequence[_Part], free: frozenset[str]) -> Traffic:
        if self.capacity and self._touched(parts, free, {}) <= self.capacity:
            return self._once(parts, free, {})
        total = Traffic()
        for part in parts:
            if isinstance(part, _Touch):
                total += self._once((part,), free, {})
            else:
                total += self.turns(part, free)
        return total

    def without(self, moved: Traffic, parts: Sequence[_Part], near: set[str]) -> Traffic:
        """What is left if the first reads and last writes of ``near`` buffers move nothing."""
        read, written = moved.read, moved.written
        for group, inner in _by_buffer(parts, _NONE):
            if group[0].buffer.name in near:
                once = self._group(group, inner, {})
                read, written = max(0.0, read - once.read), max(0.0, written - once.written)
        return Traffic(read, written)

    def turns(self, part: _Turns, free: frozenset[str]) -> Traffic:
        loop = part.loop
        if loop is None:
            return self.body(part.parts, free).times(part.share)
        everything = free | {loop.var}
        alone = loop.kind == LoopKind.PARALLEL and self.threads > 1
        own = min(self.threads, loop.extent) if alone else 1
        if self.capacity:
            fits = self._touched(part.parts, free, {}) <= self.capacity
        else:
            fits = loop.kind in (LoopKind.UNROLL, LoopKind.VECTORIZE)
        if fits:
            narrowed = {loop.var: (0, -(-loop.extent // own) - 1)} if own > 1 else {}
            return self._once(part.parts, everything, narrowed).times(own)
        return self.body(part.parts, free).times(loop.extent)

    def _touched(self, parts: Sequence[_Part], free: frozenset[str], narrowed: Ranges) -> float:
        return sum(self._size(group, inner, narrowed) for group, inner in _by_buffer(parts, free))

    def _once(self, parts: Sequence[_Part], free: frozenset[str], narrowed: Ranges) -> Traffic:
        """Everything that is touched, each line once."""
        total = Traffic()
        for group, inner in _by_buffer(parts, free):
            total += self._group(group, inner, narrowed)
        return total

    def _group(self, group: Sequence[_Touch], free: frozenset[str], narrowed: Ranges) -> Traffic:
        """The same of the touches of one buffer, in order."""
        written = self._size([t for t in group if t.writes], free, narrowed)
        if not group[0].writes:
            return Traffic(self._size([t for t in group if not t.writes], free, narrowed), written)
        return Traffic(max(0.0, self._size(group, free, narrowed) - written), written)

    def _size(self, touches: Sequence[_Touch], free: frozenset[str], narrowed: Ranges) -> float:
        if not touches:
            return 0.0
        boxes = [_box(t, free, narrowed) for t in touches]
        buffer = touches[0].buffer
        whole = boxes[0]
        apart = dict.fromkeys(boxes)
        for box in boxes[1:]:
            whole = whole.joined(box)
        single = sum(self._bytes(box, buffer) for box in apart)
        return min(single, self._bytes(whole, buffer))

    def _bytes(self, box: _Box, buffer: Buffer) -> float:
        size = buffer.dtype.bytes
        shape = [as_int(s) for s in buffer.shape]
        run, places, dense = float(size), 1.0, True
        row = float(size)
        aligned = True
        for (low, high), count, extent in reversed([*zip(box.ranges, box.counts, shape)]):
            reach = high - low + 1
            if not dense:
                places *= count
                aligned = aligned and (count == 1 or row % self.unit == 0)
            elif count == reach or run * reach / count < self.unit:
                run *= reach
                dense = reach == extent
            else:
                places, dense = places * count, False
            row *= extent
        units = ceil(run / self.unit) if aligned else (run - size) / self.unit + 1
        return places * units * self.unit


def _by_buffer(
    parts: Sequence[_Part], free: frozenset[str]
) -> Iterable[tuple[list[_Touch], frozenset[str]]]:
    """The touches below ``parts`` by buffer, in order, and all loops that are free there."""
    found: dict[str, list[_Touch]] = {}
    loops = set(free)
    waiting: list[_Part] = list(reversed(parts))
    while waiting:
        part = waiting.pop()
        if isinstance(part, _Touch):
            found.setdefault(part.buffer.name, []).append(part)
            continue
        if part.loop is not None:
            loops.add(part.loop.var)
        waiting += reversed(part.parts)
    names = frozenset(loops)
    return [(group, names) for group in found.values()]


def _box(touch: _Touch, free: frozenset[str], narrowed: Ranges) -> _Box:
    """Where a touch reaches while the ``free`` loops turn and all others stand still."""
    ranges: dict[str, tuple[int, int]] = {}
    for name, reach in touch.ranges.items():
        value = touch.lets.get(name)
        if value is None:
            reach = narrowed.get(name, reach)
            ranges[name] = reach if name in free else (reach[0], reach[0])
            continue
        inside = bounds(value, ranges) or reach
        low, high = max(reach[0], inside[0]), min(reach[1], inside[1])
        ranges[name] = (low, high) if low <= high else (reach[0], reach[0])
    reaches: list[tuple[int, int]] = []
    counts: list[int] = []
    for index, extent in zip(touch.indices, touch.buffer.shape):
        last = as_int(extent) - 1
        if index is None:
            turns = prod(ranges[n][1] - ranges[n][0] + 1 for n in touch.gathered if n in ranges)
            reach = (0, last) if turns > 1 else (0, 0)
            count = min(turns, last + 1)
        else:
            low, high = bounds(index, ranges) or (0, last)
            reach = min(max(low, 0), last), max(0, min(high, last))
            count = min(_places(index, ranges), reach[1] - reach[0] + 1)
        reaches.append(reach)
        counts.append(max(1, count))
    return _Box(tuple(reaches), tuple(counts))


def _places(index: IntExpr, ranges: Ranges) -> int:
    """At most how many values an index takes."""
    if not isinstance(index, Dim):
        return 1
    total = 1
    for atoms, _ in index.terms:
        for atom in atoms:
            if isinstance(atom, FloorDiv | Mod):
                inside = bounds(Dim((((atom,), 1),)), ranges)
                total *= 1 if inside is None else inside[1] - inside[0] + 1
            else:
                for name in symbols(Dim((((atom,), 1),))):
                    low, high = ranges.get(name, (0, 0))
                    total *= high - low + 1
    return total
