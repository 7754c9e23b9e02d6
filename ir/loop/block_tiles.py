"""Blocked sums of tiles: bounds the additions to an element in loops that add tiles to memory.

::

    for k.0 in 1000:                        for k.0.a in 63:
      ...                                     stack out.t1: float32[128]
      if index(k.0) == 0:                     out.t1[..] = 0.0
        out[j] = acc[j]                       for k.0.b in 16:
      else:                            =>       ...
        out[j] += acc[j]                        out.t1[j] += acc[j]
                                              if index(16 * k.0.a) == 0:
                                                out[j] = out.t1[j]
                                              else:
                                                out[j] += out.t1[j]

The counterpart of ``block_sums`` for reduced loops outside of the loops that tile the results. A
tile that is too large for the stack is left alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from math import prod

from .. import dims
from ..dataclass import dataclass
from ..dims import LARGEST_SIZE, IntExpr, bounds, ceildiv, int_min, size_symbols, symbol, symbols
from ..dtype import DType
from . import nest as nests
from .expr import Op, Read, const, index, index_value, op, read, walk
from .kinds import LoopKind, Scope
from .nest import Accumulate, Alloc, If, Let, Loop, Nest, Stmt, Store, chain, map_bodies, statements
from .prim import Buffer


@dataclass(frozen=True, slots=True)
class Blocks:
    """When sums are cut, and how many additions a block has; see docs/measurements.md. Of lanes
    that are joined to one sum no more than a block is left alone: with terms so few in all, the
    bound of a pairwise sum is small."""

    short: int = 16  # Additions where accumulators are few, as in NumPy's pairwise sums.
    short_sum: int = 64  # Additions of the longest sum that is left alone there.
    long: int = 128  # Where there are many: a block's end costs two memory accesses for each.
    long_sum: int = 256  # Additions of the longest sum that is left alone there.
    levels: int = 3  # Of a symbolic number of terms: 4 million in 64 blocks of blocks.
    joined_lanes: int = 16  # About the lanes that a reduction over a vector loop joins in a tree.
    accumulator_bytes: int = 1 << 17  # Of an accumulator that gets a second one on the stack.
    unrolled: int = 4096  # Elements of an accumulator in registers.
    tiles: int = 16  # Tiles of results in memory that are added up in a block.
    tiles_sum: int = 64  # Tiles that are left alone.
    tile_bytes: int = 1 << 17  # Of the tiles of a block, on the stack.


BLOCKS = Blocks()


def block_length(extent: int, most: int) -> int:
    """Returns the iterations per block, at most ``most``; a divisor of ``extent`` if there is one
    above half of that."""
    fits = [n for n in range(most, most // 2, -1) if extent % n == 0]
    return fits[0] if fits else most


def adds_to(stmt: Stmt, name: str) -> bool:
    """True if a statement, or one inside of it, adds to elements of a buffer."""
    if not isinstance(stmt, Loop | If):
        return isinstance(stmt, Accumulate) and stmt.buffer == name
    for inner in statements((stmt,)):
        if isinstance(inner, Accumulate) and inner.buffer == name:
            return True
    return False


def greatest(extent: IntExpr) -> int:
    """Returns an upper bound of the iterations of a loop."""
    around = dict.fromkeys(symbols(extent) - size_symbols(extent).keys(), (0, LARGEST_SIZE))
    inside = bounds(extent, around)
    return inside[1] if inside is not None else LARGEST_SIZE


def block_tiles(nest: Nest, limits: Mapping[str, int]) -> Nest:
    """The nest with its long sums of tiles in blocks; itself if there are none.

    ``limits`` has the additions to an element that are left alone, of buffers of which they are not
    ``BLOCKS.tiles_sum``.
    """
    stored = {s.buffer for s in statements(nest.body) if isinstance(s, Accumulate)}
    for buffer in [b for name, b in nest.buffers.items() if name in stored]:
        if buffer.dtype.is_float:
            tiles = _Tiles(buffer.name, buffer.dtype, limits.get(buffer.name, BLOCKS.tiles_sum))
            body = tuple(new for stmt in nest.body for new in tiles.limited(stmt))
            nest = replace(nest, body=body) if tiles.blocks else nest
    return nest


@dataclass(frozen=True, slots=True)
class _Sum:
    """A statement that adds to elements of a buffer, in the first iteration perhaps sets them.

    ``around`` are the loops between the reduced loop and the statement, ``inside`` those in it.
    """

    stmt: If | Accumulate
    around: tuple[Loop, ...]
    inside: Sequence[Loop]
    added: Accumulate

    def moves_with(self, var: str) -> bool:
        return any(var in symbols(i) for i in self.added.indices)

    @property
    def tile(self) -> tuple[Loop, ...]:
        return tuple(l for l in (*self.around, *self.inside) if self.moves_with(l.var))

    @property
    def times(self) -> int:
        """Number of times it adds to an element."""
        return prod(greatest(l.extent) for l in self.around if not self.moves_with(l.var))

    def each(self, make: Callable[[tuple[IntExpr, ...]], Stmt]) -> Stmt:
        """A statement for each element of the tile."""
        stmt = make(tuple(symbol(l.var) for l in self.tile))
        return _within(self.tile, stmt)


def _within(loops: Sequence[Loop], stmt: Stmt) -> Stmt:
    for loop in reversed(loops):
        stmt = replace(loop, body=(stmt,))
    return stmt


@dataclass
class _Tiles:
    """The sums of one buffer; up to ``most`` additions to an element are left alone."""

    name: str
    dtype: DType
    most: int
    blocks: int = 0  # made so far

    def limited(self, stmt: Stmt) -> list[Stmt]:
        """Returns a statement with its sums in blocks."""
        if not isinstance(stmt, Loop | If) or not adds_to(stmt, self.name):
            return [stmt]
        new = nests.rewritten(stmt, lambda body: tuple(n for s in body for n in self.limited(s)))
        return self._cut(new) if isinstance(new, Loop) and new.kind == LoopKind.FOR else [new]

    def _cut(self, loop: Loop) -> list[Stmt]:
        sums = self._sums(loop)
        if not sums:
            return [loop]
        times = max(s.times for s in sums)
        size = sum(prod(greatest(l.extent) for l in s.tile) for s in sums) * self.dtype.bytes
        if greatest(loop.extent) * times <= self.most or size > BLOCKS.tile_bytes:
            return [loop]
        if not isinstance(loop.extent, int):
            return self._cut_symbolic(loop, sums, max(1, BLOCKS.tiles // times))
        length = block_length(loop.extent, max(1, BLOCKS.tiles // times))
        if length == 1:
            return [loop]  # loops inside add to an element nearly as often: those are cut instead
        whole, rest = divmod(loop.extent, length)
        outer = f"{loop.var}.a"
        made = self._cut(
            Loop(LoopKind.FOR, outer, whole, self._block(loop, sums, symbol(outer), length))
        )
        if rest:
            made.append(
                Loop(LoopKind.UNROLL, outer, 1, self._block(loop, sums, whole, rest, length))
            )
        return made

    def _cut_symbolic(self, loop: Loop, sums: Sequence[_Sum], length: int) -> list[Stmt]:
        """The same for a loop of symbolic extent, whose last block may be shorter."""
        if length == 1:
            return [loop]
        outer = f"{loop.var}.a"
        left = loop.extent - symbol(outer) * length
        body = self._block(loop, sums, symbol(outer), int_min(length, left), length)
        return [Loop(LoopKind.FOR, outer, ceildiv(loop.extent, length), body)]

    def _sums(self, loop: Loop) -> list[_Sum]:
        """The sums in a loop over them; none if it does something else with the buffer."""
        local = {s.buffer.name for s in statements(loop.body) if isinstance(s, Alloc)}
        if self.name in local:
            return []
        lets = {s.var for s in statements(loop.body) if isinstance(s, Let)}
        sums: list[_Sum] = []
        for stmt, around in self._uses(loop.body, ()):
            reduction = self._sum(stmt, around)
            if reduction is None or reduction.moves_with(loop.var):
                return []
            if any(symbols(i) & lets for i in reduction.added.indices):
                return []
            sums.append(reduction)
        return sums

    def _uses(
        self, body: Sequence[Stmt], around: tuple[Loop, ...]
    ) -> Iterator[tuple[Stmt, tuple[Loop, ...]]]:
        """The statements that use the buffer, with the loops around them."""
        for stmt in body:
            if isinstance(stmt, Loop):
                yield from self._uses(stmt.body, (*around, stmt))
            elif any(self._touches(s) for s in statements((stmt,))):
                yield stmt, around

    def _touches(self, stmt: Stmt) -> bool:
        return isinstance(stmt, Store | Accumulate) and (
            stmt.buffer == self.name
            or any(isinstance(n, Read) and n.buffer == self.name for n in walk(stmt.value))
        )

    def _sum(self, stmt: Stmt, around: tuple[Loop, ...]) -> _Sum | None:
        if not isinstance(stmt, If):
            inside, added = chain(stmt)
        elif _zero_in_first(stmt) is None or [_as_sum(s) for s in stmt.then] != [*stmt.orelse]:
            return None
        else:
            inside, added = chain(stmt.orelse[0]) if len(stmt.orelse) == 1 else ((), stmt)
        if not isinstance(added, Accumulate) or added.combiner != "sum":
            return None
        if added.buffer != self.name or any(l.kind == LoopKind.PARALLEL for l in around):
            return None
        if any(isinstance(n, Read) and n.buffer == self.name for n in walk(added.value)):
            return None
        assert isinstance(stmt, If | Accumulate)
        return _Sum(stmt, around, inside, added)

    def _block(
        self, loop: Loop, sums: Sequence[_Sum], at: IntExpr, extent: IntExpr, length: int = 0
    ) -> tuple[Stmt, ...]:
        """``extent`` iterations that add to tiles of their own, which are then added to the
        buffer."""
        first = at * (length or extent)
        inner = f"{loop.var}.b"
        before: list[Stmt] = []
        after: list[Stmt] = []
        instead: dict[int, Stmt] = {}
        for one in sums:
            self.blocks += 1
            shape = tuple(greatest(l.extent) for l in one.tile)
            tile = Buffer(f"{self.name}.t{self.blocks}", shape, self.dtype)
            zero = const(0.0, self.dtype)
            before += [
                Alloc(tile, Scope.STACK),
                one.each(lambda place, tile=tile, zero=zero: Store(tile.name, place, zero)),
            ]
            place = tuple(symbol(l.var) for l in one.tile)
            added = replace(one.added, buffer=tile.name, indices=place)
            instead[id(one.stmt)] = _within(one.inside, added)
            start = {l.var: 0 for l in one.around if not one.moves_with(l.var)}
            after.append(self._flush(one, tile, {**start, loop.var: first}))
        body = tuple(
            nests.substituted(_replaced(stmt, instead), {loop.var: first + symbol(inner)})
            for stmt in loop.body
        )
        return (*before, Loop(LoopKind.FOR, inner, extent, body), *after)

    def _flush(self, one: _Sum, tile: Buffer, start: Mapping[str, IntExpr]) -> Stmt:
        """Add a tile to the buffer, or set it in the first iteration of all loops over sums."""
        place = tuple(symbol(l.var) for l in one.tile)
        value = read(tile.name, place, self.dtype)
        added = Accumulate(self.name, one.added.indices, "sum", value)
        inside = [l for l in one.inside if one.moves_with(l.var)]
        around = [l for l in one.around if one.moves_with(l.var)]
        stmt = _within(inside, added)
        if isinstance(one.stmt, If):
            iteration = _zero_in_first(one.stmt)
            assert iteration is not None
            iteration = dims.substitute(iteration, start)
            stored = _within(inside, Store(self.name, one.added.indices, value))
            if not isinstance(iteration, int):
                stmt = If(op("equal", index(iteration), index(0)), (stored,), (stmt,))
            elif iteration == 0:
                stmt = stored
        return _within(around, stmt)


def _zero_in_first(stmt: If) -> IntExpr | None:
    """The index that a condition compares with zero; None if it is another condition."""
    test = stmt.condition
    if not isinstance(test, Op) or test.name != "equal":
        return None
    value, zero = (index_value(a) for a in test.args)
    return value if zero == 0 else None


def _as_sum(stmt: Stmt) -> Stmt:
    """A statement that sets elements, adding to them instead."""
    if isinstance(stmt, Store):
        return Accumulate(stmt.buffer, stmt.indices, "sum", stmt.value)
    return map_bodies(stmt, _as_sum) if isinstance(stmt, Loop) else stmt


def _replaced(stmt: Stmt, instead: Mapping[int, Stmt]) -> Stmt:
    """Returns a statement in which others, identified by object, are replaced."""
    if id(stmt) in instead:
        return instead[id(stmt)]
    return map_bodies(stmt, lambda s: _replaced(s, instead))
