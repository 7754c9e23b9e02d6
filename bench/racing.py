"""Time saved by racing: all candidates measured with care, or dropped as soon as they lose.

    python -m bench.racing                  five kernels, 64 candidates of each
    python -m bench.racing --tasks 20

With care means that every candidate has as many samples as a contender; otherwise those that cannot
win have few. The leaders of both then race, which takes about as long for both and is shown apart.
Both winners are measured interleaved. Equal quality (within 3 %, the mean over the kernels) for at
most half of the time is the bar. Building and checking are the same for both and do not count.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from loopwright.autotune.comparison import COMPARISON
from loopwright.autotune.log.lookup import best_of
from loopwright.autotune.log.tuning_log import TuningLog
from loopwright.autotune.measure.kernels import TOOLCHAIN
from loopwright.autotune.measure.measurer import NativeMeasurer
from loopwright.autotune.protocols import Candidate
from loopwright.autotune.record import MeasureRecord
from loopwright.autotune.search.tuner import Tuner
from loopwright.autotune.settings import DEFAULT_SETTINGS, TuneSettings
from loopwright.autotune.task import Task

from .lock import MachineLock
from .repeatability import candidates_of
from .search_tasks import held_out_tasks

__all__ = ["CAREFUL", "Chosen", "choose", "main"]

BAR = 0.5
_ROUNDS = 41
CAREFUL = replace(
    DEFAULT_SETTINGS,
    least_losing_samples=DEFAULT_SETTINGS.contender_samples,
    comparison=replace(COMPARISON, hopeless=math.inf, contender=math.inf),
    telling_seconds=math.inf,
    obvious_seconds=math.inf,
)
"""Every candidate is a contender."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """The winner of some candidates, the seconds that measuring them took, and those of the
    leaders' race."""

    best: MeasureRecord
    seconds: float
    race: float


def choose(task: Task, candidates: Sequence[Candidate], settings: TuneSettings) -> Chosen:
    """Measure all candidates, and race the leaders."""
    log = TuningLog()
    with NativeMeasurer(task, TOOLCHAIN, settings) as measurer:
        for _, record in measurer.measure(candidates, math.inf):
            log.append(record)
        spent = sum(r.took.run for r in log if r.took is not None)
        begun = time.perf_counter()
        Tuner(task, measurer, log).finish()
        race = time.perf_counter() - begun
    found = best_of([log], task.workload.hash, task.key)
    if found is None:
        raise RuntimeError(f"no candidate of {task.name} ran")
    return Chosen(found[1], spent, race)


def interleaved(task: Task, records: Sequence[MeasureRecord]) -> list[float]:
    """Seconds of some schedules, measured interleaved."""
    keys = list(dict.fromkeys(r.schedule_key for r in records))
    of = {r.schedule_key: Candidate(r.schedule, r.sketch) for r in records}
    with NativeMeasurer(task, TOOLCHAIN) as measurer:
        costs = {r.schedule_key: r.cost for r in measurer.race([of[k] for k in keys], _ROUNDS)}
    return [costs[r.schedule_key] for r in records]


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; 1 if the bar is missed."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.racing",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--tasks", type=int, default=5, help="how many kernels (5)")
    parser.add_argument("--candidates", type=int, default=64, help="of each (64)")
    options = parser.parse_args(arguments)
    careful, raced, apart = 0.0, 0.0, []
    with MachineLock() as lock:
        for name, task in held_out_tasks(count=options.tasks).items():
            candidates = candidates_of(task, options.candidates)
            lock.between()
            with_care = choose(task, candidates, CAREFUL)
            racing = choose(task, candidates, DEFAULT_SETTINGS)
            slow, quick = interleaved(task, [with_care.best, racing.best])
            careful += with_care.seconds
            raced += racing.seconds
            apart.append(quick / slow)
            print(
                f"{name:<34} with care {with_care.seconds:6.3f} s, racing {racing.seconds:6.3f} s; "
                f""
                f"leaders {with_care.race:.2f} and {racing.race:.2f} s; "
                f"its winner takes {quick / slow:.3f} times as long",
                flush=True,
            )
    ratio = float(np.exp(np.mean(np.log(apart))))
    print(
        f"{100 * raced / careful:.0f} % of the time (bar {100 * BAR:g} %), {ratio:.3f} in quality"
    )
    return int(raced > BAR * careful or ratio > 1.03)


if __name__ == "__main__":
    sys.exit(main())
