"""Decides choices in the graph: algorithms, fusion, orders of axes.

::

    alternatives -> the moves that gain most, if their kernels are as fast as hoped
                 -> those that fit into the time, in one program beside the current one:
                    interleaved rounds, the clock read between kernels -> what their kernels take
                 -> again, until nothing is hoped to gain 1 % of a call -> decisions

What is measured are kernels, each once and in its place, and not programs: what kernels of one move
take is known for all moves that have them. Largest gains come first, so that a short budget tries
what matters.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import Any

import numpy as np

from ..autotune.comparison import Verdict, compare
from ..autotune.log.decision import Decision, Option
from ..autotune.log.lookup import LogView
from ..autotune.program.in_program import TriedChoice
from ..autotune.record import MeasureRecord, TargetKey, Workload, own_version, timestamp
from ..autotune.workload import workload_of
from ..driver.built import Built
from ..ir.dataclass import dataclass
from .alternatives import Graph, Move
from .interleaved import FEWEST_ROUNDS, Rounds, kernel_rounds, whole_calls
from .kernel_times import KernelTimes
from .reuse import bytes_between
from .variants import Taken, Variants, current

Array = np.ndarray[Any, Any]

LEAST_GAIN = 0.01
"""Share of a call's time below which what is hoped of a choice is not worth a measurement."""

FINDING, PAIRING, JUDGING = 0.25, 0.1, 0.1
"""Shares of the time for finding the alternatives and their pairs, and for the final comparison of
the program."""

ROUNDS, LEAST_SECONDS = 16, 0.25
"""Rounds of a batch, and its least seconds: these tell gains of 1 % of a call."""

BUILD_SECONDS = 0.3
"""Seconds to build a kernel until some were built."""


@dataclass(frozen=True, slots=True)
class Measured:
    """A move, with the seconds per round of the kernels it removes and of those it adds, and the
    share of a call that it was hoped to gain."""

    move: Move
    old: tuple[float, ...]
    new: tuple[float, ...]
    hoped: float

    @property
    def verdict(self) -> Verdict:
        """True if the alternative is faster."""
        return compare([self.old, self.new])

    @property
    def gain(self) -> float:
        """Seconds of a call."""
        return float(self.verdict.seconds[0] - self.verdict.seconds[1])


@dataclass(frozen=True, slots=True)
class Decided:
    """The outcome. ``taken`` are the graph's choices from now on. ``place`` are the seconds of a
    call of each kernel in the program, by workload, and ``trips`` the calls for each place that
    calls it. ``tried`` are the choices with a gain that was worth measuring, for the report."""

    taken: Taken
    decisions: tuple[Decision, ...] = ()
    place: Mapping[str, float] = field(default_factory=dict[str, float])
    trips: Mapping[str, float] = field(default_factory=dict[str, float])
    tried: tuple[TriedChoice, ...] = ()
    records: tuple[MeasureRecord, ...] = ()
    """Records of kernels that the program did not have, measured in their place."""


