"""Random graphs with branches and loops: reverse mode is the transpose of forward mode."""

from __future__ import annotations

import numpy as np
from derivatives import backward, forward
from graphs import random_args
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from loopwright.ir.graph.evaluate import evaluate
from loopwright.ir.graph.nodes import Function, GlobalVar, Module
from loopwright.ir.graph.types import TensorType
from loopwright.ir.graph.verify import verify
from loopwright.ir.graph.walk import all_bindings
from random_control_graphs import random_control_modules

TOLERANCE = 2e-4
"""Of products of float32 numbers and sums of a few dozen of them, over the sum of their sizes."""


def results_of(function, args):
    result = evaluate(function, *args)
    return [np.asarray(r) for r in (result if isinstance(result, tuple) else (result,))]


def calls_functions(function: Function) -> bool:
    return any(isinstance(getattr(b.value, "op", None), GlobalVar) for b in all_bindings(function))


@settings(max_examples=150)
@given(random_control_modules(), st.integers(0, 99))
def test_reverse_mode_is_the_transpose_of_forward_mode(program: Module, seed: int) -> None:
    function = program.main
    assume(not calls_functions(function))
    moving = [p for p in function.params if _is_float(p.type)]
    assume(moving)
    args, rng = random_args(program, seed), np.random.default_rng(seed)
    tangents = [rng.uniform(-1, 1, p.type.shape).astype(np.float32) for p in moving]
    jvp, vjp = verify(forward(function, moving)), verify(backward(function, moving))
    values = results_of(function, args)
    slopes = results_of(jvp, [*args, *tangents])[len(values) :]
    cotangents = [rng.uniform(-1, 1, s.shape).astype(np.float32) for s in slopes]
    back = results_of(vjp, [*args, *cotangents])
    for value, other in zip(values, back, strict=False):
        np.testing.assert_allclose(other, value, rtol=1e-5, atol=1e-6)
    pairs = [*zip(cotangents, slopes, strict=True)]
    there = sum(float((c * s).sum()) for c, s in pairs)
    here = sum(float((b * t).sum()) for b, t in zip(back[len(values) :], tangents, strict=True))
    size = sum(float(np.abs(c * s).sum()) for c, s in pairs)
    gradient = sum(float(np.abs(b).sum()) for b in back[len(values) :])
    assert abs(there - here) <= TOLERANCE * (1 + size + gradient), program


def _is_float(type) -> bool:
    return isinstance(type, TensorType) and type.dtype.is_float
