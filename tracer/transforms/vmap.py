"""A function of one row, called for all rows at once: what ``lw.vmap`` does in a trace."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...ir.dataclass import dataclass
from ...ir.dims import IntExpr
from ...ir.errors import LoopwrightTypeError, LoopwrightValueError
from ...ir.graph.nodes import Atom, Constant, Module, tensor_type
from ...ir.graph.requirements import require
from ...ir.graph.vmap_blocks import AllRows
from ..control.leaves import LeafType, flattened, leaf_type
from ..control.traced import new_proxy, ours, running, stand_in
from ..core.emitting import lift
from ..core.pytree import kind_of, paths, unflatten
from .block import called, emitted, emitting, traced_block


@dataclass(frozen=True, slots=True)
class _Mapped:
    """A leaf of the arguments that has rows along an axis."""

    label: str
    value: Any
    type: LeafType
    axis: int

    @property
    def count(self) -> IntExpr:
        return self.type.shape[self.axis]

    @property
    def row(self) -> LeafType:
        shape = (*self.type.shape[: self.axis], *self.type.shape[self.axis + 1 :])
        return LeafType(shape, self.type.dtype, None, bool(shape))

    def __str__(self) -> str:
        return f"{self.label} ({self.type}, axis {self.axis}) has {self.count}"


def vmap(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    in_axes: Any,
    out_axes: Any,
) -> Any:
    """Returns the results of ``function`` for all rows, stacked."""
    trace = running()
    axes = _axes_of("in_axes", in_axes, args, "the arguments")
    axes += [0] * len(flattened(kwargs)[0])
    leaves, structure = flattened([args, kwargs])
    labels = [p for n, a in enumerate(args) for p in paths(flattened(a)[1], f"argument {n}")]
    labels += [p for k, a in kwargs.items() for p in paths(flattened(a)[1], f"argument {k}")]
    mapped: dict[str, _Mapped] = {}
    for path, label, leaf, axis in zip(paths(structure), labels, leaves, axes, strict=True):
        type_ = leaf_type(leaf)
        if axis is not None and isinstance(type_, LeafType):
            mapped[path] = _Mapped(label, leaf, type_, _checked_axis(label, type_, axis))
    count = _count_of([*mapped.values()])
    with ours(trace):
        rows = [
            new_proxy(trace, stand_in(trace, mapped[path].row), mapped[path].row)
            if path in mapped
            else leaf
            for path, leaf in zip(paths(structure), leaves, strict=True)
        ]
        values: list[Any] = [lift(m.value) for m in mapped.values()]
        fronts = [np.moveaxis(v, m.axis, 0) for v, m in zip(values, mapped.values())]
        stacks = [trace.visible(each.atom) for each in fronts]
    traced, _ = traced_block(
        "lw.vmap",
        lambda args, kwargs: called(function, *args, **kwargs),
        unflatten(structure, rows),
        lambda path, _: path in mapped,
    )
    builder = emitting(trace)
    every = AllRows(
        count, builder, dict(zip(traced.params, stacks, strict=True)), {}, Module(trace.functions)
    )
    every.bindings(traced.block.bindings)
    results = every.fields_of(traced.block.result)
    kinds = [leaf if leaf is not None else lift(0) for leaf in traced.leaves]
    placed = _axes_of("out_axes", out_axes, unflatten(traced.structure, kinds), "the result")
    names = paths(traced.structure, "the result")
    pairs = [(a, n) for a, n, leaf in zip(placed, names, traced.leaves) if leaf is None]
    ends = [_placed(every, atom, axis, n) for atom, (axis, n) in zip(results, pairs)]
    codes = [every.of(atom) for atom in results[len(pairs) :]]
    if any(every.differs(atom) for atom in results[len(pairs) :]):
        # There may be no rows, and so no failure.
        codes = [every.emit("concatenate", codes[0], Constant(np.zeros(1, np.int64)))]
        codes = [every.emit("max", codes[0])]
    emitted(trace, builder.bindings)
    for code in codes:
        trace.assign(trace.memory.failure, code)
    for name, atom in trace.data_sizes.items():
        trace.data_sizes[name] = every.of(atom)
    traced.types = [LeafType(tensor_type(a).shape, tensor_type(a).dtype) for a in ends]
    return traced.tree(ends, trace)


def _axes_of(what: str, spec: Any, tree: Any, label: str) -> list[int | None]:
    """Returns the axis of each leaf of a tree, of which ``spec`` may be a shorter one: an axis
    counts for all leaves in its place."""
    if spec is None or type(spec) is int:
        return [spec] * len(flattened(tree)[0])
    if isinstance(spec, dict) and isinstance(tree, dict) and spec.keys() == tree.keys():
        pairs = [(spec[key], value, f"[{key!r}]") for key, value in tree.items()]
    else:
        kind = kind_of(type(spec))
        both = isinstance(spec, list | tuple) and isinstance(tree, list | tuple)
        if kind is None or isinstance(spec, dict) or not (both or type(spec) is type(tree)):
            raise _misfit(what, spec, tree, label)
        parts, (children, aux) = kind.take(spec)[0], kind.take(tree)
        if len(parts) != len(children):
            raise _misfit(what, spec, tree, label)
        names = kind.names(aux, len(children))
        pairs = [*zip(parts, children, names, strict=True)]
    return [a for part, child, n in pairs for a in _axes_of(what, part, child, label + n)]


def _misfit(what: str, spec: Any, tree: Any, label: str) -> LoopwrightTypeError:
    length = f" of {len(tree)}" if isinstance(tree, list | tuple | dict) else ""
    return LoopwrightTypeError(
        f"vmap: {what} has {spec!r} for {label}, a {type(tree).__name__}{length}",
        hint="an int for all of it, None for what all rows share, or the same containers of them",
    )


def _checked_axis(label: str, type_: LeafType, axis: int) -> int:
    rank = len(type_.shape)
    if -rank <= axis < rank:
        return axis % rank
    raise LoopwrightValueError(
        f"vmap: {label} is {type_}, which has no axis {axis}",
        hint="None in its place in in_axes, if all rows share it",
    )


def _count_of(mapped: Sequence[_Mapped]) -> IntExpr:
    """Returns the number of rows."""
    if not mapped:
        raise LoopwrightValueError(
            "vmap: no argument has rows, as in_axes is None for all of them",
            hint="the axis of the rows in in_axes, such as in_axes=(0, None)",
        )
    first, *others = mapped
    for other in others:
        message = f"vmap: the numbers of rows differ: {first}, {other}"
        if not require(first.count, "==", other.count, message):
            raise LoopwrightValueError(
                message, hint="another axis in in_axes, or None for what all rows share"
            )
    return first.count


def _placed(rows: AllRows, atom: Atom, axis: int | None, label: str) -> Atom:
    """Returns a result of all rows, which lie along an axis."""
    if axis is None:
        if atom in rows.stacked:
            raise LoopwrightValueError(
                f"vmap: {label} differs from row to row, and its out_axes is None",
                hint="out_axes=0",
            )
        return rows.of(atom)
    stack = rows.spread(atom)
    rank = tensor_type(stack).rank
    if not -rank <= axis < rank:
        raise LoopwrightValueError(
            f"vmap: {label} is {tensor_type(stack).short} with its rows, which has no axis {axis} "
            "to put them along",
            hint="out_axes=0",
        )
    if axis % rank == 0:
        return stack
    order = [*range(1, rank)]
    order.insert(axis % rank, 0)
    return rows.emit("transpose", stack, axes=tuple(order))
