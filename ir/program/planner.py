"""Give every allocation its place in one arena, and every function its frame."""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import count, pairwise

from ..dataclass import dataclass
from ..dim_proofs import prove
from ..dims import IntExpr, as_int, bounds, ceildiv, int_max, substitute, typical
from ..dtype import UINT8
from . import analysis
from .lifetimes import place_lifetimes
from .nodes import Alloc, Free, Instr, Invoke, Program, Region, nested_bodies, with_nested_bodies
from .verify import ARENA_ALIGNMENT

PAIRWISE_LIMIT = 1000
"""Allocations up to which orders other than the program's are tried; the cost grows as the square
(0.2 s at this many)."""


STATIC_BYTES = 1 << 20
"""An arena of at most so many bytes is planned for the upper bounds of the sizes: it is the same
for all of them."""

PAGE, PAGED_BYTES = 4096, 16 * 1024
"""Blocks of at least ``PAGED_BYTES`` start at the same place of a page: a load that follows a store
to the same place of another page waits for it on x86, unless both walk in step."""


@dataclass(frozen=True, slots=True)
class _Block:
    """``size`` bytes, a multiple of the alignment if it is a number, alive in instructions
    ``begin`` to ``end``."""

    name: str
    size: IntExpr
    begin: int
    end: int

    def meets(self, other: _Block) -> bool:
        return self.begin <= other.end and other.begin <= self.end


@dataclass(slots=True)
class _Slot:
    """Memory of some blocks that do not live at the same time."""

    size: IntExpr
    blocks: list[_Block]


def lower_bound(program: Program) -> int:
    """The most aligned bytes that are alive at one time: no arena can be smaller."""
    return analysis.max_live_bytes(program, ARENA_ALIGNMENT)


def plan_memory(program: Program) -> Program:
    """Set the offset of every ``alloc`` and the size of the arena.

    Each block goes into the smallest gap that fits between the blocks that live at the same time,
    for several orders of the blocks (largest first, longest-lived first, as the program has them);
    the smallest arena wins. Offsets are multiples of 64, those of large blocks of 4096. This is
    offline best fit, "greedy by size" in "Efficient Memory Management for Deep Neural Net
    Inference" (Pisarchyk and Lee, 2020).

    Where sizes are symbolic and may be large, a block goes into a *slot*: an earlier one whose
    blocks do not live at the same time, and of which it is proved that it is large enough, or that
    the block is the larger one. Offsets are sums of the sizes of slots.

    A block lives from its ``alloc`` to its ``free`` in the order of the text. That holds for loops,
    since what lives around one is allocated outside of it, and lets the two branches of an ``if``
    share memory. Each function has an arena of its own. Unless it is recursive, it becomes a region
    of its caller, the frame.
    """
    arenas: dict[str, Program] = {}
    planned: dict[str, Program] = {}
    recursive = analysis.recursive_functions(program)
    for function in _callees_first(program):
        scope = _planned(_with_frames(replace(function, constants=program.constants), arenas))
        planned[function.name] = replace(scope, constants=())
        if function.name not in recursive:
            arenas[function.name] = planned[function.name]
    main = _planned(_with_frames(program, arenas))
    new = replace(main, functions=tuple(planned[f.name] for f in program.functions))
    return program if new == program else new


def _callees_first(program: Program) -> list[Program]:
    """The functions, each behind those that it invokes, as far as none is recursive."""
    functions = {f.name: f for f in program.functions}
    ordered: dict[str, Program] = {}
    waiting = [(f, False) for f in reversed(program.functions)]
    seen: set[str] = set()
    while waiting:
        function, ready = waiting.pop()
        if ready:
            ordered[function.name] = function
        elif function.name not in seen:
            seen.add(function.name)
            waiting.append((function, True))
            callees = [i.function for i in analysis.walk(function.body) if isinstance(i, Invoke)]
            waiting.extend((functions[name], False) for name in callees)
    return list(ordered.values())


