"""The ``window`` rule: reductions over short windows, all taps unrolled: depthwise convolution,
pooling, sliding sums.

Vectors run along the last axis, be it the width or the channels. Rows of outputs share the rows of
the image that their windows have in common, and taps outside of the image are peeled off.

Limits are loads, one for each tap along the vectors and row of the image, and shuffles where
windows move by two; both are less the more rows share the image, until registers are full.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from math import gcd, prod

import numpy as np

from ....codegen.emit.cover import MAX_WINDOWS
from ....codegen.target import CACHE_LINE, Target
from ....ir.dataclass import dataclass
from ....ir.dims import Dim, Symbol, as_int, bounds, linear, symbols
from ....ir.loop.expr import Op, index_value, reads_of, walk
from ....ir.loop.prim import PrimFunc, Stage
from ....ir.loop.work import vector_work
from ....ir.schedule import steps as primitives
from ....ir.schedule.columns import least, when
from ....ir.schedule.steps import Schedule, Step, cache_write, compute_at, peel, reorder, unroll
from ...protocols import BoolArray
from ..analysis import Access, Group
from ..estimate import cycles_of, offers, rows_of
from ..settings import PRODUCTS, SKETCHES, WINDOW
from ..tiling import Choices, Tiling, Values, own_axes, reduced_axes
from . import base


class Window(Tiling):
    """See the module."""

    @property
    def taps(self) -> int:
        return prod(as_int(a.extent) for a in self.group.main.reduce_axes)

    def blocks(self, choices: Choices) -> list[tuple[str, int]]:
        """The tiled axes, outer first, with the length of a tile along each."""
        v, r, r2 = self.vector_axis, self.row_axis, self.second_row_axis
        assert v is not None
        row_blocks = [(r2, choices["second_rows"])] if r2 is not None else []
        row_blocks += [(r, choices["rows"])] if r is not None else []
        wide = (v, least(choices["vectors"] * self.lanes, self.extent(v)))
        return [*row_blocks, wide] if choices["vectors_outer"] == 0 else [wide, *row_blocks]

    def build(self, **choices: int) -> list[Step]:
        group, v = self.group, self.vector_axis
        blocks = self.blocks(choices)
        steps = [base.split_step(axis, self.extent(axis), size) for axis, size in blocks]
        outer = [*self.outer_axes, *(f"{axis}.0" for axis, _ in blocks)]
        rows = [f"{axis}.1" for axis, _ in blocks if axis != v]
        # The taps along the vectors come first: between two of them the rows stay in registers.
        reduced = reduced_axes(group)[::-1]
        private = [a for a in own_axes(group) if a not in reduced]
        steps.append(reorder(*outer, *private, *reduced, *rows, f"{v}.1"))
        at = outer[-1]
        steps += [cache_write(s.name, "registers", at) for s in group.reductions]
        steps += [compute_at(s.name, at) for s in group.stages[1:]]
        steps += [unroll(loop) for loop in (*reduced, *rows)]
        steps.append(primitives.vectorize(f"{v}.1"))
        for axis, size in blocks:
            border = self.borders[axis]
            if not border.free and axis not in self.masked:
                first, last = border.iterations(self.extent(axis), size)
                steps += when((first + last) > 0, peel(f"{axis}.0", first, last))
        steps += base.parallel_steps(outer, choices["parallel"])
        return [*steps, *base.non_temporal_steps(group, choices["non_temporal"])]

    @cached_property
    def borders(self) -> dict[str, Border]:
        """The borders of all axes: thousands of rows are asked for theirs."""
        return {axis: border_of(self.group, axis) for axis in self.group.extents}

    @cached_property
    def masked(self) -> frozenset[str]:
        """Axes whose border is left to the masks of loads, which cost nothing where there are masks
        and lanes are contiguous: only few masks fit their registers."""
        v = self.vector_axis or ""
        taps = _taps_along(self.group, v)
        few = taps is None or self.extent(taps) <= WINDOW.max_masks
        reads = self.group.accesses[self.group.main.name]
        smooth = all(a.stride(v) in (0, 1) for a in reads)
        return frozenset({v} if self.target.has_masks and smooth and few else ())

    def written(self, choices: Choices) -> int:
        """Statements of the main stage in all bodies, the peeled ones included."""
        tile, bodies = self.taps, 1
        for axis, size in self.blocks(choices):
            tile *= -(-size // self.lanes) if axis == self.vector_axis else size
            border = NO_BORDER if axis in self.masked else self.borders[axis]
            bodies *= border.bodies(self.extent(axis), size)
        return tile * bodies

    @cached_property
    def defaults(self) -> list[Choices]:
        """The fastest, where more code counts as more time; behind it the fastest of all, which a
        search has time to compile."""
        names = "vectors", "rows", "second_rows"
        values = offers(self, **{name: self.knobs[name] for name in names})
        able = values["vectors"] * values["rows"] * values["second_rows"]
        able = able <= self.target.vector_registers // 2
        values = {name: column[able] for name, column in values.items()}
        cycles = cycles_of(self, values)
        each = vector_work(self.group.main) / WINDOW.quick_statements
        slow = each * np.array([self.written(c) for c in rows_of(values)])
        scores = cycles * (1.0 + 0.1 * slow + np.maximum(0.0, slow - WINDOW.slow_times))
        ranked = np.argsort(scores, kind="stable")
        order = list(dict.fromkeys([*ranked[:1], int(np.argmin(cycles)), *ranked]))
        candidates: list[Choices] = []
        for c in rows_of({name: column[order[: PRODUCTS.most]] for name, column in values.items()}):
            first = self.walks_rows_first and self.keeps_rows(c["second_rows"])
            c["vectors_outer"] = self.knobs["vectors_outer"][-1] if first else 0
            candidates.append(base.shared_and_stored(self, c))
        return candidates

    @cached_property
    def walks_rows_first(self) -> bool:
        """True if to go down all rows with the vectors of a place: weights, or masks, then stay in
        registers. An image that is not near would come from afar again for every place."""
        v = self.vector_axis or ""
        reads = self.group.accesses[self.group.main.name]
        near = self.target.l1 if v in self.masked and not self.borders[v].free else self.target.l2
        image = sum(
            a.size
            * a.element_bytes
            // max(1, prod(self.extent(o) for o in self.outer_axes if a.depends(o)))
            for a in reads
        )
        # Neighbours in a program divide the rows among the cores if they have not many channels.
        places = self.extent(self.row_axis) * self.extent(self.second_row_axis)
        wide = self.extent(v) > WINDOW.channels_share * places
        alone = wide or self.target.cores == 1 or bool(self.outer_axes)
        return (self.borders[v].free or v in self.masked) and image <= near // 2 and alone

    def keeps_rows(self, second_rows: int) -> bool:
        """True if the rows under the windows of a tile stay in L1 while one vector goes along them:
        a line is used of each place, and places a multiple of a power of two apart share sets."""
        r, r2, page = self.row_axis, self.second_row_axis, self.core.page
        if r is None or r2 is None:
            return True
        lines, between = second_rows * self.extent(r), page  # the result's
        for access in self.group.accesses[self.group.main.name]:
            steps = [access.stride(a) or 0 for a in (r, r2) if access.depends(a)]
            if steps and access.depends(self.vector_axis or ""):
                rows = _rows_read(self, access, r2, second_rows)
                lines += rows * _rows_read(self, access, r, self.extent(r))
                between = gcd(between, *(step * access.element_bytes for step in steps))
        sets = page // max(CACHE_LINE, between)
        return lines <= self.target.l1 // page * sets

    def fits(self, values: Values) -> BoolArray:
        v = values
        tile = v["vectors"] * v["rows"] * v["second_rows"]
        good = tile <= self.target.vector_registers
        good &= tile * self.taps * vector_work(self.group.main) <= WINDOW.max_statements / 2
        keep = np.asarray(good)
        asked = np.flatnonzero(keep)
        if not len(asked):
            return keep
        # Few different ones among thousands of rows.
        names = ("vectors", "rows", "second_rows", "vectors_outer")
        sizes = np.stack([v[name][asked] for name in names], axis=1)
        tiles, which = np.unique(sizes, axis=0, return_inverse=True)
        written = [self.written(dict(zip(names, map(int, tile), strict=True))) for tile in tiles]
        keep[asked] = (np.array(written, np.int64) <= WINDOW.max_statements)[which.reshape(-1)]
        return keep

    def read(self, schedule: Schedule) -> dict[str, int] | None:
        unrolled = {s.args[0] for s in schedule.steps if s.name == "unroll"}
        return super().read(schedule) if unrolled >= set(reduced_axes(self.group)) else None


@dataclass(frozen=True)
class Border:
    """Places at the beginning and the end of an axis whose windows may reach beyond the image."""

    first: int
    last: int

    @property
    def free(self) -> bool:
        return self.first == self.last == 0

    def iterations(self, extent: int, block: int) -> tuple[int, int]:
        """Returns the iterations of a loop over blocks that hold such a place, at both ends."""
        count = -(-extent // block)
        before = -(-self.first // block)
        after = count - (extent - self.last) // block if self.last else 0
        before = least(before, count)
        return before, least(after, count - before)

    def bodies(self, extent: int, block: int) -> int:
        """Returns the number of bodies that the loop over blocks has once its ends are peeled."""
        count = -(-extent // block)
        before, after = self.iterations(extent, block)
        after = max(after, int(extent % block != 0 and before < count))
        return before + after + int(count > before + after)


NO_BORDER = Border(0, 0)


def border_of(group: Group, axis: str) -> Border:
    """Read off the conditions in the main stage; those that are no comparison leave all open."""
    extent = group.extents[axis]
    ranges = {name: (0, size - 1) for name, size in group.extents.items()}
    first = last = 0
    for node in walk(group.main.expr):
        if not isinstance(node, Op) or node.name != "less_equal":
            continue
        left, right = (index_value(a) for a in node.args)
        if left is None or right is None or not isinstance(left - right, Dim):
            continue
        parts = linear(left - right)
        if parts is None or axis not in parts[0]:
            continue
        step = parts[0][axis]
        rest = bounds(left - right, {**ranges, axis: (0, 0)})
        if rest is None:
            continue
        if step > 0:  # holds up to a place
            last = max(last, extent - 1 - (-rest[1]) // step)
        else:
            first = max(first, -(-rest[1] // -step))
    return Border(min(max(first, 0), extent), min(max(last, 0), extent))


def _rows_read(tiling: Tiling, access: Access, axis: str | None, count: int) -> int:
    """Rows of the image that ``count`` outputs along an axis read through their windows."""
    if axis is None or not access.depends(axis):
        return 1
    step = access.stride(axis) or 1
    taps = _taps_along(tiling.group, axis)
    if taps is None:
        return count
    apart = access.stride(taps) or step
    return len({step * n + apart * k for n in range(count) for k in range(tiling.extent(taps))})


def sketches(group: Group, target: Target) -> Iterator[Window]:
    """The sketch of this rule, if it applies."""
    shared = [a for a in group.shared if group.extents[a] > 1]
    if not shared or not _is_window(group.main) or len(group.reductions) != 1:
        return
    steps = [access.stride(shared[-1]) for access in group.accesses[group.main.name]]
    if all(step is not None and 0 <= step <= MAX_WINDOWS for step in steps):
        yield _window_of(group, target, shared[-1])


def is_windowed(prim: PrimFunc) -> bool:
    """True if every reduction is one over short windows, so that its operands are read a few times
    only and a padded copy of them does not pay."""
    reductions = [s for s in prim.stages if s.combiner is not None]
    return bool(reductions) and all(_is_window(s) for s in reductions)


def _is_window(stage: Stage) -> bool:
    """True if each reduced axis moves a read together with an axis of the result, and what it moves
    is read by its own windows only: a first convolution, of one colour to many channels, is a
    contraction whose tiles share the image among channels."""
    taps = {a.name for a in stage.reduce_axes}
    size = prod(as_int(a.extent) for a in stage.reduce_axes)
    if not taps or size > WINDOW.max_taps or not taps <= _windows_in(stage).keys():
        return False
    windowed = set(_windows_in(stage).values())
    many = {a.name for a in stage.axes if as_int(a.extent) >= WINDOW.many_share}
    for node in reads_of(stage.expr):
        names = {name for i in node.indices if isinstance(i, Dim) for name in symbols(i)}
        if names & windowed and not many <= names:
            return False
    return True


def _windows_in(stage: Stage) -> dict[str, str]:
    """Returns, by reduced axis, the axis of the result that moves some index together with it."""
    reduced = {a.name for a in stage.reduce_axes}
    mine = [a.name for a in stage.axes]
    axis_of_tap: dict[str, str] = {}
    for node in reads_of(stage.expr):
        for i in node.indices:
            # Symbols that move the index in each of their steps, not only now and then.
            atoms = (a for mono, _ in (i.terms if isinstance(i, Dim) else ()) for a in mono)
            names = {a.name for a in atoms if isinstance(a, Symbol)}
            for tap in names & reduced:
                for axis in mine:
                    if axis in names:
                        axis_of_tap.setdefault(tap, axis)
    return axis_of_tap


def _taps_along(group: Group, axis: str) -> str | None:
    return next((tap for tap, a in _windows_in(group.main).items() if a == axis), None)


def _window_of(group: Group, target: Target, v: str) -> Window:
    windowed = set(_windows_in(group.main).values())
    rows = [a for a in reversed(group.shared) if a != v and group.extents[a] > 1 and a in windowed]
    row, row2 = (*rows[:2], None, None)[:2]
    lanes = target.lanes(group.element_bytes)
    wide = -(-group.extents[v] // lanes)
    tables: dict[str, tuple[int, ...]] = {
        "vectors": base.up_to(wide, (1, 2, 3, 4)),
        "rows": base.up_to(group.extents[row], (1, 2, 3, 4, 5, 6, 7, 8, 10, 14)) if row else (1,),
        "second_rows": base.up_to(group.extents[row2], (1, 2, 3, 4)) if row2 else (1,),
        "vectors_outer": (0, 1) if row else (0,),
        "parallel": tuple(range(min(SKETCHES.max_parallel, len(group.shared)) + 1)),
        "non_temporal": base.non_temporal_choices(group, target),
    }
    return Window(group, target, v, row, row2, None, (), tables)
