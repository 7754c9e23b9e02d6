"""The ``lanes`` rule: vectors run along each stage's own innermost axis, reductions in lanes that
are joined at the end: softmax and layer_norm over the last axis, row sums, dot products.

Limits are the two ports for arithmetic where elements are costly (exp), the cache that holds the
rows elsewhere, and for short rows the joining of lanes. Rows that are worked on together overlap
these, and share what does not depend on the row; the next ones are prefetched.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property
from math import prod

import numpy as np

from ....codegen.target import Target
from ....ir.dims import as_int
from ....ir.loop.expr import Op, reads_of, walk
from ....ir.loop.prim import Stage
from ....ir.loop.scalar import SCALAR_OPS
from ....ir.loop.work import expression_cost, stage_points
from ....ir.schedule import steps as primitives
from ....ir.schedule.columns import least, when
from ....ir.schedule.steps import Schedule, Step, cache_write, compute_at, pack, prefetch, reorder
from ...protocols import BoolArray
from ..analysis import Access, Group
from ..settings import LANES, SKETCHES
from ..tiling import Choices, Tiling, Values, axis_of
from . import base
from .tile import is_packable


class Lanes(Tiling):
    """See the module."""

    @cached_property
    def lane_axes(self) -> frozenset[str]:
        axes = (lane_axis(self.group, s) for s in self.group.stages)
        return frozenset(a for a in axes if a is not None)

    def build(self, **choices: int) -> list[Step]:
        group, r = self.group, self.row_axis
        steps: list[Step] = []
        outer = self.in_memory_order((*self.outer_axes, *([r] if r is not None else ())))
        rows: list[str] = []
        if r is not None:
            steps.append(base.split_step(r, self.extent(r), choices["rows"]))
            outer[outer.index(r)] = f"{r}.0"
            rows = [f"{r}.1"]
        # Each stage runs its own lanes axis as vectors; a reduction has an accumulator per lane.
        inner: list[str] = []
        vectors: list[str] = []
        after: list[Step] = []
        for stage in group.stages:
            axis = lane_axis(group, stage)
            names = [a.name for a in (*stage.axes, *stage.reduce_axes)]
            private = [n for n in names if n not in group.shared and n not in inner]
            inner += [name for name in private if name != axis]
            if axis is not None and stage.combiner is not None:
                after.append(primitives.rfactor(stage.name, f"{axis}.1"))
            if axis is None or f"{axis}.0" in inner:
                continue
            extent = self.extent(axis)
            width = least(choices["vectors"] * self.lanes, extent)
            steps.append(base.split_step(axis, extent, width))
            inner.append(f"{axis}.0")
            vectors.append(f"{axis}.1")
        # Rows are unrolled inside of the loops over vectors, so that they share what is loaded.
        steps.append(reorder(*outer, *inner, *rows, *vectors))
        if outer:
            steps += [cache_write(s.name, "registers", outer[-1]) for s in group.reductions]
            steps += [compute_at(s.name, outer[-1]) for s in group.stages[1:]]
        steps += after
        steps += [primitives.unroll(loop) for loop in rows]
        steps += [primitives.vectorize(loop) for loop in vectors]
        for stage, name in self.waited_for:
            steps += when(choices["prefetch"], prefetch(stage, name, f"{r}.0"))
        steps += base.parallel_steps(outer, choices["parallel"])
        # Operands that the lanes would read with a stride are packed first.
        packs = [pack(name, axis, 1) for name, axis in _transposed_operands(group).items()]
        transposed = [s for step in packs for s in base.pack_steps(group, step)]
        return [*transposed, *steps, *base.non_temporal_steps(group, choices["non_temporal"])]

    @cached_property
    def waited_for(self) -> tuple[tuple[str, str], ...]:
        """Stages and parameters whose next rows may be prefetched.

        The first stage that reads a row waits for L2 or memory while nothing is computed, unless
        the second one, which finds it in L1, prefetches the next one. That pays for operands that
        L1 does not hold as a whole.
        """
        group = self.group
        readers: dict[str, list[str]] = {}
        for stage in group.stages:
            accesses = [a for a in group.accesses[stage.name] if self._walks_rows(a)]
            for name in dict.fromkeys(a.buffer for a in accesses):
                readers.setdefault(name, []).append(stage.name)
        return tuple(
            (stages[1], name)
            for name, stages in readers.items()
            if len(stages) > 1 and self._param_bytes.get(name, 0) > self.target.l1
        )

    @cached_property
    def _param_bytes(self) -> dict[str, int]:
        return {p.name: as_int(p.size) * p.dtype.bytes for p in self.group.prim.params}

    def _walks_rows(self, access: Access) -> bool:
        row = self.row_axis
        return row is not None and not access.irregular and access.depends(row)

    @cached_property
    def defaults(self) -> list[Choices]:
        most = self._rows_at_once()
        # Sums of several rows do not wait for each other: few vectors of each have to be joined,
        # and one of each is enough where elements of long rows take many instructions (exp).
        nodes = (n for s in self.group.stages for n in walk(s.expr) if isinstance(n, Op))
        slow = any(SCALAR_OPS[n.name].cost > LANES.costly for n in nodes)
        light, slow = self._is_light, slow and self.knobs["vectors"][-1] > 4
        few = 1 if self._is_costly or not light else 2
        # Elements that are widened take more instructions than their sums: one vector of these.
        reads = self.group.accesses[self.group.main.name]
        widened = self._shares_once and any(
            a.element_bytes < self.group.element_bytes for a in reads
        )
        few = few if most >= LANES.rows and (light or slow or widened) else 4
        candidates: list[Choices] = []
        for vectors, rows in ((few, most), ({4: 2, 2: 4, 1: 2}[few], most), (8, 1)):
            c = self.base_choices()
            vectors = max(vectors, self.knobs["vectors"][0])
            c["vectors"] = max(v for v in self.knobs["vectors"] if v <= vectors)
            room = self.target.vector_registers // vectors if self.target.sums else rows
            c["rows"] = max(r for r in self.knobs["rows"] if r <= min(rows, room))
            c["prefetch"] = min(c["prefetch"], int(self._next_rows_pay(c["rows"])))
            candidates.append(base.shared_and_stored(self, c))
        return candidates

    def _rows_at_once(self) -> int:
        """Returns how many rows to walk together, as many as L1 holds.

        They share what does not depend on the row, and while one waits for its sum or maximum the
        others are worked on. Sums of costly elements need more registers for each, and long ones
        wait for memory only, which comes fastest one row after the other; so do all rows from
        behind L2 where prefetchers follow no more of them. Rows that are read once need not stay
        near, if they share an operand.
        """
        group = self.group
        if _transposed_operands(group):  # columns of a narrow matrix, which read the same row
            return LANES.columns
        count = prod(self.extent(a) for a in group.shared)
        width = max(stage_points(s) for s in group.stages) // max(1, count)
        every = [a for s in group.stages for a in group.accesses[s.name]]
        reads = [a for a in every if self._walks_rows(a)]
        read = {a.buffer: a.element_bytes for a in reads if a.buffer in self._param_bytes}
        shared = {a.buffer: a.size * a.element_bytes for a in every if a not in reads}
        maps = [s for s in group.stages if s.combiner is None and stage_points(s) > count]
        far = [name for _, name in self.waited_for if self._param_bytes[name] > self.target.l2 // 2]
        kept = [*read.values(), *(s.buffer.dtype.bytes for s in maps), *(read[n] for n in far)]
        size = sum({a.buffer: self._bytes_of(a) for a in reads}.values())
        behind = size > self.target.l2 * (LANES.prefetched if self.waited_for else 1)
        waits = len(reads) > 1 or self._is_costly or self._shares_once
        behind |= not waits
        behind &= size > count * LANES.short_row
        row, room = size // max(1, count), self.target.l1 * LANES.l1_share
        room *= LANES.light_share if self._is_light else 1
        long = self._is_costly and (bool(far) or width > LANES.long_row)
        for rows in (LANES.costly_rows if long else LANES.rows, 2):
            late = behind and rows > self.core.row_streams
            late |= self._is_costly and bool(far) and rows * width > LANES.long_row
            near = self._shares_once or rows * width * sum(kept) + sum(shared.values()) <= room
            # Rows that L1 does not hold read what they share from L2, together only once.
            far_rows = row > self.target.l1 and 2 * rows * row <= self.target.l2
            near |= far_rows and bool(shared) and self._is_light
            even = count % rows == 0 and self.target.cores == 1
            if (even or count >= 4 * rows * self.target.cores) and near and not late:
                return rows
        return 1

    def _bytes_of(self, access: Access) -> int:
        """The bytes of a parameter that are read: a part of a cache whose size data decides."""
        moved = prod(n for a, n in self.group.extents.items() if access.depends(a))
        return min(self._param_bytes.get(access.buffer, 0), moved * access.element_bytes)

    @cached_property
    def _is_light(self) -> bool:
        """True if rows are read several times, and a row needs few registers in each: elements that
        are divided by what is computed need several."""
        group = self.group
        reads = [a for s in group.stages for a in group.accesses[s.name] if self._walks_rows(a)]
        nodes = (n for s in group.stages if s.combiner is None for n in walk(s.expr))
        divisors = (n.args[1] for n in nodes if isinstance(n, Op) and n.name == "divide")
        return len(reads) > 1 and not any(map(reads_of, divisors))

    @cached_property
    def _is_costly(self) -> bool:
        """True if costly elements are summed, whose constants take registers."""
        return any(expression_cost(s) > LANES.costly for s in self.group.reductions)

    def _next_rows_pay(self, rows: int) -> bool:
        """True if so many next rows, brought from L2, stay in L1 beside those under way. What comes
        from further away is worth fetching anyway."""
        count = prod(self.extent(a) for a in self.group.shared)
        sizes = [self._param_bytes[name] for _, name in self.waited_for]
        near = [size for size in sizes if size <= self.target.l2 // 2]
        return all(2 * rows * size <= count * self.target.l1 for size in near)

    @cached_property
    def _shares_once(self) -> bool:
        """True if one stage reads the rows, together with something that all rows share."""
        walking = [s for s in self.group.stages if lane_axis(self.group, s) is not None]
        if len(walking) != 1 or walking[0].combiner is None:
            return False
        axis = lane_axis(self.group, walking[0])
        reads = [a for a in self.group.accesses[walking[0].name] if a.stride(axis or "") == 1]
        return any(map(self._walks_rows, reads)) and not all(map(self._walks_rows, reads))

    def fits(self, values: Values) -> BoolArray:
        tile = values["vectors"] * values["rows"]
        return np.asarray(tile <= self.target.vector_registers)

    def read(self, schedule: Schedule) -> dict[str, int] | None:
        private = self.group.extents.keys() - {*self.group.shared}
        vectors = {axis_of(loop) for loop in schedule.vectorized if loop.endswith(".1")}
        return super().read(schedule) if vectors & private else None


def sketches(group: Group, target: Target) -> Iterator[Lanes]:
    """The sketch of this rule, if it applies."""
    if any(lane_axis(group, stage) is not None for stage in group.reductions):
        yield _lanes_of(group, target)


def lane_axis(group: Group, stage: Stage) -> str | None:
    """The axis a stage's vectors run along in the ``lanes`` rule, None if it has none."""
    axes = stage.reduce_axes or tuple(a for a in stage.axes if a.name not in group.shared)
    names = [a.name for a in axes if as_int(a.extent) > 1]
    if not names:
        return None
    if stage.combiner is None:
        return names[-1]
    reads = group.accesses[stage.name]
    smooth = {n: sum(a.size for a in reads if a.stride(n) == 1) for n in names}
    return max(names, key=lambda name: (smooth[name], group.extents[name]))


