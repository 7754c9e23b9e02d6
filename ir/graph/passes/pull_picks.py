"""Pick a few elements before elementwise operators and gathers, not after them.

Before::

    def @main(%x: Tensor[(8, 9), float32], %m: Tensor[(8, 1), float32]) -> Tensor[(8, 1), float32] {
      %0 = subtract(%x, %m);
      strided_slice(%0, begin=[0, 7], end=[8, 8], strides=[1, 1])
    }

After::

    def @main(%x: Tensor[(8, 9), float32], %m: Tensor[(8, 1), float32]) -> Tensor[(8, 1), float32] {
      %0 = subtract(%x, %m);
      %1 = strided_slice(%x, begin=[0, 7], end=[8, 8], strides=[1, 1]);
      %2 = broadcast_to(%m, shape=[8, 9]);
      %3 = strided_slice(%2, begin=[0, 7], end=[8, 8], strides=[1, 1]);
      subtract(%1, %3)
    }

A cross entropy takes one logarithm of each row's probabilities, and a classifier the first token of
a normalised sequence; every hundredth window of a signal is gathered. Picked first, the array of
all of them is never stored. (What nobody reads any more goes with the dead code.) A convolution of
which nothing but a slice is read, as in the derivative of a padded one, computes that alone.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from ...pass_context import optional
from ...traits import Trait
from ..builder import Builder
from ..nodes import Atom, Call, Constant, Module, Var, tensor_type
from ..operator import OPERATORS, Pattern
from ..walk import Calls, CallStep, map_functions, rewrite_blocks, use_counts
from ..work import elements

FEWER = 8
"""Least ratio of all elements to those that are picked."""

MOST_PULLED = 32
"""Elementwise operators in front of one pick that are computed anew for what is picked."""

_SLICE: tuple[str, ...] = ("begin", "end", "strides")

_PICKS = frozenset({"strided_slice", "take"})


@optional(level=2)
def pull_picks(module: Module) -> Module:
    """Moves slices and gathers of few elements in front of elementwise operators of their block."""
    return map_functions(module, lambda f: rewrite_blocks(f, partial(_new_step, use_counts(f))))


def _new_step(uses: Counter[Var], calls: Calls) -> CallStep:
    def step(var: Var, value: Call, builder: Builder) -> Atom | None:
        new = _windows(value, uses, calls, builder) or _pulled(
            value, elements(var.type), calls, builder
        )
        if isinstance(new, Var):
            uses[new] += uses[var]
        return new

    return step


def _pulled(pick: Call, picked: float, calls: Calls, builder: Builder) -> Atom | None:
    """Returns the elements that ``pick`` takes of what it is applied to, ``picked`` in number,
    computed from picked operands."""
    if pick.operator.name not in _PICKS:
        return None
    chain = [pick]
    while (call := calls.get(chain[-1].args[0])) is not None and Trait.VIEW in call.operator.traits:
        chain.append(call)
    root = chain[-1].args[0]
    if not picked * FEWER <= elements(root.type) < math.inf:
        return None
    gather = calls.get(root)
    is_slice = len(chain) == 1 and pick.operator.name == "strided_slice"
    if is_slice and gather is not None and gather.operator.name == "take":
        return _gathered(pick, gather, calls, builder)
    region = _region(root, calls)
    if not 0 < len(region) <= MOST_PULLED:
        return None
    shape = tensor_type(root).shape
    values: dict[Atom, Atom] = {}

    def operand(atom: Atom) -> Atom:
        """Returns the picked elements of ``atom``, which is broadcast to the shape of the root."""
        if isinstance(atom, Constant) and atom.value.ndim == 0:
            return atom
        pulled = values.get(atom)
        if pulled is None:
            pulled = atom
            if tensor_type(atom).shape != shape:
                pulled = builder.emit(OPERATORS["broadcast_to"], (atom,), {"shape": shape})
            for call in reversed(chain):
                pulled = builder.emit(call.operator, (pulled, *call.args[1:]), call.attrs)
            values[atom] = pulled
        return pulled

    for atom in region:  # operands first
        call = calls[atom]
        values[atom] = builder.emit(call.operator, [operand(a) for a in call.args], call.attrs)
    return values[root]


def _windows(pick: Call, uses: Counter[Var], calls: Calls, builder: Builder) -> Atom | None:
    """Returns a slice of a convolution that nothing else reads, as the convolution of a slice."""
    source = pick.args[0] if pick.operator.name == "strided_slice" else None
    call = calls.get(source) if isinstance(source, Var) and uses[source] == 1 else None
    if call is None or not call.operator.name.endswith("d_valid"):
        return None
    x, w = map(tensor_type, call.args)
    batch, *spatial, channels = zip(*(pick.attrs[key] for key in _SLICE), strict=True)
    if channels != (0, w.shape[-1], 1):
        return None
    slices, steps = [batch], list[int]()
    given = (np.resize(call.attrs[name], len(spatial)).tolist() for name in ("strides", "dilation"))
    for (begin, end, step), taps, stride, apart in zip(spatial, w.shape, *given):
        sizes = [v for v in (begin, end, taps) if isinstance(v, int)]
        if len(sizes) < 3 or step < 1 or begin >= end:
            return None
        last = begin + (end - begin - 1) // step * step
        slices.append((begin * stride, last * stride + (sizes[2] - 1) * apart + 1, 1))
        steps.append(step * stride)
    attrs = dict(zip(_SLICE, zip(*slices, (0, x.shape[-1], 1)), strict=True))
    part = builder.emit(OPERATORS["strided_slice"], call.args[:1], attrs)
    attrs = {**call.attrs, "strides": tuple(steps)}
    return builder.emit(call.operator, (part, call.args[1]), attrs)


def _gathered(pick: Call, gather: Call, calls: Calls, builder: Builder) -> Atom:
    """Returns a slice of gathered elements: what is gathered from a slice, at a slice of the
    places."""
    x, places = gather.args
    axis, shape = gather.attrs["axis"], tensor_type(x).shape
    slices = list(zip(*(pick.attrs[key] for key in _SLICE), strict=True))
    if axis is None:  # of all elements
        places = _sliced(places, slices, calls, builder)
    else:
        axis %= len(shape)
        end = axis + tensor_type(places).rank
        x = _sliced(x, [*slices[:axis], (0, shape[axis], 1), *slices[end:]], calls, builder)
        places = _sliced(places, slices[axis:end], calls, builder)
    return builder.emit(gather.operator, (x, places), gather.attrs)


def _sliced(x: Atom, slices: Sequence[Sequence[Any]], calls: Calls, builder: Builder) -> Atom:
    """``x[begin:end:stride, ...]``"""
    sizes = [len(range(*each)) for each in slices]
    if sizes == [*tensor_type(x).shape]:
        return x
    attrs = dict(zip(_SLICE, zip(*slices, strict=True), strict=True))
    pick = Call(OPERATORS["strided_slice"], (x,), attrs)
    pulled = _pulled(pick, math.prod(sizes), calls, builder)
    return builder.emit(pick.operator, (x,), attrs) if pulled is None else pulled


def _region(root: Atom, calls: Calls) -> list[Var]:
    """The elementwise operators of the root's shape that lead to it, operands first; none if there
    are too many."""
    shape = tensor_type(root).shape
    leaves: dict[Var, None] = {}
    todo = [(root, False)]
    while todo:
        atom, ready = todo.pop()
        call = calls.get(atom)
        if not isinstance(atom, Var) or call is None or atom in leaves or _is_stored(atom, calls):
            continue
        if ready:
            leaves[atom] = None
        elif _is_map(call) and tensor_type(atom).shape == shape:
            todo += [(atom, True), *((a, False) for a in call.args)]
        if len(todo) > 8 * MOST_PULLED:
            return []
    return [*leaves]


def _is_stored(atom: Atom, calls: Calls) -> bool:
    """True if a value is an array in any case: the result of a contraction, perhaps with a bias, an
    activation or a residual added, which the same kernel computes."""
    shape = tensor_type(atom).shape
    work = [atom]
    for _ in range(MOST_PULLED):
        if not work:
            return False
        call = calls.get(work.pop())
        if call is None:
            continue
        if call.operator.pattern >= Pattern.CONTRACTION:
            return True
        computed = [a for a in call.args if calls.get(a) is not None]
        if _is_map(call) and all(tensor_type(a).shape == shape for a in computed):
            work += computed
    return False


def _is_map(call: Call) -> bool:
    op = call.operator
    if op.pattern not in (Pattern.ELEMENTWISE, Pattern.BROADCAST) or op.name == "broadcast_to":
        return False
    return any(not isinstance(a, Constant) for a in call.args)
