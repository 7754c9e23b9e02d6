"""Blocks of a program, and the memory that is live in them: its content is read later on some path.

A backward analysis. A loop is gone through until nothing changes: what an iteration reads before it
writes is live at the end of the one before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeAlias

from .analysis import accesses, places
from .nodes import Access, Alloc, For, If, Instr, Program, Swap, While, nested_bodies

Roots: TypeAlias = int
"""A set of roots, as the sum of their bits: programs have thousands of them."""


class Block:
    """A body of a program, nested in instruction ``index`` of its ``parent``.

    ``iterated`` says that it is a part of a loop, ``position`` where its first instruction stands
    in the order of ``walk``, and ``size`` how many there are, nested ones included. ``nested`` are
    the blocks inside, by the index of their instruction.
    """

    def __init__(
        self,
        instrs: tuple[Instr, ...],
        position: int = 0,
        parent: Block | None = None,
        index: int = 0,
        iterated: bool = False,
    ) -> None:
        self.instrs = instrs
        self.parent = parent
        self.index = index
        self.iterated = iterated
        self.depth: int = 0 if parent is None else parent.depth + 1
        self.loops: int = iterated + (0 if parent is None else parent.loops)
        self.nested: dict[int, list[Block]] = {}
        self.positions: list[int] = []
        begin = position
        for n, instr in enumerate(instrs):
            self.positions.append(position)
            position += 1
            looping = isinstance(instr, While | For)
            for body in nested_bodies(instr):
                block = Block(body, position, self, n, looping)
                self.nested.setdefault(n, []).append(block)
                position += block.size
        self.size = position - begin

    def all(self) -> Iterator[Block]:
        """The block and those inside of it."""
        yield self
        for inner in self.nested.values():
            for block in inner:
                yield from block.all()

    def around(self) -> Iterator[Block]:
        """The block and those that it is nested in, from the inside out."""
        block: Block | None = self
        while block is not None:
            yield block
            block = block.parent

    def index_in(self, outer: Block) -> int | None:
        """The index of the instruction of ``outer`` that contains the block; None for itself."""
        for block in self.around():
            if block.parent is outer:
                return block.index
        return None


def common(some: Iterable[Block]) -> Block:
    """The innermost block that contains all of ``some``."""
    inner, *others = some
    for other in others:
        while inner is not other:
            if inner.depth < other.depth:
                inner, other = other, inner
            assert inner.parent is not None
            inner = inner.parent
    return inner


class Liveness:
    """``after[p]`` is live after the instruction at position ``p`` in the order of ``walk``, and
    ``entry[b]`` at the begin of block ``b``. ``places`` are those of the program,
    and ``bits`` its roots.

    ``touched`` gives the names that an instruction reads and writes, ``accesses`` or fewer.
    """

    def __init__(
        self,
        program: Program,
        touched: Callable[[Instr], Iterator[tuple[str, Access]]] = accesses,
    ) -> None:
        self.touched = touched
        self.places = places(program)
        roots = dict.fromkeys(place.root for place in self.places.values())
        self.bits: dict[str, Roots] = {root: 1 << n for n, root in enumerate(roots)}
        self.top = Block(program.body)
        self.after: list[Roots] = [0] * self.top.size
        self.entry: dict[Block, Roots] = {}
        self._block(self.top, sum(self.bits[name] for name in program.results))

    def bit(self, name: str) -> Roots:
        """The root of a name."""
        return self.bits[self.places[name].root]

    def is_whole(self, name: str) -> bool:
        """True if a name stands for all of its root."""
        place = self.places[name]
        return place == self.places[place.root]

    def _block(self, block: Block, live: Roots) -> Roots:
        """Returns what is live before a block, given what is after it."""
        for n in range(len(block.instrs) - 1, -1, -1):
            self.after[block.positions[n]] = live
            live = self._instr(block.instrs[n], block.nested.get(n, []), live)
        self.entry[block] = live
        return live

    def _instr(self, instr: Instr, nested: list[Block], live: Roots) -> Roots:
        match instr:
            case If(condition):
                then, orelse = (self._block(block, live) for block in nested)
                return then | orelse | self.bit(condition)
            case While(_, condition):
                head, body = nested
                before: Roots = 0
                while True:
                    tested = live | self._block(body, before) | self.bit(condition)
                    begin = self._block(head, tested)
                    if begin == before:
                        return begin
                    before = begin
            case For(index, extent):
                (body,) = nested
                # The loop itself reads its index at the end of each iteration.
                counter = self.bits[index.name]
                before = self._block(body, live | counter)
                while True:
                    begin = self._block(body, live | before | counter)
                    if begin == before:
                        break
                    before = begin
                if isinstance(extent, str):
                    return (before | live | self.bit(extent)) & ~counter
                return (before if extent else before | live) & ~counter
            case Alloc(region):
                return live & ~self.bits[region.name]
            case Swap(one, other):
                a, b = self.bits[one], self.bits[other]
                kept = live & ~(a | b)
                return kept | (b if live & a else 0) | (a if live & b else 0)
            case _:
                pass
        read: Roots = 0
        for name, access in self.touched(instr):
            if access.reads:
                read |= self.bit(name)
            elif self.is_whole(name):
                live &= ~self.bit(name)
        return live | read
