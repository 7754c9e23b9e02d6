"""Kernel, loop nest and machine of a record, reconstructed from the log alone.

The kernel is parsed from the workload's text, and the schedule is applied to it.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from typing import Any

from ...codegen.target import FEATURES, ISA_LEVELS, Target
from ...ir.errors import LoopwrightError
from ...ir.loop.nest import Nest
from ...ir.loop.prim import PrimFunc
from ...ir.loop.workload import parse_workload, workload_hash
from ...ir.schedule.apply import apply_schedule
from ...ir.schedule.steps import Schedule
from ..log.note import Note
from ..ranges import Point, in_range, specialised
from ..record import MeasureRecord, TargetKey, Workload, target_key
from ..workload import as_lists


def kernel_name(workload: Workload) -> str:
    """Returns the kernel's name in the log, or the hash if it has none."""
    return workload.text.split(" ", 1)[0] or workload.hash


def logged_prim(workload: Workload) -> PrimFunc:
    """Returns the kernel, at the point of its range if it has one. Raises LoopwrightError if the
    log has no text of it, or another kernel's."""
    return specialised(*logged_kernel(workload))


def logged_kernel(workload: Workload) -> tuple[PrimFunc, Point]:
    """Returns the kernel and the values of its symbolic sizes; errors as of ``logged_prim``."""
    name = kernel_name(workload)
    if not workload.range:
        return _prim(workload.prim, name, workload.hash), {}
    prim = _prim(workload.range, name, workload.hash.partition("@")[0])
    if not in_range(prim, workload.at):
        raise LoopwrightError("the kernel was measured at sizes that it does not take")
    return prim, {s.name: value for s, value in zip(prim.sizes, workload.at, strict=True)}


@functools.lru_cache(maxsize=256)
def _prim(text: str, name: str, expected: str) -> PrimFunc:
    if not text:
        raise LoopwrightError("the log has no text of this kernel")
    prim = parse_workload(text, name if name.replace(".", "_").isidentifier() else "kernel")
    if workload_hash(prim) != expected:
        raise LoopwrightError("the kernel's text does not belong to its hash")
    return prim


def logged_nest(record: MeasureRecord) -> Nest:
    """Returns the loop nest of a record. Raises LoopwrightError if its schedule does not apply."""
    schedule = Schedule.from_json(as_lists(record.schedule))
    return apply_schedule(logged_prim(record.workload), schedule)


def nest_or_reason(record: MeasureRecord) -> tuple[str, bool]:
    """Returns the loop nest as text and True, or the reason why there is none and False."""
    try:
        return str(logged_nest(record)).rstrip(), True
    except LoopwrightError as error:
        return str(error), False


def logged_target(key: TargetKey, notes: Iterable[Note] = ()) -> Target | None:
    """Returns the machine of a record; None for an ISA level that is not known here.

    Its instructions beyond the level are known if it is this machine, or from a run's note.
    """
    if key.isa not in ISA_LEVELS:
        return None
    host = Target.host()
    if target_key(host, key.threads) == key:
        return host
    machine = key.machine()
    for note in notes:
        target: Mapping[str, Any] = note.table("target")
        same = all(target.get(n) == getattr(key, n) for n in ("isa", "cpu", "l1", "l2", "l3"))
        if note.kind == "run" and same and isinstance(target.get("features"), list):
            machine = key.machine(f for f in FEATURES if f in target["features"])
    return machine
