"""Makes tasks of kernels, and machine code of schedules (JSON data) in worker processes."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy.typing as npt

from ...codegen.kernel import Kernel, compile_kernel, prepare_operands
from ...codegen.machine import MachineModel, known_machine
from ...codegen.roofline import LEVELS, Roof, Traffic, Work
from ...codegen.target import Target
from ...ir.dims import as_int
from ...ir.errors import ScheduleError
from ...ir.loop.prim import PrimFunc
from ...ir.loop.work import prim_bytes
from ...ir.schedule.apply import apply_schedule
from ...ir.schedule.steps import Schedule
from ..ranges import AtPoint, Point, Weights, evenly_weighted, is_single, specialised, typical_bytes
from ..record import schedule_key
from ..space.feature_list import OF_THREADS
from ..space.least_work import least_flops
from ..space.space import ScheduleSpace
from ..task import Task
from ..workload import as_lists, workload_at, workload_of
from .rotation import copies_of
from .toolchain import Toolchain

Array = npt.NDArray[Any]

BEYOND = 2
"""Bytes between two uses, in sizes of the last-level cache that was measured, beyond which an
operand is in memory however many there are."""


def task_of(
    prim: PrimFunc,
    target: Target,
    threads: int,
    weight: int = 1,
    point: Point | None = None,
    between: Mapping[str, int] | None = None,
    in_place: Mapping[str, str] | None = None,
) -> Task:
    """Returns the task of tuning one kernel; one with symbolic sizes at a ``point``. ``between``
    has the bytes that a program touches between two uses of its operands: without any, or where
    the kernel touches as many by itself, it is measured with its operands in the caches.
    ``in_place`` are results that the program writes over a parameter."""
    there = specialised(prim, point or {})
    seen = known_machine(target).seen_by(target)
    far = {name: min(size, BEYOND * seen.l3) for name, size in (between or {}).items()}
    buffers = (*there.params, *there.output_buffers)
    sizes = {b.name: as_int(b.size) * b.dtype.bytes for b in buffers}
    moved = any(count > 1 for count in copies_of(sizes, far).values())
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
        of_threads=OF_THREADS,
        sketch_of=space.sketch_name,
        cache="place" if moved else "warm",
        between=far if moved else {},
        in_place=in_place or {},
    )


def tasks_of(
    prims: Iterable[PrimFunc],
    target: Target,
    threads: int,
    failed: Callable[[str, Exception], None] | None = None,
    between: Mapping[str, Mapping[str, int]] | None = None,
    weights: Mapping[str, Weights] | None = None,
    in_place: Mapping[str, Mapping[str, str]] | None = None,
) -> list[Task]:
    """Returns one task per distinct kernel of a program; its weight is how often it occurs.

    A kernel without a schedule space is left out if ``failed`` is given, which is called with its
    name and the error. ``between`` has the bytes that the program touches between two uses of each
    operand, by workload (``tuning/reuse.py``); of a kernel it does not have, constants were last
    used when the other kernels had not run; ``in_place`` has results that it writes over a
    parameter (of the same file). A kernel with symbolic sizes is a task at each of the
    points that ``weights`` has for its workload, or its range.
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
        others = int(moved - typical_bytes(prim))
        far = (between or {}).get(key) or {p.name: others for p in prim.params if p.constant}
        try:
            if not prim.sizes:
                shared = (in_place or {}).get(key)
                task = task_of(prim, target, threads, count, between=far, in_place=shared)
                tasks.append(task)
                continue
            for point, importance in (weights or {}).get(key) or evenly_weighted(prim):
                task = task_of(prim, target, threads, count, point, far)
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
    cold = task.cache == "cold"
    return _least_seconds(task.prim, machine, task.target, task.threads, cold, task.flops)


def least_seconds(prim: PrimFunc, machine: MachineModel, target: Target, threads: int) -> float:
    """Returns ``machine_floor`` of a kernel that finds its operands in the caches, estimated where
    the machine was not measured."""
    return _least_seconds(prim, machine, target, threads, False, least_flops(prim))


def _least_seconds(
    prim: PrimFunc, machine: MachineModel, target: Target, threads: int, cold: bool, flops: float
) -> float:
    target = machine.seen_by(target)
    held = (0, target.l1, target.l2, target.l3)
    size = prim_bytes(prim)
    traffic = {
        level: Traffic(read=size if cold or size > cache else 0.0)
        for level, cache in zip(LEVELS, held, strict=True)
    }
    wide = any(b.dtype.bytes == 8 for b in prim.output_buffers)
    return Roof(machine, threads).bound(Work(flops, traffic, 8 if wide else 4))[1]


def on_one_thread(schedule: Sequence[Any]) -> list[list[Any]]:
    """Returns a schedule (JSON data) without the steps that only share loops among threads.

    >>> on_one_thread([["fuse", ["i", "j"]], ["parallel", "i*j"], ["compute_at", "t", "i*j"]])
    [['compute_at', 't', 'j']]
    """
    innermost: dict[str, str] = {}
    steps: list[list[Any]] = []
    for name, *args in schedule:
        if name == "fuse":
            innermost["*".join(args[0])] = args[0][-1]
        elif name != "parallel":
            steps.append([name, *(_renamed(arg, innermost) for arg in args)])
    return steps


def _renamed(value: Any, names: dict[str, str]) -> Any:
    if isinstance(value, list | tuple):
        return [_renamed(one, names) for one in value]
    return names.get(value, value) if isinstance(value, str) else value


def nest_key(prim: PrimFunc, schedule: Sequence[Any]) -> Hashable:
    """Returns a key that is equal for schedules (JSON data) that give ``prim`` the same loop nest:
    the order of loops that run once changes nothing, for instance, which no step shows."""
    try:
        return apply_schedule(prim, Schedule.from_json(as_lists(schedule)))
    except ScheduleError:
        return schedule_key(schedule)


def _compile(prim: PrimFunc | AtPoint, schedule: Any, target: Target, name: str) -> Kernel:
    steps = Schedule.from_json(as_lists(schedule))
    if isinstance(prim, AtPoint) and is_single(prim.prim, prim.point):
        return compile_kernel(specialised(prim.prim, prim.point), steps, target, name)
    if isinstance(prim, AtPoint):
        return compile_kernel(prim.prim, steps, target, name).at(prim.point)
    return compile_kernel(prim, steps, target, name)


TOOLCHAIN = Toolchain(_compile, prepare_operands)