def _transposed_operands(group: Group) -> dict[str, str]:
    """Operands that are strided along the lanes and read again by all rows but those of one axis,
    as the few columns of a narrow matrix; with that axis. They are transposed by copying."""
    main = group.main
    axis = lane_axis(group, main)
    if axis is None or main.combiner != "sum" or len(main.reduce_axes) > 1:
        return {}
    shared = [a for a in group.shared if group.extents[a] > 1]
    operands: dict[str, str] = {}
    for access in group.accesses[main.name]:
        mine = [a for a in shared if access.depends(a)]
        repeats = prod(group.extents[a] for a in shared if a not in mine)
        if access.stride(axis) in (0, 1) or len(mine) != 1 or repeats < LANES.used_again:
            continue
        if is_packable(group, main, access, mine[0]):
            operands[access.buffer] = mine[0]
    return operands


def _row_axis(group: Group, target: Target) -> str | None:
    """The axis of which several steps are taken at once: the one for which the least is read of the
    main stage's operands, an element from L1 or L2 counted as a part of one. The last one, if
    that is the same."""
    reads = [a for a in group.accesses[group.main.name] if a.size > 1]
    shared = [a for a in group.shared if group.extents[a] > 1]

    def traffic(row: str) -> float:
        total = 0.0
        for a in reads:
            size = a.size * a.element_bytes
            part = LANES.reads[sum(size > level for level in (target.l1, target.l2))]
            count = prod(group.extents[o] for o in shared if o != row and not a.depends(o))
            repeats = 1 if a.depends(row) else -(-group.extents[row] // LANES.rows)
            total += part * a.size * count * repeats
        return total

    return min(reversed(shared), key=traffic, default=None)


def _lanes_of(group: Group, target: Target) -> Lanes:
    shared = [a for a in group.shared if group.extents[a] > 1]
    row = _row_axis(group, target)
    tall = group.extents[row] if row is not None else 1
    widest = max(
        (group.extents[axis] for s in group.stages if (axis := lane_axis(group, s)) is not None),
        default=1,
    )
    lanes = target.lanes(group.element_bytes)
    vectors = base.up_to(-(-widest // lanes), (1, 2, 3, 4, 6, 8))
    tables: dict[str, tuple[int, ...]] = {
        "vectors": (max(1, target.sums.lanes // lanes),) if target.sums else vectors,
        "rows": base.up_to(tall, (1, 2, 3, 4, 6, 8)),
        "parallel": tuple(range(min(SKETCHES.max_parallel, len(shared)) + 1)),
        "non_temporal": base.non_temporal_choices(group, target),
    }
    tiling = Lanes(group, target, None, row, None, None, (), tables)
    return replace(tiling, knobs={**tables, "prefetch": (1, 0) if tiling.waited_for else (0,)})
