"""Decides which operands of a kernel its results may overwrite, from its PrimFunc."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping

from ..ir.dims import Dim, IntExpr, as_int, bounds, symbol
from ..ir.loop.expr import IndexLike, Read, walk
from ..ir.loop.prim import Buffer, PrimFunc, Stage
from ..ir.loop.procedure import Procedure
from ..ir.program.in_place import InPlaceRule
from ..ir.program.nodes import Call
from ..ir.program.updates import ElementsRead

__all__ = ["elements_read", "in_place_rule", "may_share"]


def in_place_rule(prims: Mapping[str, PrimFunc]) -> InPlaceRule:
    """Returns the rule for ``optimise``: kernels by name, operands being parameters and then
    outputs."""

    @functools.cache
    def shares(kernel: str, read: int, written: int, begin: int) -> bool:
        prim = prims.get(kernel)
        if prim is None or isinstance(prim, Procedure) or read >= len(prim.params):
            return False
        output = written - len(prim.params)
        return 0 <= output < len(prim.outputs) and may_share(prim, read, output, begin)

    def safe(call: Call, read: int, written: int, begin: int = 0) -> bool:
        return shares(call.kernel, read, written, begin)

    return safe


def elements_read(prims: Mapping[str, PrimFunc]) -> ElementsRead:
    """Returns a function for ``optimise``: the range of elements of a parameter that a kernel
    reads."""

    def reads(call: Call, operand: int) -> tuple[int, int] | None:
        prim = prims.get(call.kernel)
        if prim is None or isinstance(prim, Procedure) or operand >= len(prim.params):
            return None
        param = prim.params[operand]
        spans = [
            _span(param, s, node) for s in prim.stages for node in _reads(s) if _is_of(node, param)
        ]
        if None in spans:
            return None
        ranges = [span for span in spans if span is not None]
        return min((low for low, _ in ranges), default=0), max((h for _, h in ranges), default=0)

    return reads


def may_share(prim: PrimFunc, param: int, output: int, begin: int = 0) -> bool:
    """True if an output may have the memory of a parameter, from element ``begin`` on, under every
    schedule.

    An element of the parameter in the memory of the output may only be used by the element of the
    output at the same place: all stages between them are maps that read at their own index, and no
    other output depends on it. Stages that depend on the output itself read it at their own index,
    too. A kernel writes each element of an output once, after reading its operands. Here ``x``
    qualifies, ``a`` and ``b`` do not::

        t[i, j]   = sum(k: 64) a[i, k] * b[k, j]
        out[i, j] = max(t[i, j] + x[i, j], 0)
    """
    source, name = prim.params[param], prim.outputs[output]
    window = begin, begin + as_int(prim.stage(name).buffer.size)
    before: set[str] = {source.name}  # the parameter, and stages between it and the output
    after: set[str] = set()  # the output, and stages that depend on it
    for stage in prim.stages:
        reads = [
            node
            for node in _reads(stage)
            if node.buffer in before | after and not _is_outside(source, stage, node, window)
        ]
        if not reads:
            continue
        shifts = (begin if node.buffer == source.name else 0 for node in reads)
        if stage.combiner is not None or not all(
            _own_element(prim, stage, node, shift)
            for node, shift in zip(reads, shifts, strict=True)
        ):
            return False
        between = stage.name != name and any(node.buffer in before for node in reads)
        (before if between else after).add(stage.name)
    return not before & set(prim.outputs) and (name in after or before == {source.name})


def _is_of(node: Read, buffer: Buffer) -> bool:
    return node.buffer == buffer.name


def _reads(stage: Stage) -> Iterator[Read]:
    return (node for node in walk(stage.expr) if isinstance(node, Read))


def _own_element(prim: PrimFunc, stage: Stage, node: Read, shift: int) -> bool:
    """True if a stage reads, ``shift`` elements further on, the element that it computes."""
    axes: tuple[IndexLike, ...] = tuple(symbol(a.name) for a in stage.axes)
    buffer = prim.buffers[node.buffer]
    if node.indices == axes and buffer.shape == stage.buffer.shape:
        return not shift
    place, target = _flat(node.indices, buffer), _flat(axes, stage.buffer)
    return place is not None and target is not None and place - target == shift


def _is_outside(source: Buffer, stage: Stage, node: Read, window: tuple[int, int]) -> bool:
    """True if a read of ``source`` touches no element of a window."""
    span = _span(source, stage, node) if _is_of(node, source) else None
    return span is not None and (span[1] <= window[0] or window[1] <= span[0])


def _span(buffer: Buffer, stage: Stage, node: Read) -> tuple[int, int] | None:
    """Returns the first element that a stage reads there, and the one after the last."""
    flat = _flat(node.indices, buffer)
    ranges = {a.name: (0, as_int(a.extent) - 1) for a in (*stage.axes, *stage.reduce_axes)}
    inside = bounds(flat, ranges) if flat is not None else None
    return None if inside is None else (inside[0], inside[1] + 1)


def _flat(indices: tuple[IndexLike, ...], buffer: Buffer) -> IntExpr | None:
    """The number of the element at ``indices``; None where they depend on values."""
    flat: IntExpr = 0
    for index, size in zip(indices, buffer.shape, strict=True):
        if not isinstance(index, int | Dim):
            return None
        flat = flat * size + index
    return flat
