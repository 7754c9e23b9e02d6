from __future__ import annotations

import numpy as np
from loopwright.ir.loop.evaluate import evaluate_prim
from loopwright.ir.loop.parser import parse_prim
from loopwright.ir.loop.widen import widened

NARROW = """prim @f(x: float32[4, 3], at: int64[4]) -> out: float32[4] {
  t[i, j]: float32[4, 3] = exp(x[at[i], j]) * 0.1
  out[i] = sum(k: 3) where(index(k) <= 1, t[i, k], float32(at[i]))
}"""
WIDE = """prim @f(x: float64[4, 3], at: int64[4]) -> out: float64[4] {
  t[i, j]: float64[4, 3] = exp(x[at[i], j]) * 0.10000000149011612:float64
  out[i] = sum(k: 3) where(index(k) <= 1, t[i, k], float64(at[i]))
}"""


def test_floats_are_widened_and_literals_keep_their_value() -> None:
    wide = widened(parse_prim(NARROW))
    assert str(wide).strip() == WIDE
    assert widened(wide) is wide


def test_a_wide_result_is_the_narrow_one_without_rounding() -> None:
    rng = np.random.default_rng(0)
    x, at = rng.random((4, 3), dtype=np.float32), np.array([2, 0, 1, 3])
    narrow = evaluate_prim(parse_prim(NARROW), {"x": x, "at": at})["out"]
    wide = evaluate_prim(widened(parse_prim(NARROW)), {"x": x.astype(np.float64), "at": at})["out"]
    right = np.exp(x.astype(np.float64)[at, :2]).sum(1) * np.float64(np.float32(0.1)) + at
    np.testing.assert_allclose(wide, right, rtol=1e-15)
    np.testing.assert_allclose(narrow, wide, rtol=1e-6)


def test_floats_made_of_bits_are_widened_behind_it() -> None:
    after = "where(1.0 <= x[i], from_bits(bits(x[i]) + uint32(1)), x[i])"
    prim = parse_prim(f"prim @f(x: float32[3]) -> out: float32[3] {{\n  out[i] = {after}\n}}")
    x = np.array([1, 2, -3], np.float32)
    wide = evaluate_prim(widened(prim), {"x": x.astype(np.float64)})["out"]
    assert wide.dtype == np.float64
    np.testing.assert_array_equal(wide, np.where(x >= 1, np.nextafter(x, np.float32(9)), x))
