"""Products of tiles of bytes: registers of 16 rows of 64 bytes, and one instruction for the product
of two of them (AMX).

A buffer in the scope ``tiles`` is kept in up to four tile registers while these loops add to it::

    tiles acc: int32[32, 32]
    ... = 0                                        tiles are cleared
    for p in 16:                                   any loops
      unroll i in 32:
        vectorize j in 32:
          unroll q in 16:
            unroll k in 4:
              acc[i, j] += int32(x[i, ...]) * int32(w.packed[..., q, j, k])
    out[...] = acc[...]                            tiles are stored to memory, and read from there

The rows of the left operand are loaded as they lie; the right one is packed in groups of four.
Where a nest is not of this kind, or the machine has no such registers, the buffer is one like any
other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from ...ir.dims import IntExpr, as_int
from ...ir.dtype import INT8
from ...ir.loop.expr import Const, Read
from ...ir.loop.kinds import LoopKind, Scope
from ...ir.loop.nest import Accumulate, Alloc, Loop, Stmt, Store, statements
from ...ir.loop.stride import stride_along
from .dots import GROUP, dot_of, plain_indices
from .memory import Env, Place
from .values import ValueEmitter
from .writer import Value

__all__ = ["TileBlock", "tile_block"]

ROWS = 16  # of a tile register
ROW_BYTES = 64
SIDE = 2  # tile registers of sums in each direction: four, and two for each operand
LEFT, RIGHT = SIDE * SIDE, SIDE * SIDE + SIDE  # the first registers of the operands


@dataclass(frozen=True, slots=True)
class Operand:
    """A read that a tile register holds: its rows lie ``pitch`` bytes apart."""

    place: Place
    flat: IntExpr
    pitch: int
    signed: bool


@dataclass(frozen=True)
class TileBlock:
    """The loops that multiply tiles, and where their sums go.

    ``clear`` is the statement that sets the sums to zero, ``add`` the one that holds the loops of
    the product, of which ``block`` is the outermost. ``depth`` counts bytes.
    """

    clear: Stmt
    add: Loop
    block: Loop
    row: str | None
    column: str
    inner: tuple[str, ...]
    sums: Accumulate
    left: Operand
    right: Operand
    rows: int
    columns: int
    depth: int

    # -- which tiles there are -----------------------------------------------------------------

    def pieces(self) -> Iterator[tuple[int, int]]:
        """(row, column) of every tile register of sums."""
        for i in range(-(-self.rows // ROWS)):
            for j in range(-(-self.columns // ROWS)):
                yield i, j

    def configuration(self) -> bytes:
        """What LDTILECFG reads: the palette, then bytes in a row and rows of every register."""
        data = bytearray(64)
        data[0] = 1
        for i, j in self.pieces():
            rows = min(ROWS, self.rows - ROWS * i)
            row_bytes = GROUP * min(ROWS, self.columns - ROWS * j)
            shapes = {
                SIDE * i + j: (rows, row_bytes),
                LEFT + i: (rows, self.depth),
                RIGHT + j: (self.depth // GROUP, row_bytes),
            }
            for register, (count, size) in shapes.items():
                data[16 + 2 * register], data[48 + register] = size, count
        return bytes(data)

    # -- code ----------------------------------------------------------------------------------

    def instead(
        self, e: ValueEmitter, loop: Callable[[Loop, Env], None]
    ) -> dict[int, Callable[[Env], None]]:
        """How the statements that clear the buffer and add to it are written, by their identity.
        ``loop`` writes any other loop."""

        def add(env: Env) -> None:
            if self.add is self.block:
                self.write_product(e, env)
            else:
                loop(self.add, env)
            self.write_back(e, env)

        return {
            id(self.block): lambda env: self.write_product(e, env),
            id(self.clear): lambda env: self.write_clear(e),
            id(self.add): add,
        }

    def write_clear(self, e: ValueEmitter) -> None:
        """Begin: the shapes of the registers, and zeros in those of the sums."""
        e.w.configure_tiles(self.configuration())
        for i, j in self.pieces():
            e.w.effect("llvm.x86.tilezero", _register(SIDE * i + j))

    def write_product(self, e: ValueEmitter, env: Env) -> None:
        """Add the products of this turn of the loops around."""
        signs = "".join("s" if operand.signed else "u" for operand in (self.left, self.right))
        loaded: set[int] = set()
        for i, j in self.pieces():
            wanted = ((RIGHT + j, self.right, (0, j)), (LEFT + i, self.left, (i, 0)))
            for register, operand, at in wanted:
                if register not in loaded:
                    loaded.add(register)
                    here = e.memory.address(operand.place, operand.flat, self._at(env, *at))
                    pitch = e.w.int(operand.pitch)
                    e.w.effect("llvm.x86.tileloadd64", _register(register), here, pitch)
            registers = [_register(r) for r in (SIDE * i + j, LEFT + i, RIGHT + j)]
            e.w.effect(f"llvm.x86.tdpb{signs}d", *registers)

    def write_back(self, e: ValueEmitter, env: Env) -> None:
        """Store the sums to the buffer's memory."""
        place = e.places[self.sums.buffer]
        flat = e.memory.flat_index(place, self.sums.indices)
        pitch = (stride_along(flat, self.row) or 0) if self.row else ROWS
        for i, j in self.pieces():
            here = e.memory.address(place, flat, self._at(env, i, j))
            row_bytes = e.w.int(pitch * place.buffer.dtype.bytes)
            e.w.effect("llvm.x86.tilestored64", _register(SIDE * i + j), here, row_bytes)
        place.version += 1

    def _at(self, env: Env, i: int, j: int) -> Env:
        for name in self.inner:
            env = env.bind(name, 0)
        if self.row is not None:
            env = env.bind(self.row, ROWS * i)
        return env.bind(self.column, ROWS * j)


