"""Ablation of the search: strategies, and the guided one without each of its parts.

    python -m bench.ablation                      simulated: synthetic kernels with known costs
    python -m bench.ablation --log LOG            on what a log measured, and what lies between it
    python -m bench.ablation --live --budget 4s   on real kernels, for the same time each
    python -m bench.ablation --live --tasks 20 --seeds 1 --only guided random --seconds 600

Every variant has the same budget on every task, with every seed, and starts from the model that
ships (it knows nothing of synthetic kernels; ``--without-model``: nor of others). What is compared
is the true cost of the schedule that it ends with, over the best that any variant found on the
task: 1.00 is perfect (geometric means, after half of the budget and after all of it), and how many
runs end within 5 %. Beside it stands how much longer that takes than what the guided search
ends with on the same task and seed, with 95 % confidence by a bootstrap over tasks and seeds: where
1.00 lies outside, the difference is none of chance. ``candidates`` is how many were measured: one
variant stops early. On real kernels all that runs of one kernel and seed end with is measured
interleaved, and so is the fastest of the rules' default schedules, with which each of them begins
(``the defaults alone``). After ``--seconds`` no other kernel is begun.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from loopwright.autotune.log.tuning_log import TuningLog
from loopwright.autotune.measure.kernels import TOOLCHAIN
from loopwright.autotune.measure.measurer import NativeMeasurer, Workers
from loopwright.autotune.model.cost_model import available_model
from loopwright.autotune.protocols import Candidate, CostModel, FloatArray
from loopwright.autotune.record import Check, MeasureRecord
from loopwright.autotune.settings import DEFAULT_SETTINGS, TuneSettings
from loopwright.autotune.task import Task, feature_count

from bench.standins import SyntheticMeasurer, SyntheticSpace, synthetic_task

from .interval import geometric_mean
from .lock import MachineLock
from .one_task import tune_one
from .search_tasks import held_out_tasks

__all__ = ["BARS", "VARIANTS", "Recorded", "Run", "Variant", "compare", "main", "table"]

FULL = replace(DEFAULT_SETTINGS, least_gain=0.0)
"""The whole budget is spent."""
DEFAULTS = "the defaults alone"
BARS = {"random": 1.05, DEFAULTS: 1.03}
"""What others take at least over the guided search, on twenty kernels."""
_ROUNDS = 12
OFF = 1.5
SIZES = ((256, 256, 256), (96, 200, 512), (1000, 64, 300), (128, 1024, 48))


class Optimistic:
    """A model that adds to its opinion how far four models, each of which has seen other rows,
    disagree (the upper confidence bound of Bayesian optimisation)."""

    def __init__(
        self, settings: TuneSettings, seed: int, features: int | None = None, bonus: float = 1.0
    ) -> None:
        self._bonus = bonus
        self._rng = np.random.default_rng(seed)
        light = replace(settings, boosting_rounds=settings.boosting_rounds // 2)
        self._models = [available_model(light, seed + i, features) for i in range(4)]

    @property
    def trained(self) -> bool:
        return all(m.trained for m in self._models)

    def predict(self, features: FloatArray) -> FloatArray:
        scores = np.stack([m.predict(features) for m in self._models])
        return scores.mean(axis=0) + self._bonus * scores.std(axis=0)

    def update(self, group: str, features: FloatArray, costs: FloatArray) -> None:
        for model in self._models:
            keep = self._rng.random(len(costs)) < 0.75
            model.update(group, features[keep], costs[keep])


@dataclass(frozen=True, slots=True)
class Variant:
    """A strategy with settings; ``optimistic`` picks by what the model does not know, too."""

    name: str
    strategy: str = "guided"
    settings: TuneSettings = FULL
    optimistic: bool = False

    def model(self, seed: int, features: int | None = None) -> CostModel:
        """The model of a run; it goes on from the shipped one if that knows these features."""
        if self.optimistic:
            return Optimistic(self.settings, seed, features)
        return available_model(self.settings, seed, features)


VARIANTS = (
    Variant("random", "random"),
    Variant("grid", "grid"),
    Variant("guided"),
    Variant("  nothing by chance", settings=replace(FULL, epsilon=0.0)),
    Variant("  more by chance", settings=replace(FULL, epsilon=0.25)),
    Variant(
        "  half the pool", settings=replace(FULL, near=FULL.near // 2, random=FULL.random // 2)
    ),
    Variant("  uncertainty-aware", optimistic=True),
    Variant("  stops early", settings=DEFAULT_SETTINGS),
)


class Recorded:
    """Answers from a log: what it measured of a schedule, or what lies nearest to it.

    A schedule that was not measured costs what its four nearest neighbours (in features, each on
    its own scale) cost in the mean of their logarithms, weighted by nearness.
    """

    def __init__(self, task: Task, records: Sequence[MeasureRecord]) -> None:
        self.task = task
        placed = [(task.row_of(r.schedule), r) for r in records if not r.raced]
        rows = np.stack([row for row, _ in placed if row is not None])
        self._costs = np.log([r.cost for row, r in placed if row is not None])
        features = task.space.features(rows).astype(np.float64)
        self._scale = features.std(axis=0) + 1e-9
        self._features = features / self._scale

    def seconds(self, rows: Any) -> FloatArray:
        """float64[n]: the cost of int32[n, K] rows."""
        asked = self.task.space.features(rows).astype(np.float64) / self._scale
        found: list[float] = []
        for one in asked:
            apart = np.abs(self._features - one).sum(axis=1)
            near = np.argsort(apart, kind="stable")[:4]
            weights = 1.0 / (apart[near] + 1e-3)
            found.append(float((self._costs[near] * weights).sum() / weights.sum()))
        return np.exp(found)

    def measure(
        self, candidates: Sequence[Candidate], best_seconds: float
    ) -> Iterator[tuple[int, MeasureRecord]]:
        for index, candidate in enumerate(candidates):
            yield index, self._record(candidate)

    def race(
        self, candidates: Sequence[Candidate], rounds: int, cache: str = "warm"
    ) -> list[MeasureRecord]:
        return [self._record(c, rounds) for c in candidates]

    def close(self) -> None:
        """Nothing is open."""

    def _record(self, candidate: Candidate, samples: int = 3) -> MeasureRecord:
        row = self.task.row_of(candidate.schedule)
        cost = math.inf if row is None else float(self.seconds(row[None])[0])
        error = None if math.isfinite(cost) else "schedule_error"
        return MeasureRecord(
            self.task.workload,
            self.task.key,
            candidate.schedule,
            candidate.sketch,
            (cost,) * samples if error is None else (),
            error,
            checked=Check(0.0, 1e-6),
        )


@dataclass(frozen=True, slots=True)
class Run:
    """The result of one variant on one task: seconds of its best schedule after half of the budget,
    and after all of it. Of the ``trials``, ``off`` took more than ``OFF`` times the best."""

    variant: str
    task: str
    half: float
    end: float
    seed: int = 0
    trials: int = 0
    off: int = 0


Cost = Callable[[MeasureRecord], float]
Race = Callable[[Task, Sequence[MeasureRecord]], Mapping[str, float]]
"""Seconds of the schedules of some records, by their keys, measured interleaved."""


def compare(
    tasks: Mapping[str, Task],
    measurer_of: Callable[[Task, int], Any],
    cost_of: Callable[[Task], Cost],
    budget: str,
    seeds: int,
    variants: Sequence[Variant] = VARIANTS,
    each: Callable[[], None] = lambda: None,
    shipped: bool = True,
    race: Race | None = None,
    until: float = math.inf,
) -> list[Run]:
    """All variants on all tasks with all seeds; ``cost_of(task)`` tells what a record is worth.

    With ``race`` the ends are what it says, that of the defaults among them. No task is begun after
    ``until``, of ``time.monotonic``.
    """
    runs: list[Run] = []
    for name, task in tasks.items():
        if time.monotonic() > until:
            break
        cost = cost_of(task)
        for seed in range(seeds):
            ends: list[tuple[Run, MeasureRecord]] = []
            for variant in variants:
                each()
                measurer, log = measurer_of(task, seed), TuningLog()
                _, result = tune_one(
                    task,
                    measurer,
                    log,
                    budget,
                    model=variant.model(seed, feature_count(task) if shipped else None),
                    strategy=variant.strategy,
                    settings=variant.settings,
                    seed=seed,
                )
                measurer.close()
                tried = [r for r in log if r.ok and not r.raced]
                half = min(tried[: max(1, len(tried) // 2)], key=lambda r: r.cost)
                best = result.best
                assert best is not None
                ends.append(
                    (
                        Run(
                            variant.name,
                            name,
                            cost(half),
                            cost(best),
                            seed,
                            len(tried),
                            sum(r.cost > OFF * best.cost for r in tried),
                        ),
                        best,
                    )
                )
                if race is not None and variant.name == "guided":
                    first = _of_defaults(task, tried)
                    ends += [(Run(DEFAULTS, name, r.cost, r.cost, seed, n), r) for r, n in first]
            seconds = race(task, [record for _, record in ends]) if race is not None else {}
            runs += [replace(run, end=seconds.get(r.schedule_key, run.end)) for run, r in ends]
    return runs


def _of_defaults(task: Task, tried: Sequence[MeasureRecord]) -> list[tuple[MeasureRecord, int]]:
    """The fastest record of a default schedule and how many there are; empty without any."""
    keys = {
        Candidate(tuple(task.space.schedule(row).to_json()), "").key for row in task.space.default()
    }
    records = [r for r in tried if r.schedule_key in keys]
    return [(min(records, key=lambda r: r.cost), len(records))] if records else []


def table(runs: Sequence[Run]) -> str:
    """The comparison as Markdown."""
    best = {task: min(r.end for r in runs if r.task == task) for task in {r.task for r in runs}}
    of = {(r.variant, r.task, r.seed): r for r in runs}
    lines = [
        "| variant | after half | at the end | within 5 % | worst task | "
        "to the guided (95 %) | candidates | 1.5x off |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for name in dict.fromkeys(r.variant for r in runs):
        mine = [r for r in runs if r.variant == name]
        half = np.exp(np.mean([math.log(r.half / best[r.task]) for r in mine]))
        ends = np.array([r.end / best[r.task] for r in mine])
        tasks = {r.task: [q.end / best[q.task] for q in mine if q.task == r.task] for r in mine}
        worst = max(float(np.exp(np.mean(np.log(v)))) for v in tasks.values())
        lines.append(
            f"| {name} | {half:.3f} | {np.exp(np.log(ends).mean()):.3f} | "
            f"{100 * (ends <= 1.05).mean():.0f} % | {worst:.3f} | "
            f"{_beside(mine, of)} | {np.mean([r.trials for r in mine]):.0f} | "
            f"{sum(r.off for r in mine) / max(1, sum(r.trials for r in mine)):.0%} |"
        )
    return "\n".join(lines)


def _beside(mine: Sequence[Run], of: Mapping[tuple[str, str, int], Run]) -> str:
    """The ratio of what runs ended with to that of the guided search, and its interval."""
    pairs = [(r, of.get(("guided", r.task, r.seed))) for r in mine]
    ratios: dict[str, list[float]] = {}
    for run, other in pairs:
        if other is not None:
            ratios.setdefault(run.task, []).append(run.end / other.end)
    if not ratios or mine[0].variant == "guided":
        return ""
    mean = geometric_mean(ratios.values())
    bar = BARS.get(mine[0].variant)
    return f"{mean}, bar {bar:.2f}" if bar else str(mean)


def simulated(budget: str, seeds: int, variants: Sequence[Variant] = VARIANTS) -> list[Run]:
    """On synthetic kernels, whose samples are noisy and whose true cost is known."""
    tasks = {f"{m}x{n}x{k}": synthetic_task((m, n, k)) for m, n, k in SIZES}

    def cost_of(task: Task) -> Cost:
        assert isinstance(task.space, SyntheticSpace)
        space = task.space
        return lambda r: float(space.seconds(np.array([r.schedule[0][1]], np.int32))[0])

    def measurer_of(task: Task, seed: int) -> SyntheticMeasurer:
        return SyntheticMeasurer(task, noise=0.03, seed=seed)

    return compare(tasks, measurer_of, cost_of, budget, seeds, variants)


def recorded(
    path: str, count: int, budget: str, seeds: int, variants: Sequence[Variant], shipped: bool
) -> list[Run]:
    """On the held-out kernels that a log has enough of."""
    log = TuningLog(path)
    tasks: dict[str, Task] = {}
    measurers: dict[str, Recorded] = {}
    for name, task in held_out_tasks(count=count).items():
        records = [r for r in log.of(task.workload.hash, task.key) if r.ok]
        if len(records) >= 50:
            tasks[name] = task
            measurers[task.workload.hash] = Recorded(task, records)

    def cost_of(task: Task) -> Cost:
        return lambda r: r.cost

    return compare(
        tasks,
        lambda task, seed: measurers[task.workload.hash],
        cost_of,
        budget,
        seeds,
        variants,
        shipped=shipped,
    )


def live(
    count: int, budget: str, seeds: int, variants: Sequence[Variant], shipped: bool, seconds: float
) -> list[Run]:
    """On real kernels: each variant has the same time."""
    tasks = held_out_tasks(count=count)
    with Workers() as workers, MachineLock() as lock:
        return compare(
            tasks,
            lambda task, seed: NativeMeasurer(task, TOOLCHAIN, FULL, seed, workers),
            lambda task: lambda r: r.cost,
            budget,
            seeds,
            variants,
            each=lock.between,
            shipped=shipped,
            race=lambda task, records: _raced(task, records, workers),
            until=time.monotonic() + seconds,
        )


def _raced(task: Task, records: Sequence[MeasureRecord], workers: Workers) -> dict[str, float]:
    """Seconds of the records' schedules by their keys, measured interleaved."""
    candidates = {r.schedule_key: Candidate(r.schedule, r.sketch) for r in records}
    with NativeMeasurer(task, TOOLCHAIN, DEFAULT_SETTINGS, 0, workers) as measurer:
        raced = measurer.race(list(candidates.values()), _ROUNDS)
    return {r.schedule_key: r.cost for r in raced if r.ok}


