"""Make every allocation live exactly as long as it is used."""

from __future__ import annotations

from dataclasses import replace

from .analysis import accesses, regions, spans
from .nodes import Alias, Alloc, Free, Instr, Program

__all__ = ["place_lifetimes"]


def place_lifetimes(program: Program) -> Program:
    """Move each ``alloc`` to its first use and each ``free`` behind its last; drop unused names.

    An existing plan is discarded if anything changes. Before::

        program @main(@in %x: float32[4], @out %y: float32[4]) {
          %a = alloc float32[4]
          %b = alloc float32[4]
          %c = alloc float32[4]
          call @f(@in %x, @out %a)
          call @g(@in %a, @out %b)
          call @h(@in %b, @out %y)
          free %c
          free %b
          free %a
        }

    After::

        program @main(@in %x: float32[4], @out %y: float32[4]) {
          %a = alloc float32[4]
          call @f(@in %x, @out %a)
          %b = alloc float32[4]
          call @g(@in %a, @out %b)
          free %a
          call @h(@in %b, @out %y)
          free %b
        }
    """
    by_name = regions(program)
    allocated = {i.region.name for i in program.body if isinstance(i, Alloc)}
    sources = {i.region.name: i for i in program.body if isinstance(i, Alias)}
    ends: dict[int, list[str]] = {}
    for root, (_, last) in spans(program).items():
        if root in allocated:
            ends.setdefault(last, []).append(root)

    # Names are declared when the first instruction that touches them is met, aliases after what
    # they stand for; unused names never are.
    body: list[Instr] = []
    declared: set[str] = set()

    def declare(name: str) -> None:
        chain: list[Instr] = []
        while name not in declared and (name in sources or name in allocated):
            declared.add(name)
            alias = sources.get(name)
            chain.append(Alloc(by_name[name]) if alias is None else alias)
            name = name if alias is None else alias.source
        body.extend(reversed(chain))

    for index, instr in enumerate(program.body):
        if isinstance(instr, Alloc | Free | Alias):
            continue
        for name, _ in accesses(instr):
            declare(name)
        body.append(instr)
        body.extend(Free(root) for root in sorted(ends.get(index, ())))
    unplanned = [Alloc(i.region) if isinstance(i, Alloc) else i for i in program.body]
    if body == unplanned:
        return program
    return replace(program, body=tuple(body), arena=None)