def _register(number: int) -> Value:
    return Value(str(number), "i8")


def tile_block(e: ValueEmitter, alloc: Alloc, rest: Sequence[Stmt]) -> TileBlock | None:
    """How a buffer's sums can be kept in tile registers, None if they cannot.

    ``rest`` are the statements behind the allocation; the first must set all of the buffer to zero,
    the second add to it in the loops that the module's text shows.
    """
    name = alloc.buffer.name
    if alloc.scope != Scope.TILES or not e.target.has_tiles or len(rest) < 2:
        return None
    clear, add = rest[:2]
    if not _clears(clear, name) or not isinstance(add, Loop):
        return None
    path, sums = _path_to(add, name)
    if sums is None:
        return None
    kinds = [loop.kind for loop in path]
    dot = dot_of(path[-1])
    vectors = [n for n, kind in enumerate(kinds) if kind == LoopKind.VECTORIZE]
    if dot is None or len(vectors) != 1:
        return None
    (at,) = vectors
    column, inner = path[at], path[:at:-1]
    if len(inner) > 2 or any(loop.kind != LoopKind.UNROLL for loop in inner):
        return None
    row = path[at - 1] if at and kinds[at - 1] == LoopKind.UNROLL else None
    depth = GROUP * (inner[1].extent if len(inner) > 1 else 1)
    rows = row.extent if row else 1
    if max(rows, column.extent) > SIDE * ROWS or depth > ROW_BYTES:
        return None
    if rows * column.extent != as_int(alloc.buffer.size):
        return None
    names = (column.var, row.var if row else None, *(loop.var for loop in inner))
    for left, right in ((dot.left, dot.right), (dot.right, dot.left)):
        rows_of = _operand(e, left, names, columns=False)
        columns_of = _operand(e, right, names, columns=True)
        if rows_of is not None and columns_of is not None:
            break
    else:
        return None
    return TileBlock(
        clear,
        add,
        row or column,
        row.var if row else None,
        column.var,
        tuple(loop.var for loop in inner),
        sums,
        rows_of,
        columns_of,
        rows,
        column.extent,
        depth,
    )


def _clears(stmt: Stmt, name: str) -> bool:
    """Whether a statement does nothing but set a buffer to zero."""
    leaves = [s for s in statements((stmt,)) if not isinstance(s, Loop)]
    return all(
        isinstance(s, Store)
        and s.buffer == name
        and isinstance(s.value, Const)
        and s.value.value == 0
        for s in leaves
    )


def _path_to(stmt: Loop, name: str) -> tuple[list[Loop], Accumulate | None]:
    """The loops around the only statement of ``stmt``, which adds to a buffer."""
    path = [stmt]
    while len(path[-1].body) == 1 and isinstance(path[-1].body[0], Loop):
        path.append(path[-1].body[0])
    last = path[-1].body[0] if len(path[-1].body) == 1 else None
    return path, last if isinstance(last, Accumulate) and last.buffer == name else None


def _operand(
    e: ValueEmitter, node: Read, names: tuple[str | None, ...], columns: bool
) -> Operand | None:
    """A read as rows of a tile register, None if its elements do not lie so."""
    column, row, group, *outer = names
    place, indices = e.places.get(node.buffer), plain_indices(node)
    if place is None or indices is None:
        return None
    flat = e.memory.flat_index(place, indices)
    strides = {n: stride_along(flat, n) for n in names if n is not None}
    depth = strides[outer[0]] if outer and outer[0] else None
    if strides[group or ""] != 1:
        return None
    if columns:
        fits = strides[column or ""] == GROUP and (row is None or strides[row] == 0)
        pitch = depth if depth is not None else ROW_BYTES
    else:
        fits = strides[column or ""] == 0 and depth in (None, GROUP)
        pitch = strides[row] if row is not None else ROW_BYTES
    if not fits or not pitch:
        return None
    return Operand(place, flat, pitch, node.dtype == INT8)