def main(arguments: Sequence[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.ablation",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--log", metavar="FILE", help="take measurements from this log")
    parser.add_argument("--live", action="store_true", help="measure real kernels")
    parser.add_argument("--budget", help="of a run (128 trials; live: 4s)")
    parser.add_argument("--tasks", type=int, default=4, help="how many kernels (4)")
    parser.add_argument("--seeds", type=int, default=3, help="runs of each (3)")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="variants (all)")
    parser.add_argument("--seconds", type=float, default=math.inf, help="in all (no limit)")
    parser.add_argument("--without-model", action="store_true", help="models start untrained")
    options = parser.parse_args(arguments)
    named = {v.name.strip(): v for v in VARIANTS}
    unknown = sorted(set(options.only or ()) - named.keys())
    if unknown:
        parser.error(f"unknown variant {unknown[0]!r}; there are {', '.join(named)}")
    variants = [named[name] for name in options.only or named]
    shipped = not options.without_model
    budget = options.budget or ("4s" if options.live else "128 trials")
    if options.live:
        runs = live(options.tasks, budget, options.seeds, variants, shipped, options.seconds)
    elif options.log:
        runs = recorded(options.log, options.tasks, budget, options.seeds, variants, shipped)
    else:
        runs = simulated(budget, options.seeds, variants)
    if not runs:
        print("ablation: the log has too little of the kernels", file=sys.stderr)
        return 2
    print(f"{len({r.task for r in runs})} tasks, {options.seeds} seeds, {budget} each\n")
    print(table(runs))
    return 0


if __name__ == "__main__":
    sys.exit(main())
