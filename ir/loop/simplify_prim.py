"""Bringing a PrimFunc into canonical form: fewer axes, the same loops under one name, plain names.

In order: axes of size 1 disappear; a tensor that is only transposed stays so; stages that read each
other at the same index share the axis's name; axes that every access walks as one are merged; then
everything is renamed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

from ..dims import Dim, IntExpr, Symbol, product, substitute, symbol, symbols
from . import expr as exprs
from .expr import Expr, Index, IndexLike, Read, index, map_reads, read, substitute_indices, walk
from .prim import Axis, Buffer, PrimFunc, Stage
from .procedure import Procedure


def canonical_prim(prim: PrimFunc) -> PrimFunc:
    """``prim`` in canonical form; it computes the same, on buffers of the same elements."""
    if isinstance(prim, Procedure):
        return canonical_names(prim)
    prim = squeeze(prim)
    prim = lay_out(prim)
    prim = share_axes(prim)
    while True:
        merged = merge_axes(prim)
        if merged is prim:
            return canonical_names(prim)
        prim = merged


def squeeze(prim: PrimFunc) -> PrimFunc:
    """Drop dimensions and axes of size 1.

    ::

        out[i, j] = x[i, 0] + y[i, j]    with i in 1    =>    out[j] = x[] + y[j]
    """
    keep = {b.name: tuple(s != 1 for s in b.shape) for b in prim.buffers.values()}

    def narrow(node: Read) -> Expr | None:
        kept = keep[node.buffer]
        if all(kept):
            return None
        return read(node.buffer, [i for i, k in zip(node.indices, kept) if k], node.dtype)

    stages: list[Stage] = []
    for stage in prim.stages:
        ones = {a.name: 0 for a in (*stage.axes, *stage.reduce_axes) if a.extent == 1}
        expr = substitute_indices(stage.expr, dict(ones)) if ones else stage.expr
        stages.append(
            replace(
                stage,
                buffer=_narrow(stage.buffer, keep),
                axes=tuple(a for a in stage.axes if a.extent != 1),
                reduce_axes=tuple(a for a in stage.reduce_axes if a.extent != 1),
                expr=map_reads(expr, narrow),
            )
        )
    return replace(prim, params=tuple(_narrow(p, keep) for p in prim.params), stages=tuple(stages))


def _narrow(buffer: Buffer, keep: dict[str, tuple[bool, ...]]) -> Buffer:
    return replace(buffer, shape=tuple(s for s, k in zip(buffer.shape, keep[buffer.name]) if k))


def share_axes(prim: PrimFunc) -> PrimFunc:
    """Give an axis the name of the axis of a later stage that reads it one to one.

    ::

        t[a] = ...; out[i] = t[i] + 1    =>    t[i] = ...; out[i] = t[i] + 1

    Maps that do not read each other share names, too, if all of them walk over whatever they read
    in one order: they can run in one loop.
    """
    stages = list(prim.stages)
    for position in range(len(stages) - 1, -1, -1):
        producer = stages[position]
        names = _names_from_readers(producer, stages[position + 1 :])
        names = names or _names_from_siblings(producer, stages[position + 1 :])
        if names:
            values: dict[str, IndexLike] = {old: symbol(new) for old, new in names.items()}
            stages[position] = replace(
                producer,
                axes=tuple(Axis(names.get(a.name, a.name), a.extent) for a in producer.axes),
                expr=substitute_indices(producer.expr, values),
            )
    return replace(prim, stages=tuple(stages))


def _names_from_readers(producer: Stage, later: list[Stage]) -> dict[str, str]:
    """New names for the producer's axes, from the reader that shares most of them."""
    best: dict[str, str] = {}
    for reader in later:
        spatial = {a.name: a.extent for a in reader.axes}
        names: dict[str, str] = {}
        for node in walk(reader.expr):
            if not isinstance(node, Read) or node.buffer != producer.name:
                continue
            if any(plain_symbol(i) is None for i in node.indices):
                continue  # a window or a gather: the stages will not run in one loop
            for axis, i in zip(producer.axes, node.indices, strict=True):
                name = plain_symbol(i)
                if name is None or spatial.get(name) != axis.extent:
                    continue
                if name not in names.values():
                    names.setdefault(axis.name, name)
        if len(names) > len(best):
            best = names
    return best


def _names_from_siblings(stage: Stage, later: list[Stage]) -> dict[str, str]:
    """New names for the axes of a map that no later stage reads, from the next map like it."""
    extents = [a.extent for a in stage.axes]
    if not _walks_in_order(stage):
        return {}
    for other in later:
        if [a.extent for a in other.axes] == extents and _walks_in_order(other):
            return {a.name: b.name for a, b in zip(stage.axes, other.axes, strict=True)}
    return {}


def _walks_in_order(stage: Stage) -> bool:
    """True if a map reads everything at its own place, with axes left out at most."""
    place = {a.name: n for n, a in enumerate(stage.axes)}
    if stage.combiner is not None:
        return False
    for node in walk(stage.expr):
        if isinstance(node, Read):
            places = [place.get(plain_symbol(i) or "", -1) for i in node.indices]
            if -1 in places or any(a >= b for a, b in pairwise(places)):
                return False
    return True


