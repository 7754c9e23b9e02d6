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
        (
            "where(s[i] > 0.0:float64, e[i, k] / s[i], 0.0:float64) * v[k, j]",
            "e[i, k] * v[k, j]",
            "where(s[i] > 0.0:float64, out.sum[i, j] / s[i], 0.0:float64)",
        ),
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
    [
        "e[i, k] * v[k, j]",
        "e[i, k] / (s[i] * v[k, j])",
        "e[i, k] * 2.0:float64",
        "s[i] * s[i]",
        "where(e[i, k] > 1.5:float64, e[i, k], 0.0:float64) * v[k, j]",
        "where(s[i] > 0.0:float64, e[i, k], 0.0:float64) * v[k, j]",
        "where(s[i] > 1.5:float64, e[i, k] / s[i], 0.0:float64) * v[k, j]",
        "where(s[i] > 0.0:float64, e[i, k] / s[i], 1.0:float64) * v[k, j]",
    ],
)
def test_the_same_object_comes_back(term):
    prim = parse_prim(PRODUCT.replace("TERM", term))
    assert hoist_factors(prim) is prim


def test_integers_stay():
    text = PRODUCT.replace("TERM", "(e[i, k] * s[i]) * v[k, j]").replace("float64", "int64")
    prim = parse_prim(text)
    assert hoist_factors(prim) is prim


def test_a_quotient_inside_of_a_choice_is_not_taken_where_its_divisor_is_zero():
    term = "where(s[i] > 0.0:float64, e[i, k] / s[i], 0.0:float64) * v[k, j]"
    prim = hoist_factors(parse_prim(PRODUCT.replace("TERM", term)))
    e, v = np.ones((3, 4)), np.ones((4, 2))
    result = evaluate_prim(prim, {"e": e, "s": np.array([2.0, 0.0, np.nan]), "v": v})["out"]
    np.testing.assert_array_equal(result, [[2, 2], [0, 0], [0, 0]])
