"""Give every allocation its place in one arena."""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from .analysis import max_live_bytes
from .nodes import Alloc, Free, Instr, Program
from .verify import ARENA_ALIGNMENT

__all__ = ["lower_bound", "plan_memory"]

PAIRWISE_LIMIT = 1000
"""Allocations up to which orders other than the program's are tried; the cost grows as the square
(0.2 s at this many)."""


PAGE, PAGED_BYTES = 4096, 16 * 1024
"""Blocks of at least ``PAGED_BYTES`` start at the same place of a page: a load that follows a store
to the same place of another page waits for it on x86, unless both walk in step."""


@dataclass(frozen=True, slots=True)
class _Block:
    """``size`` bytes, a multiple of the alignment, alive in instructions ``begin`` to ``end``."""

    index: int
    size: int
    begin: int
    end: int


def lower_bound(program: Program) -> int:
    """The most aligned bytes that are alive at one time: no arena can be smaller."""
    return max_live_bytes(program, ARENA_ALIGNMENT)


def plan_memory(program: Program) -> Program:
    """Set the offset of every ``alloc`` and the size of the arena.

    Each block goes into the smallest gap that fits between the blocks that live at the same time,
    for several orders of the blocks (largest first, longest-lived first, as the program has them);
    the smallest arena wins. Offsets are multiples of 64, those of large blocks of 4096. This is
    offline best fit, "greedy by size" in "Efficient Memory Management for Deep Neural Net
    Inference" (Pisarchyk and Lee, 2020).
    """
    blocks = _blocks(program.body)
    bound = lower_bound(program)
    best: dict[int, int] | None = None
    arena = 0
    for order in _ORDERS:
        offsets = _place(order(blocks))
        needed = max((offsets[b.index] + b.size for b in blocks), default=0)
        if best is None or needed < arena:
            best, arena = offsets, needed
        if arena == bound or len(blocks) > PAIRWISE_LIMIT:
            break
    assert best is not None
    body = tuple(
        replace(instr, offset=best[i]) if isinstance(instr, Alloc) else instr
        for i, instr in enumerate(program.body)
    )
    planned = replace(program, body=body, arena=arena)
    return program if planned == program else planned


def _blocks(body: Sequence[Instr]) -> list[_Block]:
    began: dict[str, int] = {}
    blocks: list[_Block] = []
    for i, instr in enumerate(body):
        if isinstance(instr, Alloc):
            began[instr.region.name] = i
        elif isinstance(instr, Free):
            begin = began[instr.name]
            alloc = body[begin]
            assert isinstance(alloc, Alloc)
            size = -(-alloc.region.nbytes // ARENA_ALIGNMENT) * ARENA_ALIGNMENT
            blocks.append(_Block(begin, size, begin, i))
    return sorted(blocks, key=lambda b: b.begin)


def _in_order(blocks: Iterable[_Block]) -> list[_Block]:
    return list(blocks)


def _largest_first(blocks: Iterable[_Block]) -> list[_Block]:
    return sorted(blocks, key=lambda b: (-b.size, b.begin))


def _longest_first(blocks: Iterable[_Block]) -> list[_Block]:
    return sorted(blocks, key=lambda b: (b.begin - b.end, -b.size))


_ORDERS: tuple[Callable[[Iterable[_Block]], list[_Block]], ...] = (
    _in_order,
    _largest_first,
    _longest_first,
)


def _place(blocks: Sequence[_Block]) -> dict[int, int]:
    """Offsets by ``index``, each block into the smallest gap among those it meets in time."""
    placed: list[tuple[int, int, int, int]] = []  # offset, size, begin, end; sorted by offset
    offsets: dict[int, int] = {}
    ordered = all(a.begin <= b.begin for a, b in pairwise(blocks))
    for block in blocks:
        if ordered:  # a block that has ended cannot overlap later ones either
            placed = [p for p in placed if p[3] > block.begin]
        offsets[block.index] = offset = _best_gap(block, placed)
        insort(placed, (offset, block.size, block.begin, block.end))
    return offsets


def _best_gap(block: _Block, placed: Iterable[tuple[int, int, int, int]]) -> int:
    unit = PAGE if block.size >= PAGED_BYTES else ARENA_ALIGNMENT
    top = 0
    best: int | None = None
    smallest = 0
    for offset, size, begin, end in placed:
        if end < block.begin or block.end < begin:
            continue
        gap = offset - top
        if gap >= block.size and (best is None or gap < smallest):
            best, smallest = top, gap
        top = max(top, -(-(offset + size) // unit) * unit)
    return top if best is None else best
