"""Long chains of elementwise operators: few kernels, few values between them, NumPy's results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import loopwright as lw
import numpy as np
import pytest
from compiled import RUNNABLE
from graphs import assert_same_value, module, parse, random_args, tensor
from loopwright.codegen.target import Target
from loopwright.ir.graph.evaluate import evaluate
from loopwright.ir.graph.nodes import Call, Function, GlobalVar, Module, Tuple
from loopwright.ir.graph.passes.eliminate_dead_code import eliminate_dead_code
from loopwright.ir.graph.passes.fuse_operators import fuse_operators
from loopwright.ir.graph.pipeline import default_pipeline
from loopwright.ir.graph.verify import verify

LEVELS = RUNNABLE


def mandelbrot(steps: int) -> Callable[..., Any]:
    def count(cr: Any, ci: Any) -> Any:
        zr, zi = cr, ci
        n = np.zeros(cr.shape, np.int32)
        for _ in range(steps):
            zr2, zi2 = zr * zr, zi * zi
            n = n + (zr2 + zi2 < 4)
            zr, zi = zr2 - zi2 + cr, 2 * zr * zi + ci
        return n

    return count


def groups(function: Callable[..., Any], *args: Any) -> list[Function]:
    module = lw.compile(function).trace(*args).module
    for one in default_pipeline():
        module = one(module)
    return groups_of(module)


def groups_of(module: Module) -> list[Function]:
    called = [
        module.functions[b.value.op.name]
        for b in module.main.body.bindings
        if isinstance(b.value, Call) and isinstance(b.value.op, GlobalVar)
    ]
    return [f for f in called if isinstance(f, Function)]


def outputs(group: Function) -> int:
    last = group.body.bindings[-1].value
    return len(last.fields) if isinstance(last, Tuple) else 1


POINTS = (
    np.linspace(-2, 1, 37 * 53, dtype=np.float32).reshape(37, 53),
    np.linspace(-1, 1, 37 * 53, dtype=np.float32).reshape(53, 37).T.copy(),
)


def test_a_long_chain_is_one_kernel() -> None:
    assert len(groups(mandelbrot(40), *POINTS)) == 1


def blurred(radius: int) -> Callable[..., Any]:
    def filtered(image: Any, padded: Any) -> Any:
        h, w = image.shape
        total = weights = np.float32(0)
        for dy in range(2 * radius + 1):
            for dx in range(2 * radius + 1):
                other = padded[dy : dy + h, dx : dx + w]
                weight = np.exp(-((other - image) ** 2))
                total, weights = total + weight * other, weights + weight
        return total / weights

    return filtered


def test_chains_may_read_arrays_elsewhere() -> None:
    image = np.linspace(0, 1, 24 * 40, dtype=np.float32).reshape(24, 40)
    found = groups(blurred(3), image, np.pad(image, 3))
    assert [outputs(g) for g in found] == [2, 1]  # the sums so far
    got = lw.compile(blurred(3), threads=1)(image, np.pad(image, 3))
    np.testing.assert_allclose(got, blurred(3)(image, np.pad(image, 3)), rtol=1e-5)


def test_a_longer_one_is_cut_where_few_values_cross() -> None:
    found = groups(mandelbrot(100), *POINTS)
    assert [outputs(g) for g in found] == [3, 3, 1]  # zr, zi and n


def test_reductions_in_between_leave_no_circle() -> None:
    lines = ["%0 = multiply(%x, %x);"]
    for n in range(1, 80):
        lines.append(f"%{n} = add(%{n - 1}, %x);")
    lines += ["%80 = sum(%79, axis=[1], keepdims=True);", "%81 = subtract(%79, %80);"]
    for n in range(82, 160):
        lines.append(f"%{n} = multiply(%{n - 1}, %79);")
    text = f"fn (%x: Tensor[(8, 6), float32]) {{ {' '.join(lines)} add(%159, %5) }}"
    fused = verify(fuse_operators(parse(text)))
    sizes = [sum(isinstance(b.value, Call) for b in g.body.bindings) for g in groups_of(fused)]
    assert sum(sizes) == 161 and len(sizes) <= 4


@pytest.mark.parametrize("isa", LEVELS)
@pytest.mark.parametrize("steps", [12, 90])
def test_counts_agree_with_numpy(isa: str, steps: int) -> None:
    function = mandelbrot(steps)
    with np.errstate(all="ignore"):
        expected = function(*POINTS)
    found = lw.compile(function, threads=1, target=Target(isa=isa))(*POINTS)
    # Near the border a product and a sum in one rounding may leave a step earlier or later.
    assert np.mean(found != expected) < 0.02 and found.dtype == expected.dtype
    assert np.max(np.abs(found - expected)[expected <= 8]) <= 1


def test_chains_of_hundreds_of_operators_do_not_exhaust_recursion() -> None:
    def chain(x: Any, y: Any) -> Any:
        z, n = x, x
        for i in range(300):
            z = np.where(z > 0.5, z - y, z * y + x) if i % 3 else z - y
            n = n * 0.5 + z
        return n

    rng = np.random.default_rng(5)
    x, y = rng.uniform(0.2, 0.4, (2, 1003)).astype(np.float64)
    np.testing.assert_allclose(lw.compile(chain, threads=1)(x, y), chain(x, y), rtol=1e-9)


@pytest.mark.parametrize("isa", LEVELS)
def test_results_that_share_values_are_computed_in_one_loop(isa: str) -> None:
    def several(x: Any, y: Any, b: Any) -> Any:
        t = np.exp(x) * y + b
        u = np.sin(t) + x
        return t * u, u + t * 2, (t > u), np.floor(u).astype(np.int16)

    rng = np.random.default_rng(6)
    x, y = rng.standard_normal((2, 9, 33)).astype(np.float32)
    b = rng.standard_normal(33).astype(np.float32)
    compiled = lw.compile(several, threads=1, target=Target(isa=isa))
    for found, expected in zip(compiled(x, y, b), several(x, y, b), strict=True):
        assert found.dtype == expected.dtype
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
    text = compiled.lower(x, y, b).as_text("loops")
    assert "workspace" not in text and "stack" not in text


@pytest.mark.parametrize("seed", range(8))
def test_a_long_program_has_no_circle(seed: int) -> None:
    """What is cut to pieces has values that leave in many places, which views lead back into it."""
    rng = np.random.default_rng(seed)

    def make(m, x, y):
        values = [x, y]
        for _ in range(200):
            a, b = (values[-1 - min(int(rng.exponential(4)), len(values) - 1)] for _ in "ab")
            if rng.random() < 0.04:
                a = m.transpose(a, axes=(1, 0)) if rng.integers(2) else m("nn.matmul", a, b)
            values.append(m.subtract(a, b) if rng.integers(2) else m.tanh(m.add(a, b)))
        return values[-1]

    program = eliminate_dead_code(module(make, tensor(4, 4), tensor(4, 4)))
    args = random_args(program)
    assert_same_value(evaluate(fuse_operators(program), *args), evaluate(program, *args))
