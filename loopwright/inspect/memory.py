"""Sums up the memory that calls of compiled code take: arena, weights, arguments, results.

::

    planned program -> sizes and lifetimes of its buffers, frames of its functions
    constants       -> weights as the kernels read them, and originals that are still held -> Memory
"""

from __future__ import annotations

import mmap
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..codegen.update_entry import update_arena
from ..driver.built import Built
from ..ir.dataclass import dataclass
from ..ir.dims import as_int, typical
from ..ir.dtype import Array
from ..ir.errors import UnsupportedError
from ..ir.graph.nodes import Module
from ..ir.graph.weights import constants_of
from ..ir.program.analysis import accesses, at_sizes, live_bytes, places, recursive_functions, walk
from ..ir.program.nodes import Alloc, Call, Free, Program, SetSize
from ..ir.program.planner import lower_bound
from ..text import bytes_text, table
from .notebook import folded_html, table_html, text_html

MOST_ROWS = 40
"""Buffers in the table, the largest; the rest are counted."""

CHART_WIDTH = 60
"""Columns of the chart of the arena."""

BARS = " ▁▂▃▄▅▆▇█"


@dataclass(frozen=True, slots=True)
class Buffer:
    """A buffer of the arena: ``nbytes`` at ``offset``, alive from the kernel call number ``begin``
    to the call ``end``, both inclusive and from 0, as the program's text has them: a call in a loop
    counts once. ``kernel`` writes it first; empty if a copy or a function does."""

    name: str
    nbytes: int
    offset: int
    begin: int
    end: int
    kernel: str


@dataclass(frozen=True, slots=True)
class Frame:
    """The scratch memory of a call of a ``function``. That of one which calls itself is on a stack
    (``recursive``), once for each call under way; others are buffers of their caller's arena."""

    function: str
    nbytes: int
    recursive: bool


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes that a call takes, and what is held between calls.

    ``weights`` are constants as the kernels read them, packed once; ``originals`` are constants
    that modules held by the compiled function still have beside them, those in mapped files not
    counted. One ``arena`` holds all ``buffers``; no plan for these kernels in this order is smaller
    than its ``lower_bound``, the most bytes alive at one time. Calls that run at the same time have
    an arena each. ``live`` are the bytes alive in each kernel call of the program itself.
    ``frames`` are those of its functions; the stack that recursion takes beyond the arena is not
    known. ``str`` is a table.
    """

    name: str
    weights: int
    originals: int
    arguments: int
    results: int
    arena: int
    lower_bound: int
    buffers: tuple[Buffer, ...]
    live: tuple[int, ...]
    frames: tuple[Frame, ...] = ()

    @property
    def held(self) -> int:
        """Bytes that stay between calls: weights, originals, and the arena for the next call."""
        return self.weights + self.originals + self.arena

    @property
    def peak(self) -> int:
        """Most bytes during a call, its arguments and results included."""
        return self.held + self.arguments + self.results

    def __str__(self) -> str:
        return _text(self)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        title, totals, *rest = _text(self).split("\n\n")
        chart = text_html("\n\n".join(rest)) if rest else ""
        rows = [
            (line[:10].strip(), *line[10:].strip().partition("   ")[::2])
            for line in totals.split("\n")
        ]
        page = table_html(title, ("", "bytes", ""), rows, left=(0, 2))
        return page + (folded_html("buffers of the arena", chart) if chart else "")


def memory_of(built: Built, modules: Sequence[Module], name: str = "") -> Memory:
    """Returns the memory of a build whose compiled function also holds ``modules``, for typical
    sizes where they are symbolic.

    Raises UnsupportedError for a build that does not say what it is made of.
    """
    if built.parts is None:
        raise UnsupportedError("this build does not say what it is made of")
    program = _at_typical_sizes(built.parts.program)
    sizes = ", ".join(f"{s.name} = {typical(s.expr)}" for s in built.parts.program.sizes)
    source = () if built.source is None else (built.source.module, built.source.lowered)
    packed = _memories(c.value for c in program.constants if c.value is not None)
    originals = _memories(value for m in (*source, *modules) for value in constants_of(m))
    calls = [i for i, instr in enumerate(walk(program.body)) if isinstance(instr, Call)]
    live = live_bytes(program)
    return Memory(
        name=f"{name} for {sizes}" if sizes else name,
        weights=sum(packed.values()),
        originals=sum(size for owner, size in originals.items() if owner not in packed),
        arguments=sum(as_int(region.nbytes) for region in program.inputs),
        results=sum(as_int(region.nbytes) for region in program.outputs),
        arena=as_int(program.scratch if built.update is None else update_arena(program)),
        lower_bound=lower_bound(program),
        buffers=tuple(_buffers(program, calls)),
        live=tuple(live[i] for i in calls),
        frames=tuple(_frames(program)),
    )


def _at_typical_sizes(program: Program) -> Program:
    def fixed(scope: Program) -> Program:
        by_data = [i.size for i in walk(scope.body) if isinstance(i, SetSize)]
        return at_sizes(scope, {s.name: typical(s.expr) for s in (*scope.sizes, *by_data)})

    return replace(fixed(program), functions=tuple(map(fixed, program.functions)))


def _memories(arrays: Iterable[Array]) -> dict[int, int]:
    """Returns the size of the memory behind arrays by the identity of its owner, once for arrays
    that share it. Pages of mapped files are the system's."""
    sizes: dict[int, int] = {}
    for array in arrays:
        owner = array
        base: Any = owner.base
        while isinstance(base, np.ndarray):
            owner, base = base, base.base
        if not isinstance(base, mmap.mmap):
            sizes[id(owner)] = owner.nbytes
    return sizes