def _with_frames(program: Program, planned: Mapping[str, Program]) -> Program:
    """The program with frames for the functions in ``planned``, as large as their arenas."""
    taken = analysis.regions(program)

    def arena(invoke: Invoke) -> IntExpr | None:
        function = planned.get(invoke.function)
        if function is None or function.arena is None:
            return None
        names = (size.name for size in function.sizes)
        return substitute(function.arena, dict(zip(names, invoke.sizes, strict=True)))

    frames = {
        i.frame: arena(i)
        for i in analysis.walk(program.body)
        if isinstance(i, Invoke) and i.frame is not None
    }

    def framed(body: Sequence[Instr]) -> Iterator[Instr]:
        for instr in body:
            nested = [tuple(framed(b)) for b in nested_bodies(instr)]
            size = arena(instr) if isinstance(instr, Invoke) else None
            if isinstance(instr, Invoke) and instr.frame is None and size is not None:
                name = unused(f"{instr.function}.frame")
                yield Alloc(Region(name, (size,), UINT8))
                yield replace(instr, frame=name)
                yield Free(name)
            elif isinstance(instr, Alloc) and (size := frames.get(instr.region.name)) is not None:
                yield replace(instr, region=replace(instr.region, shape=(size,)))
            else:
                yield with_nested_bodies(instr, nested)

    def unused(name: str) -> str:
        region = Region(next(n for n in _numbered(name) if n not in taken), (), UINT8)
        taken[region.name] = region
        return region.name

    body = tuple(framed(program.body))
    return program if body == program.body else place_lifetimes(replace(program, body=body))


def _numbered(name: str) -> Iterator[str]:
    yield name
    yield from (f"{name}.{n}" for n in count(1))


