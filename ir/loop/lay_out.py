"""Intermediate values are kept in the order in which their reader walks them."""

from __future__ import annotations

from dataclasses import replace

from .expr import Expr, IndexLike, Read, map_reads, read, walk
from .plain import plain_symbol
from .prim import PrimFunc, Stage

__all__ = ["lay_out"]


def lay_out(prim: PrimFunc) -> PrimFunc:
    """Give a stage that one other stage reads at a permutation of its axes that stage's order.

    ::

        t[i, j] = sum(k) x[i, k] * y[k, j];  out[a, b] = t[b, a]
                                             =>    out[j, i] = sum(k) x[i, k] * y[k, j]

    A reader that only copies disappears. What is stored in another order than it is computed in is
    then one stage, and the schedule decides along which of its axes vectors run.
    """
    for stage in prim.stages:
        readers = [s for s in prim.stages if _reads_of(s, stage.name)]
        if stage.combiner is None or stage.name in prim.outputs or len(readers) != 1:
            continue
        order = _order(stage, readers[0])
        if order is not None:
            prim = _in_order(prim, stage, readers[0], order)
    return prim


def _reads_of(stage: Stage, name: str) -> list[Read]:
    return [n for n in walk(stage.expr) if isinstance(n, Read) and n.buffer == name]


def _order(stage: Stage, reader: Stage) -> list[int] | None:
    """The dimensions of ``stage`` as ``reader`` walks them; None if it reads otherwise, or if they
    are in this order already."""
    places = {a.name: (n, a.extent) for n, a in enumerate(reader.axes)}
    found: list[list[int]] = []
    for node in _reads_of(reader, stage.name):
        where: list[int] = []
        for i, axis in zip(node.indices, stage.axes, strict=True):
            name = plain_symbol(i)
            if name not in places or places[name][1] != axis.extent:
                return None
            where.append(places[name][0])
        found.append(where)
    if len(set(found[0])) != len(found[0]) or any(where != found[0] for where in found):
        return None
    order = sorted(range(len(found[0])), key=lambda d: found[0][d])
    return None if order == sorted(order) else order


def _in_order(prim: PrimFunc, stage: Stage, reader: Stage, order: list[int]) -> PrimFunc:
    buffer = replace(stage.buffer, shape=tuple(stage.buffer.shape[d] for d in order))
    ordered = replace(stage, buffer=buffer, axes=tuple(stage.axes[d] for d in order))

    def permuted(node: Read) -> Expr | None:
        if node.buffer != stage.name:
            return None
        indices: list[IndexLike] = [node.indices[d] for d in order]
        return read(node.buffer, indices, node.dtype)

    expr = map_reads(reader.expr, permuted)
    copies = isinstance(expr, Read) and expr.buffer == stage.name and reader.combiner is None
    copies = copies and len(reader.axes) == len(stage.axes)
    stages: list[Stage] = []
    for s in prim.stages:
        if s is stage:
            stages += [] if copies else [ordered]
        elif s is reader:
            stages.append(
                replace(ordered, buffer=reader.buffer) if copies else replace(s, expr=expr)
            )
        else:
            stages.append(s)
    return replace(prim, stages=tuple(stages))
