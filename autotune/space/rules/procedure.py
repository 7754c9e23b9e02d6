"""The ``procedure`` rule: which independent loops of a procedure run on threads and in lanes.

The rule sees loops alone. The outermost independent loop of each statement may be shared among the
threads; the innermost one whose body data does not decide runs in vectors of the target, some at a
time. Constants of which such a loop reads row after row, a few vectors of each, are packed in
panels of these. Everything that is written in another way already stays as it is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from ....codegen.target import Target
from ....ir.dims import Dim, as_int, symbols
from ....ir.errors import ScheduleError
from ....ir.loop.expr import Read, walk
from ....ir.loop.kinds import LoopKind
from ....ir.loop.nest import Accumulate, Alloc, At, If, Loop, Sort, Stmt, Store, statements
from ....ir.loop.procedure import Procedure, executions
from ....ir.loop.stride import stride_along
from ....ir.schedule.limits import LIMITS
from ....ir.schedule.procedures import independent, scheduled
from ....ir.schedule.steps import Schedule, Step, pack, parallel, split, vectorize
from ..settings import PROCEDURES
from ..sketch import Sketch

Ranges = dict[str, tuple[int, int]]


def procedure_sketch(prim: Procedure, target: Target) -> Sketch:
    """Returns the sketch of a procedure's schedules."""
    shared = _by_name(prim, [loop for stmt in prim.body for loop in _outermost(stmt, {})])
    every = [loop for stmt in prim.body for loop in _lane_loops(stmt, {})]
    lanes = _by_name(prim, every)
    widths = {loop.var: target.lanes(_element_bytes(loop)) for loop in lanes}
    split_loops = {
        loop.var for loop in lanes for n in PROCEDURES.vectors if loop.trips > n * widths[loop.var]
    }
    longest = max((executions((loop,)) for loop in shared), default=0)
    inside = (s for loop in lanes for s in statements(loop.body))
    held = sum(as_int(s.buffer.size) for s in inside if isinstance(s, Alloc))
    # Code that keeps many values has registers for one vector of each.
    few = held * PROCEDURES.vectors[0] <= target.vector_registers
    vectors = PROCEDURES.vectors if few else sorted(PROCEDURES.vectors)

    strided = dict.fromkeys((name, loop.var) for loop in every for name in _strided(prim, loop))

    def build(**choices: int) -> Iterator[Step]:
        taken, in_parts = set[str](), set[str]()
        for loop in lanes:
            width = choices["vectors"] * widths[loop.var]
            if loop.trips > width:
                yield split(loop.var, (-(-loop.trips // width), width))
                yield vectorize(f"{loop.var}.1")
                taken.add(loop.var)
                in_parts.add(loop.var)
            elif loop.trips <= LIMITS.lanes:
                yield vectorize(loop.var)
                taken.add(loop.var)
        for name, var in strided if choices["pack"] else ():
            if var in in_parts:
                yield pack(name, f"{var}.1", choices["vectors"] * widths[var])
        for loop in shared if choices["parallel"] else ():
            if loop.var not in taken:
                yield parallel(loop.var)
            elif loop.trips > choices["vectors"] * widths[loop.var]:
                yield parallel(f"{loop.var}.0")

    first = vectors[0] if split_loops else 1
    packs = bool(strided) and _is_legal(prim, build(vectors=first, pack=1, parallel=0))
    knobs: dict[str, Sequence[int]] = {
        "vectors": vectors if split_loops else (1,),
        "pack": (1, 0) if packs else (0,),
        "parallel": ((1, 0) if longest >= PROCEDURES.worth_threads else (0, 1)) if shared else (0,),
    }
    return Sketch("procedure", build, **knobs)


def _is_legal(prim: Procedure, steps: Iterable[Step]) -> bool:
    try:
        scheduled(prim, Schedule(tuple(steps)))
    except ScheduleError:
        return False
    return True


def _strided(prim: Procedure, loop: Loop) -> list[str]:
    """Returns the constant operands of which a loop inside of a loop in lanes reads every row: a
    part as wide as the lanes, and then one that lies a row further."""
    rows = {s.var for s in statements(loop.body) if isinstance(s, Loop) and s.trips > 1}
    constants = {p.name for p in prim.params if p.constant}
    return list(
        dict.fromkeys(
            node.buffer
            for stmt in statements(loop.body)
            if isinstance(stmt, Store | Accumulate)
            for node in walk(stmt.value)
            if isinstance(node, Read) and node.buffer in constants
            if len(node.plain_indices) == len(node.indices) > 1
            if loop.var in symbols(node.plain_indices[-1])
            if any(not rows.isdisjoint(symbols(index)) for index in node.plain_indices[:-1])
        )
    )


def _by_name(prim: Procedure, loops: Sequence[Loop]) -> Sequence[Loop]:
    """One loop of each name of which all are among ``loops``: a step changes all of a name."""
    every = Counter(s.var for s in statements(prim.body) if isinstance(s, Loop))
    given = Counter(loop.var for loop in loops)
    return [loop for var, loop in {l.var: l for l in loops}.items() if given[var] == every[var]]


def _outermost(stmt: Stmt, ranges: Ranges) -> Iterator[Loop]:
    """Yields the outermost independent loop of a statement, if it has one at its top."""
    if isinstance(stmt, Loop) and stmt.kind == LoopKind.FOR and not isinstance(stmt, At):
        if stmt.trips > 1 and independent(stmt, ranges):
            yield stmt
        elif stmt.trips == 1:
            for below in stmt.body:
                yield from _outermost(below, {**ranges, stmt.var: (0, 0)})


def _lane_loops(stmt: Stmt, ranges: Ranges) -> Iterator[Loop]:
    """Yields the innermost loops that may run in lanes: independent, of more than one iteration,
    and along which most of what they touch is contiguous."""
    if isinstance(stmt, If):
        for below in (*stmt.then, *stmt.orelse):
            yield from _lane_loops(below, ranges)
    if not isinstance(stmt, Loop) or stmt.kind not in (LoopKind.FOR, LoopKind.PARALLEL):
        return
    inner = {**ranges, stmt.var: (0, stmt.trips - 1)}
    below = [loop for s in stmt.body for loop in _lane_loops(s, inner)]
    if below:
        yield from below
    elif not isinstance(stmt, At) and stmt.trips > 1 and _in_lanes(stmt, ranges):
        yield stmt


def _in_lanes(loop: Loop, ranges: Ranges) -> bool:
    inside = tuple(statements(loop.body))
    if any(isinstance(s, At | If | Sort) for s in inside):
        return False
    if any(isinstance(s, Loop) and s.kind == LoopKind.VECTORIZE for s in inside):
        return False
    return independent(loop, ranges) and _is_contiguous(loop, inside)


def _is_contiguous(loop: Loop, inside: Sequence[Stmt]) -> bool:
    """True if stores move by one element from lane to lane."""
    private = {s.buffer.name for s in inside if isinstance(s, Alloc)}
    for stmt in inside:
        if isinstance(stmt, Store | Accumulate) and stmt.buffer not in private:
            steps = [stride_along(i, loop.var) if isinstance(i, Dim) else 0 for i in stmt.indices]
            if any(s != 0 for s in steps[:-1]) or steps[-1:] != [1]:
                return False
    return True


def _element_bytes(loop: Loop) -> int:
    sizes = [
        node.dtype.bytes
        for s in statements(loop.body)
        if isinstance(s, Store | Accumulate)
        for node in walk(s.value)
        if isinstance(node, Read)
    ]
    return max([4, *sizes])
