"""Blocked sums: the number of additions to an accumulator is bounded, whatever the sum's length.

::

    registers acc: float32[64]              registers acc: float32[64]
    acc[..] = 0.0                           acc[..] = 0.0
    for k in 4096:                          for k.a in 256:
      vectorize l in 64:                      registers acc.block: float32[64]
        acc[l] += x[64 * k + l]               acc.block[..] = 0.0
                                     =>       for k.b in 16:
                                                vectorize l in 64:
                                                  acc.block[l] += x[1024 * k.a + 64 * k.b + l]
                                              acc[..] += acc.block[..]

and the sum over blocks in blocks again, until no accumulator is added to more often than a few
times the length of a block. The rounding error of a sum of ``n`` terms in blocks of ``b`` then
grows with ``b * log(n) / log(b)``, like that of a pairwise sum and unlike that of a running one,
which grows with ``n`` (N. Higham, The Accuracy of Floating Point Summation, SIAM J. Sci. Comput.
14, 1993).

This is a property of every nest, not a choice of schedules: schedules, their features and logs know
nothing of it. It costs an addition per accumulator and block. Where accumulators are few, those of
all levels are in registers, and blocks are short. Where they are many, as in the tile of a matrix
product, the outer ones are spilled, and blocks are long.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import prod

from ..dataclass import dataclass
from ..dims import IntExpr, as_int, ceildiv, int_min, symbol, symbols
from . import nest as nests
from .block_tiles import BLOCKS, adds_to, block_length, block_tiles, greatest
from .expr import Read, const, read, walk
from .kinds import LoopKind, Scope
from .nest import Accumulate, Alloc, If, Loop, Nest, Stmt, Store, rewritten, statements, substituted
from .prim import Buffer
from .stride import stride_along

LANE_SUMS = ".rf"
"""The end of the names of accumulators that ``rfactor`` makes: one sum for each lane."""


def block_sums(nest: Nest, register_bytes: int | None) -> Nest:
    """The nest with its long sums of floats in blocks; itself if there are none.

    ``register_bytes`` is the size of accumulators that leaves registers for as many of a block.
    With None only lanes have blocks, the same in all schedules.
    """
    if register_bytes is None:
        return nests.with_bodies(nest, lambda body: _with_blocks(body, frozenset(), True))
    large = frozenset(a.buffer.name for a in _large(nest, register_bytes))
    nest = nests.with_bodies(nest, lambda body: _with_blocks(body, large))
    summed = [a for a in _large(nest, register_bytes) if a.scope == Scope.REGISTERS]
    return block_tiles(nest, {a.buffer.name: BLOCKS.long_sum for a in summed})


def _large(nest: Nest, register_bytes: int) -> list[Alloc]:
    """Accumulators of more than so many bytes in some copy of their loops. All copies sum in the
    same order, those for the rest of a split as well: equal elements have equal sums."""
    allocs = (stmt for stmt in statements(nest.body) if isinstance(stmt, Alloc))
    return [a for a in allocs if _bytes(a.buffer) > register_bytes]


def _bytes(buffer: Buffer) -> int:
    return prod(as_int(n) for n in buffer.shape) * buffer.dtype.bytes


def _with_blocks(body: tuple[Stmt, ...], large: frozenset[str], fixed: bool = False) -> list[Stmt]:
    """Returns a body with private accumulators summed in blocks."""
    stmts, at = list(body), 0
    while at < len(stmts):
        alloc = stmts[at]
        at += 1
        if not isinstance(alloc, Alloc) or alloc.scope == Scope.TILES:
            continue
        if not alloc.buffer.dtype.is_float or _bytes(alloc.buffer) > BLOCKS.accumulator_bytes:
            continue
        if fixed and not alloc.buffer.name.endswith(LANE_SUMS):
            continue
        later = (n for n in range(at, len(stmts)) if _allocates(stmts[n], alloc.buffer.name))
        end = next(later, len(stmts))
        many = alloc.buffer.name in large
        sums = _Sum(alloc, many, many and _are_joined(alloc.buffer.name, stmts[at:end]), fixed)
        limited = [new for stmt in stmts[at:end] for new in sums.limited(stmt)]
        if sums.blocks:
            stmts[at:end] = limited
    return stmts


def _are_joined(name: str, stmts: Sequence[Stmt]) -> bool:
    """True if elements of an accumulator are lanes of a sum: a loop adds them to one place."""
    return any(
        isinstance(stmt, Accumulate)
        and stmt.buffer != name
        and not any(loop.var in symbols(i) for i in stmt.indices)
        and any(
            isinstance(n, Read)
            and n.buffer == name
            and any(loop.var in symbols(i) for i in n.plain_indices)
            for n in walk(stmt.value)
        )
        for loop in statements(tuple(stmts))
        if isinstance(loop, Loop)
        for stmt in statements(loop.body)
    )


def _allocates(stmt: Stmt, name: str) -> bool:
    return isinstance(stmt, Alloc) and stmt.buffer.name == name


@dataclass
class _Sum:
    """A private accumulator, and how often it may be added to."""

    alloc: Alloc
    many: bool  # more elements than fit the registers twice
    joined: bool  # they are many, and lanes of a sum
    fixed: bool = False  # blocks do not follow from the loops
    blocks: int = 0  # made so far

    @property
    def name(self) -> str:
        return self.alloc.buffer.name

    def limited(self, stmt: Stmt) -> list[Stmt]:
        """Returns a statement behind the allocation with its sums in blocks."""
        if not isinstance(stmt, Loop | If) or not adds_to(stmt, self.name):
            return [stmt]
        if isinstance(stmt, Loop) and stmt.kind != LoopKind.PARALLEL and self._only_adds(stmt):
            return self._in_blocks([stmt])[0]
        return [rewritten(stmt, lambda body: tuple(n for s in body for n in self.limited(s)))]

    def _only_adds(self, loop: Loop) -> bool:
        """True if a loop that adds to the accumulator does nothing else with it."""
        for stmt in statements(loop.body):
            if _allocates(stmt, self.name):
                return False
            if not isinstance(stmt, Store | Accumulate):
                continue
            if any(isinstance(n, Read) and n.buffer == self.name for n in walk(stmt.value)):
                return False
            if stmt.buffer == self.name and getattr(stmt, "combiner", "") != "sum":
                return False
        return True

    def _in_blocks(self, body: Sequence[Stmt]) -> tuple[list[Stmt], int]:
        """Returns statements that only add, in blocks, and the most additions to an element."""
        made: list[Stmt] = []
        count = 0
        for stmt in body:
            new, times = [stmt], int(isinstance(stmt, Accumulate) and stmt.buffer == self.name)
            if isinstance(stmt, If):
                then, some = self._in_blocks(stmt.then)
                orelse, others = self._in_blocks(stmt.orelse)
                new = [replace(stmt, then=tuple(then), orelse=tuple(orelse))]
                times = max(some, others)
            elif isinstance(stmt, Loop):
                inside, times = self._in_blocks(stmt.body)
                moves = self._moves_with(stmt)
                if stmt.kind == LoopKind.VECTORIZE:
                    times *= 1 if moves else -(-greatest(stmt.extent) // BLOCKS.joined_lanes)
                else:
                    new = [replace(stmt, body=tuple(inside))]
                    if times and not moves:
                        new, times = self._cut(new[0], times)
            made += new
            count += times
        return made, count

    def _moves_with(self, loop: Loop) -> bool:
        """True if the iterations of a loop add to different elements."""
        behind = {loop.var}
        for stmt in statements(loop.body):
            if isinstance(stmt, nests.Let) and symbols(stmt.value) & behind:
                behind.add(stmt.var)
            if not isinstance(stmt, Accumulate) or stmt.buffer != self.name:
                continue
            if any(symbols(i) & behind for i in stmt.indices):
                return True
        return False

    def _cut(self, loop: Loop, count: int) -> tuple[list[Stmt], int]:
        """Cuts a loop whose iterations each add ``count`` times to an element into blocks.

        Returns the loops over blocks, and how often they add to an element.
        """
        length, most = (
            (BLOCKS.long, BLOCKS.long_sum) if self.many else (BLOCKS.short, BLOCKS.short_sum)
        )
        most = min(most, BLOCKS.long) if self.joined else most
        if not isinstance(loop.extent, int):
            return self._cut_symbolic(loop, count, length, most, 1)
        if loop.extent * count <= most:
            return [loop], loop.extent * count
        size = max(1, length // count)
        size = size if self.fixed else block_length(loop.extent, size)
        if size == 1:
            return self._cut(replace(loop, body=tuple(self._block(loop.body))), 1)
        whole, rest = divmod(loop.extent, size)
        outer, inner = f"{loop.var}.a", f"{loop.var}.b"

        def block(at: IntExpr, extent: int) -> tuple[Stmt, ...]:
            values = {loop.var: at * size + symbol(inner)}
            body = tuple(substituted(stmt, values) for stmt in loop.body)
            return tuple(self._block([Loop(loop.kind, inner, extent, body)]))

        made, times = self._cut(Loop(loop.kind, outer, whole, block(symbol(outer), size)), 1)
        if rest:  # in a body of its own, with which its accumulators end
            made = [*made, Loop(LoopKind.UNROLL, outer, 1, block(whole, rest))]
            times += 1
        return made, times

    def _cut_symbolic(
        self, loop: Loop, count: int, length: int, most: int, level: int
    ) -> tuple[list[Stmt], int]:
        """The same for a loop of symbolic extent::

            for k in n:                     for k.a in (n + 15) // 16:
              acc += x[k]            =>       for k.b in min(16, n - 16 * k.a): ...

        The last block is shorter: its body is not written once more. The blocks of outer levels are
        long; beyond ``BLOCKS.levels`` the number of additions is that of the size.
        """
        times = greatest(loop.extent) * count
        if times <= most or level > BLOCKS.levels:
            return [loop], min(times, most)
        size = max(1, length // count)
        body = loop.body
        outer, inner = f"{loop.var}.a", f"{loop.var}.b"
        if size > 1:
            at = symbol(outer) * size
            values = {loop.var: at + symbol(inner)}
            body = tuple(substituted(stmt, values) for stmt in body)
            body = (Loop(loop.kind, inner, int_min(size, loop.extent - at), body),)
        blocks = Loop(loop.kind, outer, ceildiv(loop.extent, size), tuple(self._block(body)))
        if size == 1:
            blocks = replace(blocks, var=loop.var)
        return self._cut_symbolic(blocks, 1, BLOCKS.long, BLOCKS.long_sum, level + 1)

    def _block(self, body: Sequence[Stmt]) -> list[Stmt]:
        """Returns the statements with a block's accumulator, which is then added to this one."""
        self.blocks += 1
        block = replace(self.alloc.buffer, name=f"{self.name}.{self.blocks}")
        zero = const(0.0, block.dtype)
        return [
            replace(self.alloc, buffer=block),
            _each(block, body, self.name, lambda at: Store(block.name, at, zero)),
            *(_renamed(stmt, self.name, block.name) for stmt in body),
            _each(
                block,
                body,
                self.name,
                lambda at: Accumulate(self.name, at, "sum", read(block.name, at, block.dtype)),
            ),
        ]


