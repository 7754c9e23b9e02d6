"""Machine instructions in a nest, and what each means as loops.

An ``Intrinsic`` is a loop that an instruction runs as a whole. The loops stay below it: they are
its meaning, for the interpreter and for machines without the instruction.

::

    vectorize j in 48:                          vnni: in each lane, four products of bytes are
      unroll k in 4 by vnni:                    added to a sum; one factor has signs, one has none
        acc[i, j] += int32(x[i, 4 * p + k]) * int32(w[p, j, k])

    vectorize j in 48:                          bf16: two products of bfloat16 are added to a
      unroll k in 2 by bf16:                    float32, in any order; numbers below 2**-126 are
        acc[i, j] += float32(x[i, 2 * p + k]) * float32(w[p, j, k])        taken as zero

    tiles acc: int32[32, 32]                    amx: a buffer in registers of 16 rows of 64 bytes
    unroll i in 32 by amx.zero:
      vectorize j in 32:
        acc[i, j] = 0
    for p in 16:
      unroll i in 32 by amx.dot:                one row: the loop over i is not there
        vectorize j in 32:
          unroll q in 16:                       one group: the loop over q is not there
            unroll k in 4:
              acc[i, j] += int32(x[i, 64 * p + 4 * q + k]) * int32(w[p, q, j, k])
    unroll i in 32 by amx.store:                from here on the sums are in memory
      vectorize j in 32:
        acc[i, j] = acc[i, j]

    unroll t in 16 by transpose:                the lanes are strided, the iterations contiguous:
      vectorize l in 16 by [16]:                the vectors of all iterations are transposed in
        y[l, t] = exp(x[t, l])                  registers; by transpose.rows: rows are computed in a
                                                loop, into memory
    vectorize l in 8 by [8]:                    interleave: lanes are as many elements apart as
      unroll t in 2 by interleave:              there are iterations
        y[l, t] = x[t, l]

Which target has which of them is said by ``codegen/target.py``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..dataclass import dataclass
from ..dims import Dim, IntExpr, as_int, symbols
from ..dtype import DTYPES, INT32
from .expr import Const, Expr, Index, Op, Read, walk
from .kinds import Instruction, LoopKind
from .nest import Accumulate, Alloc, Intrinsic, Loop, Stmt, Store, chain, statements
from .prim import Buffer
from .stride import flat_index, stride_along

GROUP_BYTES = 4  # bytes of the elements of an operand whose products one lane adds up at once
ROWS = 16  # of a tile register
ROW_BYTES = 64
SIDE = 2  # tile registers of sums in each direction: four, and two for each operand
SHUFFLES = (Instruction.TRANSPOSE, Instruction.TRANSPOSE_ROWS, Instruction.INTERLEAVE)
INT8, BYTES = DTYPES["int8"], {DTYPES["int8"], DTYPES["uint8"]}

Buffers = Mapping[str, Buffer]


@dataclass(frozen=True, slots=True)
class DotKind:
    """An instruction that adds to each lane's sum the products of a group of elements: their dtypes
    by name, those of the operands in the order in which the instruction takes them."""

    left: str
    right: str
    sums: str
    group: int


DOTS: Mapping[str, DotKind] = {
    Instruction.VNNI: DotKind("uint8", "int8", "int32", 4),
    Instruction.BF16: DotKind("bfloat16", "bfloat16", "float32", 2),
    Instruction.MADD: DotKind("int16", "int16", "int32", 2),
}
"""The dot products of lanes, by the name that ``tensorize`` knows them by. A group is a word of 32
bits in either operand, and lanes are as many as words."""


@dataclass(frozen=True, slots=True)
class Dot:
    """``stmt.buffer[...] += left * right``, two values widened to the dtype of the sums: reads, or
    bytes that are unpacked (``read_in``)."""

    stmt: Accumulate
    left: Expr
    right: Expr


@dataclass(frozen=True, slots=True)
class Factor:
    """A read whose elements fill tile registers: its rows are ``pitch`` bytes apart."""

    buffer: str
    flat: IntExpr
    pitch: int
    signed: bool


@dataclass(frozen=True, slots=True)
class TileDot:
    """The loops of an ``amx.dot``: those of ``inner``, innermost first, make ``depth`` bytes."""

    sums: Accumulate
    row: str | None
    column: str
    inner: tuple[str, ...]
    left: Factor
    right: Factor
    rows: int
    columns: int
    depth: int


def is_instance(stmt: Intrinsic, lane: str | None, buffers: Buffers) -> bool:
    """True if the loops of an intrinsic are what its instruction does, inside of the vector loop
    ``lane``."""
    if stmt.instruction in DOTS:
        return is_dot(stmt.instruction, stmt, lane, buffers)
    if stmt.instruction in SHUFFLES:
        return all(isinstance(inner, Loop | Store) for inner in statements(stmt.body))
    if stmt.instruction == Instruction.AMX_DOT:
        return tile_dot_of(stmt, buffers) is not None
    stored = chain(stmt)[1]
    if not isinstance(stored, Store):
        return False
    if stmt.instruction == Instruction.AMX_ZERO:
        return is_zero(stored, stored.buffer)
    value, itself = stored.value, (stored.buffer, stored.indices)
    return isinstance(value, Read) and (value.buffer, value.indices) == itself


def is_zero(stmt: Stmt, buffer: str) -> bool:
    """True for a store of zero to a buffer."""
    if not isinstance(stmt, Store) or stmt.buffer != buffer:
        return False
    return isinstance(stmt.value, Const) and stmt.value.value == 0


def dot_of(loop: Loop) -> Dot | None:
    """The products that a loop over a group adds up; None if it does something else."""
    if loop.kind != LoopKind.UNROLL or len(loop.body) != 1:
        return None
    stmt = loop.body[0]
    if not isinstance(stmt, Accumulate) or stmt.combiner != "sum":
        return None
    value = stmt.value
    if not isinstance(value, Op) or value.name != "multiply":
        return None
    left, right = map(_widened, value.args)
    if left is None or right is None or any(stride_along(i, loop.var) != 0 for i in stmt.indices):
        return None
    is_group = all(node.dtype.bytes * loop.trips == GROUP_BYTES for node in (left, right))
    return Dot(stmt, left, right) if is_group else None


def _widened(expr: Expr) -> Expr | None:
    """The value that ``expr`` widens; None if its place comes from data."""
    inner = expr.args[0] if isinstance(expr, Op) and expr.name == "cast" else None
    node = read_in(inner) if inner is not None else None
    return inner if node is not None and len(node.plain_indices) == len(node.indices) else None


def read_in(value: Expr) -> Read | None:
    """Returns the read of which ``value`` takes some bits, moved and masked by what loops decide; a
    read itself. None for anything else."""
    while isinstance(value, Op) and value.name in ("bitwise_and", "right_shift"):
        value, by = value.args
        if any(isinstance(n, Read) for n in walk(by)):
            return None
    return value if isinstance(value, Read) else None


def _depends(value: Expr, *loops: str) -> bool:
    """True if bits are moved or masked in another way in each iteration of a loop."""
    inner = [n.value for n in walk(value) if isinstance(n, Index) and isinstance(n.value, Dim)]
    return any(loop in symbols(i) for i in inner for loop in loops)


def _flat(value: Expr, buffers: Buffers) -> IntExpr | None:
    node = read_in(value)
    if node is None or node.buffer not in buffers:
        return None
    return flat_index(buffers[node.buffer], node.plain_indices)


def is_dot(name: str, loop: Loop, lane: str | None, buffers: Buffers) -> bool:
    """True if a loop adds up a group as an instruction of ``DOTS`` does: one factor is shared by
    all lanes, and the other has the group of each lane contiguous."""
    dot, kind = dot_of(loop) if isinstance(loop.extent, int) else None, DOTS[name]
    if dot is None or lane is None or dot.stmt.value.dtype.name != kind.sums:
        return False
    if sorted([dot.left.dtype.name, dot.right.dtype.name]) != sorted([kind.left, kind.right]):
        return False
    apart: set[int | None] = set()
    for node in (dot.left, dot.right):
        flat = _flat(node, buffers)
        if flat is None or stride_along(flat, loop.var) != 1:
            return False
        apart.add(stride_along(flat, lane))
        shared = not isinstance(node, Read) and stride_along(flat, lane) == 0
        if shared or _depends(node, loop.var, lane):
            return False  # what all lanes share is spread as it is
    return apart == {0, kind.group}


def tile_dot_of(block: Loop, buffers: Buffers) -> TileDot | None:
    """Returns the roles of the loops of an ``amx.dot``; None if the instruction cannot run them."""
    path, sums = chain(block)
    kinds = [loop.kind for loop in path]
    if not isinstance(sums, Accumulate) or kinds.count(LoopKind.VECTORIZE) != 1:
        return None
    if not all(isinstance(loop.extent, int) for loop in path):
        return None
    dot = dot_of(path[-1])
    if dot is None or sums.value.dtype != INT32 or not {dot.left.dtype, dot.right.dtype} <= BYTES:
        return None
    at = kinds.index(LoopKind.VECTORIZE)
    row, column, inner = path[0] if at else None, path[at], path[:at:-1]
    unrolled = all(loop.kind == LoopKind.UNROLL for loop in (*path[:at], *inner))
    if at > 1 or len(inner) > 2 or not unrolled or sums.buffer not in buffers:
        return None
    depth = GROUP_BYTES * (inner[1].trips if len(inner) > 1 else 1)
    rows, columns = row.trips if row else 1, column.trips
    if max(rows, columns) > SIDE * ROWS or depth > ROW_BYTES:
        return None
    if rows * columns != as_int(buffers[sums.buffer].size):
        return None
    names = (column.var, row.var if row else None, *(loop.var for loop in inner))
    for left, right in ((dot.left, dot.right), (dot.right, dot.left)):
        rows_of = _factor(left, names, buffers, columns=False)
        columns_of = _factor(right, names, buffers, columns=True)
        if rows_of and columns_of:
            inside = tuple(loop.var for loop in inner)
            extents = rows, columns, depth
            return TileDot(sums, names[1], column.var, inside, rows_of, columns_of, *extents)
    return None


def tile_dot_behind(alloc: Alloc, rest: Sequence[Stmt], buffers: Buffers) -> TileDot | None:
    """Returns the loops that add to a buffer by tile instructions, among the statements behind its
    allocation; None if there are none."""
    for stmt in statements(tuple(rest[:2])):
        if isinstance(stmt, Intrinsic) and stmt.instruction == Instruction.AMX_DOT:
            dot = tile_dot_of(stmt, {**buffers, alloc.buffer.name: alloc.buffer})
            return dot if dot and dot.sums.buffer == alloc.buffer.name else None
    return None


def _factor(
    node: Expr, names: tuple[str | None, ...], buffers: Buffers, columns: bool
) -> Factor | None:
    """Returns a read as rows of a tile register; None if its elements have another layout."""
    flat = _flat(node, buffers) if isinstance(node, Read) else None
    if flat is None or not isinstance(node, Read):
        return None
    strides = [stride_along(flat, n) if n else 0 for n in names]
    column, row, group, depth = (*strides, None)[:4]
    if None in strides or group != 1 or column != (GROUP_BYTES if columns else 0):
        return None
    if columns:
        fits, pitch = row == 0, ROW_BYTES if depth is None else depth
    else:
        fits, pitch = depth in (None, GROUP_BYTES), row if names[1] else ROW_BYTES
    return Factor(node.buffer, flat, pitch, node.dtype == INT8) if fits and pitch else None
