"""Converts a log to training data of a cost model: features and seconds of every task in it.

A log alone is enough: records hold the kernel and the machine. Schedules that the rules no longer
offer are left out, and counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from loopwright.autotune.measure.kernels import task_of
from loopwright.autotune.protocols import FloatArray, Population
from loopwright.autotune.record import MeasureRecord, TargetKey, Workload, target_key
from loopwright.autotune.task import Task
from loopwright.codegen.target import Target
from loopwright.ir.errors import LoopwrightError
from loopwright.ir.loop.workload import parse_workload

__all__ = ["Samples", "group_name", "grouped", "samples_of", "target_of", "task_of_records"]


@dataclass(frozen=True, slots=True, eq=False)
class Samples:
    """The measured schedules of one task: int32[n, K] rows, float32[n, F] features, float64[n]
    seconds (inf: failed). ``lost`` schedules are no longer in the space."""

    task: Task
    rows: Population
    features: FloatArray
    costs: FloatArray
    lost: int = 0


def group_name(workload: Workload, key: TargetKey) -> str:
    """Returns the name of a task's group in a training set."""
    return f"{workload.hash}/{key}"


def grouped(records: Iterable[MeasureRecord]) -> dict[str, list[MeasureRecord]]:
    """Returns records by task, in their order."""
    groups: dict[str, list[MeasureRecord]] = {}
    for record in records:
        groups.setdefault(group_name(record.workload, record.target), []).append(record)
    return groups


def samples_of(records: Iterable[MeasureRecord], least: int = 1) -> dict[str, Samples]:
    """Returns samples by task, without tasks that have fewer than ``least`` schedules, and those
    whose text is missing or of another version."""
    samples: dict[str, Samples] = {}
    for name, group in grouped(records).items():
        task = task_of_records(group)
        if task is None:
            continue
        rows, costs, lost = _rows(task, group)
        if len(rows) >= max(1, least):
            samples[name] = Samples(task, rows, task.space.features(rows), costs, lost)
    return samples


def task_of_records(records: Sequence[MeasureRecord]) -> Task | None:
    """Returns the task of records, made from their text; None if that is not possible."""
    workload = next((r.workload for r in records if r.workload.prim), None)
    if workload is None:
        return None
    try:
        prim = parse_workload(workload.prim, _kernel_name(workload))
        task = task_of(prim, target_of(records), records[0].target.threads)
    except (LoopwrightError, KeyError):
        return None
    return task if task.workload.hash == workload.hash else None


def _kernel_name(workload: Workload) -> str:
    name = workload.text.split(" ")[0]
    return name if name.isidentifier() else "kernel"


def target_of(records: Sequence[MeasureRecord]) -> Target:
    """Returns the machine of the records. Its instructions beyond the ISA level are those in
    schedules."""
    key = records[0].target
    host = Target.host()
    if target_key(host, key.threads) == key:
        return host
    steps = [s for r in records if r.ok for s in r.schedule if isinstance(s, list)]
    tiles = any("tiles" in s for s in steps)
    features = {"avx512vnni"} if any("pack_grouped" in s[:1] for s in steps) else set[str]()
    features |= {"amx-int8"} if tiles else set[str]()
    return key.machine(features)


def _rows(task: Task, records: Sequence[MeasureRecord]) -> tuple[Population, FloatArray, int]:
    """Returns each schedule once, with its median seconds, since machines drift both ways; those of
    its best race, if there were any."""
    runs_by_schedule: dict[str, list[MeasureRecord]] = {}
    for record in records:
        runs_by_schedule.setdefault(record.schedule_key, []).append(record)
    rows: list[Population] = []
    costs: list[float] = []
    for runs in runs_by_schedule.values():
        row = task.row_of(runs[0].schedule)
        if row is not None:
            rows.append(row)
            raced = [r.cost for r in runs if r.raced]
            costs.append(min(raced) if raced else float(np.median([r.cost for r in runs])))
    empty = np.empty((0, len(task.space.knobs)), np.int32)
    stacked = np.stack(rows) if rows else empty
    return stacked, np.array(costs, np.float64), len(runs_by_schedule) - len(rows)
