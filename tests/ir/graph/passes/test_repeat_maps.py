"""Large maps of small values, which several reductions read."""

from __future__ import annotations

import loopwright as lw
import numpy as np
from graphs import assert_same_value, parse, random_args
from loopwright.ir.graph.evaluate import evaluate
from loopwright.ir.graph.passes.repeat_maps import repeat_maps

PAIRS = """fn (%x: Tensor[(9, 1, 8), float64], %w: Tensor[(9, 9, 1), float64]) {
  %y = reshape(%x, newshape=[1, 9, 8]);
  %d = subtract(%x, %y);
  %m = multiply(%d, %w);
  %a = sum(%m, axis=[0]);
  %b = sum(%m, axis=[1]);
  (%a, %b)
}"""


def maps(text: str, name: str) -> int:
    return str(repeat_maps(parse(text))).count(f"= {name}(")


def test_each_reduction_has_a_map_of_its_own():
    program = parse(PAIRS)
    args = random_args(program)
    assert_same_value(evaluate(repeat_maps(program), *args), evaluate(program, *args))
    assert maps(PAIRS, "subtract") == 3  # that of the first ones is dead
    assert maps(PAIRS, "reshape") == 1


def test_what_is_read_once_stays():
    text = PAIRS.replace("%b = sum(%m, axis=[1]);\n", "").replace("(%a, %b)", "%a")
    assert maps(text, "subtract") == 1


def test_what_is_computed_of_large_values_stays():
    text = PAIRS.replace("Tensor[(9, 9, 1)", "Tensor[(9, 9, 8)")
    assert maps(text, "subtract") == 1


def test_maps_of_unknown_size_stay():
    f = lw.compile(lambda x: ((x - x.mean(0)) ** 2).mean(0) + (x - x.mean(0)).max(0))
    program = f.trace(lw.f32["n", 8]).module
    assert repeat_maps(program) is program


def test_operands_of_operands_are_computed_first():
    text = PAIRS.replace("%m = multiply(%d, %w)", "%e = negative(%d);\n  %m = add(%e, %d)")
    program = parse(text)
    args = random_args(program)
    assert_same_value(evaluate(repeat_maps(program), *args), evaluate(program, *args))
    assert maps(text, "negative") == 3 and maps(text, "subtract") == 3


def test_what_costs_much_stays():
    text = PAIRS.replace("%m = multiply(%d, %w)", "%e = exp(%d);\n  %m = multiply(%e, %w)")
    assert maps(text, "exp") == 1


def test_the_gradient_of_distances_stores_no_differences():
    def energy(x):
        apart = x[:, None] - x[None]
        return np.sqrt((apart**2).sum(-1) + 0.001).sum()

    slope = lw.compile(lw.grad(energy))
    x = np.random.default_rng(0).standard_normal((60, 3))
    apart = x[:, None] - x[None]
    exact = 2 * (apart / np.sqrt((apart**2).sum(-1) + 0.001)[..., None]).sum(1)
    np.testing.assert_allclose(slope(x), exact, rtol=1e-10, atol=1e-12)
    assert "60, 60, 3), float64] {" not in slope.lower(x).as_text("kernels")