def merge_axes(prim: PrimFunc) -> PrimFunc:
    """Merges two axes that every access walks as one; the same object if there are none.

    ::

        out[i, j] = x[i, j] + 1    with x: [4, 6]    =>    out[i] = x[i] + 1    with x: [24]
    """
    for outer, inner in _adjacent_axes(prim):
        if _can_merge(prim, outer, inner):
            return _merge(prim, outer, inner)
    return prim


def _adjacent_axes(prim: PrimFunc) -> Iterator[tuple[Axis, Axis]]:
    seen: set[tuple[str, str]] = set()
    for stage in prim.stages:
        for axes in (stage.axes, stage.reduce_axes):
            for outer, inner in pairwise(axes):
                if (outer.name, inner.name) not in seen:
                    seen.add((outer.name, inner.name))
                    yield outer, inner


def _can_merge(prim: PrimFunc, outer: Axis, inner: Axis) -> bool:
    pair = {outer.name, inner.name}
    merged: dict[str, int] = {}  # buffer -> the first of the two dimensions
    for stage in prim.stages:
        for axes in (stage.axes, stage.reduce_axes):
            names = [a.name for a in axes]
            present = pair & set(names)
            if present and (
                len(present) == 1 or names.index(inner.name) != names.index(outer.name) + 1
            ):
                return False
        spatial = [a.name for a in stage.axes]
        if outer.name in spatial:
            place = spatial.index(outer.name)
            if merged.setdefault(stage.name, place) != place:
                return False
        for node in walk(stage.expr):
            if isinstance(node, Index) and symbols(node.value) & pair:
                return False
            if isinstance(node, Read) and not _merges_in(prim, node, outer, inner, merged):
                return False
    for stage in prim.stages:
        if stage.name in merged and outer.name not in {a.name for a in stage.axes}:
            return False
        for node in walk(stage.expr):
            if isinstance(node, Read) and node.buffer in merged:
                at = merged[node.buffer]
                if plain_symbol(node.indices[at]) != outer.name:
                    return False
    return True


def _merges_in(
    prim: PrimFunc, node: Read, outer: Axis, inner: Axis, merged: dict[str, int]
) -> bool:
    involved = [
        d
        for d, i in enumerate(node.indices)
        if isinstance(i, Dim) and symbols(i) & {outer.name, inner.name}
    ]
    if not involved:
        return True
    shape = prim.buffers[node.buffer].shape
    if len(involved) != 2 or involved[1] != involved[0] + 1:
        return False
    first, second = involved
    if plain_symbol(node.indices[first]) != outer.name:
        return False
    if plain_symbol(node.indices[second]) != inner.name:
        return False
    if shape[first] != outer.extent or shape[second] != inner.extent:
        return False
    return merged.setdefault(node.buffer, first) == first


def _merge(prim: PrimFunc, outer: Axis, inner: Axis) -> PrimFunc:
    where: dict[str, int] = {}
    for stage in prim.stages:
        spatial = [a.name for a in stage.axes]
        if outer.name in spatial:
            where[stage.name] = spatial.index(outer.name)
        for node in walk(stage.expr):
            if isinstance(node, Read):
                for d, i in enumerate(node.indices):
                    if plain_symbol(i) == outer.name:
                        where[node.buffer] = d
    extent = outer.extent * inner.extent

    def shrink(buffer: Buffer) -> Buffer:
        if buffer.name not in where:
            return buffer
        d = where[buffer.name]
        return replace(
            buffer,
            shape=(*buffer.shape[:d], product(buffer.shape[d : d + 2]), *buffer.shape[d + 2 :]),
        )

    def join(node: Read) -> Expr | None:
        if node.buffer not in where:
            return None
        d = where[node.buffer]
        return read(
            node.buffer, (*node.indices[:d], symbol(outer.name), *node.indices[d + 2 :]), node.dtype
        )

    def axes(old: tuple[Axis, ...]) -> tuple[Axis, ...]:
        return tuple(
            Axis(a.name, extent) if a.name == outer.name else a for a in old if a.name != inner.name
        )

    stages = tuple(
        replace(
            s,
            buffer=shrink(s.buffer),
            axes=axes(s.axes),
            reduce_axes=axes(s.reduce_axes),
            expr=map_reads(s.expr, join),
        )
        for s in prim.stages
    )
    return replace(prim, params=tuple(map(shrink, prim.params)), stages=stages)


_SPATIAL = ("i", "j", "l", "m", "n", "o", "p", "q")
_REDUCED = ("k", "r", "s", "t", "u", "v", "w", "y")


