"""Does tuning a network try what matters? Its kernels and its choices, with gains and times.

    python -m bench.coverage                          ResNet-50 for 120 s, on one thread
    python -m bench.coverage bert --budget 60s --threads 2
    taskset -c 0 python -m bench.coverage             one core for everything

Bars: every kernel with 1 % of the time is tried, and every choice in the graph that may gain 1 %;
the search has 60 % of the budget, and the whole ends within 5 % of it. The exit status is 1 if one
is missed.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from loopwright.autotune.budget import parse_budget
from loopwright.autotune.program.program_tuner import ProgramResult
from loopwright.codegen.runtime import pool
from loopwright.tuning.time_plan import SEARCH

from .lock import MachineLock
from .nets.files import files_of

__all__ = ["main", "missed"]

LEAST_SHARE, LEAST_SEARCH, LATE = 0.01, 0.6, 0.05


def missed(report: ProgramResult, budget: float, wall: float) -> list[str]:
    """Returns a line for each bar that a tuning of so many seconds misses, which took ``wall``."""
    lines: list[str] = []
    shares = report.shares
    for task in report.tasks:
        share = shares[task.task.workload.hash]
        if share >= LEAST_SHARE and not task.trials:
            lines.append(f"{task.task.name}: {share:.1%} of the time, not tried")
    for choice in report.tried:
        if choice.expected >= LEAST_SHARE and choice.measured is None:
            lines.append(f"{choice}")
    search = report.spent.get(SEARCH, 0.0) / budget
    if search < LEAST_SEARCH:
        lines.append(f"the search had {search:.0%} of the budget")
    if abs(wall - budget) > LATE * budget and report.stopped == "budget":
        lines.append(f"{wall:.1f} s instead of {budget:g} s")
    return lines


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line; 1 if a bar is missed."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.coverage",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "net", nargs="?", default="resnet50", help="as `bench.nets --list` has them"
    )
    parser.add_argument("--budget", default="120s")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--log", type=Path, help="tuning log to go on from (else an empty one)")
    args = parser.parse_args(argv)
    budget = parse_budget(args.budget).seconds or 0.0
    model, arrays = files_of(args.net)
    with MachineLock(), tempfile.TemporaryDirectory() as folder:
        log = args.log or Path(folder) / "log.jsonl"
        report, wall = _tuned(model, arrays, args.threads, budget, log)
    print(report)
    lines = missed(report, budget, wall)
    tried = [t for t in report.tasks if t.trials]
    print(
        f"\n{len(tried)} of {len(report.tasks)} kernels tried, with "
        f"{sum(report.shares[t.task.workload.hash] for t in tried):.1%} of the time; "
        f"{sum(c.measured is not None for c in report.tried)} of {len(report.tried)} choices that "
        f"may gain 1 %; {wall:.1f} s by the clock"
    )
    print("\n".join(f"MISSED: {line}" for line in lines) or "all bars met")
    return 1 if lines else 0


def _tuned(
    model: Path, arrays: Path, threads: int, budget: float, log: Path
) -> tuple[ProgramResult, float]:
    import loopwright as lw

    pool.set_threads(threads)
    function: Any = lw.from_onnx(model)
    with np.load(arrays) as data:
        inputs = [data[name] for name in data.files if name != "result"]
    begun = time.monotonic()
    report = function.tune(*inputs, budget=budget, log=log)
    return report, time.monotonic() - begun


if __name__ == "__main__":
    sys.exit(main())
