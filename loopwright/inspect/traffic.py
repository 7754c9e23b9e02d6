"""A model of the bytes that a loop nest moves between the levels of memory, computed from its
loops.

A level of capacity ``C`` holds the data of a part of the nest if that is at most ``C`` bytes. Then
every cache line of it is loaded once. Otherwise::

    body       moves the sum of what its statements move
    loop       if the data of one iteration fits: all data of its iterations, once, since data
               shared with the iteration before is still there; else extent * one iteration

The data of statements is a box of index ranges, counted in whole cache lines. A written line goes
back once, non-temporal or not; it is fetched only if it is read before it is written. Between
registers and L1 elements are counted, not lines, and data used inside unrolled and vector loops is
loaded once. Each thread has an L1 and an L2 to itself; they share the LLC.

This is the footprint analysis of "Improving Data Locality with Loop Transformations" (McKinley,
Carr, Tseng, TOPLAS 1996), with capacities.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from math import ceil, prod

import numpy as np

from ..codegen.roofline import Traffic
from ..codegen.target import CACHE_LINE, Target
from ..ir.dataclass import dataclass
from ..ir.dims import Dim, FloorDiv, IntExpr, Mod, as_int, bounds, linear, symbols, typical
from ..ir.loop.expr import Const, Expr, Index, Op, Read, index_value, walk
from ..ir.loop.kinds import LoopKind, Scope
from ..ir.loop.nest import Accumulate, Alloc, At, If, Let, Loop, Nest, Stmt, Store, statements
from ..ir.loop.prim import Buffer

Ranges = Mapping[str, tuple[int, int]]
MOST_COUNTED = 1 << 16  # iterations of a condition's loops are enumerated up to this many


def traffic_of(
    nest: Nest, target: Target, threads: int = 1, distances: Mapping[str, float] | None = None
) -> dict[str, Traffic]:
    """Returns the traffic of one call of ``nest`` with each of ``roofline.LEVELS``.

    ``distances`` are, by operand, the bytes touched since its last use before the call, or until
    its next use after it: a cache of that size still holds it. By default it is far. The nest's own
    buffers are used again by the next call.
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
    """Returns the distances of the workspace, which all operands separate, and of stack buffers,
    which stay in L1."""
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
    """A read or a write of a buffer; an index of None is a computed one (a gather)."""

    buffer: Buffer
    indices: tuple[IntExpr | None, ...]
    gathered: frozenset[str]
    writes: bool
    ranges: Ranges
    lets: Mapping[str, IntExpr]


@dataclass(frozen=True, slots=True)
class _Repeated:
    """A loop, or without one a part that runs in a ``share`` of the iterations around it."""

    loop: Loop | None
    share: float
    parts: tuple[_Touch | _Repeated, ...]


_Part = _Touch | _Repeated
_NONE: frozenset[str] = frozenset()


class _Reader:
    """Converts statements to touches and loops."""

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
            if isinstance(stmt, At):  # one iteration, which data chooses
                inside = {**ranges, stmt.var: (0, _most(stmt.extent, ranges) - 1)}
                parts += self.reads(stmt.value, ranges, lets)
                parts += self.body(stmt.body, inside, lets)
            elif isinstance(stmt, Loop):
                inside = {**ranges, stmt.var: (0, _most(stmt.extent, ranges) - 1)}
                parts.append(_Repeated(stmt, 1.0, self.body(stmt.body, inside, lets)))
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
            branch = self.body(body, {**ranges, name: inside} if name else ranges, lets)
            del self.around[len(self.around) - len(holds) :]
            parts += branch if part is None else [_Repeated(None, part, branch)]
        return parts

    def share(self, condition: Expr, ranges: Ranges) -> float | None:
        """Returns the share of the iterations reaching a condition in which it holds, None if
        unknown."""
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
    """Returns the share of all iterations in which linear comparisons hold, None if unknown."""
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
    iterations = np.meshgrid(*(np.arange(ranges[n][0], ranges[n][1] + 1) for n in names))
    holds = np.ones(iterations[0].shape if iterations else (), np.bool_)
    for test, place in places:
        parts = linear(place) if isinstance(place, Dim) else ({}, place)
        if parts is None:
            return None
        total = parts[1] + sum(parts[0].get(n, 0) * i for n, i in zip(names, iterations))
        holds &= total < 0 if test == "less" else total <= 0
    return float(np.mean(holds))


