"""Do two runs over the same candidates order them alike, and choose the same best?

    python -m bench.repeatability                three kernels, 48 candidates of each
    python -m bench.repeatability --tasks 6 --candidates 96
    python -m bench.repeatability --careful      as labels of the cost model are measured

Of the pairs that the first run finds 5 % apart, 97 % are to have the same order in the second, of
all candidates and of those within 1.5 times the best; the winners are to be within 3 %. Each run
measures all candidates anew, in processes of its own, and races its leaders, as tuning does. Both
winners are then measured interleaved, many times: the factor by which the better one is faster is
what the other run missed.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from loopwright.autotune.log.lookup import best_of
from loopwright.autotune.log.tuning_log import TuningLog
from loopwright.autotune.measure.kernels import TOOLCHAIN
from loopwright.autotune.measure.measurer import NativeMeasurer
from loopwright.autotune.model.quality import pairwise_accuracy
from loopwright.autotune.protocols import Candidate
from loopwright.autotune.record import MeasureRecord
from loopwright.autotune.search.tuner import Tuner
from loopwright.autotune.settings import DEFAULT_SETTINGS, TuneSettings
from loopwright.autotune.task import Task

from .collect import CAREFUL, candidates_of
from .lock import MachineLock
from .search_tasks import held_out_tasks

__all__ = ["Screening", "foretold", "main", "missed", "screened"]

BAR, PAIRS_BAR = 0.03, 0.97
APART, NEAR = 1.05, 1.5
_ROUNDS = 41


@dataclass(frozen=True, slots=True)
class Screening:
    """One run: seconds by schedule before the race, the winner and its confidence."""

    seconds: Mapping[str, float]
    best: MeasureRecord
    confidence: float | None


def screened(task: Task, candidates: Sequence[Candidate], settings: TuneSettings) -> Screening:
    """Measures candidates and races the leaders, in processes of its own."""
    log = TuningLog()
    seconds: dict[str, float] = {}
    with NativeMeasurer(task, TOOLCHAIN, settings) as measurer:
        for _, record in measurer.measure(candidates, float("inf")):
            log.append(record)
            if record.ok:
                seconds[record.schedule_key] = record.cost
        tuner = Tuner(task, measurer, log)
        tuner.finish()
    best = best_of([log], task.workload.hash, task.key)
    if best is None:
        raise RuntimeError(f"no candidate of {task.name} ran")
    return Screening(seconds, best[1], tuner.confidence)


def foretold(first: Screening, second: Screening, near: float = float("inf")) -> float:
    """Returns the share of the pairs that ``first`` finds 5 % apart, within ``near`` times the best
    one, which ``second`` puts in the same order; nan without such pairs."""
    least = min(first.seconds.values())
    keys = [k for k, s in first.seconds.items() if s <= near * least and k in second.seconds]
    before = np.array([first.seconds[k] for k in keys])
    after = np.array([second.seconds[k] for k in keys])
    return pairwise_accuracy(-after, before, APART)


def missed(task: Task, first: MeasureRecord, second: MeasureRecord) -> float:
    """Relative difference in time of two schedules, measured interleaved."""
    if first.schedule_key == second.schedule_key:
        return 0.0
    both = [Candidate(r.schedule, r.sketch) for r in (first, second)]
    with NativeMeasurer(task, TOOLCHAIN) as measurer:
        costs = [r.cost for r in measurer.race(both, _ROUNDS)]
    return max(costs) / min(costs) - 1.0


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; 1 if the bar is missed."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.repeatability",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--tasks", type=int, default=3, help="how many kernels (3)")
    parser.add_argument("--candidates", type=int, default=48, help="of each (48)")
    parser.add_argument("--careful", action="store_true", help="measure as labels are measured")
    options = parser.parse_args(arguments)
    settings = CAREFUL if options.careful else DEFAULT_SETTINGS
    worst = 0.0
    shares: list[tuple[float, float]] = []
    with MachineLock() as lock:
        for name, task in held_out_tasks(count=options.tasks).items():
            rows = candidates_of(task, options.candidates, 3)[: options.candidates]
            made = [tuple(task.space.schedule(row).to_json()) for row in rows]
            candidates = [Candidate(steps, task.sketch_of(row)) for steps, row in zip(made, rows)]
            runs: list[Screening] = []
            for _ in range(2):
                lock.between()
                runs.append(screened(task, candidates, settings))
            first, second = runs[0].best, runs[1].best
            pairs = foretold(*runs), foretold(*runs, NEAR)
            shares.append(pairs)
            apart = missed(task, first, second)
            worst = max(worst, apart)
            same = "the same schedule" if first.schedule_key == second.schedule_key else "two"
            print(
                f"{name:<34} {1e6 * first.cost:8.1f} and {1e6 * second.cost:8.1f} us, {same}, "
                f"{100 * apart:.1f} % apart interleaved; confidence {runs[0].confidence} and "
                f"{runs[1].confidence}; pairs {pairs[0]:.3f}, near the best {pairs[1]:.3f}",
                flush=True,
            )
    every, near = np.nanmean(np.array(shares), axis=0)
    print(
        f"furthest apart: {100 * worst:.1f} % (bar {100 * BAR:g} %); of pairs {APART} apart "
        f"{every:.3f} foretold, near the best {near:.3f} (bar {PAIRS_BAR})"
    )
    return int(worst > BAR or every < PAIRS_BAR)


if __name__ == "__main__":
    sys.exit(main())
