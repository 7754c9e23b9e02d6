"""Move the transposes behind contractions towards the results, where they meet others and vanish.

Before::

    def @main(%x: Tensor[(2, 8, 8, 3), float32], %w: Tensor[(3, 3, 3, 4), float32]) {
      %0 = conv2d_valid(%x, %w);
      %1 = transpose(%0, axes=[0, 3, 1, 2]);
      %2 = maximum(%1, 0f);
      %3 = sum(%2, axis=[2], keepdims=True);
      %4 = exp(%3);
      transpose(%4, axes=[0, 2, 3, 1])
    }

After::

    def @main(%x: Tensor[(2, 8, 8, 3), float32], %w: Tensor[(3, 3, 3, 4), float32]) {
      %0 = conv2d_valid(%x, %w);
      %1 = maximum(%0, 0f);
      %2 = sum(%1, axis=[1], keepdims=True);
      exp(%2)
    }

A contraction works in the layout that suits it (convolutions with the channels last). If a program
uses another one, each contraction is followed by a transpose, which keeps what comes next out of
its kernel. Elementwise operators, reductions, windows, pads, slices and concatenations do not care
about the order of axes, so they are done before the transpose.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any, TypeAlias

from ...dataclass import dataclass
from ...loop.scalar import COMBINERS
from ...pass_context import optional
from ..builder import Builder
from ..choices import Choices, call_text
from ..nodes import Atom, Call, Constant, Expr, Function, GlobalVar, Module, Var
from ..operator import OPERATORS, Operator, Pattern
from ..types import TensorType
from ..walk import Step, map_functions, rewrite_blocks, use_counts
from ..work import call_work
from .eliminate_dead_code import without_dead_code

__all__ = ["sink_transposes"]

Axes: TypeAlias = tuple[int, ...]

LAYOUTS = ("kept", "turned back")
"""Options at a contraction: later operators keep its order of axes, or a transpose undoes it at
once. Tuning logs hold these words."""


@optional(level=2)
def sink_transposes(module: Module, choices: Choices | None = None) -> Module:
    """Reorders the axes of what follows a contraction, if that needs no other transpose.

    Expects primitive operators. Transposes of inputs stay where they are: in front of a kernel they
    cost nothing. ``choices`` may leave a transpose where it is, so that what follows keeps its own
    order of axes.
    """
    return map_functions(module, lambda function: _sink(function, choices))


@dataclass(frozen=True, slots=True)
class _Transposed:
    """A variable that is ``transpose(source, axes)``."""

    source: Atom
    axes: Axes
    sinks: bool  # a contraction stands behind it


@dataclass(slots=True)
class _State:
    uses: Counter[Var]
    choices: Choices | None = None
    calls: dict[Var, Call] = field(default_factory=dict)
    transposed: dict[Var, _Transposed] = field(default_factory=dict)
    contracted: set[Var] = field(default_factory=set)


def _sink(function: Function, choices: Choices | None) -> Function:
    uses = use_counts(function)

    def new_step() -> Step:
        state = _State(uses, choices)

        def step(var: Var, value: Expr, builder: Builder) -> Atom | None:
            if not isinstance(value, Call) or isinstance(value.op, GlobalVar | Var):
                return None
            state.calls[var] = value
            moved = _move(state, value.op, value, var, builder)
            if isinstance(moved, Var) and moved is not var:
                state.uses[moved] += state.uses[var]
            return moved

        return step

    result = rewrite_blocks(function, new_step)
    return result if result is function else without_dead_code(result)


def _move(state: _State, op: Operator, call: Call, var: Var, builder: Builder) -> Atom | None:
    """Returns the replacement of ``call`` or None, and records whether ``var`` is a transpose."""
    if op.name == "transpose":
        return _join(state, call, var, builder)
    mover = _mover_of(op)
    if op.pattern == Pattern.CONTRACTION and mover is None:
        state.contracted.add(var)
        return None
    transposes = [state.transposed.get(a) if isinstance(a, Var) else None for a in call.args]
    first = next((t for t in transposes if t is not None and t.sinks), None)
    if first is None:
        if op.pattern == Pattern.CONTRACTION:
            state.contracted.add(var)
        return None
    if op.pattern in (Pattern.ELEMENTWISE, Pattern.BROADCAST) and len(op.params) > 0:
        return _past_elementwise(state, op, call, var, first, builder)
    if mover is None or any(t is None or t.axes != first.axes for t in transposes):
        return None
    if op.pattern == Pattern.REDUCTION and _comes_back(state, call, first):
        return None
    moved = mover(call, first.axes)
    if moved is None:
        return None
    attrs, axes = moved
    sources = [t.source for t in transposes if t is not None]
    return _sink_below(state, builder.emit(op, sources, attrs), axes, builder)


def _join(state: _State, call: Call, var: Var, builder: Builder) -> Atom | None:
    """Merges a transpose of a transpose into one, or into none."""
    source = call.args[0]
    axes = _axes(call)
    below = state.transposed.get(source) if isinstance(source, Var) else None
    if below is not None and below.sinks:
        joined = tuple(below.axes[a] for a in axes)
        if joined == tuple(range(len(joined))):
            return below.source
        return _sink_below(state, below.source, joined, builder)
    sinks = source in state.contracted and not _stays(state, source, axes)
    state.transposed[var] = _Transposed(source, axes, sinks)
    return None


def _stays(state: _State, source: Atom, axes: Axes) -> bool:
    """True if the transpose of a contraction stays where it is."""
    call = state.calls.get(source) if isinstance(source, Var) else None
    if state.choices is None or call is None:
        return False
    text = f"{call_text(call)} -> transpose{axes}"
    instructions = call_work(call, source.type)
    return state.choices.take("layout", text, LAYOUTS, instructions) == LAYOUTS[1]


def _sink_below(state: _State, source: Atom, axes: Axes, builder: Builder) -> Atom:
    """Emits ``transpose(source, axes)`` and lets it sink further."""
    if isinstance(source, Var):
        state.contracted.add(source)
    if axes == tuple(range(len(axes))):
        return source
    result = builder.emit(OPERATORS["transpose"], (source,), {"axes": axes})
    state.transposed[result] = _Transposed(source, axes, True)
    return result


def _axes(call: Call) -> Axes:
    kind = call.args[0].type
    assert isinstance(kind, TensorType)
    axes = call.attrs["axes"]
    return tuple(range(kind.rank))[::-1] if axes is None else tuple(a % kind.rank for a in axes)


def _past_elementwise(
    state: _State, op: Operator, call: Call, var: Var, first: _Transposed, builder: Builder
) -> Atom | None:
    rank = len(first.axes)
    if not isinstance(var.type, TensorType) or var.type.rank != rank:
        return None
    if not all(_is_free_to_transpose(state, a, first.axes) for a in call.args):
        return None
    args = [_source_of(state, a, first.axes, builder) for a in call.args]
    attrs = dict(call.attrs)
    if "shape" in attrs:  # broadcast_to says what it gives, axis by axis
        attrs["shape"] = tuple(attrs["shape"][first.axes.index(i)] for i in range(rank))
    return _sink_below(state, builder.emit(op, args, attrs), first.axes, builder)


def _is_free_to_transpose(state: _State, atom: Atom, axes: Axes) -> bool:
    """True if ``atom`` can be transposed at no cost."""
    kind = atom.type
    assert isinstance(kind, TensorType)
    if isinstance(atom, Constant) or sum(s != 1 for s in kind.shape) <= 1:
        return True
    if not isinstance(atom, Var):
        return False
    transposed, call = state.transposed.get(atom), state.calls.get(atom)
    return (transposed is not None and transposed.axes == axes) or (
        call is not None and not call.args
    )


def _source_of(state: _State, atom: Atom, axes: Axes, builder: Builder) -> Atom:
    """Returns the array of which ``atom``, broadcast to the rank of ``axes``, is the transpose."""
    transposed = state.transposed.get(atom) if isinstance(atom, Var) else None
    if transposed is not None and transposed.axes == axes:
        return transposed.source
    kind = atom.type
    assert isinstance(kind, TensorType)
    if kind.rank == 0:
        return atom
    if kind.rank < len(axes):
        shape = (1,) * (len(axes) - kind.rank) + kind.shape
        atom = builder.emit(OPERATORS["reshape"], (atom,), {"newshape": shape})
    inverse = tuple(axes.index(i) for i in range(len(axes)))
    return builder.emit(OPERATORS["transpose"], (atom,), {"axes": inverse})


def _comes_back(state: _State, call: Call, transposed: _Transposed) -> bool:
    """True if a reduction over the last axes, whose operand is needed again (as in softmax), would
    become one over other axes, and so no longer fit one kernel."""
    operand = call.args[0]
    rank = len(transposed.axes)
    axes = _reduced_axes(call, rank)
    last = tuple(range(rank - len(axes), rank))
    moved = tuple(sorted(transposed.axes[a] for a in axes))
    used_again = isinstance(operand, Var) and state.uses[operand] > 1
    return used_again and axes == last and moved != last


def _reduced_axes(call: Call, rank: int) -> Axes:
    axis = call.attrs["axis"]
    if axis is None:
        return tuple(range(rank))
    return tuple(sorted(a % rank for a in (axis if isinstance(axis, tuple) else (axis,))))


# How an operator is done before the transpose instead of after it: from its call and the axes of
# the transpose, its new attributes and the axes of the transpose that is then left to do.
_Mover: TypeAlias = Callable[[Call, Axes], tuple[Mapping[str, Any], Axes] | None]


def _reduction(call: Call, axes: Axes) -> tuple[Mapping[str, Any], Axes]:
    reduced = _reduced_axes(call, len(axes))
    attrs = {**call.attrs, "axis": tuple(sorted(axes[a] for a in reduced))}
    if call.attrs["keepdims"]:
        return attrs, axes
    left = [axes[i] for i in range(len(axes)) if i not in reduced]
    return attrs, tuple(sorted(left).index(a) for a in left)


def _per_axis(*names: str) -> _Mover:
    """Returns an operator with one entry per axis in the attributes ``names``."""

    def move(call: Call, axes: Axes) -> tuple[Mapping[str, Any], Axes]:
        return {
            **call.attrs,
            **{name: _in_order_of(call.attrs[name], axes) for name in names},
        }, axes

    return move


def _in_order_of(entries: Sequence[Any], axes: Axes) -> tuple[Any, ...]:
    return tuple(entries[axes.index(i)] for i in range(len(axes)))


def _concatenate(call: Call, axes: Axes) -> tuple[Mapping[str, Any], Axes]:
    return {**call.attrs, "axis": axes[call.attrs["axis"] % len(axes)]}, axes


def _mover_of(op: Operator) -> _Mover | None:
    if op.name in COMBINERS:
        return _reduction
    names = [attr.name for attr in op.attrs if attr.kind == "PerAxis"]
    if names and len(op.params) == 1:
        return _per_axis(*names)
    return _concatenate if op.name == "concatenate" else None
