"""Makes the shipped files: winners for reuse, samples for training, the model trained on them."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from loopwright.autotune.model.cost_model import XGBoostModel
from loopwright.autotune.model.quality import ModelQuality, pairwise_accuracy, recall_at
from loopwright.autotune.record import MeasureRecord
from loopwright.autotune.settings import DEFAULT_SETTINGS, TuneSettings
from loopwright.autotune.space.feature_list import FEATURE_VERSION

from .samples import Samples, grouped

__all__ = ["cross_validated", "samples_to_ship", "train_model", "winners_to_ship", "write_records"]

WORTH = 1.15
"""Speedup over the default schedule from which on a schedule is worth shipping."""
LEAST_TENTH = 6
"""Fewest schedules that count as the best tenth of a kernel's."""
CLEAR_RATIO = 1.05
"""Ratio of seconds from which on measuring again does not reverse the order."""


def winners_to_ship(samples: Iterable[Samples]) -> list[MeasureRecord]:
    """Returns the default and the best schedule of every task whose best one is clearly faster."""
    winners: list[MeasureRecord] = []
    for task in samples:
        default = task.task.space.default()[:1]
        places = [
            n for n, row in enumerate(task.rows) if len(default) and (row == default[0]).all()
        ]
        best = int(np.argmin(task.costs))
        seconds = task.costs[places[0]] if places else math.inf
        if math.isfinite(seconds) and seconds > WORTH * task.costs[best]:
            winners += [_record(task, places[0]), _record(task, best)]
    return winners


def _record(samples: Samples, place: int) -> MeasureRecord:
    task, row = samples.task, samples.rows[place]
    schedule = tuple(task.space.schedule(row).to_json())
    seconds = (float(samples.costs[place]),)
    return MeasureRecord(task.workload, task.key, schedule, task.sketch_of(row), seconds)


def samples_to_ship(records: Iterable[MeasureRecord], keep: int) -> list[MeasureRecord]:
    """Returns ``keep`` schedules of every task, from the fastest to the slowest, with some that
    failed.

    Only the first record of a workload has its text.
    """
    shipped: list[MeasureRecord] = []
    for group in grouped(records).values():
        best: dict[str, MeasureRecord] = {}
        for record in group:
            previous = best.get(record.schedule_key)
            if previous is None or _label_order(record) < _label_order(previous):
                best[record.schedule_key] = record
        ranked = sorted(best.values(), key=lambda r: r.cost)
        if not ranked or not ranked[0].ok:
            continue
        places = np.unique(np.linspace(0, len(ranked) - 1, keep).round().astype(int))
        for number, place in enumerate(places):
            record = _short(ranked[int(place)])
            if number:
                workload = replace(record.workload, text="", prim="")
                record = replace(record, workload=workload)
            shipped.append(record)
    return shipped


def _label_order(record: MeasureRecord) -> tuple[bool, float]:
    """Returns what is smallest for the record whose time is the label: a raced one, the fastest."""
    return (not (record.ok and record.raced), record.cost)


def _short(record: MeasureRecord) -> MeasureRecord:
    nothing = {"detail": "", "checked": None, "time": "", "seed": 0, "version": "", "took": None}
    seconds = (record.cost,) if record.ok else ()
    return replace(record, seconds=seconds, raced=False, **nothing)


def write_records(path: Path, records: Sequence[MeasureRecord]) -> None:
    """Writes a log of these records, without empty fields."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        for record in records:
            data = {k: v for k, v in json.loads(record.to_json()).items() if v not in ("", None, 0)}
            file.write(json.dumps(data, separators=(",", ":"), ensure_ascii=False) + "\n")


def train_model(
    samples: Sequence[Samples], path: Path, settings: TuneSettings = DEFAULT_SETTINGS
) -> None:
    """Trains on all samples and writes the model file."""
    model = XGBoostModel(settings)
    model.learn(map(_lesson, samples))
    model.save(path, FEATURE_VERSION, {s.task.target.isa for s in samples})


def _lesson(samples: Samples) -> tuple[np.ndarray, np.ndarray, str]:
    return samples.features, samples.costs, samples.task.key.cpu


def cross_validated(
    samples: Sequence[Samples], folds: int, settings: TuneSettings = DEFAULT_SETTINGS
) -> list[ModelQuality]:
    """Returns the quality on each task of a model that has learnt from the tasks of the other
    folds. A kernel's tasks, on other threads or machines, are in one fold."""
    kernels = sorted({s.task.workload.hash for s in samples})
    order = np.random.default_rng(0).permutation(len(kernels)).tolist()
    fold_by_kernel = {kernel: place % folds for kernel, place in zip(kernels, order, strict=True)}
    fold_of = [fold_by_kernel[s.task.workload.hash] for s in samples]
    qualities: dict[int, ModelQuality] = {}
    for fold in range(folds):
        mine = [i for i in range(len(samples)) if fold_of[i] == fold]
        model = XGBoostModel(settings)
        model.learn(_lesson(s) for i, s in enumerate(samples) if fold_of[i] != fold)
        for i in mine:
            qualities[i] = quality_on(model.predict(samples[i].features), samples[i].costs)
    return [qualities[i] for i in range(len(samples))]


def quality_on(predicted: np.ndarray, costs: np.ndarray, k: int = 30) -> ModelQuality:
    """Returns accuracy and recall; k is 30 of 200, and the same share of fewer."""
    k = min(k, max(1, math.ceil(len(costs) * k / 200)))
    fastest = np.argsort(costs, kind="stable")[: max(LEAST_TENTH, math.ceil(len(costs) / 10))]
    return ModelQuality(
        len(costs),
        pairwise_accuracy(predicted, costs),
        recall_at(predicted, costs, k),
        k,
        pairwise_accuracy(predicted, costs, CLEAR_RATIO),
        pairwise_accuracy(predicted[fastest], costs[fastest], CLEAR_RATIO),
    )
