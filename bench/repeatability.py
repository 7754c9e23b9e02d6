"""Do two runs over the same candidates choose the same best? Within 3 % is the bar.

    python -m bench.repeatability                three kernels, 48 candidates of each
    python -m bench.repeatability --tasks 6 --candidates 96

Each run measures all candidates anew, in processes of its own, and races its leaders, as tuning
does. Both winners are then measured interleaved, many times: the factor by which the better one is
faster is what the other run missed.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

import numpy as np
from loopwright.autotune.log.lookup import best_of
from loopwright.autotune.log.record import MeasureRecord
from loopwright.autotune.log.tuning_log import TuningLog
from loopwright.autotune.measure.kernels import TOOLCHAIN
from loopwright.autotune.measure.measurer import NativeMeasurer
from loopwright.autotune.protocols import Candidate
from loopwright.autotune.search.tuner import Tuner
from loopwright.autotune.task import Task

from .lock import MachineLock
from .search_tasks import held_out_tasks

__all__ = ["chosen", "main", "missed"]

BAR = 0.03
_ROUNDS = 41


def candidates_of(task: Task, count: int) -> list[Candidate]:
    """The rules' default schedules, and samples of the space."""
    rows = np.concatenate(
        [task.space.default(), task.space.sample(count, np.random.default_rng(3))]
    )
    made = [Candidate(tuple(task.space.schedule(r).to_json()), task.sketch_of(r)) for r in rows]
    return list({c.key: c for c in made}.values())[:count]


def chosen(task: Task, candidates: Sequence[Candidate]) -> tuple[MeasureRecord, float | None]:
    """The best schedule of one run, and its confidence."""
    log = TuningLog()
    with NativeMeasurer(task, TOOLCHAIN) as measurer:
        for _, record in measurer.measure(candidates, float("inf")):
            log.append(record)
        tuner = Tuner(task, measurer, log)
        tuner.finish()
    best = best_of([log], task.workload.hash, task.key)
    if best is None:
        raise RuntimeError(f"no candidate of {task.name} ran")
    return best[1], tuner.confidence


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
    options = parser.parse_args(arguments)
    worst = 0.0
    with MachineLock() as lock:
        for name, task in held_out_tasks(count=options.tasks).items():
            candidates = candidates_of(task, options.candidates)
            runs = []
            for _ in range(2):
                lock.between()
                runs.append(chosen(task, candidates))
            (first, sure), (second, sure2) = runs
            apart = missed(task, first, second)
            worst = max(worst, apart)
            same = "the same schedule" if first.schedule_key == second.schedule_key else "two"
            print(
                f"{name:<34} {1e6 * first.cost:8.1f} and {1e6 * second.cost:8.1f} us, {same}, "
                f"{100 * apart:.1f} % apart interleaved; confidence {sure} and {sure2}",
                flush=True,
            )
    print(f"furthest apart: {100 * worst:.1f} % (bar {100 * BAR:g} %)")
    return int(worst > BAR)


if __name__ == "__main__":
    sys.exit(main())
