"""Seconds of tuning until the code is within 5 % of the best known, from an empty log.

    python -m bench.time_to_quality                       twenty kernels, up to 15 s each
    python -m bench.time_to_quality --long 60s            first look longer for the best known
    python -m bench.time_to_quality --without-model       not even the model that comes with us

The best known schedules are those of ``--known LOG``, to which long runs (``--long``) add; the
run's own winner counts as well. Every schedule that was the best of the run for a while is measured
again interleaved with the best known one: the time counted is that of the first which is within 5 %
then. The clock starts before the measuring processes are started.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from loopwright.autotune.budget import parse_budget
from loopwright.autotune.log.lookup import best_of
from loopwright.autotune.log.tuning_log import TuningLog
from loopwright.autotune.measure.kernels import TOOLCHAIN
from loopwright.autotune.measure.measurer import NativeMeasurer
from loopwright.autotune.model.cost_model import XGBoostModel, available_model
from loopwright.autotune.protocols import Candidate
from loopwright.autotune.record import MeasureRecord
from loopwright.autotune.settings import DEFAULT_SETTINGS
from loopwright.autotune.task import Task, feature_count

from .lock import MachineLock
from .one_task import tune_one
from .search_tasks import held_out_tasks

__all__ = ["Reached", "incumbents", "main", "reached"]

BAR, BAR_WITHOUT = 5.0, 15.0
WITHIN = 1.05
_FULL = replace(DEFAULT_SETTINGS, least_gain=0.0)
_ROUNDS = 15
_MOST_INCUMBENTS = 8


@dataclass(frozen=True, slots=True)
class Reached:
    """``seconds`` of tuning until within 5 % of the best known, inf if never; ``untuned`` and
    ``final`` are the default schedule and the winner, relative to the best known."""

    name: str
    seconds: float
    untuned: float
    final: float
    best: float
    trials: int

    def __str__(self) -> str:
        when = f"{self.seconds:5.2f} s" if math.isfinite(self.seconds) else "  never"
        return (
            f"{self.name:<36} {when}   untuned {self.untuned:.2f}x, in the end {self.final:.2f}x "
            f"of {1e6 * self.best:.1f} us   {self.trials} candidates"
        )


def incumbents(records: Sequence[MeasureRecord]) -> list[MeasureRecord]:
    """The records that were the fastest when they came, the races aside."""
    found: list[MeasureRecord] = []
    for record in records:
        if record.ok and not record.raced and (not found or record.cost < found[-1].cost):
            found.append(record)
    return found


def reached(name: str, task: Task, seconds: float, known: TuningLog, shipped: bool) -> Reached:
    """Tune a task from an empty log, then see when it was good enough."""
    log = TuningLog()
    model = available_model(_FULL, 0, feature_count(task)) if shipped else XGBoostModel(_FULL)
    begun = time.monotonic()
    with NativeMeasurer(task, TOOLCHAIN, _FULL) as measurer:
        late = time.monotonic() - begun
        run, result = tune_one(task, measurer, log, seconds, model=model, settings=_FULL)
        path = incumbents(log.of(task.workload.hash, task.key))
        assert result.best is not None
        shown = [*path[:1], *path[1:][-_MOST_INCUMBENTS:]]
        best = _best_known(known, task)
        entrants = {r.schedule_key: r for r in (*shown, result.best, *([best] if best else []))}
        asked = [Candidate(r.schedule, r.sketch) for r in entrants.values()]
        times = {r.schedule_key: r.cost for r in measurer.race(asked, _ROUNDS)}
    least = min(times.values())
    good = [r for r in shown if times.get(r.schedule_key, math.inf) <= WITHIN * least]
    final = times[result.best.schedule_key]
    when = min((late + (r.at or 0.0) for r in good), default=math.inf)
    if not math.isfinite(when) and final <= WITHIN * least:
        when = late + run.seconds  # only the race of the leaders found it
    known.append(log.of(task.workload.hash, task.key))
    first = times[path[0].schedule_key]
    return Reached(name, when, first / least, final / least, least, result.trials)


def look_longer(task: Task, seconds: float, known: TuningLog) -> None:
    """A long run that goes on from what is known."""
    with NativeMeasurer(task, TOOLCHAIN, _FULL) as measurer:
        tune_one(task, measurer, known, seconds, settings=_FULL, seed=len(known))


def _best_known(known: TuningLog, task: Task) -> MeasureRecord | None:
    found = best_of([known], task.workload.hash, task.key)
    return found[1] if found else None


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; 1 if the bar is missed."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.time_to_quality",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--budget", default="15s", help="of a run (15s)")
    parser.add_argument("--long", metavar="TIME", help="look so long for the best known first")
    parser.add_argument("--known", type=Path, metavar="LOG", help="where the best known are kept")
    parser.add_argument("--tasks", type=int, default=20, help="how many kernels (20)")
    parser.add_argument("--threads", type=int, default=1, help="of the kernels (1)")
    parser.add_argument("--without-model", action="store_true", help="the model starts untrained")
    options = parser.parse_args(arguments)
    seconds = parse_budget(options.budget).seconds or 15.0
    known = TuningLog(options.known)
    found: list[Reached] = []
    with MachineLock() as lock:
        for name, task in held_out_tasks(options.threads, options.tasks).items():
            lock.between()
            if options.long:
                look_longer(task, parse_budget(options.long).seconds or 60.0, known)
                lock.between()
            found.append(reached(name, task, seconds, known, not options.without_model))
            print(found[-1], flush=True)
    median = float(np.median([r.seconds for r in found]))
    bar = BAR_WITHOUT if options.without_model else BAR
    never = sum(not math.isfinite(r.seconds) for r in found)
    worst = max(found, key=lambda r: r.seconds)
    print(f"median {median:.1f} s (bar {bar:g}), {never} of {len(found)} never; last: {worst.name}")
    return int(median > bar)


if __name__ == "__main__":
    sys.exit(main())
