"""Keep as bytes the weights that bytes are multiplied with.

Before::

    def @main(%x: Tensor[(64, 784), int8]) -> Tensor[(64, 512), int32] {
      %0 = cast(%x, dtype="int32");
      nn.matmul(%0, meta[w])
    }

After::

    def @main(%x: Tensor[(64, 784), int8]) -> Tensor[(64, 512), int32] {
      %0 = cast(%x, dtype="int32");
      %1 = cast(meta[w8], dtype="int32");
      nn.matmul(%0, %1)
    }

Constants::

    w = np.arange(784 * 512, dtype=np.int32).reshape(784, 512) % 256 - 128
    w8 = w.astype(np.int8)

Index maps of widened bytes become maps of the bytes, which are widened then.

A program that widens its weights with NumPy before it is traced says nothing of bytes any more. As
bytes they take a quarter of the memory, and machines multiply bytes faster than wider numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...dtype import DTYPES, INT8, INT32, UINT8, DType
from ...pass_context import optional
from ...traits import Trait
from ..builder import Builder
from ..limits import DEFAULT_LIMITS, GraphLimits
from ..nodes import Atom, Call, Constant, Module, Var, tensor_type
from ..operator import OPERATORS, Pattern
from ..types import TensorType
from ..walk import Calls, CallStep, map_functions, rewrite_blocks

BYTES = (INT8.numpy, UINT8.numpy)

FEW = 256
"""Elements of a constant that is not worth it."""


@optional(level=2)
def narrow_factors(module: Module, limits: GraphLimits = DEFAULT_LIMITS) -> Module:
    """Weights of integers that fit a byte become bytes, cast where widened bytes meet them.

    Where instructions multiply integers of 16 bits alone, bytes that are widened to int32 become
    such first.
    """
    words = DTYPES[limits.factor] if limits.factor == "int16" else None
    return map_functions(module, lambda f: rewrite_blocks(f, lambda calls: _new_step(words, calls)))


def _new_step(words: DType | None, calls: Calls) -> CallStep:
    kinds, widest = (BYTES, 1) if words is None else ((words.numpy,), words.bytes)

    def in_words(arg: Atom, builder: Builder) -> Atom:
        """Returns a factor of int32 as it is, but for bytes: these are widened twice."""
        call = calls.get(arg)
        if words is None or call is None or call.op is not OPERATORS["cast"]:
            return arg
        (source,), kind = call.args, tensor_type(arg)
        if tensor_type(source).dtype.bytes > 1 or kind.dtype is not INT32:
            return arg
        word = builder.emit(OPERATORS["cast"], (source,), {"dtype": words.name})
        return builder.emit(OPERATORS["cast"], (word,), {"dtype": kind.dtype.name})

    def widened(atom: Atom) -> bool:
        """True if an operand is bytes cast to something wider, index maps aside."""
        while (call := calls.get(atom)) is not None:
            op, source = call.operator, call.args[0] if len(call.args) == 1 else None
            if source is None:
                return False
            if op.name == "cast":
                return isinstance(source.type, TensorType) and source.type.dtype.bytes <= widest
            if op.pattern not in (Pattern.INJECTIVE, Pattern.BROADCAST):
                return False
            atom = source
        return False

    def step(_var: Var, value: Call, builder: Builder) -> Atom | None:
        op = value.operator
        inner = calls.get(value.args[0]) if Trait.PICKS in op.traits else None
        is_cast = inner is not None and inner.op is OPERATORS["cast"] and widened(value.args[0])
        if inner is not None and is_cast and isinstance(inner.args[0], Var):
            picked = builder.emit(op, (inner.args[0], *value.args[1:]), value.attrs)
            return builder.emit(inner.operator, (picked,), inner.attrs)
        if op.pattern != Pattern.CONTRACTION:
            return None
        if not any(widened(a) for a in value.args):
            return None
        narrowed = [narrower(a, kinds) for a in value.args]
        args = [in_words(a, builder) for a in value.args]
        if not any(narrowed):
            changed = any(a is not b for a, b in zip(args, value.args))
            return builder.emit(op, args, value.attrs) if changed else None
        for place, (arg, narrow) in enumerate(zip(value.args, narrowed)):
            if narrow is not None and isinstance(arg.type, TensorType):
                dtype = arg.type.dtype.name
                args[place] = builder.emit(OPERATORS["cast"], (narrow,), {"dtype": dtype})
        return builder.emit(op, args, value.attrs)

    return step


def narrower(atom: Atom, kinds: Sequence[np.dtype[Any]] = BYTES) -> Constant | None:
    """Returns a constant of wider integers in the first dtype of ``kinds`` that holds them, bytes
    unless said otherwise; None if it is small, or something else."""
    if not isinstance(atom, Constant) or atom.value.dtype.kind not in "iu":
        return None
    value = atom.value
    if value.size < FEW or value.dtype.itemsize <= kinds[0].itemsize:
        return None
    low, high = int(value.min()), int(value.max())
    for kind in kinds:
        if np.iinfo(kind).min <= low and high <= np.iinfo(kind).max:
            narrow = value.astype(kind)
            narrow.flags.writeable = False
            return Constant(narrow, atom.name, atom.span)
    return None
