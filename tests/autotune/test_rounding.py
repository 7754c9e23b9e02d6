"""The tolerance follows the condition of the problem: what another rounding gives is right."""

from __future__ import annotations

import numpy as np
import pytest
from loopwright.autotune.measure.inputs import make_inputs
from loopwright.autotune.measure.reference import Reference
from loopwright.ir.loop.parser import parse_prim
from rule_workloads import prim_of


def attention(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Right code in float32, which sums in another order than the reference."""
    terms = q[:, None, ::-1] * k[None, :, ::-1]
    logits = np.add.accumulate(terms, axis=-1)[..., -1]
    e = np.exp(logits - logits.max(1, keepdims=True))
    return e @ v / e.sum(1, keepdims=True)


@pytest.mark.parametrize("factor", [6, 8])
def test_logits_that_nearly_tie_refuse_no_right_code(factor: int) -> None:
    """Rounding the logits alone moves some rows by more than the bound of ordinary ones."""
    prim = prim_of("attention", 50, 50, 32)
    probe = {n: a * np.float32(factor) for n, a in make_inputs(prim, 2).items()}
    right = attention(**probe)
    exact = attention(**{n: a.astype(np.float64) for n, a in probe.items()})
    verdict = Reference(prim, probe).check({"out": right})
    scale = np.abs(exact) + np.sqrt(np.mean(exact**2))
    error = np.abs(right - exact) / scale
    assert error.max() > verdict.bound and verdict.right
    for row in np.flatnonzero(error.max(1) < verdict.bound)[::7]:
        wrong = right.copy()
        wrong[row, 5] += 4 * verdict.bound * scale[row, 5]
        assert not Reference(prim, probe).check({"out": wrong}).right


SIGNS = """
prim @signs(x: float32[3, 40]) -> out: int32[3] {
  t[i]: float32[3] = sum(k: 40) x[i, k] * 1.5
  out[i] = where(0.0 < t[i], 7, 2)
}"""


def test_a_sum_that_vanishes_may_have_either_sign() -> None:
    x = np.random.default_rng(0).random((3, 40), np.float32) - np.float32(0.5)
    x[:2, -1] = -x[:2, :-1].sum(1)
    x[1, -1] += np.float32(1e-3)
    x[2, -1] = 20
    prim = parse_prim(SIGNS)
    for out, right in (
        ([2, 7, 7], True),
        ([7, 7, 7], True),
        ([7, 2, 7], False),
        ([7, 7, 2], False),
    ):
        assert Reference(prim, {"x": x}).check({"out": np.array(out, np.int32)}).right == right
    assert not Reference(prim, {"x": x}).check({"out": np.array([5, 7, 8], np.int32)}).right


def test_what_does_not_round_is_compared_exactly() -> None:
    """Equal elements tie in every rounding: the first is the greatest."""
    prim = parse_prim("""
prim @first(x: float32[6]) -> out: int64[] {
  m[]: float32[] = max(k: 6) x[k]
  out[] = min(r: 6) where(x[r] == m[], index(r), 99)
}""")
    x = np.array([0.1, 0.7, 0.3, 0.7, 0.7, 0.2], np.float32)
    assert Reference(prim, {"x": x}).check({"out": np.array(1)}).right
    assert not Reference(prim, {"x": x}).check({"out": np.array(3)}).right


def test_a_sum_of_one_term_is_exact() -> None:
    prim = parse_prim(
        "prim @nothing(x: float32[4]) -> out: float32[4] {\n"
        "  t[i]: float32[4] = sum() x[i]\n"
        "  out[i] = (x[i] - t[i]) / 0.0\n}"
    )
    reference = Reference(prim, make_inputs(prim, 0))
    assert reference.check({"out": np.full(4, np.nan, np.float32)}).right
    assert not reference.check({"out": np.full(4, np.inf, np.float32)}).right


def test_products_with_powers_of_two_are_exact() -> None:
    """The least half is among the halves: no rounding lets the search end without a place."""
    prim = parse_prim(
        "prim @least(x: float32[65]) -> out: int32[] {\n"
        "  t[]: float32[] = min(k: 65) x[k] * 0.5\n"
        "  out[] = min(r: 65) where((x[r] * 0.5) == t[], int32(index(r)), 65:int32)\n}"
    )
    inputs = make_inputs(prim, 3)
    reference = Reference(prim, inputs)
    assert reference.check({"out": np.array(inputs["x"].argmin(), np.int32)}).right
    assert not reference.check({"out": np.array(65, np.int32)}).right