def canonical_names(prim: PrimFunc) -> PrimFunc:
    """Names by place: parameters ``x0 ..``, stages ``t0 ..`` and ``out``, axes by letter, symbolic
    sizes ``n0 ..``, which keep their order.

    ::

        y[a] = w[a] + 1    =>    out[i] = x0[i] + 1

    A procedure keeps its names, but for sizes.
    """
    prim = _named_sizes(prim)
    if isinstance(prim, Procedure):
        return prim
    return rename(prim, *names_by_place(prim))


def _named_sizes(prim: PrimFunc) -> PrimFunc:
    """``prim`` with canonical names of its symbolic sizes."""
    names = {s.name: f"n{n}" for n, s in enumerate(prim.sizes)}
    if all(old == new for old, new in names.items()):
        return prim
    order = tuple([replace(s, name=names[s.name]) for s in prim.sizes])
    values = {s.name: s.expr for s in order}
    axes = {a.name for s in prim.stages for a in (*s.axes, *s.reduce_axes)}
    taken = axes & {s.name for s in order}
    if taken:  # axes get other names, by place, right after this
        prim = rename(prim, {a: f"{a}_" if a in taken else a for a in axes}, {})
    return replace(prim.at({old: values[new] for old, new in names.items()}), size_order=order)


def names_by_place(prim: PrimFunc) -> tuple[dict[str, str], dict[str, str]]:
    """Returns the canonical names of the axes, and of the buffers, by the names they have."""
    if isinstance(prim, Procedure):
        return {}, {}
    axes: dict[str, str] = {}
    counts = {True: 0, False: 0}
    sizes = {f"n{n}" for n in range(len(prim.sizes))}

    def name_axes(unnamed: tuple[Axis, ...], reduced: bool) -> None:
        letters = _REDUCED if reduced else _SPATIAL
        for axis in unnamed:
            while axis.name not in axes:
                cycle, place = divmod(counts[reduced], len(letters))
                counts[reduced] += 1
                name = letters[place] + (str(cycle) if cycle else "")
                if name not in sizes:
                    axes[axis.name] = name

    for stage in reversed(prim.stages):
        name_axes(stage.axes, False)
    for stage in prim.stages:
        name_axes(stage.reduce_axes, True)
    single = len(prim.outputs) == 1
    buffers = {name: "out" if single else f"out{n}" for n, name in enumerate(prim.outputs)}
    inner = [s.name for s in prim.stages if s.name not in buffers]
    buffers |= {name: f"t{n}" for n, name in enumerate(inner)}
    buffers |= {p.name: f"x{n}" for n, p in enumerate(prim.params)}
    return axes, buffers


def rename(prim: PrimFunc, axes: dict[str, str], buffers: dict[str, str]) -> PrimFunc:
    """``prim`` with axes and buffers renamed, all at once."""
    values: dict[str, IntExpr] = {old: symbol(new) for old, new in axes.items()}

    def place(i: IntExpr) -> IntExpr:
        return substitute(i, values)

    def leaf(node: Expr, done: dict[int, Expr]) -> Expr | None:
        if isinstance(node, Index):
            return index(place(node.value))
        if isinstance(node, Read):
            name = buffers.get(node.buffer, node.buffer)
            return read(name, exprs.rebuilt_indices(node, done, place), node.dtype)
        return None

    def renamed(old: tuple[Axis, ...]) -> tuple[Axis, ...]:
        return tuple(Axis(axes[a.name], a.extent) for a in old)

    stages = tuple(
        Stage(
            replace(s.buffer, name=buffers.get(s.name, s.name)),
            renamed(s.axes),
            exprs.rewrite(s.expr, leaf),
            renamed(s.reduce_axes),
            s.combiner,
        )
        for s in prim.stages
    )
    params = tuple(replace(p, name=buffers.get(p.name, p.name)) for p in prim.params)
    outputs = tuple(buffers.get(o, o) for o in prim.outputs)
    return replace(prim, params=params, outputs=outputs, stages=stages)


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
    """Returns the dimensions of ``stage`` in the order in which ``reader`` walks them; None if they
    are in this order already, or if it does not read with plain axes."""
    places = {a.name: (n, a.extent) for n, a in enumerate(reader.axes)}
    orders: list[list[int]] = []
    for node in _reads_of(reader, stage.name):
        where: list[int] = []
        for i, axis in zip(node.indices, stage.axes, strict=True):
            name = plain_symbol(i)
            if name not in places or places[name][1] != axis.extent:
                return None
            where.append(places[name][0])
        orders.append(where)
    if len(set(orders[0])) != len(orders[0]) or any(where != orders[0] for where in orders):
        return None
    order = sorted(range(len(orders[0])), key=lambda d: orders[0][d])
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


def plain_symbol(i: IndexLike) -> str | None:
    """Returns the axis that ``i`` consists of; None if it is another expression.

    >>> from loopwright.ir.dims import symbol
    >>> plain_symbol(symbol("i")), plain_symbol(symbol("i") + 1)
    ('i', None)
    """
    if isinstance(i, Dim) and len(i.terms) == 1:
        (mono, coefficient) = i.terms[0]
        if coefficient == 1 and len(mono) == 1 and isinstance(mono[0], Symbol):
            return mono[0].name
    return None
