"""Weights of integers with scales of groups stay codes, wherever they come from."""

from __future__ import annotations

import loopwright as lw
import numpy as np
import pytest

RNG = np.random.default_rng(0)


def drawn(k: int, n: int, group: int, low: int, high: int):
    codes = RNG.integers(low, high, (k, n)).astype(np.int8 if low < 0 else np.uint8)
    scales = RNG.uniform(0.5, 1.5, (k // group, n)).astype(np.float32)
    return codes, scales, RNG.integers(max(low, 0), high, scales.shape).astype(np.uint8)


def program(codes, scales, zeros, transposed: bool):
    """A product with dequantised weights, as users and exporters write it."""
    group = len(codes) // len(scales)
    factor = scales.repeat(group, 0)
    points = None if zeros is None else zeros.repeat(group, 0).astype(np.float32)
    if transposed:
        codes, factor = codes.T.copy(), factor.T.copy()
        points = points if points is None else points.T.copy()

    def f(x):
        wide = lw.xp.astype(lw.xp.asarray(codes), np.float32)
        w = (wide if points is None else wide - points) * factor
        return x @ (w.T if transposed else w)

    return f


def exact(x, codes, scales, zeros):
    group = len(codes) // len(scales)
    points = 0 if zeros is None else zeros.astype("d").repeat(group, 0)
    return x.astype("d") @ ((codes.astype("d") - points) * scales.repeat(group, 0))


@pytest.mark.parametrize(("low", "high", "bits"), [(-8, 8, 4), (0, 16, 4), (-128, 128, 8)])
@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("rows", [1, 5])
def test_scales_of_groups(low, high, bits, zeros, transposed, rows) -> None:
    codes, scales, points = drawn(128, 40, 32, low, high)
    points = points if zeros else None
    x = RNG.standard_normal((rows, 128), np.float32)
    compiled = lw.compile(program(codes, scales, points, transposed))
    wanted = exact(x, codes, scales, points)
    np.testing.assert_allclose(compiled(x), wanted, rtol=1e-4, atol=1e-3 * np.abs(wanted).max())
    text = compiled.lower(x).as_text("kernels")
    assert f"matmul_codes(%x, %p1, %p2, %p3, bits={bits})" in text or "matmul_codes(" in text
    assert f"Tensor[({128 * bits // 8}, 40), uint8]" in text


@pytest.mark.parametrize("what", ["inf", "nan", "fraction", "far", "short"])
def test_what_has_no_such_form_is_left(what) -> None:
    codes, scales, _ = drawn(128, 40, 32, -8, 8)
    zeros = np.zeros(scales.shape, np.float32)
    if what in ("inf", "nan"):
        scales[1, 3] = float(what)
    elif what == "short":
        scales = RNG.uniform(0.5, 1.5, (32, 40)).astype(np.float32)
        zeros = np.zeros(scales.shape, np.float32)
    else:
        zeros[2, 5] = {"fraction": 0.5, "far": 300.0}[what]
    x = RNG.standard_normal((3, 128), np.float32)
    compiled = lw.compile(program(codes, scales, zeros, False))
    with np.errstate(invalid="ignore"):
        wanted = exact(x, codes, scales, zeros)
    np.testing.assert_allclose(compiled(x), wanted, rtol=1e-4, atol=1e-2)
    assert "matmul_codes" not in compiled.lower(x).as_text("kernels")
