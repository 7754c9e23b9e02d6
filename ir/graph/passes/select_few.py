"""Select the few elements at an end of an order, rather than sort all.

Before::

    def @main(%x: Tensor[(96), float32]) -> Tensor[(4), int64] {
      %0 = nn.argsort(%x, axis=0);
      strided_slice(%0, begin=[0], end=[4], strides=[1])
    }

After::

    def @main(%x: Tensor[(96), float32]) -> Tensor[(4), int64] {
      %0 = nn.argsort(%x, axis=0);
      nn.top_k_indices(%x, k=4, axis=0, largest=False)
    }

The last ones, or the first ones of the reversed order, are the first of the opposite order of the
reversed operand, counted from its end: of equal elements the last comes first there, as in the
reversed order. (A sort that nobody reads any more goes with the dead code.)
"""

from __future__ import annotations

import numpy as np

from ...pass_context import optional
from ..builder import Builder
from ..limits import few_first
from ..nodes import Atom, Call, Constant, Module, tensor_type
from ..operator import OPERATORS
from ..walk import Calls, CallStep, map_functions, rewrite_blocks


@optional(level=1)
def select_few(module: Module) -> Module:
    """Replaces slices of a few elements from an end of an order by a selection of them."""
    return map_functions(module, lambda function: rewrite_blocks(function, _new_step))


def _new_step(calls: Calls) -> CallStep:
    return lambda _var, call, builder: _selected(call, calls, builder)


def _selected(part: Call, calls: Calls, builder: Builder) -> Atom | None:
    """Returns the elements that ``part`` takes of an order; None if they are no few of an end."""
    order, flips = calls.get(part.args[0]) if part.op is OPERATORS["strided_slice"] else None, 0
    reversed_axes: list[tuple[int, ...]] = []
    while order is not None and order.op is OPERATORS["reverse"]:
        reversed_axes.append(order.attrs["axis"])
        order, flips = calls.get(order.args[0]), flips + 1
    if order is None or order.op is not OPERATORS["nn.argsort"]:
        return None
    x = order.args[0]
    shape = tensor_type(x).shape
    axis = order.attrs["axis"] % len(shape)
    size, bounds = shape[axis], zip(*(part.attrs[n] for n in ("begin", "end", "strides")))
    if not isinstance(size, int) or any(axes != (axis,) for axes in reversed_axes):
        return None
    for n, (begin, end, stride) in enumerate(bounds):
        if stride != 1 or (n != axis and (begin, end) != (0, shape[n])):
            return None
    begin, end = part.attrs["begin"][axis], part.attrs["end"][axis]
    backwards = flips % 2 == 1  # from the end of the order
    if not few_first(end - begin, size) or not (begin == 0 or end == size):
        return None
    from_end = backwards == (begin == 0)
    attrs = {
        "k": end - begin,
        "axis": axis,
        "largest": order.attrs["descending"] != from_end,
    }
    if not from_end:
        first = builder.emit(OPERATORS["nn.top_k_indices"], (x,), attrs)
    else:
        flipped = builder.emit(OPERATORS["reverse"], (x,), {"axis": (axis,)})
        counted = builder.emit(OPERATORS["nn.top_k_indices"], (flipped,), attrs)
        last = Constant(np.array(size - 1, np.int64))
        first = builder.emit(OPERATORS["subtract"], (last, counted), {})
    # The selection begins at its end of the order, the slice where the order does.
    if begin == 0:
        return first
    return builder.emit(OPERATORS["reverse"], (first,), {"axis": (axis,)})
