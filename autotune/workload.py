"""The workload of a kernel, as records name it, and schedules as records hold them."""

from __future__ import annotations

from ..ir.dims import as_int
from ..ir.loop.prim import PrimFunc
from ..ir.loop.workload import workload_hash, workload_text
from .log.record import Workload

__all__ = ["as_lists", "kernel_symbol", "workload_of"]


def workload_of(prim: PrimFunc) -> Workload:
    """Returns the workload of a kernel as records name it.

    Its text for people is the kernel's name, its dtype and the extents of its loops.
    """
    workload = prim.derived.get("record")
    if workload is None:
        workload = prim.derived["record"] = _workload_of(prim)
    return workload


def _workload_of(prim: PrimFunc) -> Workload:
    axes: dict[str, int] = {}
    for stage in prim.stages:
        axes.update((a.name, as_int(a.extent)) for a in (*stage.axes, *stage.reduce_axes))
    sizes = " ".join(f"{name}={extent}" for name, extent in axes.items())
    dtype = prim.output_buffers[0].dtype
    return Workload(workload_hash(prim), f"{prim.name} {dtype} {sizes}", workload_text(prim))


def kernel_symbol(workload: str) -> str:
    """Returns the symbol of a workload's kernel, by its hash: equal work shares its code."""
    return f"lw_{workload}"


def as_lists(data: object) -> object:
    """Returns schedule data with lists for tuples, as ``Schedule.from_json`` takes it."""
    return [as_lists(item) for item in data] if isinstance(data, list | tuple) else data
