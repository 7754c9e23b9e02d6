"""The ``chain`` rule: a contraction, what follows it row by row, and a contraction of that: fused
attention.

Vectors run along the rows of the first contraction (the queries), in every stage: a maximum or a
sum over a row is then a lane's own affair, and neither the keys nor the values have to be packed,
since they are read element by element and spread over the lanes. What is kept is one block of
scores, for as many rows as a register tile has lanes: ``[keys, rows]``. Long rows are cut into
pieces (``blockwise``), so that the block stays in L1; the rows of the first operand
are copied once per block, transposed; the result is transposed on its way out.

Limits are the multiply-adds, and the exponentials, which use the same ports; causal masks leave out
pieces, so that half a piece and half a block of rows along the diagonal are computed in vain.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from math import prod

import numpy as np
import numpy.typing as npt

from ....codegen.target import Target
from ....ir.dataclass import dataclass
from ....ir.dims import Dim, as_int, symbols
from ....ir.errors import ScheduleError
from ....ir.loop.expr import Op, Read, reads_of, walk
from ....ir.loop.prim import PrimFunc, Stage
from ....ir.schedule import steps as primitives
from ....ir.schedule.columns import least
from ....ir.schedule.columns import most as greatest
from ....ir.schedule.skipping import is_masked
from ....ir.schedule.steps import Schedule, Step, blockwise, cache_read, own_axis, state_of, unroll
from ...protocols import BoolArray
from ..analysis import Group, accesses_of
from ..estimate import fastest, offers
from ..settings import CHAIN, PRODUCTS, SKETCHES
from ..tiling import Choices, Tiling, Values
from .base import parallel_depth, parallel_steps, split_step, up_to


@dataclass(frozen=True)
class _Roles:
    """The stages of a chain: ``first`` and ``second`` contraction, the rows' ``maximum``."""

    first: Stage
    second: Stage
    maximum: Stage
    row: str  # the axis vectors run along


def _is_contraction(stage: Stage) -> bool:
    """True for a sum of products of two values."""
    value = stage.expr
    if stage.combiner != "sum" or not isinstance(value, Op) or value.name != "multiply":
        return False
    return all(isinstance(a, Read) for a in value.args) and len(reads_of(stage.expr)) == 2


def _walks(node: Read) -> set[str]:
    return {name for i in node.indices if isinstance(i, Dim) for name in symbols(i)}


def _roles(stages: tuple[Stage, ...]) -> _Roles | None:
    """The parts of a chain among ``stages``, None if they are none."""
    matrix = [s for s in stages if _is_contraction(s)]
    made = {s.name for s in stages}
    first = next((s for s in matrix if len({r.buffer for r in reads_of(s.expr)} & made) <= 1), None)
    rest = stages[stages.index(first) + 1 :] if first is not None else ()
    maximum = next((s for s in rest if s.combiner == "max" and len(s.reduce_axes) == 1), None)
    if first is None or maximum is None:
        return None
    exponents = {s.name for s in rest if _is_exponent(s)}
    second = next(
        (
            s
            for s in matrix
            if s is not first and any(r.buffer in exponents for r in reads_of(s.expr))
        ),
        None,
    )
    if second is None or len(second.reduce_axes) != 1:
        return None
    values = [r for r in reads_of(second.expr) if r.buffer not in exponents]
    for axis in reversed(maximum.axes):
        moved = [r for r in reads_of(first.expr) if axis.name in _walks(r)]
        free = not any(axis.name in _walks(r) for r in values)
        if len(moved) == 1 and free and as_int(axis.extent) > 1:
            return _Roles(first, second, maximum, axis.name)
    return None


def _is_exponent(stage: Stage) -> bool:
    nodes = walk(stage.expr) if stage.combiner is None else ()
    return any(isinstance(n, Op) and n.name == "exp" for n in nodes)


# -- what comes before the loops -------------------------------------------------------------------


