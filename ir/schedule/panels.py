"""``pack_at``: panels of an operand that are made inside of a loop.

The part of the operand that the loops inside read is copied at the start of each iteration, into a
private buffer. Its extents follow from the statements of the loop: indices have a
part that the loops around fix, and one that the loops inside move within known bounds (GotoBLAS:
Goto and van de Geijn, Anatomy of High-Performance Matrix Multiplication, 2008).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from .. import dims
from ..dataclass import dataclass
from ..dim_proofs import prove
from ..errors import ScheduleError
from ..loop.expr import Read, map_reads, read, walk
from ..loop.kinds import LoopKind, Scope
from ..loop.nest import Alloc, Let, Loop, Prefetch, Stmt, Store, expressions, rewritten, statements
from ..loop.prim import Buffer, PrimFunc
from .limits import LIMITS, buffer_bytes
from .rows import Rows
from .schedule import Primitive
from .state import Panels, State
from .storage import walked_dimension

TRANSPOSED_ROWS = 16  # rows that are copied together where blocks have to be transposed

Ranges = Mapping[str, tuple[int, int]]


@Primitive
def pack_at(state: State, name: str, axis: str, tile: int, loop: str) -> State:
    """Copy what each iteration of a loop reads of a parameter into panels of ``tile`` elements
    along the dimension that ``axis`` walks.

    ::

        for j.0: for i: for k: for j.1: t[i, 16 * j.0 + j.1] += x[i, k] * w[k, 16 * j.0 + j.1]

        =>  for j.0: stack w.packed[p, k, 8]
                     for k: for p: for l in 8: w.packed[p, k, l] = w[k, 16 * j.0 + 8 * p + l]
                     for i: for k: for j.1:
                         t[i, 16 * j.0 + j.1] += x[i, k] * w.packed[j.1 // 8, k, j.1 % 8]

    The copy stays in L1 or L2 while the loops inside read it, and each thread makes the copy that
    it reads.
    """
    source = next((b for b in state.prim.params if b.name == name), None)
    taken = {*state.packs, *state.panels, *(p.source for p in state.packs.values())}
    if source is None or tile < 1 or name in taken:
        raise ScheduleError(f"pack_at: {name!r} is not a parameter that can be packed")
    state.require_loop(loop, "pack_at")
    if state.kinds.get(loop) in (LoopKind.VECTORIZE, LoopKind.UNROLL):
        raise ScheduleError(f"pack_at: {loop} runs in lanes or unrolled")
    dim = walked_dimension(state.prim, "pack_at", name, axis)
    panels = Panels(source, dim, tile, loop)
    return replace(state, panels={**state.panels, name: panels})


@pack_at.rows
def _pack_at_rows(rows: Rows, name: str, axis: str, tile: Any, loop: str) -> None:
    rows.pack(name, axis, tile, rows.depth_in(rows.parts(loop)[-1]))


@dataclass(frozen=True, slots=True)
class _Piece:
    """The part that is copied: its start per dimension, fixed by the loops around, and extents."""

    panels: Panels
    start: tuple[dims.IntExpr, ...]
    extents: tuple[dims.IntExpr, ...]
    buffer: Buffer

    def place(self, indices: Sequence[dims.IntExpr], ranges: Ranges) -> tuple[dims.IntExpr, ...]:
        """Returns the indices in the copy of an element of the source."""
        panels = self.panels
        inside = [index - start for index, start in zip(indices, self.start, strict=True)]
        along = inside.pop(panels.dim)
        packed = (dims.floordiv(along, panels.tile), *inside, dims.mod(along, panels.tile))
        return tuple(dims.resolve(i, ranges) for i in packed)


Blocks = Mapping[
    str, tuple[dims.IntExpr, dims.IntExpr]
]  # where an iteration begins on each axis, its size


def packed_inside(
    panels: Panels, body: Sequence[Stmt], around: Ranges, prim: PrimFunc, blocks: Blocks
) -> list[Stmt]:
    """Returns the body of an iteration of ``panels.loop``, preceded by the copy, which it reads
    instead of the source.

    ``around`` holds the bounds of the loops around; ``blocks`` what the iteration covers of each
    axis of ``prim``. Raises ScheduleError if the indices are not linear, or the piece cannot be
    shown to lie in the operand.
    """
    inside = statements(tuple(body))
    nodes = (n for stmt in inside for value in expressions(stmt) for n in walk(value))
    if not any(isinstance(n, Read) and n.buffer == panels.source.name for n in nodes):
        return list(body)
    if any(isinstance(stmt, Let) for stmt in inside):
        raise ScheduleError("pack_at: a loop inside is fused")
    piece = _piece(panels, prim, blocks, around)
    instead = _instead(piece, tuple(body), around if prim.sizes else {})
    return [Alloc(piece.buffer, Scope.STACK), *_copy(piece), *instead]


def _range(loop: Loop, around: Ranges) -> tuple[int, int]:
    """Returns the range of a loop's variable in numbers."""
    ends = dims.bounds(loop.extent, around)
    return 0, ends[1] - 1 if ends is not None else dims.LARGEST_SIZE


def _piece(panels: Panels, prim: PrimFunc, blocks: Blocks, around: Ranges) -> _Piece:
    """Returns the piece that stages read in a block. Its buffer has the greatest size that the
    piece may have."""
    source = panels.source
    extents = {a.name: a.extent for s in prim.stages for a in (*s.axes, *s.reduce_axes)}
    ranges = {axis: (0, extent - 1) for axis, extent in extents.items()}
    reads = (n for s in prim.stages for n in walk(s.expr) if isinstance(n, Read))
    nodes = dict.fromkeys(node.indices for node in reads if node.buffer == source.name)
    starts: list[dims.IntExpr] = []
    sizes: list[dims.IntExpr] = []
    most: list[int] = []
    for size, *indices in zip(source.shape, *nodes, strict=True):
        begins: list[dims.IntExpr] = []
        ends: list[dims.IntExpr] = []
        for index in indices:
            parts = dims.linear(index) if isinstance(index, int | dims.Dim) else None
            if (
                parts is None
                or not isinstance(index, int | dims.Dim)
                or not parts[0].keys() <= blocks.keys()
            ):
                raise ScheduleError("pack_at: an index is not linear in the loops")
            if not (prove(index, ">=", 0, ranges) and prove(index, "<", size, ranges)):
                raise ScheduleError(f"pack_at: the piece of {source.name} may reach outside of it")
            begin = end = parts[1]
            for axis, factor in parts[0].items():
                first, block = blocks[axis]
                begin = begin + first * factor + min(0, factor) * (block - 1)
                end = end + first * factor + max(0, factor) * (block - 1)
            begins.append(begin)
            ends.append(end + 1)
        start, extent = _united(begins, ends, source.name)
        bound = dims.bounds(extent, around)
        if bound is None or bound[1] > LIMITS.stack_bytes:
            raise ScheduleError(f"pack_at: the piece of {source.name} is not of bounded size")
        starts.append(start)
        sizes.append(extent)
        most.append(max(1, bound[1]))
    others = [n for dim, n in enumerate(most) if dim != panels.dim]
    shape = (-(-most[panels.dim] // panels.tile), *others, panels.tile)
    buffer = Buffer(f"{source.name}.packed", shape, source.dtype)
    if buffer_bytes([buffer]) > LIMITS.stack_bytes:
        raise ScheduleError(f"pack_at: the piece of {source.name} may be too large for the stack")
    return _Piece(panels, tuple(starts), tuple(sizes), buffer)


def _united(
    begins: Sequence[dims.IntExpr], ends: Sequence[dims.IntExpr], name: str
) -> tuple[dims.IntExpr, dims.IntExpr]:
    """Returns where all of some ranges begin, and how far they reach; ScheduleError if that
    depends on the loops around."""
    shifts = [begin - begins[0] for begin in begins]
    reaches = [end - begins[0] for end in ends]
    if len(begins) == 1:
        return begins[0], reaches[0]
    if not all(isinstance(n, int) for n in (*shifts, *reaches)):
        raise ScheduleError(f"pack_at: what is read of {name} begins at several places")
    low = min(map(dims.as_int, shifts))
    return begins[0] + low, max(map(dims.as_int, reaches)) - low


def _instead(piece: _Piece, body: Sequence[Stmt], ranges: Ranges) -> list[Stmt]:
    """Returns the statements with reads and prefetches of the copy instead of the source."""
    source = piece.panels.source

    def replaced(node: Read) -> Read | None:
        if node.buffer != source.name:
            return None
        return read(piece.buffer.name, piece.place(node.plain_indices, ranges), source.dtype)

    stmts: list[Stmt] = []
    for stmt in body:
        if isinstance(stmt, Prefetch) and stmt.buffer == source.name:
            place = piece.place(stmt.indices, ranges)
            stmts.append(Prefetch(piece.buffer.name, place, stmt.later))
            continue
        inner = {**ranges, stmt.var: _range(stmt, ranges)} if isinstance(stmt, Loop) else ranges

        def inside(body: Sequence[Stmt], inner: Ranges = inner) -> tuple[Stmt, ...]:
            return tuple(_instead(piece, body, inner))

        stmts.append(rewritten(stmt, inside, lambda value: map_reads(value, replaced)))
    return stmts


def _copy(piece: _Piece) -> list[Stmt]:
    """Returns the copying loops: along lines of the source, or by panels if it is transposed."""
    panels, buffer = piece.panels, piece.buffer
    names = [f"{buffer.name}.{d}" for d in range(len(piece.extents))]
    panel, lane = f"{buffer.name}.o", f"{buffer.name}.i"
    others = [d for d in range(len(piece.extents)) if d != panels.dim]
    strided = panels.dim != len(piece.extents) - 1
    along = piece.extents[panels.dim]
    whole, rest = dims.floordiv(along, panels.tile), dims.mod(along, panels.tile)

    def stored(at: dims.IntExpr, width: dims.IntExpr, steps: Mapping[int, dims.IntExpr]) -> Stmt:
        along = piece.start[panels.dim] + at * panels.tile + dims.symbol(lane)
        indices = [start + steps.get(d, 0) for d, start in enumerate(piece.start)]
        indices[panels.dim] = along
        value = read(panels.source.name, indices, panels.source.dtype)
        target = (at, *(steps[d] for d in others), dims.symbol(lane))
        return _loop(LoopKind.VECTORIZE, lane, width, (Store(buffer.name, target, value),))

    def each_panel(
        steps: Mapping[int, dims.IntExpr], wrap: Sequence[tuple[LoopKind, str, dims.IntExpr]]
    ) -> list[Stmt]:
        """Returns the vectors of all panels, with the loops of ``wrap`` around each vector."""
        made: list[Stmt] = []
        many: dims.IntExpr = 0 if whole in (0, 1) else dims.symbol(panel)
        for at, width, count in ((many, panels.tile, whole), (whole, rest, dims.int_min(1, rest))):
            if count == 0:
                continue
            stmt = stored(at, width, steps)
            for kind, name, extent in reversed(wrap):
                stmt = _loop(kind, name, extent, (stmt,))
            made.append(stmt if count == 1 else Loop(LoopKind.FOR, panel, count, (stmt,)))
        return made

    steps: dict[int, dims.IntExpr] = {d: dims.symbol(names[d]) for d in others}
    loops = [(LoopKind.FOR, names[d], piece.extents[d]) for d in others]
    # Contiguous panels are copied line by line. Strided ones need blocks of rows, unrolled, that
    # the emitter transposes in registers; the rows left over are a smaller block.
    if not strided:
        body = each_panel(steps, ())
    else:
        last = others[-1]
        loops.pop()
        body: list[Stmt] = []
        rows = piece.extents[last]
        blocks, left = dims.floordiv(rows, TRANSPOSED_ROWS), dims.mod(rows, TRANSPOSED_ROWS)
        inner = f"{names[last]}.1"
        if blocks != 0:
            at = dims.symbol(names[last]) * TRANSPOSED_ROWS + dims.symbol(inner)
            wrap = ((LoopKind.FOR, names[last], blocks), (LoopKind.UNROLL, inner, TRANSPOSED_ROWS))
            body += each_panel({**steps, last: at}, wrap)
        if left != 0:
            at = dims.symbol(inner) + blocks * TRANSPOSED_ROWS
            body += each_panel({**steps, last: at}, ((LoopKind.UNROLL, inner, left),))
    for kind, name, extent in reversed(loops):
        body = [Loop(kind, name, extent, tuple(body))]
    return body


def _loop(kind: LoopKind, name: str, extent: dims.IntExpr, body: tuple[Stmt, ...]) -> Loop:
    """A loop of a kind, or a plain one if its extent is not constant."""
    return Loop(kind if isinstance(extent, int) else LoopKind.FOR, name, extent, body)
