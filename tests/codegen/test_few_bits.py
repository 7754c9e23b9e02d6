"""Products with weights of few bits, compiled: every form beside NumPy in float64."""

from __future__ import annotations

import loopwright as lw
import numpy as np
import pytest
from loopwright import nn
from loopwright.codegen.target import Target
from loopwright.ir.errors import LoopwrightTypeError, LoopwrightValueError

RNG = np.random.default_rng(0)


def drawn(k: int, n: int, group: int, bits: int, scale: type = np.float32):
    codes = RNG.integers(0, 1 << bits, (k, n))
    scales = RNG.uniform(0.5, 1.5, (k // group, n)).astype(scale)
    zeros = RNG.integers(0, 1 << bits, scales.shape).astype(np.uint8)
    return codes, scales, zeros


def weights(codes, scales, zeros, group: int) -> np.ndarray:
    shifted = codes - zeros.astype("d").repeat(group, 0)
    return shifted * scales.astype("d").repeat(group, 0)


@pytest.mark.parametrize("bits", [2, 4, 8])
@pytest.mark.parametrize("group", [16, 32, 128])
@pytest.mark.parametrize("rows", [1, 3, 40])
def test_all_forms(bits, group, rows) -> None:
    codes, scales, zeros = drawn(256, 75, group, bits)
    x, w = RNG.standard_normal((rows, 256), np.float32), nn.pack_nbits(codes, group, bits)
    middle = np.full(scales.shape, 1 << bits - 1)
    exact = x.astype("d") @ weights(codes, scales, zeros, group)
    np.testing.assert_allclose(
        lw.compile(lambda x: nn.matmul_nbits(x, w, scales, zeros, bits))(x), exact, atol=2e-3 * bits
    )
    exact = x.astype("d") @ weights(codes, scales, middle, group)
    np.testing.assert_allclose(
        lw.compile(lambda x: nn.matmul_nbits(x, w, scales, bits=bits))(x), exact, atol=2e-3 * bits
    )
    np.testing.assert_allclose(nn.matmul_nbits(x, w, scales, bits=bits), exact, atol=1e-2)


@pytest.mark.parametrize("scale", [np.float16, np.float32])
@pytest.mark.parametrize("rows", [1, 5])
@pytest.mark.parametrize("bits", [4, 8])
def test_bytes_are_multiplied_exactly(scale, rows, bits) -> None:
    codes, scales, zeros = drawn(128, 70, 32, bits, scale)
    x, w = RNG.integers(-128, 128, (rows, 128)).astype(np.int8), nn.pack_nbits(codes, 32, bits)
    compiled = lw.compile(lambda x: nn.matmul_nbits(x, w, scales, zeros, bits=bits))
    exact = x.astype("d") @ weights(codes, scales, zeros, 32)
    np.testing.assert_allclose(compiled(x), exact, rtol=1e-5, atol=0.05)
    loops = compiled.lower(x).as_text("loops")
    assert "registers out.groups.acc: int32" in loops
    assert "out.rows.rf" in loops, "sums for zero points are added up in vectors"
    assert ("by vnni" in loops) == Target.host().has_dots


def test_rows_that_are_rounded_to_bytes_are_close() -> None:
    codes, scales, _ = drawn(256, 75, 32, 4)
    x, w = RNG.standard_normal((3, 256), np.float32), nn.pack_nbits(codes, 32)
    x[1] = 0
    middle = np.full(scales.shape, 8)
    exact = x.astype("d") @ weights(codes, scales, middle, 32)
    for f in (lambda x: nn.matmul_nbits(x, w, scales, activations="int8"),):
        for got in (f(x), lw.compile(f)(x)):
            np.testing.assert_allclose(got, exact, atol=0.02 * np.abs(exact).max())
            assert not got[1].any()


def test_what_is_not_finite_stays_so() -> None:
    codes, scales, _ = drawn(64, 40, 32, 4)
    x, w = RNG.standard_normal((2, 64), np.float32), nn.pack_nbits(codes, 32)
    x[0, 3] = np.nan
    compiled = lw.compile(lambda x: nn.matmul_nbits(x, w, scales, activations="int8"))
    with np.errstate(invalid="ignore"):
        assert np.isnan(compiled(x)[0]).all() and np.isfinite(compiled(x)[1]).all()


def test_scales_of_zero_and_subnormal_ones_are_numbers_like_others() -> None:
    codes, scales, zeros = drawn(64, 40, 32, 4)
    scales[0, :7], scales[1, 5:9] = 0, 1e-42
    x, w = RNG.standard_normal((1, 64), np.float32), nn.pack_nbits(codes, 32)
    compiled = lw.compile(lambda x: nn.matmul_nbits(x, w, scales, zeros))
    exact = x.astype("d") @ weights(codes, scales, zeros, 32)
    np.testing.assert_allclose(compiled(x), exact, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("scale", [np.inf, -np.inf, np.nan])
def test_scales_that_are_not_finite_are_refused(scale) -> None:
    codes, scales, _ = drawn(64, 40, 32, 4)
    scales[1, 3] = scale
    w = nn.pack_nbits(codes, 32)
    with pytest.raises(LoopwrightValueError, match="scales are finite"):
        lw.compile(lambda x: nn.matmul_nbits(x, w, scales))(np.ones((1, 64), np.float32))


def test_what_does_not_fit_is_refused() -> None:
    codes, scales, zeros = drawn(64, 40, 32, 4)
    x, w = np.ones((1, 64), np.float32), nn.pack_nbits(codes, 32)
    with pytest.raises(LoopwrightValueError, match="groups of 24 weights do not divide 64 rows"):
        nn.pack_nbits(codes, 24)
    with pytest.raises(LoopwrightValueError, match="codes are not from 0 to 15"):
        nn.pack_nbits(codes + 1, 32)
    with pytest.raises(LoopwrightValueError, match="weights of 3 bits"):
        nn.matmul_nbits(x, w, scales, bits=3)
    with pytest.raises(LoopwrightTypeError, match="do not hold 32 codes"):
        nn.matmul_nbits(x[:, :32], w, scales)
    with pytest.raises(LoopwrightTypeError, match="3 groups do not divide"):
        nn.matmul_nbits(x, w, np.ones((3, 40), np.float32))
    with pytest.raises(LoopwrightTypeError, match="as many as scales"):
        nn.matmul_nbits(x, w, scales, zeros[:1])
    with pytest.raises(LoopwrightTypeError, match="rows are float32 or int8"):
        nn.matmul_nbits(x.astype("f2"), w, scales)
    with pytest.raises(LoopwrightValueError, match="not 'float8'"):
        nn.matmul_nbits(x, w, scales, activations="float8")


@pytest.mark.parametrize(("rows", "columns"), [(2, 40), (1, 1)])
def test_weights_may_be_arguments(rows, columns) -> None:
    codes, scales, zeros = drawn(64, columns, 32, 4)
    x, w = RNG.standard_normal((rows, 64), np.float32), nn.pack_nbits(codes, 32)
    exact = x.astype("d") @ weights(codes, scales, zeros, 32)
    got = lw.compile(nn.matmul_nbits)(x, w, scales, zeros)
    np.testing.assert_allclose(got, exact, atol=1e-2)


def test_rows_of_unknown_number() -> None:
    codes, scales, zeros = drawn(128, 40, 32, 4)
    w = nn.pack_nbits(codes, 32)
    compiled = lw.compile(
        lambda x: nn.matmul_nbits(x, w, scales, zeros), dynamic={"x": {0: lw.Dim("n", max=64)}}
    )
    for rows in (1, 2, 7, 33):
        x = RNG.standard_normal((rows, 128), np.float32)
        exact = x.astype("d") @ weights(codes, scales, zeros, 32)
        np.testing.assert_allclose(compiled(x), exact, atol=1e-2)