def _pieces(stages: tuple[Stage, ...], roles: _Roles, target: Target) -> list[int]:
    """Numbers of pieces: a block of scores takes a half, all, or a quarter of L1."""
    length = as_int(roles.second.reduce_axes[0].extent)
    width = 3 * target.vector_bytes
    rows = {a.name for a in roles.maximum.axes}
    outputs = prod(as_int(a.extent) for a in roles.second.axes if a.name not in rows)
    counts: list[int] = []
    masked = any(is_masked(s) for s in stages)
    for share in (4, 2, 1) if masked else (2, 1, 4):
        size = max(CHAIN.short_part, target.l1 // share // width)
        short = size if masked else max(CHAIN.short_row, size)
        parts = 1 if length <= short else -(-length // size)
        while parts > 1 and parts * outputs * width > CHAIN.max_stack * CHAIN.stack_share:
            parts -= 1
        parts = -(-length // -(-length // parts))  # no piece is empty
        if parts not in counts:
            counts.append(parts)
    return counts


def _storage(prim: PrimFunc, roles: _Roles, parts: int) -> Iterator[Step]:
    """Copies of what lies across the vectors, and every value with the row axis last."""
    row = roles.row
    batch = [a.name for a in roles.maximum.axes if a.name != row]
    if parts > 1:
        step = blockwise(roles.maximum.name, parts)
        yield step
        prim = state_of(prim, Schedule((step,))).prim
    params = {p.name for p in prim.params}
    copies: dict[str, tuple[str, ...]] = {}
    for stage in prim.stages:
        for access, node in zip(accesses_of(prim, stage.expr), reads_of(stage.expr), strict=True):
            walked = _walks(node)
            if node.buffer in params and row in walked and access.stride(row) != 1:
                names = [a.name for a in (*stage.axes, *stage.reduce_axes)]
                private = tuple(n for n in names if n in walked and n not in (*batch, row))
                copies.setdefault(node.buffer, private)
    # The last copy stands first: those made once for all pieces.
    for name, private in sorted(copies.items(), key=lambda item: -len(item[1])):
        yield cache_read(name, *batch, *private, row)
        if private:
            yield own_axis(f"{name}.copy", private[-1])
    for stage in prim.stages:
        names = [a.name for a in stage.axes]
        if stage.name not in prim.outputs and row in names and names[-1] != row:
            yield primitives.layout(stage.name, *(n for n in names if n != row), row)
        elif stage.name in prim.outputs and row in names and names[-1] != row:
            yield own_axis(stage.name, names[-1])


# -- the sketch ------------------------------------------------------------------------------------


class Chain(Tiling):
    """See the module."""

    @cached_property
    def roles(self) -> _Roles:
        roles = _roles(self.group.stages)
        assert roles is not None
        return roles

    @cached_property
    def block(self) -> str | None:
        """The axis of the pieces of a row, if rows are cut."""
        second = {a.name for a in self.roles.second.axes}
        names = [a.name for a in self.roles.first.axes]
        return next((n for n in names if n in second and n not in self.group.shared), None)

    def own(self, stage: Stage) -> list[str]:
        """The axes of a stage that are neither shared nor the pieces'."""
        return [a.name for a in stage.axes if a.name not in (*self.group.shared, self.block)]

    def inside(self, stage: Stage) -> bool:
        """True if a stage runs once per piece of a row."""
        stages = self.group.stages
        before_second = stages.index(stage) <= stages.index(self.roles.second)
        return before_second and self.block in {a.name for a in stage.axes}

    def width(self, vectors: int) -> int:
        return least(vectors * self.lanes, self.extent(self.vector_axis))

    def unrolled(self, stage: Stage, choices: Choices) -> int:
        """Returns the unrolled iterations of a contraction's innermost loop."""
        extent = self.extent(stage.reduce_axes[-1].name)
        most = choices["k_unroll"]
        if most > 1 and stage is not self.roles.first:
            most = greatest(PRODUCTS.unroll, most)
        return max(u for u in range(1, most + 1) if extent % u == 0)

    def build(self, **choices: int) -> list[Step]:
        v = self.vector_axis
        assert v is not None
        outer = [*self.outer_axes, f"{v}.0"]
        order = [*outer, *([self.block] if self.block else [])]
        split_of: dict[str, int] = {v: self.width(choices["vectors"])}
        unrolled: list[str] = []
        tiles: list[Step] = []
        places: list[Step] = []
        begun = False  # whether the loop over pieces is there to be joined
        for stage in self.group.stages:
            private, reduced = self.own(stage), [a.name for a in stage.reduce_axes]
            here = self.block if self.inside(stage) else f"{v}.0"
            assert here is not None
            at, inner = here, ""
            if private:
                at, inner = f"{private[-1]}.0", f"{private[-1]}.1"
            matrix = stage in (self.roles.first, self.roles.second)
            if private and private[-1] not in split_of:
                rows = choices["rows"] if matrix else self.lanes
                split_of[private[-1]] = least(rows, self.extent(private[-1]))
                unrolled.append(inner)
            long = reduced[-1] if reduced else None
            if long is not None and (matrix or self.inside(stage) or self.block is None):
                lanes = self.unrolled(stage, choices) if matrix else CHAIN.accumulators
                if lanes > 1 and self.extent(long) > lanes:
                    split_of[long] = lanes
                    unrolled.append(f"{long}.1")
                    if not matrix:
                        tiles.append(primitives.rfactor(stage.name, f"{long}.1"))
            loops = [*private[:-1], at] if private else []
            for name in reduced:
                loops += [f"{name}.0", f"{name}.1"] if name in split_of else [name]
            loops += [inner] if private else []
            order += [loop for loop in loops if loop not in order]
            if stage.combiner is not None:
                scope = "stack" if private and not matrix else "registers"
                tiles.insert(0, primitives.cache_write(stage.name, scope, at))
            if stage is not self.group.stages[0]:
                there = here if begun or here != self.block else f"{v}.0"
                places.append(
                    primitives.compute_at(stage.name, at if self.follows_first(stage) else there)
                )
            begun = begun or here == self.block
        cuts = [split_step(axis, self.extent(axis), inner) for axis, inner in split_of.items()]
        steps = [
            *cuts,
            primitives.reorder(*order, f"{v}.1"),
            *tiles,
            *places,
            *map(unroll, unrolled),
        ]
        if self.block is not None and self.masked is not None:
            steps.append(primitives.skip(self.masked.name, self.block))
        steps += [primitives.vectorize(f"{v}.1"), *parallel_steps(outer, choices["parallel"])]
        return steps

    @cached_property
    def masked(self) -> Stage | None:
        """The scores, if they are masked by a comparison of indices."""
        return next((s for s in self.group.stages if is_masked(s)), None)

    def follows_first(self, stage: Stage) -> bool:
        """True if a map is done on the tile of the first contraction while it is in registers."""
        first = self.roles.first
        same = [a.name for a in stage.axes] == [a.name for a in first.axes]
        return (
            stage.combiner is None
            and same
            and any(r.buffer == first.name for r in reads_of(stage.expr))
            and not any(r.buffer == self.roles.maximum.name for r in reads_of(stage.expr))
            and not _is_exponent(stage)
        )

    @cached_property
    def defaults(self) -> list[Choices]:
        unrolled = [max(u for u in self.knobs["k_unroll"] if u <= PRODUCTS.unroll)]
        tables = {name: self.knobs[name] for name in ("vectors", "rows")}
        candidates = fastest(self, offers(self, k_unroll=unrolled, **tables), PRODUCTS.most)
        rows = CHAIN.rows[self.target.vector_registers > 16]
        if self.target.has_fma and 2 in tables["vectors"] and rows in tables["rows"]:
            candidates.insert(0, {**candidates[0], "vectors": 2, "rows": rows, "k_unroll": 1})
        return [{**c, "parallel": parallel_depth(self, c)} for c in candidates]

    def untold(self, values: Values) -> float | npt.NDArray[np.float64]:
        """The share of the pieces that a causal mask leaves, of square scores or the last rows."""
        if self.block is None or self.masked is None:
            return 1.0
        rows, piece, parts = map(self.extent, (self.vector_axis, self.row_axis, self.block))
        share = np.ones(self.target.vector_registers + 1)  # by vectors
        for vectors in self.knobs["vectors"]:
            width = self.width(vectors)
            ends = np.minimum(np.arange(width, rows + width, width), rows) + piece * parts - rows
            share[vectors] = np.clip(np.ceil(ends / piece) / parts, 0.0, 1.0).mean()
        return share[values["vectors"]]

    def fits(self, values: Values) -> BoolArray:
        # Where pieces end beyond the row, the loop clamps indices too: the last register is LLVM's.
        reads = (a for s in self.group.stages for a in self.group.accesses[s.name])
        room = self.target.vector_registers - any(a.irregular for a in reads)
        good = values["vectors"] * (values["rows"] + 1) < room
        return np.asarray(good & (self.kept_bytes(1) * values["vectors"] <= CHAIN.max_stack))

    def kept_bytes(self, vectors: int) -> int:
        """Bytes of the private buffers of a block of rows."""
        kept = 0
        for stage in self.group.stages:
            inside = self.inside(stage) and stage is not self.roles.second
            if stage.name in self.group.prim.outputs:
                continue
            names = [a.name for a in stage.axes if a.name not in self.group.shared]
            if inside:
                names = [n for n in names if n != self.block]
            kept += prod(self.extent(n) for n in names) * stage.buffer.dtype.bytes
        return kept * vectors * self.lanes


def chain_sketches(prim: PrimFunc, target: Target) -> Iterator[tuple[tuple[Step, ...], Chain]]:
    """The sketches of a chain, best first, each with the steps that come before it, which cut rows
    and keep values; nothing for other prims."""
    whole = _roles(prim.stages)
    if whole is None:
        return
    for parts in _pieces(prim.stages, whole, target):
        steps = tuple(_storage(prim, whole, parts))
        try:
            prepared = state_of(prim, Schedule(steps)).prim
        except ScheduleError:
            continue
        roles = _roles(prepared.stages)
        names = [{a.name for a in s.axes} for s in prepared.stages]
        shared = tuple(a.name for a in prim.stages[-1].axes if all(a.name in n for n in names))
        if roles is not None and roles.row in shared:
            group = Group(prepared, prepared.stages, shared)
            yield steps, _chain_of(group, roles, target)


def _chain_of(group: Group, roles: _Roles, target: Target) -> Chain:
    lanes = target.lanes(group.element_bytes)
    wide = -(-group.extents[roles.row] // lanes)
    row = [a.name for a in roles.first.axes if a.name not in group.shared][-1]
    k = roles.first.reduce_axes[-1].name
    depth, keys = group.extents[k], group.extents[row]
    tables: dict[str, tuple[int, ...]] = {
        "vectors": up_to(wide, (1, 2, 3, 4, 5, 6)),
        "rows": up_to(keys, tuple(range(1, 15))),
        "k_unroll": tuple(u for u in (1, 2, 4, 8) if depth % u == 0 and u <= max(1, depth // 2)),
        "parallel": tuple(range(min(SKETCHES.max_parallel, len(group.shared)) + 1)),
    }
    return Chain(group, target, roles.row, row, None, k, knobs=tables)
