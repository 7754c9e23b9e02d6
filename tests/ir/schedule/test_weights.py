"""Weights of a softmax: which stages are known to be some, and what they compute."""

from __future__ import annotations

import numpy as np
import pytest
from compiled import RUNNABLE, run_kernel
from loopwright.autotune.space.space import default_schedule
from loopwright.codegen.kernel import compile_kernel
from loopwright.codegen.target import Target
from loopwright.ir.loop.parser import parse_prim
from loopwright.ir.schedule.steps import Schedule, blockwise, state_of
from loopwright.ir.schedule.weights import with_weights

SOFTMAX = """
prim @f(x: float32[6, 40]) -> out: float32[6, 40] {
  m[i]: float32[6] = max(k: 40) x[i, k] * 2.0
  e[i, j]: float32[6, 40] = exp((x[i, j] * 2.0) - m[i])
  s[i]: float32[6] = sum(r: 40) e[i, r]
  out[i, j] = e[i, j] / s[i]
}"""
LOST = ["exp_weight", "max_number", "divide_weight"]
LOG_SOFTMAX = """
prim @f(x: float32[6, 40]) -> out: float32[6, 40] {
  m[i]: float32[6] = max(k: 40) x[i, k]
  s[i]: float32[6] = sum(r: 40) exp(x[i, r] - m[i])
  out[i, j] = (x[i, j] - m[i]) - log(s[i])
}"""


def test_a_softmax_is_rewritten() -> None:
    assert (
        str(with_weights(parse_prim(SOFTMAX))).strip()
        == """
prim @f(x: float32[6, 40]) -> out: float32[6, 40] {
  m[i]: float32[6] = max_number(k: 40) x[i, k] * 2.0
  e[i, j]: float32[6, 40] = exp_weight((x[i, j] * 2.0) - m[i])
  s[i]: float32[6] = sum(r: 40) e[i, r]
  out[i, j] = divide_weight(e[i, j], s[i])
}""".strip()
    )


@pytest.mark.parametrize(
    ("old", "new", "lost"),
    [
        # Not all weights are summed, or others: the sum may be less than 1, and miss a NaN.
        ("sum(r: 40) e[i, r]", "sum(r: 39) e[i, r]", ["max_number", "divide_weight"]),
        # The difference may be more than 0.
        ("(x[i, j] * 2.0) - m[i]", "(x[i, j] * 3.0) - m[i]", LOST),
        ("(x[i, j] * 2.0) - m[i]", "(x[i, j] * 2.0) - m[5 - i]", LOST),
        # Another row's sum, or none, takes part in the result: a NaN would be lost.
        ("= e[i, j] / s[i]", "= e[i, j]", ["max_number", "divide_weight"]),
        ("= e[i, j] / s[i]", "= e[i, j] / s[5 - i]", ["max_number"]),
        ("= e[i, j] / s[i]", "= where(x[i, j] > 0.0, e[i, j] / s[i], 0.0)", ["max_number"]),
        # What is divided is not known to be a weight.
        ("= e[i, j] / s[i]", "= x[i, j] / s[i]", ["divide_weight"]),
    ],
)
def test_what_is_not_known_stays(old: str, new: str, lost: list[str]) -> None:
    text = str(with_weights(parse_prim(SOFTMAX.replace(old, new))))
    assert [op for op in LOST if op not in text] == lost


@pytest.mark.parametrize("parts", [4, 7])  # the last of seven pieces ends beyond the row
def test_exponents_of_pieces_are_not_above_zero(parts: int) -> None:
    """The maximum of a piece is limited from below, and itself one of those of the whole row."""
    text = """
prim @f(x: float32[6, 40], v: float32[40]) -> out: float32[6] {
  m[i]: float32[6] = max(k: 40) x[i, k]
  e[i, j]: float32[6, 40] = exp(x[i, j] - m[i])
  out[i] = sum(r: 40) e[i, r] * v[r]
}"""
    pieces = state_of(parse_prim(text), Schedule.of(blockwise("m", parts))).prim
    assert str(pieces).count("exp(") == 2
    assert str(with_weights(pieces)).count("exp_weight(") == 2


def test_elements_that_a_maximum_leaves_out_may_be_above_it() -> None:
    text = SOFTMAX.replace("x[i, k] * 2.0", "where(x[i, k] < 1.0, x[i, k] * 2.0, -inf)")
    assert "exp_weight" not in str(with_weights(parse_prim(text)))


def test_other_kernels_are_left_alone() -> None:
    prim = parse_prim(SOFTMAX.replace("float32", "float64").replace("2.0", "2.0:float64"))
    assert with_weights(prim) is prim


@pytest.mark.parametrize("isa", RUNNABLE)
@pytest.mark.parametrize("text", [SOFTMAX, LOG_SOFTMAX])
def test_special_rows(text: str, isa: str) -> None:
    """Rows with NaN or infinities are NumPy's, and others as exact as float32 allows."""
    target = Target.host().with_isa(isa)
    x = np.random.default_rng(0).standard_normal((6, 40)).astype(np.float32) * 30
    x[1, 3], x[1, 4] = np.nan, np.inf
    x[2] = -np.inf
    x[3, :39] = -np.inf
    x[4, 39] = np.nan
    prim = parse_prim(text)
    (found,) = run_kernel(
        compile_kernel(prim, default_schedule(prim, target)[0], target), target, {"x": x}
    )
    wide = x.astype(np.float64) * (2 if text is SOFTMAX else 1)
    with np.errstate(all="ignore"):
        e = wide - wide.max(1, keepdims=True)
        s = np.exp(e).sum(1, keepdims=True)
        wanted = np.exp(e) / s if text is SOFTMAX else e - np.log(s)
    np.testing.assert_allclose(found, wanted, rtol=2e-5, atol=1e-38 if text is SOFTMAX else 1e-6)
