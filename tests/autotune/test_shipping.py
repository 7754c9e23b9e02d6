"""From measured records to what ships: samples, winners, and a model that reads them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
from loopwright.autotune.log.tuning_log import TuningLog
from loopwright.autotune.measure.kernels import task_of
from loopwright.autotune.model.tree_model import TreeModel
from loopwright.autotune.record import MeasureRecord
from loopwright.autotune.task import Task
from loopwright.codegen.target import Target

from tools.evaluate_model import matmul_prim
from tools.samples import grouped, samples_of
from tools.shipping import (
    cross_validated,
    samples_to_ship,
    train_model,
    winners_to_ship,
    write_records,
)

TARGET = Target("x86-64-v3", "some CPU", 4, 32768, 1 << 20, 1 << 25)


def fake_seconds(task: Task, rows: np.ndarray) -> np.ndarray:
    """Something that the features tell: the tile model's cycles, and where the data lies."""
    features = task.space.features(rows)
    return 1e-6 * 2.0 ** (features[:, 45] + 0.3 * features[:, 30]).astype(np.float64)


def records_of(size: tuple[int, int, int], count: int) -> tuple[Task, list[MeasureRecord]]:
    task = task_of(matmul_prim(*size), TARGET, 1)
    rows = task.space.sample(count, np.random.default_rng(0))
    rows = np.concatenate([task.space.default()[:1], rows])
    found = []
    for row, seconds in zip(rows, fake_seconds(task, rows)):
        schedule = tuple(task.space.schedule(row).to_json())
        found.append(
            MeasureRecord(task.workload, task.key, schedule, "tile", (float(seconds), 1.0))
        )
    return task, found


SIZES = [(64, 96, 128), (100, 64, 80), (48, 200, 64), (128, 128, 96)]


def test_samples_are_read_back_from_a_log_alone(tmp_path: Path) -> None:
    task, records = records_of(SIZES[0], 60)
    kept = samples_to_ship(records, 10)
    assert len(kept) == 10
    costs = [r.cost for r in kept]
    assert costs == sorted(costs) and costs[0] == min(r.cost for r in records)
    assert [bool(r.workload.prim) for r in kept] == [True] + 9 * [False]
    write_records(tmp_path / "samples.jsonl", kept)
    log = TuningLog(tmp_path / "samples.jsonl")
    assert len(log) == 10 and log.skipped.total == 0
    (samples,) = samples_of(log).values()
    assert samples.task.workload.hash == task.workload.hash
    assert samples.task.target.isa == "x86-64-v3" and samples.lost == 0
    assert np.allclose(samples.costs, costs, rtol=1e-5)
    assert np.array_equal(samples.features, task.space.features(samples.rows))


def test_what_the_rules_no_longer_offer_is_left_out_and_counted() -> None:
    _, records = records_of(SIZES[0], 20)
    odd = replace(records[0], schedule=(["split", "i", [3, 100]],))
    nonsense = replace(records[0], schedule=(["fold", 1],))
    (samples,) = samples_of([*records, odd, nonsense]).values()
    assert samples.lost == 2
    assert not samples_of([replace(odd, workload=replace(odd.workload, prim=""))])
    assert not samples_of([replace(odd, workload=replace(odd.workload, prim="(x: no[4]"))])


def test_races_count_more_than_screening() -> None:
    _, records = records_of(SIZES[0], 5)
    lucky = replace(records[0], seconds=(1e-9,))
    raced = replace(records[0], seconds=(2e-3,), raced=True)
    (samples,) = samples_of([lucky, raced, *records[1:]]).values()
    assert samples.costs[0] == 2e-3


def test_winners_are_shipped_where_something_was_gained() -> None:
    _, records = records_of(SIZES[0], 30)
    favourite = replace(records[0], seconds=(1.0,))
    found = winners_to_ship(samples_of([favourite, *records[1:]]).values())
    assert [r.cost for r in found] == [1.0, min(r.cost for r in records[1:])]
    good = replace(records[0], seconds=(1e-12,))
    assert not winners_to_ship(samples_of([good, *records[1:]]).values())
    assert not winners_to_ship(samples_of(records[1:]).values())
    failed = replace(records[0], seconds=(), error="timeout")
    assert not winners_to_ship(samples_of([failed, *records[1:]]).values())


def test_a_model_trained_on_samples_ranks_another_shape(tmp_path: Path) -> None:
    records = [r for size in SIZES for r in records_of(size, 60)[1]]
    assert len(grouped(records)) == len(SIZES)
    samples = list(samples_of(records).values())
    found = cross_validated(samples, 2)
    assert len(found) == 4 and np.mean([q.pairwise for q in found]) > 0.8
    train_model(samples, tmp_path / "model.json")
    model = TreeModel.load(tmp_path / "model.json")
    assert model.levels == {"x86-64-v3"}
    assert len(model.predict(samples[0].features)) == len(samples[0].costs)
