"""Sums of groups by themselves: the same results, exact between integers, or a refusal."""

from __future__ import annotations

import numpy as np
import pytest
from loopwright.ir.errors import ScheduleError
from loopwright.ir.loop.evaluate import evaluate_prim
from loopwright.ir.loop.workload import parse_workload
from loopwright.ir.schedule.steps import Schedule, state_of, subtotal

FLOATS = """(x0: float32[96], x1: float32[96, 5], x2: float32[3, 5], x3: float32[3, 5])
-> out: float32[5] {
  out[i] = sum(g: 3, k: 32) (x0[32 * g + k] * (x1[32 * g + k, i] - x2[g, i])) * x3[g, i] }"""
BYTES = """(x0: int8[96], x1: uint8[96, 5], x2: uint8[3, 5], x3: float32[3, 5])
-> out: float32[5] {
  out[i] = sum(g: 3, k: 32) float32(int32(x0[32 * g + k]) *
  (int32(x1[32 * g + k, i]) - int32(x2[g, i]))) * x3[g, i] }"""


def parsed(text: str):
    return parse_workload(" ".join(text.split()))


def operands(prim) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    arrays = {p.name: rng.integers(-100, 100, p.shape) for p in prim.params}
    return {p.name: arrays[p.name].astype(p.dtype.numpy) for p in prim.params}


def after(text: str, *args):
    prim = parsed(text)
    return prim, state_of(prim, Schedule((subtotal(*args),))).prim


def test_zero_points_and_scales_are_taken_out_of_the_sums_of_groups() -> None:
    prim, new = after(FLOATS, "out", "g")
    assert [s.name for s in new.stages] == ["out.rows", "out.groups", "out"]
    assert "x2" not in str(new.stages[1].expr) and "x3" not in str(new.stages[1].expr)
    given = operands(prim)
    before, now = (evaluate_prim(p, given)["out"] for p in (prim, new))
    np.testing.assert_allclose(now, before, rtol=1e-5)


def test_products_of_bytes_are_summed_as_integers() -> None:
    prim, new = after(BYTES, "out", "g")
    assert [str(s.buffer.dtype) for s in new.stages] == ["int32", "int32", "float32"]
    given = operands(prim)
    exact = given["x0"].astype("d").reshape(3, 32, 1) * (
        given["x1"].astype("d").reshape(3, 32, 5) - given["x2"].astype("d")[:, None]
    )
    exact = (exact.sum(1) * given["x3"]).sum(0)
    np.testing.assert_allclose(evaluate_prim(new, given)["out"], exact, rtol=1e-6)


def test_constant_zero_points_are_multiplied_when_rows_are_summed() -> None:
    text = BYTES.replace("int32(x2[g, i])", "8:int32")
    text = text.replace("x2: uint8[3, 5], x3", "x3").replace("x3", "x2")
    prim, new = after(text, "out", "g")
    assert "8:int32" in str(new.stages[0].expr) and "8:int32" not in str(new.stages[2].expr)
    given = operands(prim)
    before, now = (evaluate_prim(p, given)["out"] for p in (prim, new))
    np.testing.assert_allclose(now, before, rtol=1e-5)


def test_groups_whose_sums_are_not_exact_in_float32_are_refused() -> None:
    large = BYTES.replace("96", "6144").replace("k: 32", "k: 2048").replace("32 * g", "2048 * g")
    with pytest.raises(ScheduleError, match="the terms are no products"):
        after(large, "out", "g")


@pytest.mark.parametrize(
    ("text", "args", "message"),
    [
        (FLOATS, ("out", "i"), "does not add float32 along i"),
        (FLOATS, ("t", "g"), "no stage 't'"),
        (FLOATS.replace(" * x3[g, i]", ""), ("out", "g"), "no factor of out is the same"),
        (FLOATS.replace("sum(", "max("), ("out", "g"), "does not add float32 along g"),
        (FLOATS.replace("g: 3, k: 32", "g: 3"), ("out", "g"), "does not add float32 along g"),
    ],
)
def test_what_is_refused(text, args, message) -> None:
    text = text.replace("32 * g + k", "32 * g") if ", k: 32" not in text else text
    with pytest.raises(ScheduleError, match=message):
        after(text, *args)
