"""Is a mutant right after all? The loop interpreter says, on inputs that the gate never sees.

The measure is the repository's own tolerance, against the PrimFunc evaluated in float64.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from loopwright.autotune.measure.reference import make_inputs
from loopwright.ir.dims import as_int
from loopwright.ir.loop.evaluate import evaluate_prim
from loopwright.ir.loop.interpret import interpret
from loopwright.ir.loop.nest import Nest
from loopwright.ir.loop.prim import PrimFunc
from loopwright.ir.loop.widen import widened
from loopwright.ir.tolerance import tolerance

__all__ = ["is_right"]

Array = np.ndarray[Any, Any]
_TRIES = 3
_OPERATIONS = 16
"""Elementwise steps in a row, about: tanh-gelu has as many."""


def is_right(prim: PrimFunc, nest: Nest) -> bool:
    """True if a loop nest computes its PrimFunc, as far as some random inputs tell."""
    return all(_right_on(prim, nest, make_inputs(prim, 1000 + n)) for n in range(_TRIES))


def _right_on(prim: PrimFunc, nest: Nest, inputs: dict[str, Array]) -> bool:
    arrays: dict[str, Array] = {}
    for operand in nest.operands:
        buffer = operand.buffer
        if operand.pack is not None:
            arrays[buffer.name] = operand.pack.array(inputs[operand.pack.source])
        elif operand.role == "out":
            shape = [as_int(s) for s in buffer.shape]
            arrays[buffer.name] = np.full(shape, 113, buffer.dtype.numpy)
        elif operand.begins_as is not None:
            arrays[buffer.name] = inputs[operand.begins_as[1]].copy()
        else:
            arrays[buffer.name] = inputs[buffer.name].copy()
    try:
        interpret(nest, arrays)
    except IndexError:
        return False
    wide = {k: v.astype(np.float64) if v.dtype.kind == "f" else v for k, v in inputs.items()}
    right = evaluate_prim(widened(prim), wide)
    length = max(
        (math.prod(as_int(a.extent) for a in s.reduce_axes) for s in prim.stages), default=0
    )
    for buffer in prim.output_buffers:
        limit = tolerance(buffer.dtype, length, operations=_OPERATIONS)
        got, want = arrays[buffer.name], right[buffer.name]
        if not np.allclose(got, want, rtol=limit.rtol, atol=limit.atol, equal_nan=True):
            return False
    return all(
        np.array_equal(arrays[p.name], inputs[p.name]) for p in prim.params if p.name in arrays
    )
