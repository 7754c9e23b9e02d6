"""Prints the quality of the cost model on tasks it has never seen.

Random schedules of several matrix products are measured (or taken from the log, if it has them),
the model learns from all products but one, and ranks the schedules of that one; so for three of
them. Both figures are printed beside those that Ansor reports of its own model.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from loopwright.autotune.log.tuning_log import TuningLog
from loopwright.autotune.measure.kernels import TOOLCHAIN, task_of
from loopwright.autotune.measure.measurer import NativeMeasurer, Workers
from loopwright.autotune.model.cost_model import available_model
from loopwright.autotune.model.quality import ModelQuality, pairwise_accuracy, recall_at
from loopwright.autotune.protocols import Candidate, FloatArray, Measurer
from loopwright.autotune.search.strategies import RowSet, unique_rows
from loopwright.autotune.settings import DEFAULT_SETTINGS, TuneSettings
from loopwright.autotune.task import Task
from loopwright.codegen.target import Target
from loopwright.ir.dims import symbol
from loopwright.ir.dtype import FLOAT32
from loopwright.ir.loop.expr import op, read
from loopwright.ir.loop.prim import Axis, Buffer, PrimFunc, Stage

__all__ = ["Samples", "collect", "held_out_quality", "main", "matmul_prim"]

SIZES = (
    (128, 128, 128), (96, 200, 256), (256, 48, 192), (64, 512, 64), (100, 100, 300),
    (192, 256, 80), (30, 384, 250), (160, 90, 160), (256, 256, 64), (77, 140, 333),
    (120, 230, 150),
)  # fmt: skip
"""Products measured by the command, with round and odd sizes; each of the last is held out."""
HELD_OUT = 3
K = 30
PAIRWISE_BAR, RECALL_BAR = 0.85, 0.62
MEASURE_SECONDS = 50.0
"""Time for measuring, besides some seconds for starting processes and training."""
CAREFUL = replace(
    DEFAULT_SETTINGS,
    least_samples=7,
    least_losing_samples=7,
    telling_seconds=4e-3,
    patience=0.03,
)
"""The held-out schedules are measured with more care: the model is judged by their order, and noise
should not change it."""

Samples = tuple[FloatArray, FloatArray]
"""Features float32[n, F] and seconds float64[n] (inf: failed)."""


def matmul_prim(m: int, n: int, k: int) -> PrimFunc:
    """``out[i, j] = sum(k) x0[i, k] * x1[k, j]`` in float32, the right operand constant."""
    i, j, r = symbol("i"), symbol("j"), symbol("k")
    left = Buffer("x0", (m, k), FLOAT32)
    right = Buffer("x1", (k, n), FLOAT32, constant=True)
    product = op("multiply", read("x0", (i, r), FLOAT32), read("x1", (r, j), FLOAT32))
    stage = Stage(
        Buffer("out", (m, n), FLOAT32),
        (Axis("i", m), Axis("j", n)),
        product,
        (Axis("k", k),),
        "sum",
    )
    return PrimFunc("matmul", (left, right), ("out",), (stage,))


def collect(
    task: Task,
    measurer: Measurer,
    log: TuningLog,
    count: int,
    seed: int,
    until: float = math.inf,
) -> Samples:
    """Returns samples of ``count`` random schedules, if the space has as many; logged ones first.

    Nothing more is measured after ``until`` (of ``time.monotonic``).
    """
    rows, costs = _logged(task, log)
    memory = RowSet(len(task.space.knobs))
    memory.add(rows)
    missing = max(0, count - len(rows))
    rng = np.random.default_rng(seed)
    fresh = unique_rows(task.space.sample(2 * missing, rng), memory)[:missing]
    candidates = [
        Candidate(tuple(task.space.schedule(row).to_json()), task.sketch_of(row)) for row in fresh
    ]
    best = float(costs.min(initial=math.inf))
    done: list[int] = []
    seconds: list[float] = []
    for index, record in measurer.measure(candidates, best):
        log.append(record)
        done.append(index)
        seconds.append(record.cost)
        if time.monotonic() > until:
            break
    rows = np.concatenate([rows, fresh[done]])
    return task.space.features(rows), np.concatenate([costs, np.array(seconds)])


def _logged(task: Task, log: TuningLog) -> tuple[np.ndarray, FloatArray]:
    rows: list[np.ndarray] = []
    costs: list[float] = []
    for record in log.of(task.workload.hash, task.key):
        row = task.row_of(record.schedule)
        if row is not None and not record.raced:
            rows.append(row)
            costs.append(record.cost)
    empty = np.empty((0, len(task.space.knobs)), np.int32)
    return np.stack(rows) if rows else empty, np.array(costs, np.float64)


def held_out_quality(
    samples: Mapping[str, Samples],
    held_out: str,
    settings: TuneSettings = DEFAULT_SETTINGS,
    seen: int = 0,
) -> ModelQuality:
    """Returns the model's quality on one task after learning from the others.

    It learns from the first ``seen`` samples of the task too, and is judged on the rest.
    """
    model = available_model(settings)
    for name, (features, costs) in samples.items():
        if name != held_out:
            model.update(name, features, costs)
    features, costs = samples[held_out]
    if seen:
        model.update(held_out, features[:seen], costs[:seen])
    predicted, true = model.predict(features[seen:]), costs[seen:]
    k = min(K, len(true))
    return ModelQuality(
        len(true),
        pairwise_accuracy(predicted, true),
        recall_at(predicted, true, k),
        k,
        pairwise_accuracy(predicted, true, 1.05),
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command."""
    parser = argparse.ArgumentParser(prog="python -m tools.evaluate_model", description=__doc__)
    parser.add_argument("--log", help="keep what is measured in this file, and use what it has")
    parser.add_argument("--records", type=int, default=500, help="to learn from, in all (500)")
    parser.add_argument("--held-out", type=int, default=200, help="of each unseen task (200)")
    parser.add_argument("--own", type=int, default=0, help="of each, seen after all (0)")
    parser.add_argument("--seconds", type=float, default=MEASURE_SECONDS, help="to measure in (50)")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    log = TuningLog(options.log)
    target = Target.host()
    tasks = [task_of(matmul_prim(*size), target, 1) for size in SIZES]
    each = -(-options.records // (len(tasks) - 1))
    asked, others = tasks[-HELD_OUT:], tasks[:-HELD_OUT]
    samples: dict[str, Samples] = {}
    begun = time.monotonic()
    until = begun + options.seconds
    with Workers(1) as workers:
        for left, task in zip(range(len(tasks), 0, -1), (*asked, *others)):
            count = max(each, options.held_out + options.own) if task in asked else each
            # Those that are asked about come first; there may be fewer to learn from.
            share = (until - time.monotonic()) / left * (3 if task in asked else 1)
            settings = CAREFUL if task in asked else DEFAULT_SETTINGS
            with NativeMeasurer(task, TOOLCHAIN, settings, options.seed, workers) as measurer:
                samples[task.workload.text] = collect(
                    task, measurer, log, count, options.seed, time.monotonic() + share
                )
    spent = time.monotonic() - begun
    few = {name: (rows[:each], costs[:each]) for name, (rows, costs) in samples.items()}
    qualities: list[ModelQuality] = []
    for task in asked:
        name = task.workload.text
        qualities.append(held_out_quality(few | {name: samples[name]}, name, seen=options.own))
        learnt = sum(len(c) for other, (_, c) in few.items() if other != name)
        sys.stdout.write(
            f"{name}: {qualities[-1]}, after {learnt + options.own} records of other products\n"
        )
    sys.stdout.write(
        f"pairwise accuracy {_mean([q.pairwise for q in qualities])} (bar {PAIRWISE_BAR}), "
        f"recall@{K} {_mean([q.recall for q in qualities])} (bar {RECALL_BAR})\n"
        f"measured in {spent:.0f} s, {workers.restarts} workers replaced\n"
    )
    judged = all(q.is_judged for q in qualities)
    if not judged:
        sys.stdout.write(
            "too few candidates were measured to judge the model: give it more --seconds\n"
        )
    return 0 if judged else 1


def _mean(figures: Sequence[float]) -> str:
    """Returns the mean of those products that were judged, in words if none was."""
    numbers = [f for f in figures if not math.isnan(f)]
    return f"{np.mean(numbers):.3f}" if numbers else "unknown"


if __name__ == "__main__":
    sys.exit(main())
