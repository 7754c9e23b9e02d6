"""Memory behind the names of a program, and the instructions that access it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from .nodes import Access, Alias, Alloc, Call, Copy, Free, Instr, Operand, Program, Region

__all__ = [
    "Place",
    "accesses",
    "fixed_regions",
    "live_bytes",
    "max_live_bytes",
    "merge",
    "places",
    "regions",
    "rename",
    "spans",
]


@dataclass(frozen=True, slots=True)
class Place:
    """Bytes ``begin`` to ``end`` (exclusive) of the memory of ``root``, which is not an alias."""

    root: str
    begin: int
    end: int

    def overlaps(self, other: Place) -> bool:
        return self.root == other.root and self.begin < other.end and other.begin < self.end


def places(program: Program) -> dict[str, Place]:
    """Returns the place of each name of the program; aliases are resolved to their root."""
    by_name = {r.name: Place(r.name, 0, r.nbytes) for r in fixed_regions(program)}
    for instr in program.body:
        if isinstance(instr, Alloc):
            region = instr.region
            by_name[region.name] = Place(region.name, 0, region.nbytes)
        elif isinstance(instr, Alias):
            source = by_name[instr.source]
            begin = source.begin + instr.offset
            by_name[instr.region.name] = Place(source.root, begin, begin + instr.region.nbytes)
    return by_name


def fixed_regions(program: Program) -> tuple[Region, ...]:
    """The regions that live as long as the program runs: inputs, outputs, constants."""
    return (*program.inputs, *program.outputs, *(c.region for c in program.constants))


def regions(program: Program) -> dict[str, Region]:
    """Every region of the program by name."""
    declared = [i.region for i in program.body if isinstance(i, Alloc | Alias)]
    return {r.name: r for r in (*fixed_regions(program), *declared)}


def accesses(instr: Instr) -> Iterator[tuple[str, Access]]:
    """The names whose memory an instruction reads or writes. Alloc, free, alias touch none."""
    if isinstance(instr, Call):
        for operand in instr.operands:
            yield operand.name, operand.access
        if instr.workspace is not None:
            yield instr.workspace, Access.OUT
    elif isinstance(instr, Copy):
        yield instr.source, Access.IN
        yield instr.target, Access.OUT


def spans(program: Program) -> dict[str, tuple[int, int]]:
    """The indices of the first and the last instruction that touch each root, both inclusive."""
    where = places(program)
    by_root: dict[str, tuple[int, int]] = {}
    for index, instr in enumerate(program.body):
        for name, _ in accesses(instr):
            root = where[name].root
            by_root[root] = (by_root.get(root, (index, index))[0], index)
    return by_root


def rename(instr: Instr, names: Mapping[str, str]) -> Instr:
    """``instr`` with the names it uses (not the one it declares) replaced."""

    def new(name: str) -> str:
        return names.get(name, name)

    match instr:
        case Call(kernel, operands, workspace, span):
            changed = tuple(Operand(o.access, new(o.name)) for o in operands)
            return Call(kernel, changed, None if workspace is None else new(workspace), span)
        case Copy(source, target):
            return Copy(new(source), new(target))
        case Alias(region, source, offset):
            return Alias(region, new(source), offset)
        case Free(name):
            return Free(new(name))
        case Alloc():
            return instr


def merge(program: Program, into: Mapping[str, str]) -> Program:
    """The program with each allocation named in ``into`` moved to the memory of another root.

    Both have equally many bytes. Where shape and dtype agree the name is replaced as well, else it
    becomes an alias. ``place_lifetimes`` has to follow: it corrects allocations and frees.
    """
    by_name = regions(program)
    names = {
        gone: root
        for gone, root in into.items()
        if (by_name[gone].shape, by_name[gone].dtype) == (by_name[root].shape, by_name[root].dtype)
    }
    body: list[Instr] = []
    for instr in program.body:
        if isinstance(instr, Alloc) and instr.region.name in into:
            name = instr.region.name
            if name not in names:
                body.append(Alias(instr.region, into[name]))
        elif not (isinstance(instr, Free) and instr.name in into):
            body.append(rename(instr, names))
    return replace(program, body=tuple(body))


def live_bytes(program: Program, alignment: int = 1) -> list[int]:
    """Returns the bytes that are allocated after each instruction of the body; a buffer counts as a
    multiple of ``alignment``."""
    sizes: dict[str, int] = {}
    live = 0
    after: list[int] = []
    for instr in program.body:
        if isinstance(instr, Alloc):
            size = -(-instr.region.nbytes // alignment) * alignment
            sizes[instr.region.name] = size
            live += size
        elif isinstance(instr, Free):
            live -= sizes[instr.name]
        after.append(live)
    return after


def max_live_bytes(program: Program, alignment: int = 1) -> int:
    """Returns the most bytes that are allocated at one time, a lower bound of every plan."""
    return max(live_bytes(program, alignment), default=0)
