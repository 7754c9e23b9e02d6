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
its kernel. Elementwise operators, reductions, windows, pads, slices, concatenations and elements
that are taken along an axis do not care about the order of axes, so they are done before the
transpose. A reshape behind it that joins or splits axes is part of the view: a normalisation of
groups of channels, written over one joined axis, reads memory in its order. A reshape of a
contraction's result that splits no axis is a view, too, of which elementwise operators and
reductions are done before it: activations and residual sums are then in the contraction's kernel.
An operand in another order stops all that, unless the contraction reads it transposed: of
``x + relu(conv(x))`` both are summed with the channels last, if the sum is read so, too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any, TypeAlias

from ...dataclass import dataclass
from ...dims import IntExpr, product
from ...loop.scalar import COMBINERS
from ...pass_context import optional
from ..axis_groups import Axes, Groups, Shape, in_order, regrouped, spread_over, whole_axes
from ..builder import Builder
from ..choices import Choices, call_text
from ..nodes import Atom, Call, Constant, Function, Module, Var, tensor_type
from ..operator import OPERATORS, Operator, Pattern
from ..type_rules import normalise_axes, permutation
from ..types import TensorType
from ..walk import Calls, CallStep, all_bindings, map_functions, use_counts
from ..work import call_work
from .eliminate_dead_code import rewrite_live_blocks

Transposed: TypeAlias = "Mapping[tuple[Atom, Axes], Var]"

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
class _View:
    """A variable that is ``source``, taken as an array of ``shape``, with its axes in another order
    and some joined: ``groups`` has the axes of ``shape`` that each of its own consists of.

    A transpose has groups of one axis. ``sinks``: a contraction stands behind it.
    """

    source: Atom
    shape: Shape
    groups: Groups
    sinks: bool

    @property
    def axes(self) -> Axes | None:
        """The axes of the transpose that it is, None if axes are joined, too."""
        return tuple(g[0] for g in self.groups) if all(len(g) == 1 for g in self.groups) else None

    @property
    def keeps_order(self) -> bool:
        """True for a reshape: elements are in the order of memory."""
        return in_order(self.groups)


@dataclass(slots=True)
class _State:
    """The variables of a block so far: ``views`` of others, ``contracted`` ones, which hold results
    of contractions in their own order, and the ``transposed`` forms of each by their axes. Those of
    ``read_across`` are operands of transposes."""

    uses: Counter[Var]
    choices: Choices | None = None
    calls: Calls = field(default_factory=dict[Atom, Call])
    views: dict[Var, _View] = field(default_factory=dict)
    contracted: set[Var] = field(default_factory=set)
    transposed: dict[tuple[Atom, Axes], Var] = field(default_factory=dict[tuple[Atom, Axes], Var])
    read_across: frozenset[Atom] = frozenset()

    def view_of(self, atom: Atom) -> _View | None:
        return self.views.get(atom) if isinstance(atom, Var) else None


def _sink(function: Function, choices: Choices | None) -> Function:
    uses = use_counts(function)
    calls = [b.value for b in all_bindings(function) if isinstance(b.value, Call)]
    across = frozenset(c.args[0] for c in calls if c.op is OPERATORS["transpose"])

    def new_step(_calls: Calls) -> CallStep:
        state = _State(uses, choices, read_across=across)

        def step(var: Var, value: Call, builder: Builder) -> Atom | None:
            state.calls[var] = value  # what is emitted is not looked into
            moved = _move(state, value.operator, value, var, builder)
            if isinstance(moved, Var) and moved is not var:
                state.uses[moved] += state.uses[var]
            return moved

        return step

    return rewrite_live_blocks(function, new_step)


