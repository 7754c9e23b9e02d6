"""Order the instructions of a block so that memory is read before it may be written over."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

from ..dims import size_symbols, typical
from ..pass_context import optional
from . import nodes
from .analysis import accesses, each_scope, is_straight_without_copies, regions, set_sizes, walk
from .in_place import InPlaceRule
from .lifetimes import place_lifetimes
from .liveness import Block, Liveness, Roots
from .verify import MOST_REGISTER_BYTES

LONGEST_BLOCK = 500
"""Instructions of a block up to which they are reordered; the cost grows as the square."""


@optional(level=2)
def order_reads(program: nodes.Program, safe: InPlaceRule) -> nodes.Program:
    """Move the readers of a value before the instruction that makes a changed copy of it, or that
    may write over it, in programs with control flow or copies.

    Before::

        program @main(@in %x: float32[99], @in %n: int64[], @out %y: float32[99], @out %s: int8[]) {
          call @zero(@out %s)
          %c = alloc float32[99]
          copy @in %x, @out %c
          for %i: int64[] < %n {
            %a = alloc float32[99]
            copy @in %c, @out %a
            call @set(@in %i, @inout %a)
            call @sum(@in %c, @out %s)
            copy @in %a, @out %c
            free %a
          }
          copy @in %c, @out %y
          free %c
        }

    After::

        program @main(@in %x: float32[99], @in %n: int64[], @out %y: float32[99], @out %s: int8[]) {
          call @zero(@out %s)
          %c = alloc float32[99]
          copy @in %x, @out %c
          for %i: int64[] < %n {
            call @sum(@in %c, @out %s)
            %a = alloc float32[99]
            copy @in %c, @out %a
            call @set(@in %i, @inout %a)
            copy @in %a, @out %c
            free %a
          }
          copy @in %c, @out %y
          free %c
        }

    Of several instructions that read a value, the last copy is the one that had better be the last
    of all, or else the last kernel for which ``safe`` holds.
    """
    if is_straight_without_copies(program):
        return program
    return each_scope(program, partial(_ordered, safe=safe))


def _ordered(program: nodes.Program, safe: InPlaceRule) -> nodes.Program:
    order = _Order(program, safe)
    body = order.block(order.live.top)
    return place_lifetimes(replace(program, body=body)) if order.changed else program


class _Order:
    def __init__(self, program: nodes.Program, safe: InPlaceRule) -> None:
        self.live = Liveness(program)
        self.bytes = {name: region.nbytes for name, region in regions(program).items()}
        names = set_sizes(program)  # of each, a bit above those of memory
        self.sizes = {name: 1 << len(self.live.bits) + n for n, name in enumerate(names)}
        self.safe = safe
        self.changed = False

    def block(self, block: Block) -> tuple[nodes.Instr, ...]:
        """The instructions of a block in a better order. Declarations come first:
        ``place_lifetimes`` says where they stand."""
        steps: list[int] = []
        declared: list[nodes.Instr] = []
        for n, instr in enumerate(block.instrs):
            if isinstance(instr, nodes.Alloc | nodes.Alias):
                declared.append(instr)
            elif not isinstance(instr, nodes.Free):
                steps.append(n)
        order = list(steps)
        if len(steps) <= LONGEST_BLOCK:
            self.reorder(block, order)
        self.changed = self.changed or order != steps
        nested = (
            nodes.with_nested_bodies(
                block.instrs[n], [self.block(inner) for inner in block.nested.get(n, ())]
            )
            for n in order
        )
        return (*declared, *nested)

    def reorder(self, block: Block, order: list[int]) -> None:
        read: dict[int, Roots] = {}
        written: dict[int, Roots] = {}
        for n in order:
            read[n], written[n] = self.touched(block.instrs[n])
        last: dict[Roots, int] = {}
        for copies in (False, True):  # copies win
            for n in order:
                for root in self.changed_by(block.instrs[n], copies):
                    last[root] = n
        for root, n in last.items():
            self.move_readers(block, order, n, root, read, written)

    def changed_by(self, instr: nodes.Instr, copies: bool) -> Iterator[Roots]:
        """The roots that an instruction may write over if it is the last to read them."""
        live = self.live
        if copies:
            if isinstance(instr, nodes.Copy) and self.is_large(instr.source):
                yield live.bit(instr.source)
            return
        if not isinstance(instr, nodes.Call):
            return
        for i, one in enumerate(instr.operands):
            for o, other in enumerate(instr.operands):
                if (one.access, other.access) == (nodes.Access.IN, nodes.Access.OUT):
                    same = self.bytes[one.name] == self.bytes[other.name]
                    if same and self.is_large(one.name) and self.safe(instr, i, o):
                        yield live.bit(one.name)

    def is_large(self, name: str) -> bool:
        return self.live.is_whole(name) and typical(self.bytes[name]) > MOST_REGISTER_BYTES

    def move_readers(
        self,
        block: Block,
        order: list[int],
        changer: int,
        root: Roots,
        read: dict[int, Roots],
        written: dict[int, Roots],
    ) -> None:
        """Moves what reads ``root`` after the changer before it, with all that this depends on; not
        if a reader needs the changer, or if the value is read later still."""
        begin = end = order.index(changer)
        moved: set[int] = set()
        for at in range(begin + 1, len(order)):
            if read[order[at]] & root:
                moved |= self.needed(order[begin:at], order[at], read, written)
                end = at
            if written[order[at]] & root:
                break
        if not moved or changer in moved or self.live.after[block.positions[order[end]]] & root:
            return
        rest = order[begin:]
        order[begin:] = [n for n in rest if n in moved] + [n for n in rest if n not in moved]

    def needed(
        self, before: Sequence[int], n: int, read: dict[int, Roots], written: dict[int, Roots]
    ) -> set[int]:
        """Returns ``n`` and the instructions among ``before`` that have to stay before it."""
        needed = {n}
        reads, writes = read[n], written[n]
        for m in reversed(before):
            if written[m] & (reads | writes) or read[m] & writes:
                needed.add(m)
                reads, writes = reads | read[m], writes | written[m]
        return needed

    def touched(self, instr: nodes.Instr) -> tuple[Roots, Roots]:
        """The roots that an instruction reads and writes, with what is nested in it; and the sizes
        that data decides."""
        read: Roots = 0
        written: Roots = 0
        for inner in walk([instr]):
            if isinstance(inner, nodes.SetSize):
                written |= self.sizes[inner.size.name]
            elif self.sizes:
                given = inner.sizes if isinstance(inner, nodes.Call | nodes.Invoke) else ()
                touched = (self.bytes[name] for name, _ in accesses(inner))
                for name in size_symbols(*given, *touched):
                    read |= self.sizes.get(name, 0)
            if isinstance(inner, nodes.Swap):
                both = self.live.bits[inner.one] | self.live.bits[inner.other]
                read, written = read | both, written | both
            for name, access in accesses(inner):
                read |= self.live.bit(name) if access.reads else 0
                written |= self.live.bit(name) if access.writes else 0
        return read, written
