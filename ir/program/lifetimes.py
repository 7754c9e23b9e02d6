"""Make every allocation live exactly as long as it is used."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from .analysis import accesses, each_scope, has_control_flow, swap_groups, walk
from .liveness import Block, Liveness, Roots, common
from .nodes import Alias, Alloc, Free, Instr, Program, Swap, nested_bodies, with_nested_bodies


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

    In loops and branches, memory is allocated in the innermost block that contains all uses, and
    outside of the loops around which its content is live.
    """
    return each_scope(program, _placed)


def _placed(program: Program) -> Program:
    body = _Lifetimes(program).body()
    unplanned = _unplanned(program.body)
    if body == unplanned:
        return program
    return replace(program, body=body, arena=None)


def _unplanned(body: tuple[Instr, ...]) -> tuple[Instr, ...]:
    return tuple(
        replace(i, offset=None)
        if isinstance(i, Alloc)
        else with_nested_bodies(i, [_unplanned(b) for b in nested_bodies(i)])
        for i in body
    )


class _Lifetimes:
    """``homes`` is the block in which each name is declared, and ``ends`` are the allocations that
    end after an instruction of a block."""

    def __init__(self, program: Program) -> None:
        self.top = Block(program.body)
        self.entry: dict[Block, Roots] = {}
        self.bits: dict[str, Roots] = {}
        if has_control_flow(program):  # liveness only matters around loops
            live = Liveness(program)
            self.top, self.entry, self.bits = live.top, live.entry, live.bits
        self.allocs = {i.region.name: i for i in walk(program.body) if isinstance(i, Alloc)}
        self.sources = {i.region.name: i for i in walk(program.body) if isinstance(i, Alias)}
        self.groups = swap_groups(program)
        self.uses: dict[str, list[tuple[Block, int]]] = {}
        for block in self.top.all():
            for index, instr in enumerate(block.instrs):
                for name in self.touched(instr):
                    self.use(name, block, index)
        self.homes = {name: self.home(name) for name in self.uses}
        for group in set(self.groups.values()):
            home = common(self.homes[name] for name in group)
            self.homes.update(dict.fromkeys(group, home))
        self.ends: dict[tuple[Block, int], list[str]] = {}
        for name in self.uses.keys() & self.allocs.keys():
            together = self.groups.get(name, frozenset([name]))
            last = max(self.last(member) for member in together)
            self.ends.setdefault((self.homes[name], last), []).append(name)
        self.declared: set[str] = set()

    def touched(self, instr: Instr) -> Iterator[str]:
        if isinstance(instr, Swap):
            yield from (instr.one, instr.other)
        for name, _ in accesses(instr):
            yield name

    def use(self, name: str, block: Block, index: int) -> None:
        """Notes a use of a name, and so of what it is an alias of."""
        while name in self.sources or name in self.allocs:
            self.uses.setdefault(name, []).append((block, index))
            if name in self.allocs:
                break
            name = self.sources[name].source

    def home(self, name: str) -> Block:
        blocks = {block: None for block, _ in self.uses[name]}
        home = common(blocks)
        if name not in self.allocs or home.depth == 0:
            return home
        for block, index in self.uses[name] if name in self.groups else ():
            if isinstance(block.instrs[index], Swap):
                loops = [b for b in block.around() if b.iterated]
                home = common([home, *(b.parent for b in loops[:1] if b.parent is not None)])
        for block in list(home.around()):
            if block.iterated and self.entry[block] & self.bits[name]:
                assert block.parent is not None
                home = block.parent
        return home

    def last(self, name: str) -> int:
        """The index in the name's home of the last instruction that uses it."""
        home = self.homes[name]
        return max(i if b is home else b.index_in(home) or 0 for b, i in self.uses[name])

    def body(self) -> tuple[Instr, ...]:
        return tuple(self.block(self.top))

    def block(self, block: Block) -> Iterator[Instr]:
        """Names are declared when the first instruction that touches them is met, aliases after
        what they stand for; unused names never are."""
        for index, instr in enumerate(block.instrs):
            if isinstance(instr, Alloc | Free | Alias):
                continue
            inside = block.nested.get(index)
            for inner in walk([instr]) if inside else (instr,):
                for name in self.touched(inner):
                    yield from self.declaration(name, block)
            if inside:
                instr = with_nested_bodies(instr, [tuple(self.block(b)) for b in inside])
            yield instr
            yield from map(Free, sorted(self.ends.get((block, index), ())))

    def declaration(self, name: str, block: Block) -> list[Instr]:
        chain: list[Instr] = []
        while name in self.homes and name not in self.declared:
            alias = self.sources.get(name)
            if self.homes[name] is block:
                self.declared.add(name)
                chain.append(replace(self.allocs[name], offset=None) if alias is None else alias)
            if alias is None:
                break
            name = alias.source
        return chain[::-1]
