"""Let what is copied share memory with its copy, and kernels write over what nobody reads again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

from ..dataclass import dataclass
from ..dims import IntExpr, typical
from ..pass_context import optional
from . import analysis, nodes
from .in_place import InPlaceRule
from .lifetimes import place_lifetimes
from .liveness import Block, Liveness, Roots
from .verify import MOST_REGISTER_BYTES

SWAP_LEAST = 256
"""Bytes from which on two buffers in a loop are swapped rather than copied: pointers that change
are loads for the kernels, which a copy of a few cache lines does not cost."""


@optional(level=1)
def coalesce(program: nodes.Program, safe: InPlaceRule) -> nodes.Program:
    """Merge memory in programs with control flow or copies, so that few copies remain.

    Before::

        program @main(@in %x: float32[100], @in %n: int64[], @out %y: float32[100]) {
          %c = alloc float32[100]
          copy @in %x, @out %c
          for %i: int64[] < %n {
            %a = alloc float32[100]
            call @relu(@in %c, @out %a)
            copy @in %a, @out %c
            free %a
          }
          copy @in %c, @out %y
          free %c
        }

    After::

        program @main(@in %x: float32[100], @in %n: int64[], @out %y: float32[100]) {
          copy @in %x, @out %y
          for %i: int64[] < %n {
            call @relu(@inout %y, @inout %y)
          }
        }

    Two buffers may have the same memory if neither is written while the content of the other is
    still needed, except by a copy of one to the other (Chaitin, "Register allocation and spilling
    via graph coloring", 1982), or by a kernel that reads one of them for the last time and writes
    the other, where ``safe`` allows it. Copies are considered first, those of inner loops before
    the others, and then pairs of operands. A copy that remains in a loop, is large, and whose
    source ends there, becomes a ``swap``.
    """
    if analysis.is_straight_without_copies(program):
        return program
    return analysis.each_scope(program, partial(_coalesced, safe=safe))


def _coalesced(program: nodes.Program, safe: InPlaceRule) -> nodes.Program:
    while True:
        into = _Merging(program, safe).into()
        changed = _shared(analysis.merge(program, into)) if into else _with_swaps(program)
        if changed is program:
            return program
        program = place_lifetimes(changed)


@dataclass(slots=True, eq=False)
class _Class:
    """Roots with the same memory, and those that must not have it; ``fixed``: one is an output."""

    roots: Roots
    conflicts: Roots
    fixed: bool
    nbytes: IntExpr

    def meets(self, other: _Class) -> bool:
        return bool(self.conflicts & other.roots or other.conflicts & self.roots)


@dataclass(frozen=True, slots=True, order=True)
class _Wish:
    """Two roots that had better be one; the least wish comes first."""

    is_pair: bool  # of operands, not of a copy
    outside: int  # minus the number of loops around it
    gain: int  # minus its bytes
    position: int
    one: str
    other: str
    swappable: bool


class _Merging:
    """The classes of the roots of a program, and what is better merged."""

    def __init__(self, program: nodes.Program, safe: InPlaceRule) -> None:
        self.safe = safe
        self.live = Liveness(program)
        self.bytes = {name: region.nbytes for name, region in analysis.regions(program).items()}
        self.conflicts = dict.fromkeys(self.live.bits, 0)
        self.wishes: list[_Wish] = []
        for block in self.live.top.all():
            for position, instr in zip(block.positions, block.instrs, strict=True):
                self.visit(instr, position, block)
        outputs = dict.fromkeys(program.results)
        self.classes = {
            root: _Class(
                self.live.bits[root], self.conflicts[root], root in outputs, self.bytes[root]
            )
            for root in [*outputs, *_movable(program)]
        }
        for update in program.updates:  # the output had better be the memory of the input
            output, old = self.classes[update.source], self.live.bit(update.target)
            if not output.conflicts & old:
                output.roots |= old
        self.swappable: Roots = 0  # operands of copies that become swaps

    def visit(self, instr: nodes.Instr, position: int, block: Block) -> None:
        """Notes the roots that an instruction keeps apart, and those that it would rather join."""
        match instr:
            case nodes.Copy(source, target):
                kept = self.copy(source, target, position, block)
                self.conflict(target, self.live.after[position] & ~kept)
            case nodes.Call() | nodes.Invoke() | nodes.Library():
                self.call(instr, position, block)
            case nodes.Swap(one, other):
                both = self.live.bits[one] | self.live.bits[other]
                for name in (one, other):
                    self.conflict(name, self.live.after[position] | both)
            case _:
                pass

    def conflict(self, name: str, others: Roots) -> None:
        root = self.live.places[name].root
        self.conflicts[root] |= others & ~self.live.bits[root]

    def copy(self, source: str, target: str, position: int, block: Block) -> Roots:
        """Returns the root that may share memory with the target although it is live."""
        live = self.live
        if not live.is_whole(source) or not live.is_whole(target):
            self.conflict(target, live.bit(source))
            return 0
        dies = not live.after[position] & live.bit(source)
        large = block.loops > 0 and typical(self.bytes[source]) >= SWAP_LEAST
        self.wish(False, source, target, position, block, dies and large)
        return live.bit(source)

    def call(
        self, call: nodes.Call | nodes.Invoke | nodes.Library, position: int, block: Block
    ) -> None:
        live, touched = self.live, list(analysis.accesses(call))
        for o, (written, access) in enumerate(touched):
            if not access.writes:
                continue
            self.conflict(written, live.after[position])
            for i, (read, _) in enumerate(touched):
                if isinstance(call, nodes.Call) and self.in_place(call, i, o):
                    self.wish(True, read, written, position, block, False)
                else:
                    self.conflict(written, live.bit(read))

    def in_place(self, call: nodes.Call, i: int, o: int) -> bool:
        """True if operand ``o`` may be written over the memory of operand ``i``."""
        if max(i, o) >= len(call.operands):
            return False
        read, written = call.operands[i], call.operands[o]
        return (
            read.access is nodes.Access.IN
            and written.access is nodes.Access.OUT
            and self.live.is_whole(read.name)
            and self.live.is_whole(written.name)
            and self.bytes[read.name] == self.bytes[written.name]
            and self.safe(call, i, o)
        )

    def wish(
        self, pair: bool, one: str, other: str, position: int, block: Block, swappable: bool
    ) -> None:
        one, other = (self.live.places[n].root for n in (one, other))
        outside, gain = -block.loops, -typical(self.bytes[one])
        self.wishes.append(_Wish(pair, outside, gain, position, one, other, swappable))

    def into(self) -> dict[str, str]:
        """Merges what may be merged; returns the new root of each that has another now."""
        for wish in sorted(self.wishes):
            one, other = self.classes.get(wish.one), self.classes.get(wish.other)
            if one is None or other is None or one is other:
                continue
            if self.may_join(one, other):
                self.join(one, other)
            elif wish.swappable and not one.fixed and not other.fixed:
                self.swappable |= one.roots | other.roots
        first: dict[int, str] = {}
        into: dict[str, str] = {}
        for root in self.live.bits:  # outputs come first
            if root in self.classes:
                kept = first.setdefault(id(self.classes[root]), root)
                if kept != root:
                    into[root] = kept
        return into

    def may_join(self, one: _Class, other: _Class) -> bool:
        """An output is neither swapped nor in registers, so that one copy to it at the end may
        spare many before."""
        if one.meets(other):
            return False
        if not one.fixed and not other.fixed:
            return True
        small = typical(one.nbytes) <= MOST_REGISTER_BYTES
        swapped = self.swappable & (one.roots | other.roots)
        return not (small or swapped or (one.fixed and other.fixed))

    def join(self, one: _Class, other: _Class) -> None:
        one.roots |= other.roots
        one.conflicts |= other.conflicts
        one.fixed |= other.fixed
        for root, members in self.classes.items():
            if members is other:
                self.classes[root] = one


def _movable(program: nodes.Program) -> list[str]:
    """The allocations whose memory may be that of others."""
    swapped = analysis.swap_groups(program)
    allocated = (
        i for i in analysis.walk(program.body) if isinstance(i, nodes.Alloc) and not i.in_registers
    )
    return [i.region.name for i in allocated if i.region.name not in swapped]


def _shared(program: nodes.Program) -> nodes.Program:
    """The program without copies to the same place, and with operands that share marked so."""
    where = analysis.places(program)

    def shared(body: Sequence[nodes.Instr]) -> Iterator[nodes.Instr]:
        for instr in body:
            if isinstance(instr, nodes.Copy) and where[instr.source] == where[instr.target]:
                continue
            if isinstance(instr, nodes.Call | nodes.Invoke | nodes.Library):
                yield replace(instr, operands=_marked(instr.operands, where))
            else:
                nested = [tuple(shared(b)) for b in nodes.nested_bodies(instr)]
                yield nodes.with_nested_bodies(instr, nested)

    return replace(program, body=tuple(shared(program.body)))


def _marked(
    operands: Sequence[nodes.Operand], where: Mapping[str, analysis.Place]
) -> tuple[nodes.Operand, ...]:
    roots = [where[o.name].root for o in operands]
    written = {root for root, o in zip(roots, operands, strict=True) if o.access.writes}
    return tuple(
        nodes.Operand(nodes.Access.INOUT, o.name)
        if root in written and roots.count(root) > 1
        else o
        for root, o in zip(roots, operands, strict=True)
    )


def _with_swaps(program: nodes.Program) -> nodes.Program:
    live = Liveness(program)
    by_name = analysis.regions(program)
    movable = set(_movable(program)) | analysis.swap_groups(program).keys()

    def swapped(block: Block) -> Iterator[nodes.Instr]:
        for n, instr in enumerate(block.instrs):
            nested = [tuple(swapped(b)) for b in block.nested.get(n, ())]
            if not (isinstance(instr, nodes.Copy) and block.loops):
                yield nodes.with_nested_bodies(instr, nested)
                continue
            names = (instr.source, instr.target)
            roots = [live.places[name].root for name in names]
            whole = all(map(live.is_whole, names)) and movable.issuperset(roots)
            dies = not live.after[block.positions[n]] & live.bit(instr.source)
            large = typical(by_name[instr.source].nbytes) >= SWAP_LEAST
            yield nodes.Swap(*roots) if whole and dies and large and roots[0] != roots[1] else instr

    body = tuple(swapped(live.top))
    return program if body == program.body else replace(program, body=body)
