"""Candidates measured per second, all overheads counted, and the share of the search engine.

    python -m bench.throughput                   twelve kernels under 1 ms, 4 s each
    python -m bench.throughput --tasks 4 --budget 6s

Every kernel is tuned alone from an empty log, in new processes. The clock runs from before they are
started to the end of the leaders' race. The engine is what proposes, computes features, and trains
and asks the model; it is measured in the tuner's process, where nothing is measured meanwhile.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from loopwright.autotune.budget import parse_budget
from loopwright.autotune.log.tuning_log import TuningLog
from loopwright.autotune.measure.kernels import TOOLCHAIN
from loopwright.autotune.measure.measurer import NativeMeasurer
from loopwright.autotune.settings import DEFAULT_SETTINGS, TuneSettings
from loopwright.autotune.task import Task

from .lock import MachineLock
from .one_task import tune_one
from .search_tasks import held_out_tasks

__all__ = ["Throughput", "main", "throughput"]

RATE_BAR, WIDE_RATE_BAR, ENGINE_BAR = 40.0, 15.0, 0.10
WIDE = ("conv", "dwconv", "attention")
"""Beginnings of the names of kernels with much code, which have a bar of their own."""


@dataclass(frozen=True, slots=True)
class Throughput:
    """``trials`` candidates in ``seconds``, of which the engine took ``engine`` seconds."""

    name: str
    best: float
    trials: int
    seconds: float
    engine: float

    @property
    def rate(self) -> float:
        return self.trials / self.seconds

    @property
    def share(self) -> float:
        return self.engine / self.seconds

    def __str__(self) -> str:
        return (
            f"{self.name:<34} {1e6 * self.best:8.1f} us  {self.trials:4} candidates in "
            f"{self.seconds:5.2f} s  {self.rate:5.1f}/s  engine {100 * self.share:4.1f} %"
        )


def throughput(
    name: str, task: Task, seconds: float, settings: TuneSettings = DEFAULT_SETTINGS
) -> Throughput:
    """Tune a task from nothing for so long, and count."""
    begun = time.perf_counter()
    settings = replace(settings, least_gain=0.0)  # the whole budget
    with NativeMeasurer(task, TOOLCHAIN, settings) as measurer:
        result, _ = tune_one(task, measurer, TuningLog(), seconds, settings=settings)
    spent = time.perf_counter() - begun
    return Throughput(name, result.after, result.trials, spent, result.engine_seconds)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.throughput",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--tasks", type=int, default=12, help="how many kernels (12)")
    parser.add_argument("--budget", default="4s", help="time of each (4s)")
    options = parser.parse_args(arguments)
    seconds = parse_budget(options.budget).seconds or 4.0
    found: list[Throughput] = []
    with MachineLock() as lock:
        for name, task in held_out_tasks(count=options.tasks).items():
            lock.between()
            one = throughput(name, task, seconds)
            print(one, flush=True)
            if one.best < 1e-3:
                found.append(one)
    wide = [t for t in found if t.name.startswith(WIDE)]
    others = [t for t in found if t not in wide]
    for words, part, bar in (("kernels", others, RATE_BAR), ("the wide ones", wide, WIDE_RATE_BAR)):
        if part:
            rate = sum(t.trials for t in part) / sum(t.seconds for t in part)
            slowest = min(part, key=lambda t: t.rate)
            print(f"{words} under 1 ms: {rate:.1f} candidates a second (bar {bar:g}),", end=" ")
            print(f"the fewest {slowest.rate:.1f} ({slowest.name})")
    if found:
        share = sum(t.engine for t in found) / sum(t.seconds for t in found)
        print(f"engine {100 * share:.1f} % of the time (bar {100 * ENGINE_BAR:g} %)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
