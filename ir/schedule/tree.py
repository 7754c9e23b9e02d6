"""The forest of loops that the stages of a scheduled PrimFunc share.

A stage that is computed at a loop joins the nest of the stages before it down to that loop. This
file also guards what sharing may not break: a value is read only after it is complete, and only by
the iteration that made it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from itertools import pairwise

from ..dataclass import dataclass
from ..dims import Dim, symbol
from ..errors import ScheduleError
from ..loop.expr import Read, walk
from ..loop.kinds import LoopKind
from ..loop.prim import Stage
from .state import State


@dataclass
class Branch:
    """A loop and the items of its body; ``stores`` are stages whose private buffers live here."""

    loop: str
    items: list[Branch | Leaf] = field(default_factory=list)
    stores: list[Stage] = field(default_factory=list)


@dataclass
class Leaf:
    """A stage below the loops it may share; ``inner`` are its separate loops.

    For a reduction: ``outer_reductions`` are its reduced loops above the tile, ``stored`` says that
    the tile is written to the stage's buffer, ``in_tile`` that readers read it from the tile.
    """

    stage: Stage
    inner: tuple[str, ...]
    outer_reductions: tuple[str, ...] = ()
    stored: bool = True
    in_tile: bool = False


@dataclass
class _Placed:
    leaf: Leaf
    path: tuple[Branch, ...]


def build_forest(state: State) -> list[Branch | Leaf]:
    """Returns the root nests in order; ScheduleError if the order would change the result."""
    _check_loops(state)
    stages = state.prim.stages
    wanted: dict[str, set[str]] = {}  # stage -> loops of its nest at which later stages join
    for position, stage in enumerate(stages):
        loop = state.at.get(stage.name)
        if loop is not None:
            if position == 0:
                raise ScheduleError(f"compute_at: {stage.name} is the first stage")
            for earlier in stages[:position]:
                wanted.setdefault(earlier.name, set()).add(loop)
    roots: list[Branch | Leaf] = []
    path: tuple[Branch, ...] = ()
    placed: dict[str, _Placed] = {}
    for stage in stages:
        loops = state.loops(stage)
        depth = _tree_depth(state, stage, loops, wanted.get(stage.name, set()))
        joined = _joined_prefix(state, stage, loops, path)
        if joined > depth:
            raise ScheduleError(f"{stage.name} joins a nest below the loop its tile lives in")
        path = path[:joined]
        for loop in loops[joined:depth]:
            branch = Branch(loop)
            (path[-1].items if path else roots).append(branch)
            path = (*path, branch)
        outer = tuple(l for l in loops[:depth] if state.is_reduction(stage, l))
        if outer and any(a.extent == 0 for a in stage.reduce_axes):
            raise ScheduleError(f"{stage.name} has nothing to reduce inside {outer[0]}")
        leaf = Leaf(stage, loops[depth:], outer)
        (path[-1].items if path else roots).append(leaf)
        placed[stage.name] = _Placed(leaf, path)
        _check_reads(state, stage, path, placed)
    for stage in stages:
        _place_storage(state, stage, placed)
    return roots


def firm_loops(state: State, forest: Sequence[Branch | Leaf]) -> frozenset[str]:
    """Returns the loops inside of which the rest of their axis must have a constant size: those
    around vector lanes, unrolled loops and register tiles (see ``loops.py``)."""
    firm: set[str] = set()
    for axis in state.extents:
        for outer, inner in pairwise(state.loops_of_axis(axis)):
            if state.kinds.get(inner) in (LoopKind.VECTORIZE, LoopKind.UNROLL):
                firm.add(outer)

    def look(items: Sequence[Branch | Leaf], around: tuple[str, ...]) -> None:
        for item in items:
            if isinstance(item, Branch):
                look(item.items, (*around, *state.parts(item.loop)))
            elif item.stage.combiner is not None:
                innermost = {state.axis_of(loop): loop for loop in around}
                firm.update(innermost[a.name] for a in item.stage.axes if a.name in innermost)

    look(forest, ())
    for axis in state.extents:  # a loop of one iteration decides nothing
        for outer, inner in reversed([*pairwise(state.loops_of_axis(axis))]):
            if inner in firm and state.block(outer) == state.block(inner):
                firm.add(outer)
    return frozenset(firm)


def _check_loops(state: State) -> None:
    """Checks that the loops of an axis are in order, and that threads share no accumulator."""
    seen: dict[str, list[str]] = {}
    for loop in state.order:
        for part in state.parts(loop):
            axis = state.axis_of(part)
            earlier = seen.setdefault(axis, [])
            if part != state.loops_of_axis(axis)[len(earlier)]:
                raise ScheduleError(f"reorder: {part} stands outside a loop it belongs into")
            earlier.append(part)
    for stage in state.prim.stages:
        for loop in state.loops(stage):
            if state.kinds.get(loop) == LoopKind.PARALLEL and state.is_reduction(stage, loop):
                raise ScheduleError(f"parallel: {stage.name} accumulates over {loop}")


def _tree_depth(state: State, stage: Stage, loops: tuple[str, ...], wanted: set[str]) -> int:
    """Returns the number of the stage's loops that are in the tree, to be shared."""
    joins = [loops.index(l) + 1 for l in wanted if l in loops]
    target = state.at.get(stage.name)
    if target is not None:
        if target not in loops:
            raise ScheduleError(f"compute_at: {stage.name} has no loop {target}")
        joins.append(loops.index(target) + 1)
    if stage.combiner is None:
        return max(joins, default=0)
    cache = state.caches.get(stage.name)
    if cache is not None:
        if cache.at not in loops:
            raise ScheduleError(f"cache_write: {stage.name} has no loop {cache.at}")
        depth = loops.index(cache.at) + 1
        if not any(state.is_reduction(stage, l) for l in loops[depth:]) and stage.reduce_axes:
            raise ScheduleError(
                f"cache_write: no reduced loop of {stage.name} is inside {cache.at}"
            )
    else:
        reduced = [n for n, l in enumerate(loops) if state.is_reduction(stage, l)]
        depth = reduced[0] if reduced else len(loops)
        vectors = {l for l in loops if state.kinds.get(l) == LoopKind.VECTORIZE}
        if vectors & {*loops[:depth]}:
            depth = min(depth, *(n for n, l in enumerate(loops) if l in vectors))
    if any(j > depth for j in joins):
        # Loops further in belong to the tile; whoever asked for them meant another nest.
        own_join = loops.index(target) + 1 if target is not None else 0
        if own_join > depth:
            raise ScheduleError(f"compute_at: {target} is inside the tile of {stage.name}")
    return depth