def _planned(program: Program) -> Program:
    blocks = _blocks(program)
    offsets, arena = _packed([_largest(block) for block in blocks])
    if any(not isinstance(b.size, int) for b in blocks) and arena > STATIC_BYTES:
        symbolic = [b for b in blocks if not isinstance(b.size, int)]
        offsets, begin = _packed([b for b in blocks if isinstance(b.size, int)])
        in_slots, end = _in_slots(symbolic, -(-begin // PAGE) * PAGE)
        return replace(
            program, body=_with_offsets(program.body, {**offsets, **in_slots}), arena=end
        )
    return replace(program, body=_with_offsets(program.body, offsets), arena=arena)


def _largest(block: _Block) -> _Block:
    """The block with the upper bound of its size."""
    inside = bounds(block.size, {})
    assert inside is not None
    return replace(block, size=ceildiv(inside[1], ARENA_ALIGNMENT) * ARENA_ALIGNMENT)


def _in_slots(blocks: Sequence[_Block], begin: int) -> tuple[dict[str, IntExpr], IntExpr]:
    """Offsets from ``begin`` on of blocks whose sizes are symbolic, and where they end."""
    slots: list[_Slot] = []
    for block in sorted(blocks, key=lambda b: (-typical(b.size), b.begin)):
        idle = [s for s in slots if not any(block.meets(other) for other in s.blocks)]
        large = [s for s in idle if prove(block.size, "<=", s.size) is True]
        if idle:
            slot = (large or idle)[-1]  # the least of them at typical sizes
            slot.blocks.append(block)
            if not large:
                less = prove(slot.size, "<=", block.size) is True
                slot.size = block.size if less else int_max(slot.size, block.size)
        else:
            slots.append(_Slot(block.size, [block]))
    offsets: dict[str, IntExpr] = {}
    offset: IntExpr = begin
    # Small slots last: the others begin at pages.
    for slot in sorted(slots, key=lambda s: typical(s.size) < PAGED_BYTES):
        offsets.update((block.name, offset) for block in slot.blocks)
        unit = PAGE if typical(slot.size) >= PAGED_BYTES else ARENA_ALIGNMENT
        offset = offset + ceildiv(slot.size, unit) * unit
    return offsets, offset


def _packed(blocks: Sequence[_Block]) -> tuple[dict[str, IntExpr], int]:
    """Offsets of blocks whose sizes are numbers, and where they end."""
    ended = sorted((b.end, as_int(b.size)) for b in blocks)
    live = bound = ends = 0
    for block in blocks:
        while ended[ends][0] < block.begin:
            live -= ended[ends][1]
            ends += 1
        live += as_int(block.size)
        bound = max(bound, live)
    best: dict[str, int] | None = None
    arena = 0
    for order in _ORDERS:
        offsets = _place(order(blocks))
        needed = max((offsets[b.name] + as_int(b.size) for b in blocks), default=0)
        if best is None or needed < arena:
            best, arena = offsets, needed
        if arena == bound or len(blocks) > PAIRWISE_LIMIT:
            break
    assert best is not None
    return {**best}, arena


def _with_offsets(body: Sequence[Instr], offsets: Mapping[str, IntExpr]) -> tuple[Instr, ...]:
    return tuple(
        replace(i, offset=offsets.get(i.region.name))
        if isinstance(i, Alloc)
        else with_nested_bodies(i, [_with_offsets(b, offsets) for b in nested_bodies(i)])
        for i in body
    )


def _blocks(program: Program) -> list[_Block]:
    began: dict[str, tuple[int, Alloc]] = {}
    blocks: list[_Block] = []
    data = bool(analysis.set_sizes(program))
    for i, instr in enumerate(analysis.walk(program.body)):
        if isinstance(instr, Alloc) and not instr.in_registers:
            began[instr.region.name] = i, instr
        elif isinstance(instr, Free) and instr.name in began:
            begin, alloc = began[instr.name]
            size = (
                analysis.largest(program, [alloc.region])[0].nbytes if data else alloc.region.nbytes
            )
            if isinstance(size, int):
                size = ceildiv(size, ARENA_ALIGNMENT) * ARENA_ALIGNMENT
            blocks.append(_Block(instr.name, size, begin, i))
    return sorted(blocks, key=lambda b: b.begin)


def _in_order(blocks: Iterable[_Block]) -> list[_Block]:
    return list(blocks)


def _largest_first(blocks: Iterable[_Block]) -> list[_Block]:
    return sorted(blocks, key=lambda b: (-as_int(b.size), b.begin))


def _longest_first(blocks: Iterable[_Block]) -> list[_Block]:
    return sorted(blocks, key=lambda b: (b.begin - b.end, -as_int(b.size)))


_ORDERS: tuple[Callable[[Iterable[_Block]], list[_Block]], ...] = (
    _in_order,
    _largest_first,
    _longest_first,
)


def _place(blocks: Sequence[_Block]) -> dict[str, int]:
    """Offsets by ``name``, each block into the smallest gap among those it meets in time."""
    placed: list[tuple[int, int, int, int]] = []  # offset, size, begin, end; sorted by offset
    offsets: dict[str, int] = {}
    ordered = all(a.begin <= b.begin for a, b in pairwise(blocks))
    for block in blocks:
        if ordered:  # a block that has ended cannot overlap later ones either
            placed = [p for p in placed if p[3] > block.begin]
        offsets[block.name] = offset = _best_gap(block, placed)
        insort(placed, (offset, as_int(block.size), block.begin, block.end))
    return offsets


def _best_gap(block: _Block, placed: Iterable[tuple[int, int, int, int]]) -> int:
    size_needed = as_int(block.size)
    unit = PAGE if size_needed >= PAGED_BYTES else ARENA_ALIGNMENT
    top = 0
    best: int | None = None
    smallest = 0
    for offset, size, begin, end in placed:
        if end < block.begin or block.end < begin:
            continue
        gap = offset - top
        if gap >= size_needed and (best is None or gap < smallest):
            best, smallest = top, gap
        top = max(top, -(-(offset + size) // unit) * unit)
    return top if best is None else best
