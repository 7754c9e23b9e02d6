"""Which schedule a kernel gets without measuring anything: from the logs, or from the rules."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..codegen.target import Target
from ..ir.dims import as_int
from ..ir.errors import ScheduleError
from ..ir.loop.prim import PrimFunc
from ..ir.loop.workload import workload_hash, workload_text
from ..ir.schedule.apply import apply_schedule
from ..ir.schedule.steps import Schedule
from .log import TuningLog
from .lookup import lookup
from .record import Workload
from .space import ScheduleSpace, default_schedule

__all__ = ["Chosen", "as_lists", "choose_schedule", "kernel_symbol", "workload_of"]


@dataclass(frozen=True, slots=True)
class Chosen:
    """A schedule and where it came from.

    ``origin`` is "exact", "compatible" or "near" (from a log, as ``lookup`` names it) or "rules".
    ``seconds`` is what the log measured for it, 0 where nothing was.
    """

    schedule: Schedule
    origin: str
    sketch: str
    seconds: float = 0.0


def workload_of(prim: PrimFunc) -> Workload:
    """The workload of a kernel as records name it.

    Its text for people is the kernel's name, its dtype and the extents of its loops.
    """
    axes: dict[str, int] = {}
    for stage in prim.stages:
        axes.update((a.name, as_int(a.extent)) for a in (*stage.axes, *stage.reduce_axes))
    sizes = " ".join(f"{name}={extent}" for name, extent in axes.items())
    dtype = prim.output_buffers[0].dtype
    return Workload(workload_hash(prim), f"{prim.name} {dtype} {sizes}", workload_text(prim))


def kernel_symbol(workload: str) -> str:
    """The symbol of a workload's kernel, by its hash: equal work shares its code."""
    return f"lw_{workload}"


def choose_schedule(
    prim: PrimFunc, target: Target, threads: int, logs: Sequence[TuningLog]
) -> Chosen:
    """The best schedule known for a kernel: of its own record, of a near shape, or of the rules.

    A record whose schedule does not apply (another version's, a damaged one) is passed over.
    """
    found = lookup(logs, workload_of(prim), target, threads)
    if found.record is not None:
        chosen = _from_record(prim, target, found.kind, found.record.schedule)
        if chosen is not None:
            seconds = found.record.cost if found.kind != "near" else 0.0
            return Chosen(chosen, found.kind, found.record.sketch, seconds)
    schedule, sketch = default_schedule(prim, target)
    return Chosen(schedule, "rules", sketch)


def _from_record(
    prim: PrimFunc, target: Target, kind: str, steps: Sequence[object]
) -> Schedule | None:
    try:
        schedule = Schedule.from_json(as_lists(steps))
        if kind == "near":
            space = ScheduleSpace(prim, target)
            row = space.refit(schedule)
            if row is None:
                return None
            schedule = space.schedule(row)
        apply_schedule(prim, schedule)
    except ScheduleError:
        return None
    return schedule


def as_lists(data: object) -> object:
    """Schedule data with lists for tuples, as ``Schedule.from_json`` takes it."""
    return [as_lists(item) for item in data] if isinstance(data, list | tuple) else data
