"""Structure of a PrimFunc, for sketch rules: which stages share loops, and how they read buffers.

Nothing here knows operators; everything is read off the tensor expressions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from functools import cached_property
from math import gcd

from ...ir.dataclass import dataclass
from ...ir.dims import Dim, FloorDiv, as_int, linear, symbol, symbols
from ...ir.loop.cases import flips, inside, longest_piece
from ...ir.loop.expr import Expr, Read, reads_of, walk
from ...ir.loop.prim import PrimFunc, Stage
from ...ir.loop.work import stage_flops
from .settings import SPACE


@dataclass(frozen=True)
class Access:
    """A read: how many elements of ``buffer`` it moves on when an axis takes one step.

    An axis that is missing in ``strides`` does not move it. ``irregular`` axes move it in steps
    that are not constant (a division, a gather). Of these, ``runs`` says for how many steps from
    one multiple of it to the next an axis moves it not at all: 16 where the index is ``i // 16``.
    ``looked_up`` ones have an index that is read from data; ``size`` is that of what axes move it
    over.
    """

    buffer: str
    element_bytes: int
    strides: Mapping[str, int]
    irregular: frozenset[str]
    size: int
    runs: Mapping[str, int] = field(default_factory=dict[str, int])
    looked_up: bool = False

    def depends(self, axis: str) -> bool:
        return axis in self.irregular or self.strides.get(axis, 0) != 0

    def stride(self, axis: str) -> int | None:
        """Elements moved per step of the axis, None if irregular."""
        return None if axis in self.irregular else self.strides.get(axis, 0)

    def places(self, axis: str, steps: int) -> int:
        """Returns how many elements ``steps`` steps of an axis read, each counted once."""
        if not self.depends(axis):
            return 1
        run = self.runs.get(axis, 1)
        return -(-steps // run) if steps % run == 0 or run % steps == 0 else steps

    def lane_stride(self, axis: str, lanes: int) -> int | None:
        """``stride`` within a vector of so many lanes: none where a run fills it."""
        return 0 if self.places(axis, lanes) == 1 else self.stride(axis)


@dataclass(frozen=True)
class Group:
    """Stages that run in one nest: all of them walk the ``shared`` axes, in this order."""

    prim: PrimFunc
    stages: tuple[Stage, ...]
    shared: tuple[str, ...]

    @cached_property
    def extents(self) -> dict[str, int]:
        return {a.name: as_int(a.extent) for s in self.stages for a in (*s.axes, *s.reduce_axes)}

    @cached_property
    def reductions(self) -> tuple[Stage, ...]:
        return tuple(s for s in self.stages if s.combiner is not None)

    @cached_property
    def main(self) -> Stage:
        """The stage with the most work."""
        return max(self.stages, key=stage_flops)

    @cached_property
    def own_params(self) -> frozenset[str]:
        """Parameters that no stage of another group reads: a copy would be in its way."""
        others = (s for s in self.prim.stages if s not in self.stages)
        read = {n.buffer for s in others for n in walk(s.expr) if isinstance(n, Read)}
        return frozenset(p.name for p in self.prim.params if p.name not in read)

    @cached_property
    def cuts(self) -> dict[str, tuple[int, ...]]:
        """Points at which to cut the axes of maps, because a condition flips there.

        The innermost axis is also cut where its index into an operand reverses or jumps, but only
        into pieces that fill vectors. All pieces together make
        no more than a few bodies.
        """
        if self.reductions or not self.shared:
            return {}
        reduced = {a.name for s in self.prim.stages for a in s.reduce_axes}
        points_of: dict[str, set[int]] = {}
        for stage in self.stages:
            last = flips(stage.expr, self.extents).get(self.shared[-1], ())
            others = flips(stage.expr, self.extents, indices=False)
            for axis, points in {**others, self.shared[-1]: last}.items():
                if axis not in reduced:
                    points_of.setdefault(axis, set()).update(points)
        kept: dict[str, tuple[int, ...]] = {}
        bodies = 1
        for axis in reversed(self.shared):
            count = len(points_of.get(axis, ())) + 1
            short = axis == self.shared[-1] and self.extents[axis] < SPACE.min_piece * count
            if count > 1 and not short and bodies * count <= SPACE.max_bodies:
                kept[axis] = tuple(sorted(points_of[axis]))
                bodies *= count
        return kept

    @cached_property
    def typical(self) -> dict[str, Expr]:
        """The expression of every stage where its axes are in their longest pieces."""
        if not self.cuts:
            return {s.name: s.expr for s in self.stages}
        ranges = {
            axis: longest_piece(self.cuts.get(axis, ()), extent)
            for axis, extent in self.extents.items()
        }
        return {s.name: inside(s.expr, ranges) for s in self.stages}

    @cached_property
    def accesses(self) -> dict[str, tuple[Access, ...]]:
        """The reads of every stage, in the longest pieces."""
        return {s.name: accesses_of(self.prim, self.typical[s.name]) for s in self.stages}

    @cached_property
    def output_bytes(self) -> int:
        """Bytes of the results that leave the kernel from this nest."""
        outputs = [s.buffer for s in self.stages if s.name in self.prim.outputs]
        return sum(as_int(b.size) * b.dtype.bytes for b in outputs)

    @cached_property
    def bytes(self) -> int:
        """Bytes of the results, and of the parameters that this nest reads."""
        read = {a.buffer for reads in self.accesses.values() for a in reads}
        sizes = (as_int(p.size) * p.dtype.bytes for p in self.prim.params if p.name in read)
        return self.output_bytes + sum(sizes)

    @cached_property
    def flops(self) -> float:
        return sum(stage_flops(s) for s in self.stages)

    @cached_property
    def element_bytes(self) -> int:
        """Size of the widest element: what a vector's lanes are counted by.

        At least 4 where some are not contiguous: their vectors are built lane by lane.
        """
        least = 1 if all(self._is_smooth(s) for s in self.stages) else 4
        widths = [least, *(s.buffer.dtype.bytes for s in self.stages)]
        widths += [a.element_bytes for reads in self.accesses.values() for a in reads]
        return max(widths)

    def _is_smooth(self, stage: Stage) -> bool:
        axes = (*stage.axes, *stage.reduce_axes)
        last = axes[-1].name if axes else ""
        return all(a.stride(last) in (0, 1) and not a.irregular for a in self.accesses[stage.name])


def index_step(stage: Stage, buffer: str, axis: str) -> int | None:
    """Returns by how much an axis moves the index of ``buffer`` that it walks: the step in panels
    along it. None if that is not constant."""
    reads = (n for n in reads_of(stage.expr) if n.buffer == buffer)
    parts = [linear(i) for n in reads for i in n.plain_indices if axis in symbols(i)]
    return next((p[0][axis] for p in parts if p is not None), None)


def accesses_of(prim: PrimFunc, expr: Expr) -> tuple[Access, ...]:
    """Returns the distinct reads in an expression, with the stride along each axis."""
    buffers = prim.buffers
    accesses: list[Access] = []
    for node in walk(expr):
        if not isinstance(node, Read):
            continue
        buffer = buffers[node.buffer]
        step, reached, has_look_up = 1, 1, False
        strides: dict[str, int] = {}
        irregular: set[str] = set()
        runs: dict[str, int] = {}
        for i, size in reversed(list(zip(node.indices, buffer.shape, strict=True))):
            is_fixed = False
            # An index from data has no stride along the axes that its look-up depends on; where
            # there are none, it is one place of the buffer's axis.
            if not isinstance(i, int | Dim):
                looked_up = {
                    name
                    for inner in walk(i)
                    if isinstance(inner, Read)
                    for j in inner.indices
                    if isinstance(j, Dim)
                    for name in symbols(j)
                }
                irregular |= looked_up
                has_look_up, is_fixed = True, not looked_up
                runs.update(dict.fromkeys(looked_up, 1))
            elif isinstance(i, Dim):
                # Quotients and remainders have none either, but may stay over runs of an axis.
                parts = linear(i)
                if parts is None:
                    irregular |= symbols(i)
                for name in symbols(i):
                    runs[name] = gcd(runs.get(name, 0), _run(i, name))
                for name, coefficient in parts[0].items() if parts is not None else ():
                    strides[name] = strides.get(name, 0) + coefficient * step
            step *= as_int(size)
            reached *= 1 if is_fixed else as_int(size)
        accesses.append(
            Access(
                node.buffer,
                buffer.dtype.bytes,
                strides,
                frozenset(irregular),
                reached,
                {name: run for name, run in runs.items() if run > 1},
                has_look_up,
            )
        )
    return tuple(accesses)


def _run(index: Dim, axis: str) -> int:
    """For how many steps from a multiple of it on the axis leaves an index alone."""
    run = 0
    for mono, _ in index.terms:
        for atom in mono:
            if isinstance(atom, FloorDiv) and atom.left == symbol(axis):
                run = gcd(run, atom.right) if isinstance(atom.right, int) else 1
            elif axis in symbols(Dim((((atom,), 1),))):
                run = 1
    return run or 1


def groups_of(prim: PrimFunc) -> tuple[Group, ...]:
    """The stages cut into runs that can share the loops of their common axes."""
    groups: list[Group] = []
    run: list[Stage] = []
    shared: tuple[str, ...] = ()
    for stage in prim.stages:
        axes = tuple(a.name for a in stage.axes)
        common = tuple(name for name in shared if name in axes)
        if run and common and _may_join(run, stage, common):
            run.append(stage)
            shared = common
            continue
        if run:
            groups.append(Group(prim, tuple(run), shared))
        run, shared = [stage], axes
    groups.append(Group(prim, tuple(run), shared))
    return tuple(groups)


def _may_join(run: list[Stage], stage: Stage, common: tuple[str, ...]) -> bool:
    """True if ``stage`` reads the run only at the place it is at itself, along the common axes.

    A stage that reads nothing of the run may always join: two nests could not walk axes of one
    name in different ways.
    """
    if any(tuple(a.name for a in s.axes if a.name in common) != common for s in (*run, stage)):
        return False
    made = {s.name: s for s in run}
    for node in walk(stage.expr):
        if not isinstance(node, Read) or node.buffer not in made:
            continue
        for axis, i in zip(made[node.buffer].axes, node.indices, strict=True):
            if axis.name in common and (not isinstance(i, Dim) or i != symbol(axis.name)):
                return False
    return True