def _joined_prefix(
    state: State, stage: Stage, loops: tuple[str, ...], path: tuple[Branch, ...]
) -> int:
    target = state.at.get(stage.name)
    if target is None:
        return 0
    names = tuple(b.loop for b in path)
    if target not in names:
        raise ScheduleError(f"compute_at: no stage before {stage.name} runs in the loop {target}")
    joined = names.index(target) + 1
    if names[:joined] != loops[:joined]:
        raise ScheduleError(
            f"compute_at: {stage.name} runs {', '.join(loops[: loops.index(target) + 1])} "
            f"down to {target}, "
            f"the stages before it {', '.join(names[:joined])}"
        )
    return joined


def _shared(a: tuple[Branch, ...], b: tuple[Branch, ...]) -> int:
    count = 0
    for one, other in zip(a, b):
        if one is not other:
            break
        count += 1
    return count


def _check_reads(
    state: State, stage: Stage, path: tuple[Branch, ...], placed: dict[str, _Placed]
) -> None:
    """Checks that a stage in shared loops reads only values of the same iteration."""
    for node in walk(stage.expr):
        if not isinstance(node, Read) or node.buffer not in placed or node.buffer == stage.name:
            continue
        producer = placed[node.buffer]
        axes = {a.name: d for d, a in enumerate(producer.leaf.stage.axes)}
        for branch in path[: _shared(path, producer.path)]:
            for part in state.parts(branch.loop):
                axis = state.axis_of(part)
                if axis not in axes:
                    raise ScheduleError(
                        f"{stage.name} reads {node.buffer} before the loop {branch.loop} is done"
                    )
                at = node.indices[axes[axis]]
                if not isinstance(at, Dim) or at != symbol(axis):
                    raise ScheduleError(
                        f"{stage.name} reads {node.buffer}[{at}] inside the loop {branch.loop}, "
                        f"which makes {node.buffer}[{axis}]"
                    )


def _place_storage(state: State, stage: Stage, placed: dict[str, _Placed]) -> None:
    """Chooses between tile, private buffer and full buffer by the loops of the readers."""
    mine = placed[stage.name]
    readers = [
        p
        for p in placed.values()
        if p is not mine
        and any(isinstance(n, Read) and n.buffer == stage.name for n in walk(p.leaf.stage.expr))
    ]
    output = stage.name in state.prim.outputs
    shared = min((_shared(mine.path, p.path) for p in readers), default=0)
    partial = bool(mine.leaf.outer_reductions)
    if stage.combiner is not None:
        inside = [p for p in readers if _shared(mine.path, p.path) == len(mine.path)]
        mine.leaf.in_tile = bool(inside) and not partial and bool(mine.path)
        outside = len(inside) < len(readers) or not mine.leaf.in_tile
        mine.leaf.stored = output or outside
        if not mine.leaf.stored:
            return
    if not output and readers and shared:
        branch = mine.path[shared - 1]
        branch.stores.append(stage)
