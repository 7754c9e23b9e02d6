"""The workload of a kernel, as records name it, and schedules as records hold them."""

from __future__ import annotations

from collections.abc import Mapping

from ..ir.dims import IntExpr
from ..ir.loop.prim import PrimFunc, sizes_text
from ..ir.loop.workload import workload_hash, workload_text
from .ranges import specialised
from .record import Workload, hash_at


def workload_of(prim: PrimFunc) -> Workload:
    """Returns the workload of a kernel as records name it.

    Its text for people is the kernel's name, its dtype, the extents of its loops, and the ranges of
    its sizes.
    """
    workload = prim.derived.get("record")
    if workload is None:
        workload = prim.derived["record"] = _workload_of(prim)
    return workload


def _workload_of(prim: PrimFunc) -> Workload:
    axes: dict[str, IntExpr] = {}
    for stage in prim.stages:
        axes.update((a.name, a.extent) for a in (*stage.axes, *stage.reduce_axes))
    extents = " ".join(f"{name}={extent}".replace(" ", "") for name, extent in axes.items())
    text = f"{prim.name} {prim.output_buffers[0].dtype} {extents}{sizes_text(prim.sizes)}"
    return Workload(workload_hash(prim), text, workload_text(prim))


def workload_at(prim: PrimFunc, point: Mapping[str, int]) -> Workload:
    """Returns the workload of a kernel with symbolic sizes at a point, a value for each size."""
    whole, there = workload_of(prim), workload_of(specialised(prim, point))
    values = tuple(point[s.name] for s in prim.sizes)
    text = there.text + sizes_text(prim.sizes)
    return Workload(hash_at(whole.hash, values), text, there.prim, whole.prim, values)


def kernel_symbol(workload: str) -> str:
    """Returns the symbol of a workload's kernel, by its hash: equal work shares its code."""
    return f"lw_{workload}"


def as_lists(data: object) -> object:
    """Returns schedule data with lists for tuples, as ``Schedule.from_json`` takes it."""
    return [as_lists(item) for item in data] if isinstance(data, list | tuple) else data
