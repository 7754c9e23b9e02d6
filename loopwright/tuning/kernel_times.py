"""Seconds of kernels in one program: measured in their place, known to a log, or expected.

A kernel that was never measured is expected to be as far from its limit (operations over the peak
rate, operands over the bandwidth) as the kernels it would replace are from theirs. It may as well
turn out faster: ``hoped`` says by how much, and that is what makes it worth a measurement.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field

from ..autotune.log.lookup import LogView, best_of
from ..autotune.measure.kernels import least_seconds
from ..autotune.record import TargetKey, robust_seconds
from ..codegen.machine import known_machine
from ..ir.dataclass import dataclass
from ..ir.loop.prim import PrimFunc
from .interleaved import Rounds

HOPE, LOGGED_HOPE = 0.8, 0.95
"""Share of the expected time that a kernel may take if it was never measured, and if it was, but
alone; see docs/measurements.md."""


@dataclass(slots=True)
class KernelTimes:
    """Seconds of all calls that one place in the program makes of a kernel, by workload.

    ``place`` were measured in the program, with ``trips`` calls for each place that calls a kernel.
    """

    key: TargetKey
    logs: Sequence[LogView] = ()
    place: dict[str, float] = field(default_factory=dict[str, float])
    trips: dict[str, float] = field(default_factory=dict[str, float])
    _expected: dict[str, tuple[float, float]] = field(
        default_factory=dict[str, tuple[float, float]]
    )
    _limits: dict[str, float] = field(default_factory=dict[str, float])

    def measured(self, rounds: Rounds) -> None:
        """Notes the times of a build's kernels in the program."""
        self.place |= {w: robust_seconds(s) for w, s in rounds.seconds.items()}
        self.trips |= {w: rounds.trips(w) for w in rounds.places}

    def known(self, workload: str) -> bool:
        """True if a kernel was measured in the program, or is never run there."""
        return workload in self.place or self.trips.get(workload) == 0

    def expected(self, workload: str) -> float:
        """Seconds that a kernel takes in one place, as measured or as expected."""
        return self._seconds(workload)[0]

    def hoped(self, workload: str) -> float:
        """Seconds that a kernel may take in one place if all goes well."""
        return self._seconds(workload)[1]

    def _seconds(self, workload: str) -> tuple[float, float]:
        if self.known(workload):
            seconds = self.place.get(workload, 0.0) * self.trips.get(workload, 1.0)
            return seconds, seconds
        return self._expected[workload]

    def expect(
        self,
        added: Mapping[str, int],
        removed: Mapping[str, int],
        prims: Mapping[str, PrimFunc],
    ) -> None:
        """Sets what to expect of kernels that are ``added`` instead of those ``removed``, each so
        many times. ``prims`` are theirs by workload."""
        old = {w: n for w, n in removed.items() if self.known(w)}
        calls = sum(old.values())
        trips = sum(n * self.trips.get(w, 1.0) for w, n in old.items()) / calls if calls else 1.0
        least = sum(n * self.limit(w, prims[w]) for w, n in old.items())
        slowdown = sum(n * self.expected(w) for w, n in old.items()) / least if least else trips
        for workload in (*added, *removed):  # a kernel inside of the entry is not timed
            if not self.known(workload) and workload not in self._expected:
                entry = best_of(self.logs, workload, self.key)
                alone = None if entry is None else trips * entry[0]
                seconds = alone or slowdown * self.limit(workload, prims[workload])
                hope = HOPE if alone is None else LOGGED_HOPE
                self._expected[workload] = seconds, hope * seconds

    def limit(self, workload: str, prim: PrimFunc) -> float:
        """Returns the seconds that a call takes at least, by the rates of the machine (of a usual
        one, where they were not measured)."""
        if workload not in self._limits:
            target = self.key.machine()
            machine = known_machine(target)
            self._limits[workload] = least_seconds(prim, machine, target, self.key.threads)
        return self._limits[workload]
