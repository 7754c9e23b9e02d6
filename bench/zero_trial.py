"""What the cost model is worth where little or nothing is measured, on kernels it has not seen.

    python -m bench.zero_trial                         twelve kernels
    python -m bench.zero_trial --tasks 40 --search 60s also beside a search
    python -m bench.zero_trial --tasks 80 --seconds 200   as many of them as the time allows

Of every kernel these are measured interleaved: the default schedule, what a compile without a log
chooses, the eight proposals of different nests that the model rates best with no default among
them, and with ``--search`` the winner of one, and of the budget "quick". Ratios are times,
geometric means with 95 % confidence intervals (a bootstrap over kernels):

- zero trials, the model's first choice and the best of its eight, over the default schedule
  (bars: at most 1, 1.02 and 0.92);
- zero trials and quick over the search (bars: 1.06, none above 1.4; 1.03).
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Hashable, Sequence
from dataclasses import replace

import numpy as np
from loopwright.autotune.log.lookup import best_of
from loopwright.autotune.log.tuning_log import TuningLog
from loopwright.autotune.measure.kernels import TOOLCHAIN, on_one_thread
from loopwright.autotune.measure.measurer import NativeMeasurer, Workers
from loopwright.autotune.model.shipped import sample_logs, shipped_model
from loopwright.autotune.program.native_tuning import tune_tasks
from loopwright.autotune.protocols import Candidate
from loopwright.autotune.request import TuneRequest
from loopwright.autotune.search.strategies import RowSet, pool_around, unique_rows
from loopwright.autotune.selection.select import choose_schedule
from loopwright.autotune.settings import DEFAULT_SETTINGS
from loopwright.autotune.task import Task
from loopwright.codegen.target import Target

from .collect import drawn_tasks
from .interval import geometric_mean
from .lock import MachineLock

__all__ = ["entrants_of", "main", "ratios"]

EIGHT, ROUNDS = 8, 10
FULL = replace(DEFAULT_SETTINGS, least_gain=0.0)


def entrants_of(task: Task) -> dict[str, Candidate]:
    """The default schedule, the choice without a log, and the model's eight best."""
    model = shipped_model().model
    assert model is not None, shipped_model().reason
    space = task.space
    chosen = choose_schedule(task.prim, task.target, task.threads, [])
    defaults = space.default()
    memory = RowSet(len(space.knobs))
    memory.add(defaults)
    others = unique_rows(pool_around(defaults, space, np.random.default_rng(0)), memory)
    best: dict[Hashable, Candidate] = {}  # by nest: twins are one candidate, as in a search
    for row in others[np.argsort(-model.predict(space.features(others)), kind="stable")]:
        steps = space.schedule(row).to_json()
        nest = task.nest_key(on_one_thread(steps) if task.threads == 1 else steps)
        best.setdefault(nest, _candidate(steps))
        if len(best) == EIGHT:
            break
    return {
        "default": _candidate(space.schedule(defaults[0]).to_json()),
        **{f"model {number}": candidate for number, candidate in enumerate(best.values())},
        "zero": _candidate(chosen.schedule.to_json()),
    }


def _candidate(steps: Sequence[object]) -> Candidate:
    return Candidate(tuple(steps), "")


def searched(task: Task, budget: str) -> Candidate | None:
    """The winner of a search with an empty log."""
    log = TuningLog()
    tune_tasks([task], TOOLCHAIN, log, TuneRequest(budget, settings=FULL).resolved())
    best = best_of([log], task.workload.hash, task.key)
    return None if best is None else Candidate(best[1].schedule, best[1].sketch)


def ratios(seconds: dict[str, float]) -> dict[str, float]:
    """Ratios of one kernel's times by what they say."""
    default = seconds["default"]
    eight = [s for name, s in seconds.items() if name.startswith("model")]
    found = {"zero trials over the default": seconds["zero"] / default}
    if eight:
        found["the model's first over the default"] = seconds.get("model 0", eight[0]) / default
        found["the best of eight over the default"] = min(eight) / default
    if "search" in seconds:
        for name in ("zero", "quick", "default"):
            if name in seconds:
                found[f"{name} over the search"] = seconds[name] / seconds["search"]
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.zero_trial",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--tasks", type=int, default=12, help="how many kernels (12)")
    parser.add_argument("--seed", type=int, default=9000, help="of the kernels (9000)")
    parser.add_argument("--threads", type=int, default=1, help="of the kernels (1)")
    parser.add_argument("--seconds", type=float, default=math.inf, help="in all (no limit)")
    parser.add_argument("--search", metavar="TIME", help="search each for so long, too")
    options = parser.parse_args(arguments)
    target = Target.host()
    known = {w.hash for path in sample_logs() for w in TuningLog(path).workloads()}
    found: dict[str, list[float]] = {}
    with Workers(max(options.threads, target.cores)) as workers, MachineLock() as lock:
        drawn = drawn_tasks(options.tasks, options.seed, target, options.threads, known)
        until = time.monotonic() + options.seconds
        for family, task in drawn:
            if time.monotonic() > until:
                break
            entrants = entrants_of(task)
            if options.search:
                for name, budget in (("quick", "quick"), ("search", options.search)):
                    winner = searched(task, budget)
                    if winner is not None:
                        entrants[name] = winner
            with NativeMeasurer(task, TOOLCHAIN, DEFAULT_SETTINGS, 0, workers) as measurer:
                distinct = list({c.key: c for c in entrants.values()}.values())
                cost = {r.schedule_key: r.cost for r in measurer.race(distinct, ROUNDS) if r.ok}
            seconds = {n: cost[c.key] for n, c in entrants.items() if c.key in cost}
            if not {"default", "zero"} <= seconds.keys():
                print(f"{family}: {task.workload.text}: nothing ran")
                continue
            values = ratios(seconds)
            text = ", ".join(f"{v:.2f}" for v in values.values())
            print(f"{family}: {task.workload.text}: {1e6 * seconds['default']:.4g} us; {text}")
            sys.stdout.flush()
            for what, value in values.items():
                found.setdefault(what, []).append(value)
            lock.between()
    for what, each in found.items():
        mean = geometric_mean([value] for value in each)
        print(f"{what}: {mean}, worst {max(each):.2f}, {len(each)} kernels")
    return 0


if __name__ == "__main__":
    sys.exit(main())
