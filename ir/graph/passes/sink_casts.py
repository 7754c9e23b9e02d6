"""Widen short numbers behind what moves them, next to where they are computed with.

Before::

    def @main(%x: Tensor[(8, 4), int8], %w: Tensor[(9, 3), int32]) -> Tensor[(4, 3), int32] {
      %0 = cast(%x, dtype="int32");
      %1 = transpose(%0, axes=[1, 0]);
      %2 = nn.pad(%1, pad_width=[[0, 0], [1, 0]]);
      nn.matmul(%2, %w)
    }

After::

    def @main(%x: Tensor[(8, 4), int8], %w: Tensor[(9, 3), int32]) -> Tensor[(4, 3), int32] {
      %0 = transpose(%x, axes=[1, 0]);
      %1 = nn.pad(%0, pad_width=[[0, 0], [1, 0]]);
      %2 = cast(%1, dtype="int32");
      nn.matmul(%2, %w)
    }

What is copied, a padded image or the transposed weights that are folded, stays short, and products
see that their factors are: machines have instructions for short ones.
"""

from __future__ import annotations

from ...dtype import DType
from ...pass_context import optional
from ...traits import Trait
from ..builder import Builder
from ..nodes import Atom, Call, Module, Var
from ..operator import OPERATORS
from ..types import TensorType
from ..walk import Calls, CallStep, map_functions
from .eliminate_dead_code import rewrite_live_blocks


@optional(level=1)
def sink_casts(module: Module) -> Module:
    """Moves casts of bytes and halves to wider numbers behind index maps of one operand."""
    return map_functions(module, lambda function: rewrite_live_blocks(function, _new_step))


def _new_step(calls: Calls) -> CallStep:
    def step(_var: Var, call: Call, builder: Builder) -> Atom | None:
        cast = calls.get(call.args[0]) if len(call.args) == 1 and _only_moves(call) else None
        if cast is None or cast.op is not OPERATORS["cast"]:
            return None
        if not _widens(cast.args[0], call.args[0]):
            return None
        moved = builder.emit(call.op, cast.args, call.attrs)
        return builder.emit(cast.op, (moved,), cast.attrs)

    return step


def _only_moves(call: Call) -> bool:
    """True if each element of the result is one of the operand, or zero."""
    if Trait.PICKS in call.operator.traits:
        return True
    return call.operator.name == "nn.pad" and call.attrs["pad_value"] == 0


def _widens(operand: Atom, result: Atom) -> bool:
    """True for a cast of one or two bytes to something wider of the same kind."""
    if not isinstance(operand.type, TensorType) or not isinstance(result.type, TensorType):
        return False
    old, new = operand.type.dtype, result.type.dtype
    return old.bytes <= 2 and old.bytes < new.bytes and _same_kind(old, new)


def _same_kind(old: DType, new: DType) -> bool:
    return (old.is_float and new.is_float) or (old.is_integer and new.is_integer)
