"""Default choices of the ``tile`` rule for maps: elements moved and computed one by one."""

from __future__ import annotations

from math import gcd, lcm

from ....codegen.target import CACHE_LINE
from ....ir.dims import symbols
from ....ir.loop.cases import divisors
from ....ir.loop.expr import Index, Op, Read, walk
from ..analysis import Access
from ..settings import MAPS
from ..tiling import Choices, Tiling
from .base import non_temporal_choice, parallel_depth


def _guarded(tiling: Tiling) -> bool:
    """True if some reads are made under a condition that differs from lane to lane, or comes from
    data: then no block can be transposed."""
    value, v = tiling.group.typical[tiling.group.main.name], tiling.vector_axis
    tests = [n.args[0] for n in walk(value) if isinstance(n, Op) and n.name == "where"]
    leaves = [leaf for test in tests for leaf in walk(test)]
    return any(
        isinstance(n, Read) or (isinstance(n, Index) and v in symbols(n.value)) for n in leaves
    )


def map_defaults(tiling: Tiling) -> list[Choices]:
    """Choices for a group of maps, best first."""
    tables = tiling.knobs
    blocks = _can_transpose(tiling) and not _guarded(tiling)
    candidates: list[Choices] = []
    for wanted in MAPS.vectors:
        c = tiling.base_choices()
        width = 1 if blocks or _stores_across(tiling) else _pattern(tiling, wanted)
        c["vectors"] = max(v for v in tables["vectors"] if v <= width)
        c["non_temporal"] = non_temporal_choice(tiling)
        in_order = not tiling.gathers and not _stores_across(tiling)
        if in_order and tiling.group.bytes > tiling.target.l2 and not tiling.core.streamed_rows:
            c["prefetch"] = max(p for p in tables["prefetch"] if p <= MAPS.lines_ahead)
        if blocks:
            _blocks(tiling, c)
        elif _looks_up(tiling):
            c["rows"] = max(r for r in tables["rows"] if r <= MAPS.sharing)
        elif _stores_across(tiling):
            c["rows"] = max(r for r in tables["rows"] if r <= tiling.lanes)
        c["parallel"] = parallel_depth(tiling, c)
        candidates.append(c)
    return candidates


def _rough_reads(tiling: Tiling) -> list[Access]:
    reads = tiling.group.accesses[tiling.group.main.name]
    return [a for a in reads if a.stride(tiling.vector_axis or "") not in (0, 1)]


def _can_transpose(tiling: Tiling) -> bool:
    """True if an operand that is strided along the vectors is contiguous along the rows."""
    row = tiling.row_axis
    return row is not None and any(a.stride(row) == 1 for a in _rough_reads(tiling))


def _stores_across(tiling: Tiling) -> bool:
    """True if results are contiguous along the rows and strided along the vectors: with as many
    rows as there are lanes, whole vectors are stored."""
    last = tiling.group.main.axes[-1].name
    return tiling.row_axis == last != tiling.vector_axis


def _looks_up(tiling: Tiling) -> bool:
    """True if every row takes elements from the same places, which come from data."""
    v, row = tiling.vector_axis or "", tiling.row_axis
    rough = [a for a in _rough_reads(tiling) if v in a.irregular]
    return row is not None and bool(rough) and all(a.stride(row) for a in rough)


def _pattern(tiling: Tiling, vectors: int) -> int:
    """``vectors``, or the number from which on indices divided along them repeat themselves."""
    period = lcm(*divisors(tiling.group.typical[tiling.group.main.name], tiling.vector_axis or ""))
    needed = period // gcd(period, tiling.lanes)
    return needed * max(1, vectors // needed) if needed in tiling.knobs["vectors"] else vectors


def _blocks(tiling: Tiling, c: dict[str, int]) -> None:
    """Square blocks are transposed in registers.

    Down a strip two cache lines wide every line of the result is written whole and soon, and what
    is read comes in as many runs as are prefetched. An operand that lies as the result does would
    be read two lines a row, each on another page: with one, blocks are some rows of 16 lines.
    """
    group, tables, row = tiling.group, tiling.knobs, tiling.row_axis or ""
    c["rows"] = max(r for r in tables["rows"] if r <= tiling.lanes)
    lines = MAPS.lines_wide
    reads = group.accesses[group.main.name]
    if any(a.stride(tiling.vector_axis or "") == 1 and a.depends(row) for a in reads):
        lines = MAPS.lines_beside
        c["cache_rows"] = max(m for m in tables["cache_rows"] if m <= MAPS.rows_beside)
    else:
        c["vectors_outer"] = tables["vectors_outer"][-1]
    wide = max(1, CACHE_LINE // (tiling.lanes * group.main.buffer.dtype.bytes))
    if wide > 1 and c["rows"] > tiling.core.fill_buffers:
        c["non_temporal"] = 0  # lines would leave in parts, which takes ten times as long
    c["cache_vectors"] = max(m for m in tables["cache_vectors"] if m <= lines * wide)