def _move(state: _State, op: Operator, call: Call, var: Var, builder: Builder) -> Atom | None:
    """Returns the replacement of ``call`` or None, and records whether ``var`` is a view."""
    if op.name == "transpose":
        return _join(state, call, var, builder)
    if op.name == "reshape":
        return _regroup(state, call, var, builder)
    mover = _mover_of(op)
    if op.pattern == Pattern.CONTRACTION and mover is None:
        state.contracted.add(var)
        return None
    views = [state.view_of(a) for a in call.args]
    sinking = [t for t in views if t is not None and t.sinks]
    maps = op.pattern in (Pattern.ELEMENTWISE, Pattern.BROADCAST)
    reshapes = [t for t in sinking if t.keeps_order] if maps or op.name in COMBINERS else []
    first = next((t for t in sinking if not t.keeps_order), next(iter(reshapes), None))
    if first is None:
        places = maps or any(attr.kind == "PerAxis" for attr in op.attrs)
        if op.pattern == Pattern.CONTRACTION or (places and state.contracted & {*call.args}):
            state.contracted.add(var)
        return None
    if maps and len(op.params) > 0:
        return _past_elementwise(state, call, var, first, builder)
    if op.name in COMBINERS:
        return _past_reduction(state, op, call, first, builder)
    axes = first.axes
    if axes is not None and op.name == "take":
        return _past_take(state, call, first, axes, builder)
    if mover is None or axes is None:
        return None
    return _before_view(state, call, mover(call, axes), first, first.shape, builder)


def _join(state: _State, call: Call, var: Var, builder: Builder) -> Atom | None:
    """Merges a transpose of a transpose into one, or into none."""
    source = call.args[0]
    axes = permutation(call.attrs["axes"], tensor_type(source).rank)
    below = state.view_of(source)
    if below is not None and below.sinks and not below.keeps_order:
        groups = tuple(below.groups[a] for a in axes)
        return _sink_below(state, _source_of(state, builder, below), groups, builder)
    sinks = source in state.contracted and not _stays(state, source, axes)
    state.views[var] = _View(source, tensor_type(source).shape, tuple((a,) for a in axes), sinks)
    state.transposed[source, axes] = var
    return None


def _regroup(state: _State, call: Call, var: Var, builder: Builder) -> Atom | None:
    """Records a reshape of a transpose as a view, and one of a contraction that splits no axis;
    where reshape and transpose together change no order, one reshape is left."""
    below = state.view_of(call.args[0])
    if below is None or (below.sinks and below.keeps_order):
        _record_reshape(state, var, call.args[0])
        return None
    if not below.sinks:
        return None
    view = regrouped(below.shape, below.groups, tensor_type(var).shape)
    if view is None:
        return None
    shape, groups = view
    if in_order(groups):
        return _contracted(state, _reshaped(state, builder, below.source, tensor_type(var).shape))
    state.views[var] = _View(below.source, shape, groups, True)
    return None


def _stays(state: _State, source: Atom, axes: Axes) -> bool:
    """True if the transpose of a contraction stays where it is."""
    call = state.calls.get(source)
    if state.choices is None or call is None:
        return False
    text = f"{call_text(call)} -> transpose{axes}"
    instructions = call_work(call, source.type)
    return state.choices.take("layout", text, LAYOUTS, instructions) == LAYOUTS[1]


def _sink_below(state: _State, source: Atom, groups: Groups, builder: Builder) -> Atom:
    """Emits the view of ``source`` that has these groups of axes, and lets it sink further."""
    source, shape = _contracted(state, source), tensor_type(source).shape
    order = tuple(a for g in groups for a in g)
    sizes = tuple(product(shape[a] for a in g) for g in groups)
    if in_order(groups):
        return _contracted(state, _reshaped(state, builder, source, sizes))
    transposed = builder.emit(OPERATORS["transpose"], (source,), {"axes": order})
    result = _reshaped(state, builder, transposed, sizes)
    assert isinstance(result, Var)
    state.views[result] = _View(source, shape, groups, True)
    return result


def _contracted(state: _State, source: Atom) -> Atom:
    """Returns ``source``, which holds a contraction's result in its own order."""
    if isinstance(source, Var):
        state.contracted.add(source)
    return source


def _source_of(state: _State, builder: Builder, view: _View) -> Atom:
    return _reshaped(state, builder, view.source, view.shape)


