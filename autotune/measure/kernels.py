"""Makes tasks of kernels, and machine code of schedules (JSON data) in worker processes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy.typing as npt

from ...codegen.kernel import Kernel, compile_kernel, prepare_operands
from ...codegen.machine import MachineModel
from ...codegen.roofline import Roof, Work
from ...codegen.target import Target
from ...codegen.traffic import LEVELS, Traffic
from ...ir.loop.prim import PrimFunc
from ...ir.schedule.steps import Schedule
from ..ranges import AtPoint, Point, Weights, evenly_weighted, is_single, specialised, typical_bytes
from ..space.analysis import prim_bytes
from ..space.least_work import least_flops
from ..space.space import ScheduleSpace
from ..task import Task
from ..workload import as_lists, workload_at, workload_of
from .toolchain import Toolchain
from .twins import nest_key

__all__ = ["TOOLCHAIN", "machine_floor", "task_of", "tasks_of"]

Array = npt.NDArray[Any]


def task_of(
    prim: PrimFunc,
    target: Target,
    threads: int,
    weight: int = 1,
    cache: str = "warm",
    point: Point | None = None,
) -> Task:
    """Returns the task of tuning one kernel; one with symbolic sizes at a ``point``."""
    there = specialised(prim, point or {})
    space = ScheduleSpace(there, target, threads)
    return Task(
        prim=there,
        compiled=AtPoint(prim, point) if point else None,
        target=target,
        space=space,
        workload=workload_at(prim, point) if point else workload_of(prim),
        name=f"{prim.name} at {', '.join(map(str, point.values()))}" if point else prim.name,
        weight=weight,
        threads=threads,
        flops=least_flops(there),
        bytes=prim_bytes(there),
        nest_key=partial(nest_key, prim),
        sketch_of=space.sketch_name,
        cache=cache,
    )


def tasks_of(
    prims: Iterable[PrimFunc],
    target: Target,
    threads: int,
    failed: Callable[[str, Exception], None] | None = None,
    around: Mapping[str, float] | None = None,
    weights: Mapping[str, Weights] | None = None,
) -> list[Task]:
    """Returns one task per distinct kernel of a program; its weight is how often it occurs.

    A kernel without a schedule space is left out if ``failed`` is given, which is called with its
    name and the error. If the other kernels move more than the LLC holds, a kernel does not find
    its operands from the last call there: then its time with cold caches counts. ``around`` has the
    bytes that are moved between two calls, by workload, of kernels in loops. A kernel with symbolic
    sizes is a task at each of the points that ``weights`` has for its workload, or its range.
    """
    counts: dict[str, tuple[PrimFunc, int]] = {}
    prims = list(prims)
    moved = sum(map(typical_bytes, prims))
    for prim in prims:
        key = workload_of(prim).hash
        first, count = counts.get(key, (prim, 0))
        counts[key] = (first, count + 1)
    tasks: list[Task] = []
    for key, (prim, count) in counts.items():
        others = (around or {}).get(key, moved - typical_bytes(prim))
        cache = "cold" if others > target.l3 else "warm"
        try:
            if not prim.sizes:
                tasks.append(task_of(prim, target, threads, count, cache))
                continue
            for point, importance in (weights or {}).get(key) or evenly_weighted(prim):
                task = task_of(prim, target, threads, count, cache, point)
                tasks.append(replace(task, importance=importance))
        except Exception as error:
            if failed is None:
                raise
            failed(prim.name, error)
    return tasks


def machine_floor(task: Task, machine: MachineModel) -> float:
    """Returns the least seconds of a call of a task's kernel on a machine: those of its operations,
    or of reading its operands once from the level of memory that holds them all. 0 if the machine's
    figures are estimates."""
    if not machine.measured:
        return 0.0
    target = machine.seen_by(task.target)
    held = (0, target.l1, target.l2, target.l3)
    far = task.cache == "cold"
    traffic = {
        level: Traffic(read=task.bytes if far or task.bytes > size else 0.0)
        for level, size in zip(LEVELS, held, strict=True)
    }
    wide = any(b.dtype.bytes == 8 for b in task.prim.output_buffers)
    return Roof(machine, task.threads).bound(Work(task.flops, traffic, 8 if wide else 4))[1]


def _compile(prim: PrimFunc | AtPoint, schedule: Any, target: Target, name: str) -> Kernel:
    steps = Schedule.from_json(as_lists(schedule))
    if isinstance(prim, AtPoint) and is_single(prim.prim, prim.point):
        return compile_kernel(specialised(prim.prim, prim.point), steps, target, name)
    if isinstance(prim, AtPoint):
        return compile_kernel(prim.prim, steps, target, name).at(prim.point)
    return compile_kernel(prim, steps, target, name)


TOOLCHAIN = Toolchain(_compile, prepare_operands)
