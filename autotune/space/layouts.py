"""In which order copies of operands are kept: another one than the reader's, where that is better.

A copy lies as its reader walks it, the reduced axes last: vectors then run across the results, and
what they have in common is read once for all lanes. Where results in groups see elements of their
own, a vector has little in common, and where few results see the same (the colours that a decoder
ends with), most lanes compute nothing. Vectors along another axis of the results find whole lines
then, if the copy has the dimension last that this axis walks.
"""

from __future__ import annotations

from collections.abc import Mapping

from ...ir.dims import Dim, as_int, linear
from ...ir.loop.expr import IndexLike, Read, walk
from ...ir.loop.prim import PrimFunc, Stage
from ...ir.schedule.steps import Step, layout
from .analysis import accesses_of
from .settings import SKETCHES


def transposed_layouts(prim: PrimFunc) -> tuple[Step, ...]:
    """Layouts of maps read by groups of results, or by few at once, with the dimension of their
    vectors last."""
    maps = {s.name: s for s in prim.stages if s.combiner is None and s.name not in prim.outputs}
    layouts: dict[str, Step] = {}
    for stage in (s for s in prim.stages if s.combiner is not None and s.axes):
        runs = {a.buffer for a in accesses_of(prim, stage.expr) if a.runs}
        for node in walk(stage.expr):
            if not isinstance(node, Read) or node.buffer not in maps:
                continue
            axes = [a.name for a in maps[node.buffer].axes]
            axis = stage.axes[-1].name if node.buffer in runs else _longest(node, stage)
            dim = _moved(node, axis)
            if dim is not None and dim != len(axes) - 1:
                # An index that stays for runs of an axis, as 16 * (i // 16) + k, is not linear.
                grouped = [n for n, i in enumerate(node.indices) if _steps(i) is None]
                rest = [n for n in range(len(axes)) if n not in (*grouped, dim)]
                layouts[node.buffer] = layout(
                    node.buffer, *(axes[n] for n in (*grouped, *rest, dim))
                )
    return tuple(layouts.values())


def _longest(node: Read, stage: Stage) -> str:
    """Returns the longest axis of the results that walks a dimension, the last one of them, if the
    results that share what is read fill less than half of the lanes; else none."""
    extents = {a.name: as_int(a.extent) for a in reversed(stage.axes)}
    moving = [a for a in extents if _moved(node, a) is not None]
    sharing = max((extents[a] for a in extents if a not in moving), default=1)
    few = 1 < sharing < SKETCHES.lanes / 2
    return max(moving, key=lambda a: extents[a], default="") if few else ""


def _moved(node: Read, axis: str) -> int | None:
    """Returns the one dimension that an axis of the results walks, None if not one."""
    dims = [d for d, i in enumerate(node.indices) if (_steps(i) or {}).get(axis, 0)]
    return dims[0] if len(dims) == 1 else None


def _steps(index: IndexLike) -> Mapping[str, int] | None:
    """Returns by how much every axis moves an index, None if not by the same everywhere."""
    parts = linear(index) if isinstance(index, int | Dim) else ({}, 0)
    return None if parts is None else parts[0]