def _reshaped(state: _State, builder: Builder, atom: Atom, shape: Shape) -> Atom:
    if tensor_type(atom).shape == shape:
        return atom
    result = builder.emit(OPERATORS["reshape"], (atom,), {"newshape": shape})
    _record_reshape(state, result, atom)
    return result


def _record_reshape(state: _State, result: Atom, source: Atom) -> None:
    """Records a reshape of a contraction's result that splits no axis as a view of it."""
    below = state.view_of(source)
    if below is not None and below.sinks and below.keeps_order:
        source = below.source
    elif below is not None or source not in state.contracted:
        return
    shape = tensor_type(source).shape
    groups = whole_axes(shape, tensor_type(result).shape)
    if groups is not None and isinstance(result, Var):
        state.views[result] = _View(source, shape, groups, True)


def _past_elementwise(
    state: _State, call: Call, var: Var, first: _View, builder: Builder
) -> Atom | None:
    groups = first.groups
    if not isinstance(var.type, TensorType) or var.type.rank != len(groups):
        return None
    views = [t for a in call.args for t in [state.view_of(a)] if t is not None]
    sizes = first.shape
    for view in views:
        if view.groups == groups:
            sizes = tuple(b if a == 1 else a for a, b in zip(sizes, view.shape))
    if not all(_fits(view, groups, sizes) for view in views if view.groups == groups):
        return None
    attrs = dict(call.attrs)
    if "shape" in attrs:  # broadcast_to says what it gives, axis by axis
        attrs["shape"] = spread_over(attrs["shape"], groups, sizes)
        if attrs["shape"] is None:
            return None
    transposed = state.transposed if var in state.read_across else {}
    return _before_view(state, call, attrs, first, sizes, builder, transposed)


def _fits(view: _View, groups: Groups, sizes: Sequence[IntExpr]) -> bool:
    """True if the axes of every group of several are as long as ``sizes``, or all 1: others of the
    same product are joined from other axes."""
    joined = [g for g in groups if len(g) > 1]
    return all(
        all(view.shape[a] == sizes[a] for a in group) or all(view.shape[a] == 1 for a in group)
        for group in joined
    )


def _before_view(
    state: _State,
    call: Call,
    attrs: Mapping[str, Any],
    view: _View,
    sizes: Shape,
    builder: Builder,
    transposed: Transposed | None = None,
) -> Atom | None:
    """Emits the call on the arrays of which its operands are views, None if one costs a copy that
    is not among the ``transposed``."""
    makers = [_in_source_order(state, a, view.groups, sizes, transposed or {}) for a in call.args]
    if None in makers:
        return None
    sources = [make(builder) for make in makers if make is not None]
    return _sink_below(state, builder.emit(call.operator, sources, attrs), view.groups, builder)


def _in_source_order(
    state: _State,
    atom: Atom,
    groups: Groups,
    sizes: Sequence[IntExpr],
    transposed: Transposed,
) -> Callable[[Builder], Atom] | None:
    """Returns what makes the array of which ``atom``, broadcast to the rank of ``groups``, is the
    view; None if that costs a copy."""
    view = state.view_of(atom)
    if view is not None and view.groups == groups:
        return lambda builder: _source_of(state, builder, view)
    shape = tensor_type(atom).shape
    if not shape:
        return lambda _builder: atom
    wide = (1,) * (len(groups) - len(shape)) + shape
    spread = spread_over(wide, groups, sizes)
    if spread is None:
        return None
    order = [a for g in groups for a in g]
    moved = [a for a in order if spread[a] != 1]
    call = state.calls.get(atom)
    if call is not None and call.op.name == "broadcast_to":
        inner = _in_source_order(state, call.args[0], groups, sizes, transposed)
        if inner is not None:
            return lambda builder: builder.emit(call.op, (inner(builder),), {"shape": spread})
    free = isinstance(atom, Constant) or (call is not None and not call.args)
    inverse = tuple(order.index(i) for i in range(len(order)))
    if not free and moved != sorted(moved):
        # What a contraction reads in its own order is added in that order.
        other = transposed.get((atom, inverse))
        if other is None or tensor_type(other).shape != spread:
            return None
        return lambda _builder: other

    def make(builder: Builder) -> Atom:
        if moved == sorted(moved):
            return _reshaped(state, builder, atom, spread)
        made = _reshaped(state, builder, atom, tuple(spread[a] for a in order))
        return builder.emit(OPERATORS["transpose"], (made,), {"axes": inverse})

    return make


