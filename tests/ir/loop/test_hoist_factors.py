"""Common factors leave a sum."""

import numpy as np
import pytest
from loopwright.ir.loop.evaluate import evaluate_prim
from loopwright.ir.loop.hoist_factors import hoist_factors
from loopwright.ir.loop.parser import parse_prim
from loopwright.ir.loop.verify import verify_prim

PRODUCT = """
prim @f(e: float64[3, 4], s: float64[3], v: float64[4, 2]) -> out: float64[3, 2] {
  out[i, j] = sum(k: 4) TERM
}"""


@pytest.mark.parametrize(
    "term, summed, result",
    [
        ("(e[i, k] / s[i]) * v[k, j]", "e[i, k] * v[k, j]", "out.sum[i, j] / s[i]"),
        ("(s[i] * e[i, k]) * v[k, j]", "e[i, k] * v[k, j]", "out.sum[i, j] * s[i]"),
        ("v[k, j] * (e[i, k] / s[i])", "v[k, j] * e[i, k]", "out.sum[i, j] / s[i]"),
        ("(e[i, k] * v[k, j]) / s[i]", "e[i, k] * v[k, j]", "out.sum[i, j] / s[i]"),
    ],
)
def test_what_does_not_move_leaves_the_sum(term, summed, result):
    prim = parse_prim(PRODUCT.replace("TERM", term))
    hoisted = hoist_factors(prim)
    verify_prim(hoisted)
    assert [line.strip() for line in str(hoisted).splitlines()[1:-1]] == [
        f"out.sum[i, j]: float64[3, 2] = sum(k: 4) {summed}",
        f"out[i, j] = {result}",
    ]
    rng = np.random.default_rng(0)
    inputs = {p.name: rng.uniform(1, 2, [int(s) for s in p.shape]) for p in prim.params}
    found, expected = (evaluate_prim(p, inputs)["out"] for p in (hoisted, prim))
    np.testing.assert_allclose(found, expected, rtol=1e-14)


@pytest.mark.parametrize(
    "term",
    ["e[i, k] * v[k, j]", "e[i, k] / (s[i] * v[k, j])", "e[i, k] * 2.0:float64", "s[i] * s[i]"],
)
def test_the_same_object_comes_back(term):
    prim = parse_prim(PRODUCT.replace("TERM", term))
    assert hoist_factors(prim) is prim


def test_integers_stay():
    text = PRODUCT.replace("TERM", "(e[i, k] * s[i]) * v[k, j]").replace("float64", "int64")
    prim = parse_prim(text)
    assert hoist_factors(prim) is prim