def _buffers(program: Program, calls: Sequence[int]) -> Iterator[Buffer]:
    roots = places(program)
    writer: dict[str, str] = {}
    freed: dict[str, int] = {}
    for index, instr in enumerate(walk(program.body)):
        if isinstance(instr, Free):
            freed[instr.name] = index
        for name, access in accesses(instr):
            if access.writes:
                kernel = instr.kernel if isinstance(instr, Call) else ""
                writer.setdefault(roots[name].root, kernel)
    for index, instr in enumerate(walk(program.body)):
        if isinstance(instr, Alloc) and not instr.in_registers:
            region = instr.region
            first = min(bisect_left(calls, index), max(len(calls) - 1, 0))
            last = bisect_left(calls, freed[region.name]) - 1
            kernel = writer.get(region.name, "")
            offset, nbytes = as_int(instr.offset or 0), as_int(region.nbytes)
            yield Buffer(region.name, nbytes, offset, first, max(first, last), kernel)


def _frames(program: Program) -> Iterator[Frame]:
    recursive = recursive_functions(program)
    for function in program.functions:
        yield Frame(function.name, as_int(function.scratch), function.name in recursive)


def _text(memory: Memory) -> str:
    count = len(memory.buffers)
    bound = memory.lower_bound
    least = f"the lower bound for these kernels, {bytes_text(bound)}"
    over = f", {memory.arena / bound:.0%} of {least}" if bound else ""
    totals = [
        ("weights", memory.weights, "as the kernels read them"),
        ("originals", memory.originals, "of weights, still held beside them"),
        ("arena", memory.arena, f"{count} buffer{'' if count == 1 else 's'}{over}"),
        ("arguments", memory.arguments, ""),
        ("results", memory.results, ""),
    ]
    width = max(len(bytes_text(size)) for _, size, _ in totals)
    lines = [
        f"{name:<10} {bytes_text(size):>{width}}   {what}".rstrip() for name, size, what in totals
    ]
    parts = [f"{memory.name}   {bytes_text(memory.peak)} during a call", "\n".join(lines)]
    frames = [
        f"frame of @{f.function:<8} {bytes_text(f.nbytes):>{width}}   "
        + ("on the stack, for each call under way" if f.recursive else "in the arena of its caller")
        for f in memory.frames
    ]
    if frames:
        parts.append("\n".join(frames))
    if count and memory.live:
        parts.append(_chart(memory))
    if count:
        parts.append(_buffer_table(memory))
    return "\n\n".join(parts)


def _chart(memory: Memory) -> str:
    """Returns the bytes alive over the kernel calls as a line of bars."""
    columns = min(CHART_WIDTH, len(memory.live))
    highest = [int(max(part)) for part in np.array_split(memory.live, columns)]
    most = max(highest) or 1
    bars = "".join(BARS[-(-size * (len(BARS) - 1) // most)] for size in highest)
    return (
        f"arena in use, kernel call 0 to {len(memory.live) - 1}: at most {bytes_text(most)}\n{bars}"
    )


def _buffer_table(memory: Memory) -> str:
    head = ("buffer", "size", "at", "from", "to", "first written by")
    largest = sorted(memory.buffers, key=lambda b: -b.nbytes)[:MOST_ROWS]
    rows = [
        (f"%{b.name}", bytes_text(b.nbytes), str(b.offset), str(b.begin), str(b.end), b.kernel)
        for b in sorted(largest, key=lambda b: (b.begin, b.offset))
    ]
    text = table(head, rows, left=(0, 5))
    rest = len(memory.buffers) - len(rows)
    return text + (f"\nand {rest} smaller ones" if rest else "")
