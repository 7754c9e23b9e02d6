"""Decides which operands of a kernel its results may overwrite, from its PrimFunc."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from functools import reduce

from ..ir import dims
from ..ir.dim_proofs import prove
from ..ir.loop.expr import IndexLike, Read, reads_of
from ..ir.loop.prim import Buffer, PrimFunc, Stage
from ..ir.loop.procedure import Procedure
from ..ir.program.in_place import InPlaceRule
from ..ir.program.nodes import Call
from ..ir.program.updates import ElementsRead


def in_place_rule(prims: Mapping[str, PrimFunc]) -> InPlaceRule:
    """Returns the rule for ``optimise``: kernels by name, operands being parameters and then
    outputs."""

    @functools.cache
    def shares(
        kernel: str, sizes: tuple[dims.IntExpr, ...], read: int, written: int, begin: dims.IntExpr
    ) -> bool:
        prim = prims.get(kernel)
        if prim is None or isinstance(prim, Procedure) or read >= len(prim.params):
            return False
        output = written - len(prim.params)
        if not 0 <= output < len(prim.outputs):
            return False
        return may_share(_at(prim, sizes), read, output, begin)

    def safe(call: Call, read: int, written: int, begin: dims.IntExpr = 0) -> bool:
        return shares(call.kernel, call.sizes, read, written, begin)

    return safe


def elements_read(prims: Mapping[str, PrimFunc]) -> ElementsRead:
    """Returns a function for ``optimise``: the range of elements of a parameter that a kernel
    reads."""

    def reads(call: Call, operand: int) -> tuple[dims.IntExpr, dims.IntExpr] | None:
        prim = prims.get(call.kernel)
        if prim is None or isinstance(prim, Procedure) or operand >= len(prim.params):
            return None
        prim = _at(prim, call.sizes)
        param = prim.params[operand]
        spans = [
            _span(param, s, node)
            for s in prim.stages
            for node in reads_of(s.expr)
            if _is_of(node, param)
        ]
        if None in spans:
            return None
        ranges = [span for span in spans if span is not None]
        if not ranges:
            return 0, 0
        return reduce(dims.int_min, (low for low, _ in ranges)), reduce(
            dims.int_max, (h for _, h in ranges)
        )

    return reads


def _at(prim: PrimFunc, sizes: tuple[dims.IntExpr, ...]) -> PrimFunc:
    """A kernel with the sizes of a call of it."""
    return prim.at({s.name: value for s, value in zip(prim.sizes, sizes, strict=True)})


def may_share(prim: PrimFunc, param: int, output: int, begin: dims.IntExpr = 0) -> bool:
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
    if source.dtype.bytes != prim.stage(name).buffer.dtype.bytes:
        return False  # elements of one number lie at different places
    window = begin, begin + prim.stage(name).buffer.size
    before: set[str] = {source.name}  # the parameter, and stages between it and the output
    after: set[str] = set()  # the output, and stages that depend on it
    for stage in prim.stages:
        reads = [
            node
            for node in reads_of(stage.expr)
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


def _own_element(prim: PrimFunc, stage: Stage, node: Read, shift: dims.IntExpr) -> bool:
    """True if a stage reads, ``shift`` elements further on, the element that it computes."""
    axes: tuple[IndexLike, ...] = tuple(dims.symbol(a.name) for a in stage.axes)
    buffer = prim.buffers[node.buffer]
    if node.indices == axes and buffer.shape == stage.buffer.shape:
        return shift == 0
    place, target = _flat(node.indices, buffer), _flat(axes, stage.buffer)
    return place is not None and target is not None and place - target == shift


def _is_outside(
    source: Buffer, stage: Stage, node: Read, window: tuple[dims.IntExpr, dims.IntExpr]
) -> bool:
    """True if a read of ``source`` touches no element of a window."""
    span = _span(source, stage, node) if _is_of(node, source) else None
    if span is None:
        return False
    return prove(span[1], "<=", window[0]) is True or prove(window[1], "<=", span[0]) is True


def _span(buffer: Buffer, stage: Stage, node: Read) -> tuple[dims.IntExpr, dims.IntExpr] | None:
    """Returns the first element that a stage reads there, and the one after the last."""
    flat = _flat(node.indices, buffer)
    axes = (*stage.axes, *stage.reduce_axes)
    if flat is None:
        return None
    if any(isinstance(axis.extent, dims.Dim) for axis in axes) or dims.size_symbols(flat):
        return _linear_span(flat, {axis.name: axis.extent - 1 for axis in axes})
    inside = dims.bounds(flat, {axis.name: (0, dims.as_int(axis.extent) - 1) for axis in axes})
    return None if inside is None else (inside[0], inside[1] + 1)


def _linear_span(
    flat: dims.IntExpr, last: Mapping[str, dims.IntExpr]
) -> tuple[dims.IntExpr, dims.IntExpr] | None:
    """The span of an index that is linear in its axes, of which the last values are given."""
    step = {name: dims.substitute(flat, {name: dims.symbol(name) + 1}) - flat for name in last}
    if any(dims.symbols(coefficient) & last.keys() for coefficient in step.values()):
        return None
    low = high = dims.substitute(flat, dict.fromkeys(last, 0))
    for name, coefficient in step.items():
        # Which end is the lower one must not depend on a size.
        if prove(coefficient, ">=", 0) is True:
            high = high + coefficient * last[name]
        elif prove(coefficient, "<=", 0) is True:
            low = low + coefficient * last[name]
        else:
            return None
    return low, high + 1


def _flat(indices: tuple[IndexLike, ...], buffer: Buffer) -> dims.IntExpr | None:
    """The number of the element at ``indices``; None where they depend on values."""
    flat: dims.IntExpr = 0
    for index, size in zip(indices, buffer.shape, strict=True):
        if not isinstance(index, int | dims.Dim):
            return None
        flat = flat * size + index
    return flat
