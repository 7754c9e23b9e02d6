"""Throughput and latency of one core: numbers that estimates, features and default schedules share.

Ports, widths and latencies are those of Intel's server cores since Skylake (Intel's optimisation
manual; A. Fog, *Instruction tables*; uops.info). Numbers marked *fitted* were chosen together,
so that estimates rank the measured schedules of ``bench`` well; none was measured alone. One
description serves every x86-64 target until another core is measured.
"""

from __future__ import annotations

from ..ir.dataclass import dataclass
from .target import Target

__all__ = ["Core", "core_of"]


@dataclass(frozen=True, slots=True)
class Core:
    """Counts are per cycle, times in cycles, sizes in bytes."""

    # Ports and latencies, from the manuals.
    loads: float = 2.0  # Vector loads per cycle, from L1.
    shuffles: float = 1.0  # Shuffles of full vectors per cycle: only port 5 has them.
    issue: float = 5.0  # Instructions of any kind per cycle.
    fma_latency: float = 5.0  # From one multiply-add of a chain to the next; 4 in the manuals.
    fma_ports: int = 2  # Multiply-adds per cycle.

    # Memory, from the manuals; bandwidths are sustained ones.
    l1_ways: int = 8  # Lines that one set of L1 keeps.
    page: int = 4096  # Bytes of a page; lines so far apart fall into one set of L1.
    l1_pages: int = 64  # Pages whose addresses are translated without a page walk.
    fill_buffers: int = 8  # Lines that are on their way from or to memory at a time.
    bytes_from_l2: float = 48.0  # Into L1, per cycle.
    bytes_from_llc: float = 12.0  # Into L2, per cycle.
    bytes_from_memory: float = 6.0  # Per cycle of one core.

    # Overheads, fitted.
    hidden_load: float = 0.25  # Of one that multiply-adds hide.
    exposed_memory: float = 0.15  # Share of the caches' and memory's time that nothing hides.
    spill: float = 4.0  # Of a value without a register, per iteration.
    temporaries: int = 3  # Registers beside those of sums and operands.
    reload: float = 0.2  # Of an operand without a register, for every vector that reads it.
    iteration: float = 1.5  # Of the innermost loop: counter, branch, addresses.
    tile: float = 30.0  # To begin and end a register tile.
    unrolled_tile: float = 6.0  # The same without a reduced loop, whose end is mispredicted.
    lane_join: float = 3.0  # Of one step in joining the lanes of an accumulator.

    # Matrix registers (AMX; Intel's optimisation manual, chapter 20).
    matrix_rows: int = 16  # Rows of one register, and groups of four bytes in a row.

    # Rates that tell microseconds from milliseconds.
    flops_per_second: float = 2e10  # Of one thread, on code that was not tuned.
    stored_per_second: float = 4e10  # Bytes that one thread writes while it reads as many.
    wake_seconds: float = 8e-6  # Work shorter than this is not worth waking a thread for.


_SERVER = Core()


def core_of(target: Target) -> Core:
    """The description of one core of ``target``."""
    del target  # every x86-64 core so far is described by the same numbers
    return _SERVER
