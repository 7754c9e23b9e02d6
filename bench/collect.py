"""Measure schedules of many kernels, for the cost model to learn from.

    python -m bench.collect --out collected.jsonl                    a minute's worth of tasks
    python -m bench.collect --out collected.jsonl --seed 2 --tasks 80 --seconds 600
    python -m bench.collect --out unseen.jsonl --seed 1000 --each 200 --tune 3
    python -m bench.collect --out near.jsonl --rated --each 48            where the model is blind
    python -m tools.train collected.jsonl                                 what is made of them

Workloads of all families are drawn (``--seed``), none of them one of the bench's; every kernel
they are made of is a task. For each the rules' default schedules are measured, schedules near
them, and others drawn from the whole space; with ``--rated`` three quarters are what an
guided search for the best scores proposes, since a search is as good as the model is among
those. Those within 1.5 times the best are raced: labels that are to order them may not be noise.
Every record is in the log at once: a run that was stopped goes on where it stood.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import loopwright as lw
import numpy as np
from loopwright.autotune.log.tuning_log import TuningLog
from loopwright.autotune.measure.kernels import TOOLCHAIN, tasks_of
from loopwright.autotune.measure.measurer import NativeMeasurer, Workers
from loopwright.autotune.model.shipped import shipped_model
from loopwright.autotune.protocols import Candidate, CostModel, Population
from loopwright.autotune.search.strategies import RowSet, make_strategy, unique_rows
from loopwright.autotune.settings import DEFAULT_SETTINGS
from loopwright.autotune.task import Task
from loopwright.codegen.target import Target
from loopwright.driver.pipeline import called_kernels, lower_module, preferences_of
from loopwright.ir.dtype import dtype_of
from loopwright.tracer.core.argument_specs import DTypeSpec

from .families import fixed_workloads, random_workloads
from .lock import MachineLock
from .namespaces.of_loopwright import Loopwright
from .one_task import tune_one
from .workload import Workload

__all__ = ["CAREFUL", "candidates_of", "drawn_tasks", "kernels_in", "main"]

MOST_FLOPS, MOST_BYTES = 5e8, 2.4e7
"""Kernels that take longer say little more, and few of their schedules are measured in a minute."""
TASK_SECONDS = 3.0
"""Time for one task at most."""
MOST_TEXT = 1000
"""Characters of a workload. Longer ones (Winograd's transforms) take seconds to build, and their
schedules differ little."""
ENOUGH = 8
"""A task with so many records was measured by an earlier run, as far as its time allowed."""
CAREFUL = replace(DEFAULT_SETTINGS, least_samples=7, telling_seconds=4e-3, patience=0.03)
"""Labels are measured with more care than a search needs: what is noise now is never learnt."""
RACED, MOST_RACED, ROUNDS = 1.5, 32, 8
"""Times the best up to which schedules are raced, the most of them, and the rounds. Two screenings
with care put 97 % of the pairs 5 % apart in one order, but 92 % of those within 1.5 times the best
(``bench.repeatability``)."""
RATED_SHARE = 0.75


def kernels_in(workload: Workload, target: Target, threads: int) -> list[Task]:
    """The tasks of a workload, as compiling it makes them."""
    rng = np.random.default_rng(1)
    drawn = {n: i.draw(rng) for n, i in workload.inputs.items() if i.constant}

    def function(*given: Any) -> Any:
        rest = iter(given)
        arrays = (drawn[n] if n in drawn else next(rest) for n in workload.inputs)
        return workload.body(Loopwright(), *arrays)

    specs = [
        DTypeSpec(dtype_of(i.dtype))[i.shape] for i in workload.inputs.values() if not i.constant
    ]
    module = lw.compile(function).trace(*specs).module
    lowered = lower_module(module, preferences_of(None, target))
    return tasks_of(called_kernels(lowered), target, threads)


def drawn_tasks(
    count: int, seed: int, target: Target, threads: int, avoid: set[str]
) -> Iterator[tuple[str, Task]]:
    """``count`` tasks with their families, none of the hashes in ``avoid``, nor any of the bench's
    own workloads."""
    known = avoid | _fixed_hashes(target, threads)
    drawn = random_workloads(3 * count, seed)
    for place in np.random.default_rng(seed).permutation(len(drawn)):
        workload = drawn[place]
        if count <= 0:
            return
        for task in kernels_in(workload, target, threads):
            small = task.flops <= MOST_FLOPS and task.bytes <= MOST_BYTES
            small &= len(task.workload.prim) <= MOST_TEXT
            if count > 0 and small and task.workload.hash not in known:
                known.add(task.workload.hash)
                count -= 1
                yield workload.family, task


@cache
def _fixed_hashes(target: Target, threads: int) -> frozenset[str]:
    """Returns the hashes of the kernels of the bench's own workloads."""
    small = (w for w in fixed_workloads() if w.flops <= MOST_FLOPS and w.read <= MOST_BYTES)
    return frozenset(t.workload.hash for w in small for t in kernels_in(w, target, threads))


def candidates_of(task: Task, count: int, seed: int) -> Population:
    """About ``count`` rows: the defaults, then alternately one near to them and a random one."""
    rng = np.random.default_rng(seed)
    space = task.space
    defaults = space.default()
    near = [defaults]
    for _ in range(3):
        near.append(space.mutate(np.repeat(near[-1], 4, axis=0)[: 2 * count], rng))
    close = unique_rows(np.concatenate(near[1:]), RowSet(len(space.knobs)))
    close = close[rng.permutation(len(close))]
    anywhere = space.sample(2 * count, rng)
    both = [defaults]
    for index in range(max(len(close), len(anywhere))):
        both += [close[index : index + 1], anywhere[index : index + 1]]
    return unique_rows(np.concatenate(both), RowSet(len(space.knobs)))


def rated_candidates(task: Task, count: int, seed: int, model: CostModel) -> Population:
    """About ``count`` rows: the defaults, what a search for high scores proposes, and others."""
    space = task.space
    strategy = make_strategy("guided", space, seed)
    strategy.propose(None, strategy.queued)  # the defaults come first anyway
    rated = strategy.propose(
        lambda rows: model.predict(space.features(rows)), int(RATED_SHARE * count)
    )
    others = candidates_of(task, count, seed)
    defaults = len(space.default())
    return unique_rows(
        np.concatenate([others[:defaults], rated, others[defaults:]]), RowSet(len(space.knobs))
    )


def measure_task(
    task: Task,
    log: TuningLog,
    workers: Workers,
    count: int,
    seed: int,
    until: float,
    model: CostModel | None = None,
) -> int:
    """Measures until ``count`` schedules of the task are in the log, three quarters of them by the
    ``model`` if there is one. Returns how many were."""
    known = {r.schedule_key for r in log.of(task.workload.hash, task.key)}
    chosen: list[Candidate] = []
    drawn = candidates_of(task, count, seed)
    if model is not None:
        drawn = rated_candidates(task, count, seed, model)
    for row in drawn:
        if len(known) >= count:
            break
        schedule = tuple(task.space.schedule(row).to_json())
        candidate = Candidate(schedule, task.sketch_of(row))
        if candidate.key not in known:
            known.add(candidate.key)
            chosen.append(candidate)
    done = 0
    if not chosen:
        return done
    with NativeMeasurer(task, TOOLCHAIN, CAREFUL, seed, workers) as measurer:
        for _, record in measurer.measure(chosen):
            log.append(record)
            done += 1
            if time.monotonic() > until:
                break
        _race_the_near(task, log, measurer)
    return done


def _race_the_near(task: Task, log: TuningLog, measurer: NativeMeasurer) -> None:
    """Measures the schedules near the best again, interleaved."""
    ran = [r for r in log.of(task.workload.hash, task.key) if r.ok and not r.raced]
    least = min((r.cost for r in ran), default=0.0)
    near = sorted((r for r in ran if r.cost <= RACED * least), key=lambda r: r.cost)[:MOST_RACED]
    entrants = [Candidate(r.schedule, r.sketch) for r in near]
    if len(entrants) > 1:
        log.append([replace(r, raced=True) for r in measurer.race(entrants, ROUNDS)])


def main(arguments: Sequence[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.collect",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--out", required=True, metavar="LOG", help="the log to append to")
    parser.add_argument("--seed", type=int, default=1, help="of the workloads (1)")
    parser.add_argument("--tasks", type=int, default=20, help="how many kernels (20)")
    parser.add_argument("--each", type=int, default=64, help="schedules of each (64)")
    parser.add_argument("--rated", action="store_true", help="near what the model rates best")
    parser.add_argument("--tune", type=float, default=0.0, help="then tune each, in seconds (0)")
    parser.add_argument("--threads", type=int, default=1, help="of the kernels (1)")
    parser.add_argument("--seconds", type=float, default=50.0, help="in all (50)")
    parser.add_argument("--avoid", nargs="*", default=[], metavar="LOG", help="take other tasks")
    options = parser.parse_args(arguments)
    target = Target.host()
    log = TuningLog(options.out)
    avoid = {w.hash for name in options.avoid for w in TuningLog(name).workloads()}
    tasks = list(drawn_tasks(options.tasks, options.seed, target, options.threads, avoid))
    until = time.monotonic() + options.seconds
    done = tuned = 0
    model = shipped_model().model if options.rated else None
    # Built on all cores first and then run, as for kernels that take all cores: building is what
    # takes the time.
    with Workers(max(options.threads, target.cores)) as workers, MachineLock() as lock:
        until = time.monotonic() + options.seconds
        for family, task in tasks:
            if time.monotonic() > until:
                break
            if len(log.of(task.workload.hash, task.key)) >= ENOUGH:
                continue
            end = min(until, time.monotonic() + TASK_SECONDS)
            count = measure_task(task, log, workers, options.each, options.seed, end, model)
            done += count
            text = f"{family}: {task.workload.text}: {count} measured"
            if options.tune and count:
                with NativeMeasurer(task, TOOLCHAIN, DEFAULT_SETTINGS, 0, workers) as measurer:
                    _, result = tune_one(task, measurer, log, options.tune)
                tuned += result.trials
                text += f", {result.trials} while tuning: {result.after * 1e3:.4g} ms"
            sys.stdout.write(text + "\n")
            sys.stdout.flush()
            if count:
                lock.between()
    sys.stdout.write(f"{done} measured, {tuned} while tuning\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