def _most(extent: IntExpr, ranges: Ranges) -> int:
    """Returns the most iterations of a loop, at least 1."""
    ends = bounds(extent, ranges)
    return max(1, ends[1] if ends is not None else typical(extent))


def _symbols(value: IntExpr) -> frozenset[str]:
    return symbols(value) if isinstance(value, Dim) else frozenset()


# -- what moves -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Box:
    """Index ranges of a buffer, and the number of places touched in each."""

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
    """One level: the traffic beyond ``capacity`` bytes, in units of ``unit`` bytes."""

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
                total += self.loop(part, free)
        return total

    def without(self, moved: Traffic, parts: Sequence[_Part], near: set[str]) -> Traffic:
        """Returns the traffic if the first reads and last writes of ``near`` buffers move
        nothing."""
        read, written = moved.read, moved.written
        for group, inner in _by_buffer(parts, _NONE):
            if group[0].buffer.name in near:
                once = self._group(group, inner, {})
                read, written = max(0.0, read - once.read), max(0.0, written - once.written)
        return Traffic(read, written)

    def loop(self, part: _Repeated, free: frozenset[str]) -> Traffic:
        loop = part.loop
        if loop is None:
            return self.body(part.parts, free).times(part.share)
        everything = free | {loop.var}
        alone = loop.kind == LoopKind.PARALLEL and self.threads > 1
        extent = typical(loop.extent)
        shares = max(1, min(self.threads, extent)) if alone else 1
        if self.capacity:
            fits = self._touched(part.parts, free, {}) <= self.capacity
        else:
            fits = loop.kind in (LoopKind.UNROLL, LoopKind.VECTORIZE)
        if fits:
            narrowed = {loop.var: (0, -(-extent // shares) - 1)} if shares > 1 else {}
            return self._once(part.parts, everything, narrowed).times(shares)
        return self.body(part.parts, free).times(extent)

    def _touched(self, parts: Sequence[_Part], free: frozenset[str], narrowed: Ranges) -> float:
        return sum(self._size(group, inner, narrowed) for group, inner in _by_buffer(parts, free))

    def _once(self, parts: Sequence[_Part], free: frozenset[str], narrowed: Ranges) -> Traffic:
        """Returns the traffic of all touched lines, each moved once."""
        total = Traffic()
        for group, inner in _by_buffer(parts, free):
            total += self._group(group, inner, narrowed)
        return total

    def _group(self, group: Sequence[_Touch], free: frozenset[str], narrowed: Ranges) -> Traffic:
        """Returns the same for the touches of one buffer, in order."""
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
    """Returns the touches below ``parts`` by buffer, in order, and all loops that are free
    there."""
    touches: dict[str, list[_Touch]] = {}
    loops = set(free)
    waiting: list[_Part] = list(reversed(parts))
    while waiting:
        part = waiting.pop()
        if isinstance(part, _Touch):
            touches.setdefault(part.buffer.name, []).append(part)
            continue
        if part.loop is not None:
            loops.add(part.loop.var)
        waiting += reversed(part.parts)
    names = frozenset(loops)
    return [(group, names) for group in touches.values()]


def _box(touch: _Touch, free: frozenset[str], narrowed: Ranges) -> _Box:
    """Returns the box of a touch when the ``free`` loops run and all others have their first
    value."""
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
            lookups = prod(ranges[n][1] - ranges[n][0] + 1 for n in touch.gathered if n in ranges)
            reach = (0, last) if lookups > 1 else (0, 0)
            count = min(lookups, last + 1)
        else:
            low, high = bounds(index, ranges) or (0, last)
            reach = min(max(low, 0), last), max(0, min(high, last))
            count = min(_places(index, ranges), reach[1] - reach[0] + 1)
        reaches.append(reach)
        counts.append(max(1, count))
    return _Box(tuple(reaches), tuple(counts))


def _places(index: IntExpr, ranges: Ranges) -> int:
    """Returns an upper bound of the number of values of an index."""
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
