"""The favourite choices of the ``tile`` rule for maps: elements moved and computed one by one."""

from __future__ import annotations

from math import gcd, lcm

from ....codegen.emit.together import LONG_EXPRESSION
from ....codegen.machine import known_machine
from ....codegen.target import CACHE_LINE, Target
from ....ir.dims import symbols
from ....ir.loop.cases import divisors
from ....ir.loop.expr import Index, Op, Read, walk
from ....ir.loop.scalar import SCALAR_OPS
from ..analysis import Access, expression_cost
from .base import Choices, Sketch

__all__ = ["map_favourites"]

LINES_AHEAD = 32  # that maps ask for early: computing one vector, a core sees only a few to come
FAR = 16  # second caches' worth of results: more than a core has of a last cache that many share
OPEN_LINES = 8  # that are gathered in front of memory until they are whole
SHARING = 2  # rows that share what it takes to find the places of their elements
MANY_REGISTERS = 32  # that hold what four vectors of a long chain compute with
SIMPLE = 4.0  # instructions of an operator that needs no registers for itself
NEAR = 4  # elements between lanes up to which a vector is picked from whole ones around it


def _guarded(sketch: Sketch) -> bool:
    """Whether some reads are made under a condition that differs from lane to lane, or comes from
    data: then no block can be transposed."""
    for node in walk(sketch.group.typical[sketch.group.main.name]):
        if isinstance(node, Op) and node.name == "where":
            for leaf in walk(node.args[0]):
                if isinstance(leaf, Read):
                    return True
                if isinstance(leaf, Index) and sketch.vector_axis in symbols(leaf.value):
                    return True
    return False


def map_favourites(sketch: Sketch) -> list[Choices]:
    """Choices for a group of maps, best first."""
    tables = sketch.tables
    cost = sum(expression_cost(s) for s in sketch.group.stages)
    blocks = _turns(sketch) and not _guarded(sketch)
    found: list[Choices] = []
    for wanted in (4, 2) if cost < 30 or _is_long(sketch) else (2, 4):
        c = sketch.base_choices()
        single = blocks or _scattered(sketch) or _stores_across(sketch)
        width = 1 if single else _pattern(sketch, wanted)
        c["vectors"] = max(v for v in tables["vectors"] if v <= width)
        c["stream"] = sketch.stream_choice()
        if sketch.group.output_bytes > FAR * sketch.target.l2 and _memory_is_near(sketch.target):
            c["stream"] = tables["stream"][-1]
        if not sketch.gathers and sketch.group.bytes > sketch.target.l2:
            c["prefetch"] = max(p for p in tables["prefetch"] if p <= LINES_AHEAD)
        if blocks:
            _blocks(sketch, c)
        elif _looks_up(sketch):
            c["rows"] = max(r for r in tables["rows"] if r <= SHARING)
        elif _stores_across(sketch):
            c["rows"] = max(r for r in tables["rows"] if r <= sketch.lanes)
        c["parallel"] = sketch.parallel_depth(c)
        found.append(c)
    return found


def _is_long(sketch: Sketch) -> bool:
    """Whether a map is a long chain of simple operators, each of which waits for the one before:
    only more vectors at once keep a core busy, and simple operators leave registers for them."""
    if sketch.target.vector_registers < MANY_REGISTERS:
        return False
    expr = sketch.group.typical[sketch.group.main.name]
    costs = [SCALAR_OPS[node.name].cost for node in walk(expr) if isinstance(node, Op)]
    return len(costs) > LONG_EXPRESSION and max(costs) <= SIMPLE


def _rough_reads(sketch: Sketch) -> list[Access]:
    reads = sketch.group.accesses[sketch.group.main.name]
    return [a for a in reads if a.stride(sketch.vector_axis or "") not in (0, 1)]


def _turns(sketch: Sketch) -> bool:
    """Whether what lies far apart along the vectors lies side by side along the rows."""
    row = sketch.row_axis
    return row is not None and any(a.stride(row) == 1 for a in _rough_reads(sketch))


def _stores_across(sketch: Sketch) -> bool:
    """Whether the results of the rows lie side by side, and those of a vector apart: of as many
    rows as there are lanes whole vectors are stored."""
    last = sketch.group.main.axes[-1].name
    return sketch.row_axis == last != sketch.vector_axis


def _scattered(sketch: Sketch) -> bool:
    """Whether elements of a vector lie far apart or anywhere, and are read one by one."""
    steps = [a.stride(sketch.vector_axis or "") for a in _rough_reads(sketch)]
    return any(step is not None and abs(step) > NEAR for step in steps)


def _looks_up(sketch: Sketch) -> bool:
    """Whether every row takes elements from the same places, which come from data."""
    v, row = sketch.vector_axis or "", sketch.row_axis
    rough = [a for a in _rough_reads(sketch) if v in a.irregular]
    return row is not None and bool(rough) and all(a.stride(row) for a in rough)


def _pattern(sketch: Sketch, vectors: int) -> int:
    """``vectors``, or the number from which on indices divided along them repeat themselves."""
    period = lcm(*divisors(sketch.group.typical[sketch.group.main.name], sketch.vector_axis or ""))
    needed = period // gcd(period, sketch.lanes)
    return needed * max(1, vectors // needed) if needed in sketch.tables["vectors"] else vectors


def _blocks(sketch: Sketch, c: dict[str, int]) -> None:
    """Square blocks are transposed in registers.

    Down a strip two cache lines wide every line of the result is written whole and soon, and what
    is read comes in as many runs as are prefetched. An operand that lies as the result does would
    be read two lines a row, each on another page: with one, blocks are some rows of 16 lines.
    """
    tables = sketch.tables
    group, row = sketch.group, sketch.row_axis or ""
    c["rows"] = max(r for r in tables["rows"] if r <= sketch.lanes)
    lines = 2
    reads = group.accesses[group.main.name]
    if any(a.stride(sketch.vector_axis or "") == 1 and a.depends(row) for a in reads):
        lines = 16
        c["mid_r"] = max(m for m in tables["mid_r"] if m <= 4)
    else:
        c["order"] = tables["order"][-1]
    wide = max(1, CACHE_LINE // (sketch.lanes * group.main.buffer.dtype.bytes))
    if wide > 1 and c["rows"] > OPEN_LINES:
        c["stream"] = 0  # lines would leave in parts, which takes ten times as long
    elif group.output_bytes >= 2 * sketch.target.l2 and _memory_is_near(sketch.target):
        c["stream"] = tables["stream"][-1]
    c["mid_v"] = max(m for m in tables["mid_v"] if m <= lines * wide)


def _memory_is_near(target: Target) -> bool:
    """Whether lines that are written in no order are better not read first from the last cache."""
    machine = known_machine(target)
    return machine.bandwidth("l3", writes=True) < 2 * machine.bandwidth("dram", writes=True)
