"""Is a mutant right after all? The loop interpreter says, on inputs that the gate never sees.

The measure is the repository's own tolerance, against the PrimFunc evaluated in float64. A mutant
whose results have the same bits as those of the nest that it was made of is right, too: where that
nest rounds to a half on its way, float64 is not what it computes, and a half's tolerance counts.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
from loopwright.autotune.measure.inputs import make_inputs
from loopwright.ir.dims import as_int, symbol
from loopwright.ir.dtype import INT64
from loopwright.ir.loop.evaluate import evaluate_prim
from loopwright.ir.loop.expr import const, index, walk
from loopwright.ir.loop.interpret import interpret
from loopwright.ir.loop.kinds import LoopKind
from loopwright.ir.loop.nest import If, Loop, Nest, Stmt, Store
from loopwright.ir.loop.prim import PrimFunc
from loopwright.ir.loop.widen import widened
from loopwright.ir.tolerance import tolerance

__all__ = ["is_right", "never_meet"]

Array = np.ndarray[Any, Any]
_TRIES, _TRIES_OF_RACES = 4, 32
_OPERATIONS = 16
"""Elementwise steps in a row, about: tanh-gelu has as many."""


def is_right(prim: PrimFunc, nest: Nest, origin: Nest | None = None) -> bool:
    """True if a loop nest computes its PrimFunc, or the same as ``origin``, as far as some random
    inputs tell, of many values and of few."""
    for n in range(_TRIES):
        inputs = make_inputs(prim, 1000 + n, coarse=n % 2 == 1)
        found = _interpreted(prim, nest, inputs)
        if found is None:
            return False
        if origin is not None and _same(prim, found, _interpreted(prim, origin, inputs)):
            continue
        if not _right_on(prim, found, inputs):
            return False
    return True


def _same(prim: PrimFunc, a: dict[str, Array], b: dict[str, Array] | None) -> bool:
    return b is not None and all(
        a[o.name].tobytes() == b[o.name].tobytes() for o in prim.output_buffers
    )


def never_meet(prim: PrimFunc, nest: Nest) -> bool:
    """True if no two iterations of a parallel loop write one element of what they share, on any of
    many random inputs: sharing the loop out changes nothing then."""
    marked = replace(nest, body=_marked(nest.body, []))
    return not any(
        _meet(prim, marked, make_inputs(prim, 2000 + n, coarse=n % 2 == 1))
        for n in range(_TRIES_OF_RACES)
    )


_MARK = "iteration"
"""An array that says which iteration of which parallel loop is running."""


def _marked(body: tuple[Stmt, ...], loops: list[Loop]) -> tuple[Stmt, ...]:
    """``body`` with stores of the number of each parallel loop and of its iteration."""
    made: list[Stmt] = []
    for stmt in body:
        if isinstance(stmt, Loop):
            inside = _marked(stmt.body, loops)
            if stmt.kind == LoopKind.PARALLEL:
                loops.append(stmt)
                iteration = index(symbol(stmt.var))
                numbers = (const(len(loops), INT64), iteration)
                stores = [Store(_MARK, (n,), value) for n, value in enumerate(numbers)]
                made.append(replace(stmt, body=(*stores, *inside)))
                made.append(Store(_MARK, (0,), const(0, INT64)))
                continue
            stmt = replace(stmt, body=inside)
        elif isinstance(stmt, If):
            then, orelse = _marked(stmt.then, loops), _marked(stmt.orelse, loops)
            stmt = replace(stmt, then=then, orelse=orelse)
        made.append(stmt)
    return tuple(made)


class _Watched(Array):
    """An array that notes which iterations write each element."""

    mark: Array
    writers: dict[Any, set[int]]

    def __setitem__(self, at: Any, value: Any) -> None:
        if self.mark[0]:
            self.writers.setdefault((int(self.mark[0]), at), set()).add(int(self.mark[1]))
        super().__setitem__(at, value)


def _meet(prim: PrimFunc, nest: Nest, inputs: dict[str, Array]) -> bool:
    mark = np.zeros(2, np.int64)
    arrays = {name: a.view(_Watched) for name, a in _operands(nest, inputs).items()}
    for array in arrays.values():
        array.mark, array.writers = mark, {}
    try:
        interpret(nest, {**arrays, _MARK: mark})
    except IndexError:
        return True
    return any(len(w) > 1 for array in arrays.values() for w in array.writers.values())


def _operands(nest: Nest, inputs: dict[str, Array]) -> dict[str, Array]:
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
    return arrays


def _interpreted(prim: PrimFunc, nest: Nest, inputs: dict[str, Array]) -> dict[str, Array] | None:
    """What a nest makes of its operands; None if it leaves them or changes an input."""
    arrays = _operands(nest, inputs)
    try:
        interpret(nest, arrays)
    except IndexError:
        return None
    kept = [p.name for p in prim.params if p.name in arrays]
    return arrays if all(arrays[n].tobytes() == inputs[n].tobytes() for n in kept) else None


def _right_on(prim: PrimFunc, arrays: dict[str, Array], inputs: dict[str, Array]) -> bool:
    wide = {k: v.astype(np.float64) if v.dtype.kind == "f" else v for k, v in inputs.items()}
    right = evaluate_prim(widened(prim), wide)
    length = max(
        (math.prod(as_int(a.extent) for a in s.reduce_axes) for s in prim.stages), default=0
    )
    for buffer in prim.output_buffers:
        made = [n.dtype for s in prim.stages for n in walk(s.expr) if n.dtype.is_float]
        narrow = min([buffer.dtype, *made], key=lambda d: d.bits)
        limit = tolerance(
            narrow if buffer.dtype.is_float else buffer.dtype, length, operations=_OPERATIONS
        )
        got, want = arrays[buffer.name], right[buffer.name]
        if not np.allclose(got, want, rtol=limit.rtol, atol=limit.atol, equal_nan=True):
            return False
    return True
