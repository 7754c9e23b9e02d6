"""Let a kernel write over an operand that nobody reads again."""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol

from ..dims import IntExpr
from ..pass_context import optional
from .analysis import has_control_flow, merge, places, spans
from .lifetimes import place_lifetimes
from .nodes import Access, Alloc, Call, Instr, Operand, Program


class InPlaceRule(Protocol):
    """``rule(call, i, o)``: may operand ``o`` be written over the memory of operand ``i``? True
    only if the kernel reads each element of ``i`` no later than it writes what lies at the same
    place in ``o``. With ``begin``, ``o`` starts so many elements after the start of ``i``."""

    def __call__(self, call: Call, read: int, written: int, /, begin: IntExpr = ...) -> bool: ...


@optional(level=2)
def share_in_place(program: Program, safe: InPlaceRule) -> Program:
    """Give an output the memory of an input that dies with the call, where ``safe`` allows it.

    Before::

        program @main(@in %x: float32[4], @out %y: float32[2]) {
          %a = alloc float32[4]
          call @f(@in %x, @out %a)
          %b = alloc float32[4]
          call @relu(@in %a, @out %b)
          free %a
          call @g(@in %b, @out %y)
          free %b
        }

    After::

        program @main(@in %x: float32[4], @out %y: float32[2]) {
          %a = alloc float32[4]
          call @f(@in %x, @out %a)
          call @relu(@inout %a, @inout %a)
          call @g(@in %a, @out %y)
          free %a
        }

    When the output is a parameter of the program, the input is put into its memory instead.
    Programs with control flow are left to ``coalesce``.
    """
    if has_control_flow(program):
        return program
    sharing = _Sharing(program)
    body: list[Instr] = []
    for index, instr in enumerate(program.body):
        body.append(sharing.shared(instr, index, safe) if isinstance(instr, Call) else instr)
    if not sharing.into:
        return program
    return place_lifetimes(merge(replace(program, body=tuple(body)), sharing.roots()))


class _Sharing:
    """``into`` maps a root to the root whose memory it shares, ``last`` a memory to its last use,
    and ``homes`` an output to the last use of the input that it updates.
    """

    def __init__(self, program: Program) -> None:
        self.where = places(program)
        self.allocated = {i.region.name for i in program.body if isinstance(i, Alloc)}
        self.outputs = {r.name for r in program.outputs}
        used = spans(program)
        self.first = {root: first for root, (first, _) in used.items()}
        self.last = {root: last for root, (_, last) in used.items()}
        self.homes = {u.source: self.last.get(u.target, -1) for u in program.updates}
        self.into: dict[str, str] = {}

    def memory(self, root: str) -> str:
        while root in self.into:
            root = self.into[root]
        return root

    def roots(self) -> dict[str, str]:
        return {gone: self.memory(gone) for gone in self.into}

    def shared(self, call: Call, index: int, safe: InPlaceRule) -> Call:
        """The call with every pair of operands that may share memory marked ``@inout``."""
        roots = [self.where[o.name].root for o in call.operands]
        marked: set[int] = set()
        for o, written in enumerate(call.operands):
            if written.access is not Access.OUT:
                continue
            for i, read in enumerate(call.operands):
                if read.access is Access.IN and not marked & {i, o}:
                    alone = roots.count(roots[i]) == roots.count(roots[o]) == 1
                    if alone and self.fits(call, i, o, index) and safe(call, i, o):
                        self.join(roots[i], roots[o])
                        marked |= {i, o}
        operands = tuple(
            Operand(Access.INOUT, o.name) if k in marked else o for k, o in enumerate(call.operands)
        )
        return replace(call, operands=operands) if marked else call

    def fits(self, call: Call, i: int, o: int, index: int) -> bool:
        source, target = (self.where[call.operands[k].name] for k in (i, o))
        whole = self.where[source.root] == source and self.where[target.root] == target
        memory = self.memory(source.root)
        # The new value of an input must not be written while the input is still read.
        overwrites = target.root in self.homes and self.first[memory] < self.homes[target.root]
        return (
            whole
            and not overwrites
            and source.end == target.end
            and memory in self.allocated
            and self.last[memory] == index
            and self.first[target.root] == index
            and target.root in self.allocated | self.outputs
        )

    def join(self, source: str, target: str) -> None:
        memory = self.memory(source)
        if target in self.outputs:
            self.into[memory] = target
        else:
            self.into[target] = memory
            self.last[memory] = self.last[target]