@dataclass(slots=True)
class GraphTuner:
    """Measures the choices of one module. ``make`` builds it with some choices, ``logs`` know
    kernels."""

    variants: Variants
    make: Callable[[Taken], Built]
    key: TargetKey
    program: str = ""
    logs: Sequence[LogView] = ()

    def decide(
        self,
        taken: Taken,
        arrays: Sequence[Array],
        seconds: float,
        profile: Rounds | None = None,
    ) -> Decided:
        """Measures alternatives to ``taken`` for ``seconds``, those that are hoped to gain most
        first.

        ``profile`` has the times of the kernels as they are, if known. No batch is begun that
        would end late, judging by those before. Other options are taken only if the whole program
        is not slower with all of them.
        """
        begun = time.monotonic()
        if seconds <= 0:
            return Decided(taken)
        graph = Graph(self.variants, taken, KernelTimes(self.key, self.logs))
        if not any(len(s.options) > 1 for s in self.variants.of(taken).sites.values()):
            return Decided(taken)
        base = self.make(taken)
        graph.times.measured(profile or kernel_rounds([base], arrays, min(0.1 * seconds, 1.0))[0])
        calls = self.variants.of(taken).workloads.items()
        whole = sum(n * graph.times.expected(w) for w, n in calls if graph.times.known(w))
        graph.find(begun + FINDING * seconds)
        graph.find_pairs(LEAST_GAIN * whole, begun + (FINDING + PAIRING) * seconds)
        measured: dict[Move, Measured] = {}
        hoped: dict[Move, float] = {}
        records: list[MeasureRecord] = []
        each = BUILD_SECONDS
        end = begun + (1 - JUDGING) * seconds  # the comparison of the whole takes time as well
        longest = (2 * FEWEST_ROUNDS + 2) * whole  # the calls of a batch take this long at least
        while True:
            worth = {m: graph.gain(m) / whole for m in graph.moves() if m not in measured}
            worth = {move: gain for move, gain in worth.items() if gain >= LEAST_GAIN}
            hoped |= worth
            start = time.monotonic()
            batch = self._batch(graph, list(worth), (end - start - longest) / each)
            if not batch:
                break
            options = dict(option for move in batch for option in move)
            unknown = {w for move in batch for w in graph.unknown(move)}
            built = self.make({**taken, **options})
            each = 0.5 * (each + (time.monotonic() - start) / max(1, len(unknown)))
            share = min(0.5 * (end - start), max(LEAST_SECONDS, 2 * ROUNDS * whole))
            old, new = kernel_rounds([base, built], arrays, max(0.0, share))
            graph.times.measured(new)
            records += self._records(built, new, unknown)
            for move in batch:
                change = graph.change(move)
                costs = _cost(old, change.removed), _cost(new, change.added)
                measured[move] = Measured(move, *costs, hoped[move])
        decided = self._judged(graph, base, measured, arrays, min(1.0, JUDGING * seconds))
        decided = replace(decided, records=tuple(records))
        return replace(
            decided,
            place=dict(graph.times.place),
            trips=dict(graph.times.trips),
            tried=tuple(_tried(graph, decided.taken, measured, hoped, whole)),
        )

    def _records(
        self, built: Built, rounds: Rounds, unknown: Collection[str]
    ) -> Iterator[MeasureRecord]:
        """Yields records of the kernels that were not known, as they ran in their place."""
        assert built.parts is not None
        between = bytes_between(built.parts)
        for name, prim in built.parts.prims.items():
            workload, chosen = workload_of(prim), built.chosen[name]
            if workload.hash in unknown and workload.hash in rounds.seconds and not prim.sizes:
                yield MeasureRecord(
                    workload,
                    self.key,
                    tuple(chosen.schedule.to_json()),
                    chosen.sketch,
                    rounds.seconds[workload.hash],
                    time=timestamp(),
                    version=own_version(),
                    cache="place",
                    between=between.get(workload.hash, {}),
                )

    def _batch(self, graph: Graph, moves: Sequence[Move], kernels: float) -> list[Move]:
        """Returns the first of the moves that can be measured together: all that do not change
        what others do, as far as so many new kernels can be built."""
        batch: list[Move] = []
        count = 0
        for move in moves:
            count += len(graph.unknown(move))
            if count > kernels:
                break
            if graph.is_sum([*batch, move]):
                batch.append(move)
        return batch

    def _judged(
        self,
        graph: Graph,
        base: Built,
        measured: Mapping[Move, Measured],
        arrays: Sequence[Array],
        seconds: float,
    ) -> Decided:
        """Takes what gains most, unless it slows the whole program down."""
        faster = sorted((m for m in measured.values() if m.verdict.faster), key=lambda m: -m.gain)
        taken: list[Move] = []
        for move in (m.move for m in faster):
            points = {point for other in taken for point, _ in other}
            if points.isdisjoint(p for p, _ in move) and graph.is_sum([*taken, move]):
                taken.append(move)
        wanted = {**graph.taken, **dict(option for move in taken for option in move)}
        if taken and compare(whole_calls([base, self.make(wanted)], arrays, seconds)).slower:
            wanted = dict(graph.taken)
        return Decided(wanted, tuple(self._decisions(graph, list(measured.values()), wanted)))

    def _decisions(
        self, graph: Graph, measured: Sequence[Measured], wanted: Taken
    ) -> list[Decision]:
        """Returns a decision for each choice point that was measured."""
        sites = {a.point.key: a.point for a in graph.alternatives}
        decisions: list[Decision] = []
        for key, site in sites.items():
            seen = {dict(m.move)[key]: m for m in measured if key in dict(m.move)}
            if not seen:
                continue
            first = next(iter(seen.values()))
            options = [Option(current(site, graph.taken), first.old)]
            options += [Option(option, m.new) for option, m in seen.items()]
            place = [o.name for o in options].index(current(site, wanted))
            where = Workload(key, site.text)
            decisions.append(
                Decision(site.about, where, self.key, tuple(options), place, self.program)
            )
        return decisions


def _tried(
    graph: Graph,
    taken: Taken,
    measured: Mapping[Move, Measured],
    hoped: Mapping[Move, float],
    whole: float,
) -> Iterator[TriedChoice]:
    """Yields the moves that were worth measuring, for the report."""
    sites = {a.point.key: a.point for a in graph.alternatives}
    for move, gain in hoped.items():
        # What was measured for other moves may have shown that this one gains nothing.
        if move in measured or graph.gain(move) >= LEAST_GAIN * whole:
            yield TriedChoice(
                "; ".join(f"{sites[p].about} {o}: {sites[p].text}" for p, o in sorted(move)),
                gain,
                measured[move].gain / whole if move in measured else None,
                all(taken.get(p) == o for p, o in move),
            )


def _cost(rounds: Rounds, calls: Mapping[str, int]) -> tuple[float, ...]:
    """Returns the seconds of these calls in every round, each as often as its loops run it."""
    each = [
        [n * rounds.trips(workload) * s for s in rounds.seconds[workload]]
        for workload, n in calls.items()
        if workload in rounds.seconds
    ]
    if not each:
        return (1e-9,) * max((len(s) for s in rounds.seconds.values()), default=1)
    return tuple(max(1e-9, sum(seconds)) for seconds in zip(*each))
