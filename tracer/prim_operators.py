"""Stages of ``lw.prim`` functions as operators of the graph, where they are such.

A stage that reads every operand at its own axes is NumPy code: scalar operators on arrays with axes
moved and added, then a reduction over the last of them, or an einsum. As operators it is known to
every pass. What reads elsewhere (``x[i + 1]``, ``x[table[i]]``) stays an operator of its own.
"""

from __future__ import annotations

import string
from collections.abc import Mapping, Sequence
from typing import Any

from ..ir.dims import Dim, IntExpr, Symbol, substitute, symbols
from ..ir.loop.expr import Const, Expr, Index, Op, Read, walk
from ..ir.loop.prim import Stage
from .core.emitting import emit, lift
from .core.proxy import Proxy


def as_operators(
    stage: Stage, values: Mapping[str, Proxy], sizes: Mapping[str, IntExpr]
) -> Proxy | None:
    """Returns the value of a stage, emitted as operators; None if it is not made of any.

    ``values`` are the buffers that it reads, ``sizes`` the values of its symbolic sizes.
    """
    axes = [a.name for a in (*stage.axes, *stage.reduce_axes)]
    extents = [substitute(a.extent, sizes) for a in (*stage.axes, *stage.reduce_axes)]
    places: dict[Read, list[int]] = {}
    for node in walk(stage.expr):
        if isinstance(node, Index) and symbols(node.value) & {*axes}:
            return None
        if isinstance(node, Read):
            place = _axes_of(node, axes)
            if place is None or [extents[n] for n in place] != [*values[node.buffer].type.shape]:
                return None
            places[node] = place
    if stage.combiner == "sum" and (product := _einsum(stage, places, len(axes))):
        left, right, equation = product
        return emit("einsum", values[left], values[right], equation=equation)
    done: dict[int, Any] = {}
    for node in walk(stage.expr):
        done[id(node)] = _emitted(node, done, places, values, sizes, extents)
    value = lift(done[id(stage.expr)])
    if value.type.shape != tuple(extents):
        value = emit("broadcast_to", value, shape=tuple(extents))
    if stage.combiner is None:
        return value
    over = tuple(range(len(stage.axes), len(axes)))
    return emit(stage.combiner, value, axis=over)


def _axes_of(node: Read, axes: Sequence[str]) -> list[int] | None:
    """Returns the axes of a stage that the indices are, each once; None if they are others."""
    place: list[int] = []
    for index in node.indices:
        match index.terms if isinstance(index, Dim) else ():
            case (((Symbol() as atom,), 1),) if atom.name in axes:
                place.append(axes.index(atom.name))
            case _:
                return None
    return place if len(set(place)) == len(place) else None


def _einsum(
    stage: Stage, places: Mapping[Read, list[int]], rank: int
) -> tuple[str, str, str] | None:
    """Returns the operands and the equation of a sum of products of two smaller arrays."""
    value = stage.expr
    if not isinstance(value, Op) or value.name != "multiply":
        return None
    left, right = value.args
    if not isinstance(left, Read) or not isinstance(right, Read):
        return None
    covered = {*places[left], *places[right]}
    smaller = max(len(places[left]), len(places[right])) < rank
    if not smaller or len(covered) < rank or value.dtype != stage.buffer.dtype:
        return None
    names = string.ascii_letters
    inputs = ",".join("".join(names[n] for n in places[read]) for read in (left, right))
    return left.buffer, right.buffer, f"{inputs}->{names[: len(stage.axes)]}"


def _emitted(
    node: Expr,
    done: Mapping[int, Any],
    places: Mapping[Read, list[int]],
    values: Mapping[str, Proxy],
    sizes: Mapping[str, IntExpr],
    extents: Sequence[IntExpr],
) -> Any:
    if isinstance(node, Const):
        return node.dtype.numpy.type(node.value)
    if isinstance(node, Index):
        return lift(substitute(node.value, sizes), node.dtype)
    if isinstance(node, Read):
        place, value = places[node], values[node.buffer]
        order = tuple(sorted(range(len(place)), key=place.__getitem__))
        if order != tuple(range(len(place))):
            value = emit("transpose", value, axes=order)
        shape = tuple(extents[n] if n in place else 1 for n in range(len(extents)))
        return value if value.type.shape == shape else emit("reshape", value, newshape=shape)
    operands = [done[id(a)] for a in node.args]
    if node.name == "cast":
        return emit("cast", *operands, dtype=str(node.dtype))
    return emit(node.name, *operands)
