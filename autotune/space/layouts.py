"""In which order copies of operands are kept: another one than the reader's, where that is better.

A copy lies as its reader walks it, the reduced axes last: vectors then run across the results, and
what they have in common is read once for all lanes. Where results in groups see elements of their
own, a vector has little in common. Vectors along the results' innermost axis find whole lines then,
if the copy has the dimension last that this axis walks.
"""

from __future__ import annotations

from ...ir.dims import Dim, linear
from ...ir.loop.expr import Read, walk
from ...ir.loop.prim import PrimFunc, Stage
from ...ir.schedule.steps import Step, layout
from .analysis import accesses_of

__all__ = ["transposed_layouts"]


def transposed_layouts(prim: PrimFunc) -> tuple[Step, ...]:
    """Layouts of maps read by groups of results, with the dimension of their vectors last."""
    maps = {s.name: s for s in prim.stages if s.combiner is None and s.name not in prim.outputs}
    layouts: dict[str, Step] = {}
    for stage in prim.stages:
        if stage.combiner is None or not stage.axes:
            continue
        grouped = {a.buffer for a in accesses_of(prim, stage.expr) if a.runs}
        for node in walk(stage.expr):
            if isinstance(node, Read) and node.buffer in grouped & maps.keys():
                dim = _moved(node, stage)
                axes = [a.name for a in maps[node.buffer].axes]
                if dim is not None and dim != len(axes) - 1:
                    grouped_axes = [n for n, i in enumerate(node.indices) if _is_grouped(i)]
                    rest = [n for n in range(len(axes)) if n not in (*grouped_axes, dim)]
                    order = [axes[n] for n in (*grouped_axes, *rest, dim)]
                    layouts[node.buffer] = layout(node.buffer, *order)
    return tuple(layouts.values())


def _moved(node: Read, stage: Stage) -> int | None:
    """Returns the one dimension that the innermost axis of the results walks, None if not one."""
    last = stage.axes[-1].name
    dims = [d for d, i in enumerate(node.indices) if isinstance(i, Dim) and _is_walked(i, last)]
    return dims[0] if len(dims) == 1 else None


def _is_walked(index: Dim, axis: str) -> bool:
    parts = linear(index)
    return parts is not None and parts[0].get(axis, 0) != 0


def _is_grouped(index: object) -> bool:
    """True if an index stays for runs of an axis, as ``16 * (i // 16) + k`` does."""
    return isinstance(index, Dim) and linear(index) is None
