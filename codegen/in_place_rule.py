"""Which operands of a kernel its results may be written over, read off its PrimFunc."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ..ir.dims import symbol
from ..ir.loop.expr import IndexLike, Read, walk
from ..ir.loop.prim import PrimFunc, Stage
from ..ir.program.in_place import InPlaceRule
from ..ir.program.nodes import Call

__all__ = ["in_place_pairs", "in_place_rule"]


def in_place_rule(prims: Mapping[str, PrimFunc]) -> InPlaceRule:
    """The rule for ``optimise``: kernels by name, operands being parameters and then outputs."""
    pairs = {name: in_place_pairs(prim) for name, prim in prims.items()}
    counts = {name: len(prim.params) for name, prim in prims.items()}

    def safe(call: Call, read: int, written: int) -> bool:
        outputs = counts.get(call.kernel, 0)
        return (read, written - outputs) in pairs.get(call.kernel, frozenset())

    return safe


def in_place_pairs(prim: PrimFunc) -> frozenset[tuple[int, int]]:
    """Positions of (parameter, output) that may share memory under every schedule.

    The element of the parameter at some place may only go into the element of the output at the
    same place: all stages on the way are maps that read at their own index, and no other output is
    made of the parameter. A kernel writes each element of an output once, after what it is made of
    has been read. Here ``x`` qualifies, ``a`` and ``b`` do not::

        t[i, j]   = sum(k: 64) a[i, k] * b[k, j]
        out[i, j] = max(t[i, j] + x[i, j], 0)
    """
    return frozenset(
        (p, o)
        for p, param in enumerate(prim.params)
        for o, output in enumerate(prim.outputs)
        if _only_elementwise(prim, param.name, output)
    )


def _only_elementwise(prim: PrimFunc, param: str, output: str) -> bool:
    touched = {param}
    for stage in prim.stages:
        reads = [r for r in _reads(stage) if r.buffer in touched]
        if not reads:
            continue
        if stage.combiner is not None or not all(_own_index(prim, stage, r) for r in reads):
            return False
        touched.add(stage.name)
    return touched & set(prim.outputs) == {output}


def _reads(stage: Stage) -> Iterator[Read]:
    return (node for node in walk(stage.expr) if isinstance(node, Read))


def _own_index(prim: PrimFunc, stage: Stage, node: Read) -> bool:
    own: tuple[IndexLike, ...] = tuple(symbol(a.name) for a in stage.axes)
    return node.indices == own and prim.buffers[node.buffer].shape == stage.buffer.shape
