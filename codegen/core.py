"""Throughput and latency of one core: numbers that estimates, features and default schedules share.

Ports, widths and latencies are those of Intel's server cores since Skylake and of AMD's since Zen
(their optimisation manuals; A. Fog, *Instruction tables*; uops.info), of Arm's Neoverse N1 (its
*Software Optimization Guide*), and of RISC-V cores that issue two instructions in order. Numbers
marked *fitted* were chosen together, so that estimates rank the measured schedules of ``bench``
well; none was measured alone. An x86-64 CPU that is not known by its name is described as Intel's.
"""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache

from ..ir.dataclass import dataclass
from .target import Target


@dataclass(frozen=True, slots=True)
class Core:
    """Counts are per cycle, times in cycles, sizes in bytes."""

    # Ports and latencies, from the manuals.
    loads: float = 2.0  # Vector loads per cycle, from L1.
    broadcasts: float = 2.0  # Loads of one element for all lanes, per cycle.
    shuffles: float = 1.0  # Shuffles of full vectors per cycle: only port 5 has them.
    issue: float = 5.0  # Instructions of any kind per cycle.
    fma_latency: float = 5.0  # From one multiply-add of a chain to the next; 4 in the manuals.
    fma_ports: float = 2.0  # Multiply-adds per cycle.
    halved: bool = False  # Each vector of more than 32 bytes takes a unit twice.

    # Memory, from the manuals; bandwidths are sustained ones.
    l1_ways: int = 8  # Lines that one set of L1 keeps.
    page: int = 4096  # Bytes of a page; lines so far apart fall into one set of L1.
    l1_pages: int = 64  # Pages whose addresses are translated without a page walk.
    streams: float = 4.0  # Places of one page that prefetchers follow; with twice as many, none.
    row_streams: float = 4.0  # Rows from behind L2 that prefetchers follow, measured.
    streamed_rows: int = 0  # Rows times a matrix in memory's order that prefetches only slow down.
    fill_buffers: int = 8  # Lines that are on their way from or to memory at a time.
    bytes_from_l2: float = 48.0  # Into L1, per cycle.
    bytes_from_llc: float = 12.0  # Into L2, per cycle.
    bytes_from_memory: float = 6.0  # Per cycle of one core.

    # Overheads, fitted.
    hidden_load: float = 0.5  # Of one that multiply-adds hide.
    overlap: float = 0.7  # Share of the shorter of arithmetic and memory that the other hides.
    spill: float = 4.0  # Of a value without a register, per iteration.
    temporaries: int = 3  # Registers beside those of sums and operands.
    reload: float = 0.2  # Of an operand without a register, for every vector that reads it.
    iteration: float = 1.5  # Of the innermost loop: counter, branch, addresses.
    tile: float = 30.0  # To begin and end a register tile.
    unrolled_tile: float = 6.0  # The same without a reduced loop, whose end is mispredicted.
    foretold: int = 10  # Iterations up to which the end of a loop is not mispredicted.
    held_stores: int = 8  # Stores of a tile after a short loop that the next tile hides.
    burst: float = 3.0  # Of each more of them.
    lane_join: float = 3.0  # Of one step in joining the lanes of an accumulator.

    # Matrix registers (AMX; Intel's optimisation manual, chapter 20).
    matrix_rows: int = 16  # Rows of one register, and groups of four bytes in a row.

    # Rates that tell microseconds from milliseconds.
    flops_per_second: float = 2e10  # Of one thread, on code that was not tuned.
    stored_per_second: float = 4e10  # Bytes that one thread writes while it reads as many.
    wake_seconds: float = 8e-6  # Work shorter than this is not worth waking a thread for.


_INTEL = Core()
_ZEN = replace(
    _INTEL,
    shuffles=2.0,
    issue=6.0,
    fma_latency=4.0,
    row_streams=1.0,
    streamed_rows=4,
    bytes_from_l2=32.0,
    bytes_from_llc=16.0,
)
"""Until Zen 5, and in its mobile parts, units are 256 bits wide: longer vectors take them twice."""
_OF_UNITS = "loads", "broadcasts", "shuffles", "fma_ports"
_WHOLE = re.compile(r"EPYC(-Turin| 9\d\d5)|Ryzen (Threadripper )?(PRO )?\d 9\d\d\d")

_NEOVERSE = replace(
    _INTEL,
    shuffles=2.0,
    issue=4.0,
    fma_latency=4.0,
    l1_ways=4,
    l1_pages=48,
    bytes_from_l2=32.0,
)
_IN_ORDER = replace(
    _INTEL,
    loads=1.0,
    broadcasts=1.0,
    shuffles=0.5,
    issue=2.0,
    fma_ports=1.0,
    l1_pages=32,
    bytes_from_l2=16.0,
    bytes_from_llc=8.0,
    bytes_from_memory=4.0,
)
_IN_ENGINE = replace(_INTEL, issue=4.0, temporaries=4)  # the engine keeps a register for itself
_BY_ARCHITECTURE = {"aarch64": _NEOVERSE, "riscv64": _IN_ORDER, "wasm32": _IN_ENGINE}


@cache
def core_of(target: Target) -> Core:
    """The description of one core of ``target``, by its architecture or the name of its CPU."""
    if row := _BY_ARCHITECTURE.get(target.level.architecture.name):
        return row
    if "AMD" not in target.cpu:
        return _INTEL
    if target.vector_bytes <= 32 or _WHOLE.search(target.cpu):
        return _ZEN
    halves = {name: getattr(_ZEN, name) / 2 for name in _OF_UNITS}
    return replace(_ZEN, halved=True, **halves)