def _past_reduction(
    state: _State, op: Operator, call: Call, view: _View, builder: Builder
) -> Atom | None:
    """A reduction in the order of memory. Axes that are apart there, as those of an image and of a
    group of its channels, are reduced one run after the other, the outer one first: vectors then
    run along what is between them."""
    if op.name == "max" and _comes_back(state, call, view):
        return None
    reduced = normalise_axes(call.attrs["axis"], len(view.groups))
    axes = sorted(a for r in reduced for a in view.groups[r])
    if not axes:
        return None
    source = _source_of(state, builder, view)
    inner = [a for a in axes if all(b in axes for b in range(a, axes[-1]))]
    if inner != axes:
        outer = tuple(a for a in axes if a not in inner)
        source = builder.emit(op, (source,), {**call.attrs, "axis": outer, "keepdims": True})
    source = builder.emit(op, (source,), {**call.attrs, "axis": tuple(axes)})
    if call.attrs["keepdims"]:
        return _sink_below(state, source, view.groups, builder)
    kept = [a for a in range(len(view.shape)) if a not in axes]
    groups = [g for n, g in enumerate(view.groups) if n not in reduced]
    return _sink_below(
        state, source, tuple(tuple(kept.index(a) for a in g) for g in groups), builder
    )


def _past_take(state: _State, call: Call, view: _View, axes: Axes, builder: Builder) -> Atom | None:
    """Takes elements along an axis in the order of memory, as an enlarged image does."""
    x, indices = call.args
    axis = call.attrs["axis"]
    if axis is None or state.view_of(x) is not view or tensor_type(indices).rank != 1:
        return None
    source = _source_of(state, builder, view)
    attrs = {**call.attrs, "axis": axes[axis % len(axes)]}
    taken = builder.emit(call.operator, (source, indices), attrs)
    return _sink_below(state, taken, view.groups, builder)


def _comes_back(state: _State, call: Call, view: _View) -> bool:
    """True if the maximum over the last axes, whose operand is needed again (as in softmax), would
    become one over other axes, so that softmax would no longer fit one kernel."""
    operand = call.args[0]
    rank = len(view.groups)
    axes = normalise_axes(call.attrs["axis"], rank)
    last = tuple(range(rank - len(axes), rank))
    moved = sorted(a for n in axes for a in view.groups[n])
    used_again = isinstance(operand, Var) and state.uses[operand] > 1
    stays_last = moved == list(range(len(view.shape) - len(moved), len(view.shape)))
    return used_again and axes == last and not stays_last


# How an operator is done before the transpose instead of after it: from its call and the axes of
# the transpose, its new attributes. The transpose that is then left to do is the same.
_Mover: TypeAlias = Callable[[Call, Axes], Mapping[str, Any]]


def _per_axis(*names: str) -> _Mover:
    """Returns an operator with one entry per axis in the attributes ``names``."""

    def move(call: Call, axes: Axes) -> Mapping[str, Any]:
        return {**call.attrs, **{name: _in_order_of(call.attrs[name], axes) for name in names}}

    return move


def _in_order_of(entries: Sequence[Any], axes: Axes) -> tuple[Any, ...]:
    return tuple(entries[axes.index(i)] for i in range(len(axes)))


def _concatenate(call: Call, axes: Axes) -> Mapping[str, Any]:
    return {**call.attrs, "axis": axes[call.attrs["axis"] % len(axes)]}


def _mover_of(op: Operator) -> _Mover | None:
    names = [attr.name for attr in op.attrs if attr.kind == "PerAxis"]
    if names:
        return _per_axis(*names)
    return _concatenate if op.name == "concatenate" else None