def _each(
    buffer: Buffer, body: Sequence[Stmt], name: str, make: Callable[[tuple[IntExpr, ...]], Stmt]
) -> Stmt:
    """A statement for each element of an accumulator, its vectors along the same axis as in
    ``body``, where it is called ``name``."""
    sizes = [as_int(n) for n in buffer.shape]
    lanes = _lane_axis(body, name)
    at = tuple(symbol(f"{buffer.name}.{d}") if n > 1 else 0 for d, n in enumerate(sizes))
    stmt = make(at)
    order = sorted(range(len(sizes)), key=lambda d: (d == lanes, d))
    for d in reversed(order):
        if sizes[d] > 1:
            plain = LoopKind.UNROLL if prod(sizes) <= BLOCKS.unrolled else LoopKind.FOR
            kind = LoopKind.VECTORIZE if d == lanes else plain
            stmt = Loop(kind, f"{buffer.name}.{d}", sizes[d], (stmt,))
    return stmt


def _lane_axis(body: Sequence[Stmt], name: str) -> int | None:
    """The axis of an accumulator along which vectors add to it."""
    for loop in statements(tuple(body)):
        if isinstance(loop, Loop) and loop.kind == LoopKind.VECTORIZE:
            for stmt in statements(loop.body):
                if isinstance(stmt, Accumulate) and stmt.buffer == name:
                    for axis, index in enumerate(stmt.indices):
                        if stride_along(index, loop.var) == 1:
                            return axis
    return None


def _renamed(stmt: Stmt, old: str, new: str) -> Stmt:
    """A statement that adds to another buffer."""
    if isinstance(stmt, Accumulate) and stmt.buffer == old:
        return replace(stmt, buffer=new)
    return nests.map_bodies(stmt, lambda s: _renamed(s, old, new))
