"""Dequantise behind what moves or chooses bytes, and not where it is quantised again alike.

Before::

    def @main(%x: Tensor[(6, 8), uint8]) -> Tensor[(8, 6), uint8] {
      %0 = nn.dequantize(%x, 0.5f, 3u8);
      %1 = transpose(%0, axes=[1, 0]);
      nn.quantize(%1, 0.5f, 3u8)
    }

After::

    def @main(%x: Tensor[(6, 8), uint8]) -> Tensor[(8, 6), uint8] {
      transpose(%x, axes=[1, 0])
    }

Quantisers put such pairs around every operator. Bytes are a quarter of what floats are to move, and
of values with a positive scale the greatest is that of the greatest integer, so that windows of
images have it, too.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ...pass_context import optional
from ...traits import Trait
from ..builder import Builder
from ..nodes import Atom, Call, Constant, Module, Var, tensor_type
from ..operator import OPERATORS
from ..walk import Calls, CallStep, map_functions
from .eliminate_dead_code import rewrite_live_blocks

_POOLS = tuple(f"nn.max_pool{rank}d" for rank in (1, 2, 3))


@optional(level=2)
def sink_dequantising(module: Module) -> Module:
    """Moves dequantising with one scale behind index maps and greatest elements of windows."""
    return map_functions(module, lambda function: rewrite_live_blocks(function, _new_step))


def _new_step(calls: Calls) -> CallStep:
    def step(var: Var, value: Call, builder: Builder) -> Atom | None:
        made = calls.get(value.args[0]) if value.args else None
        if made is None or made.operator.name != "nn.dequantize":
            return None
        integers, *points = made.args
        numbers = all(tensor_type(point).rank == 0 for point in points)
        if value.operator.name == "nn.quantize":
            alike = all(map(is_same, points, value.args[1:]))
            return integers if alike and (numbers or made.attrs == value.attrs) else None
        if not numbers or not (moves(value, var) or _takes_greatest(value, points[0])):
            return None
        moved = builder.emit(value.op, (integers,), value.attrs)
        wide = builder.emit(OPERATORS["nn.dequantize"], (moved, *points))
        calls[wide] = replace(made, args=(moved, *points))
        return wide

    return step


def moves(call: Call, result: Var) -> bool:
    """True for an index map of one operand that does not repeat elements."""
    if len(call.args) != 1 or Trait.PICKS not in call.operator.traits:
        return False
    same = tensor_type(result).size == tensor_type(call.args[0]).size
    return same or call.operator.name == "strided_slice"


def _takes_greatest(call: Call, scale: Atom) -> bool:
    """True for the greatest elements of windows, none of which is of padding alone."""
    if call.operator.name not in _POOLS or not isinstance(scale, Constant):
        return False
    attrs: Any = call.attrs
    widest = np.max(attrs["padding"]) < np.min(attrs["pool_size"])
    return bool(scale.value > 0 and widest and np.max(attrs["dilation"]) == 1)


def is_same(a: Atom, b: Atom) -> bool:
    """True for one atom, and for two constants of one value and dtype."""
    if isinstance(a, Constant) and isinstance(b, Constant):
        return a.value.dtype == b.value.dtype and np.array_equal(a.value, b.value)
    return a is b
