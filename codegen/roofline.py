"""Rooflines: how fast a kernel could be at best, given what it computes and what it moves.

A kernel takes at least its operations over the peak rate, and at least the bytes it moves to and
from each level of memory over that level's bandwidth. The longest of these bounds it. ("Roofline:
an insightful visual performance model for multicore architectures", Williams, Waterman, Patterson,
CACM 2009; with one roof for each level as in the cache-aware variants.)
"""

from __future__ import annotations

from collections.abc import Mapping

from ..ir.dataclass import dataclass
from .machine import MachineModel

COMPUTE = "compute"

LEVELS = ("l1", "l2", "l3", "dram")
"""Sources and destinations of bytes: l1 is the traffic between registers and L1, and so on."""


@dataclass(frozen=True, slots=True)
class Traffic:
    """Bytes read from a level and written to it."""

    read: float = 0.0
    written: float = 0.0

    @property
    def total(self) -> float:
        return self.read + self.written

    def __add__(self, other: Traffic) -> Traffic:
        return Traffic(self.read + other.read, self.written + other.written)

    def times(self, factor: float) -> Traffic:
        """Returns this traffic times a factor."""
        return Traffic(self.read * factor, self.written * factor)


@dataclass(frozen=True, slots=True)
class Work:
    """The work of one call of a kernel: ``flops`` on elements of that size, and its traffic.

    ``rate`` is the number of operations an instruction does at best for each of one on floats.
    """

    flops: float
    traffic: Mapping[str, Traffic]
    element_bytes: int = 4
    rate: float = 1.0


@dataclass(frozen=True, slots=True)
class Roof:
    """The limits of a machine on so many threads."""

    machine: MachineModel
    threads: int = 1

    def peak(self, element_bytes: int = 4) -> float:
        """FLOP/s."""
        return self.machine.peak_flops(self.threads, element_bytes)

    def bandwidth(self, level: str, writes: bool = False) -> float:
        """Bytes per second of reading, or of reading and writing."""
        return self.machine.bandwidth(level, self.threads, writes=writes)

    def seconds(self, work: Work) -> dict[str, float]:
        """The least time by each roof, ``COMPUTE`` first, then the levels."""
        times = {COMPUTE: work.flops / (work.rate * self.peak(work.element_bytes))}
        for level in LEVELS:
            moved = work.traffic[level]
            times[level] = moved.total / self.bandwidth(level, moved.written > 0)
        return times

    def bound(self, work: Work) -> tuple[str, float]:
        """The roof that is lowest for this work, and the seconds it allows at best."""
        times = self.seconds(work)
        name = max(times, key=times.__getitem__)
        return name, times[name]

    def memory_bound(self, work: Work) -> tuple[str, float]:
        """The same of the levels of memory alone."""
        times = self.seconds(work)
        name = max(LEVELS, key=times.__getitem__)
        return name, times[name]
