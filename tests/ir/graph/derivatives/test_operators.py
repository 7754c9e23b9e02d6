"""Derivatives of every operator, over the samples of its declaration: forward mode against central
differences, reverse mode against forward mode, and both again for second derivatives."""

import numpy as np
import pytest
from derivatives import backward, forward
from loopwright.ir.dtype import dtype_of
from loopwright.ir.errors import LoopwrightTypeError
from loopwright.ir.graph.builder import Builder
from loopwright.ir.graph.evaluate import evaluate
from loopwright.ir.graph.types import TensorType
from loopwright.ir.graph.verify import verify
from loopwright.ir.loop.scalar import SCALAR_OPS
from loopwright.ir.ops import all_operators
from loopwright.ir.traits import Trait
from operators import samples_of

OPERATORS = all_operators()
STEP = 2e-5
TOLERANCE = 1e-6
"""Of differences of the fourth order, which err by the fifth derivative."""


DOMAINS = {"nn.batch_norm": (0.1, 2.0)}
"""Ranges of the operands of operators that are no scalar operators."""


def drawn(op, sample, rng):
    """The operands in float64, at a random point of the domain, where no two are equal."""
    low, high = (
        SCALAR_OPS[op.name].domain if op.name in SCALAR_OPS else DOMAINS.get(op.name, (-2.0, 2.0))
    )
    middle, half = (low + high) / 2, (high - low) / 2
    half = min(half, 1.3 if op.name == "tan" else 3.0)

    def draw(array):
        if array.dtype.kind == "f":
            return rng.uniform(middle - 0.9 * half, middle + 0.9 * half, array.shape)
        return array

    return [draw(np.asarray(a)) for a in sample.args]


def function_of(op, args, attrs):
    """A function of the operands that applies the operator, its float operands, and these."""
    b = Builder()
    params = [b.param(f"x{n}", TensorType(a.shape, dtype_of(a.dtype))) for n, a in enumerate(args)]
    result = b.emit(op, params, attrs)
    if op.name == "solve_small":  # the last row only says whether the others hold
        rows, count = result.type.shape
        slices = {"begin": (0, 0), "end": (rows - 1, count), "strides": (1, 1)}
        result = b.emit(OPERATORS["strided_slice"], [result], slices)
    return b.function(result), [p for p, a in zip(params, args, strict=True) if a.dtype.kind == "f"]


def results_of(function, args):
    result = evaluate(function, *args)
    return [np.asarray(r) for r in (result if isinstance(result, tuple) else (result,))]


def moved(args, moving, tangents, step):
    rest = iter(tangents)
    return [a + step * next(rest) if m else a for a, m in zip(args, moving, strict=True)]


def directions_like(value, rng):
    drawn = rng.uniform(-1, 1, value.shape)
    return drawn + 1j * rng.uniform(-1, 1, value.shape) if value.dtype.kind == "c" else drawn


def check(function, params, args, rng, depth, jumps=False):
    """Compares the modes with one another and with differences; ``depth`` times over."""
    moving = [a.dtype.kind == "f" for a in args]
    tangents = [rng.uniform(-1, 1, a.shape) for a, m in zip(args, moving, strict=True) if m]
    jvp = forward(function, params)
    verify(jvp)
    values = results_of(function, args)
    got = results_of(jvp, [*args, *tangents])
    smooth = [v for v in values if v.dtype.kind in "fc"]
    slopes = got[len(values) :]
    if jumps:
        assert not any(np.any(s) for s in slopes)
        return
    near, far = (
        [
            (a - b) / (2 * step)
            for a, b in zip(
                *(results_of(function, moved(args, moving, tangents, s)) for s in (step, -step)),
                strict=True,
            )
            if a.dtype.kind in "fc"
        ]
        for step in (STEP, 2 * STEP)
    )
    differences = [(4 * a - b) / 3 for a, b in zip(near, far, strict=True)]
    scale = max([1.0, *(float(np.abs(d).max(initial=0)) for d in differences)])
    for one, other in zip(slopes, differences, strict=True):
        np.testing.assert_allclose(one, other, rtol=TOLERANCE, atol=TOLERANCE * scale)
    vjp = backward(function, params)
    verify(vjp)
    cotangents = [directions_like(v, rng) for v in smooth]
    back = results_of(vjp, [*args, *cotangents])[len(values) :]
    there = sum(float((c * s).sum().real) for c, s in zip(cotangents, slopes, strict=True))
    here = sum(float((b * t).sum().real) for b, t in zip(back, tangents, strict=True))
    bound = sum(float(np.abs(c * s).sum()) for c, s in zip(cotangents, slopes, strict=True))
    assert abs(there - here) <= 1e-11 * max(1.0, bound), (there, here)
    if depth > 1:
        for derivative, given in ((jvp, tangents), (vjp, cotangents)):
            if any(a.dtype.kind == "c" for a in given):
                continue
            floats = [p for p in derivative.params if p.type.dtype.is_float]
            check(derivative, floats, [*args, *given], rng, depth - 1)


def differentiable(name):
    op = OPERATORS[name]
    return any(a.dtype.kind == "f" for s in samples_of(op) for a in map(np.asarray, s.args))


ELSEWHERE = {
    "stop_gradient": "its derivative is 0",
    "cholesky_small": "it reads one triangle, and its tangent both: see LINEAR_ALGEBRA",
}

FLAT = {"std": "one element has no spread, and the root has no slope there"}


def at_jump(op, args):
    """True where a remainder jumps near the point: its operands' quotient is an integer."""
    if Trait.JUMPS not in op.traits or op.tangent is None:
        return False
    with np.errstate(all="ignore"):
        quotients = np.divide(*args)
    return not np.all(np.abs(quotients - np.rint(quotients)) > 1e-4 * (1 + np.abs(quotients)))


def cases_of(op):
    """Yields the samples that a function of float64 can be checked with: its parameters, and the
    point. What is not finite, or rounded to fewer bits, has no differences."""
    rng = np.random.default_rng(0)
    for sample in samples_of(op):
        args = drawn(op, sample, rng)
        try:
            function, params = function_of(op, args, op.complete_attrs(sample.attrs))
        except LoopwrightTypeError:
            continue  # not in float64
        values = results_of(function, args)
        coarse = any(v.dtype.kind == "f" and v.dtype != np.float64 for v in values)
        flat = op.name in FLAT and not all(v.all() for v in values)
        if (
            params
            and not coarse
            and not flat
            and not at_jump(op, args)
            and all(np.isfinite(v).all() for v in values)
        ):
            yield function, params, args, rng


def has_rule(name):
    op = OPERATORS[name]
    return name not in ELSEWHERE and (op.tangent is not None or not op.not_differentiable)


NAMES = [n for n in OPERATORS if differentiable(n)]


@pytest.mark.parametrize("name", [n for n in NAMES if has_rule(n)])
def test_modes_agree_with_differences(name):
    op = OPERATORS[name]
    checked = 0
    for function, params, args, rng in cases_of(op):
        depth = 2 if sum(a.size for a in args) < 300 else 1
        try:
            check(
                function, params, args, rng, depth, op.tangent is None and Trait.JUMPS in op.traits
            )
        except LoopwrightTypeError as error:
            assert op.not_differentiable and op.not_differentiable in error.message
        else:
            checked += 1
    assert checked


@pytest.mark.parametrize("name", [n for n in NAMES if not has_rule(n) and n not in ELSEWHERE])
def test_an_operator_without_a_rule_says_why(name):
    op = OPERATORS[name]
    refused = []
    for sample in samples_of(op):
        args = [np.asarray(a) for a in sample.args]
        function, params = function_of(op, args, op.complete_attrs(sample.attrs))
        try:
            forward(function, params)
        except LoopwrightTypeError as error:
            refused.append(op.not_differentiable in error.message)
    assert refused and all(refused)
