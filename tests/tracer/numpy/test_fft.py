"""``np.fft`` on traced arrays agrees with NumPy: real and complex, any axes, sizes and norms."""

from __future__ import annotations

from typing import Any

import loopwright as lw
import numpy as np
import pytest

RNG = np.random.default_rng(15)
X = RNG.standard_normal((4, 6, 5))
Z = X + 1j * RNG.standard_normal((4, 6, 5))
OPERANDS = {
    "float64": X,
    "complex128": Z,
    "float32": X.astype(np.float32),
    "complex64": Z.astype(np.complex64),
    "int64": np.arange(60).reshape(3, 4, 5),
    "transposed": Z[:, ::-1].transpose(2, 0, 1),
}
ONE_AXIS: list[dict[str, Any]] = [
    {},
    {"n": 7, "axis": 0},
    {"n": 3, "norm": "ortho"},
    {"axis": 1, "norm": "forward"},
]
MANY_AXES: list[dict[str, Any]] = [
    {},
    {"axes": (0, 1)},
    {"s": (3, 8), "axes": (1, 0), "norm": "forward"},
    {"s": (-1, 4), "axes": (-1, 0), "norm": "ortho"},
]


def assert_same(function: Any, array: Any, **keywords: Any) -> None:
    wanted = function(array, **keywords)
    result = lw.compile(lambda a: function(a, **keywords))(array)
    assert (result.dtype, result.shape) == (wanted.dtype, wanted.shape)
    tolerance = 1e-5 if wanted.real.dtype == np.float32 else 1e-12
    np.testing.assert_allclose(result, wanted, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("operand", OPERANDS)
@pytest.mark.parametrize("name", ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"])
def test_one_axis(name: str, operand: str) -> None:
    if name in ("rfft", "ihfft") and np.iscomplexobj(OPERANDS[operand]):
        with pytest.raises(lw.LoopwrightTypeError, match=r"np\.fft\.rfft takes real numbers"):
            lw.compile(getattr(np.fft, name))(OPERANDS[operand])
        return
    for keywords in ONE_AXIS:
        assert_same(getattr(np.fft, name), OPERANDS[operand], **keywords)


@pytest.mark.parametrize("operand", ["float64", "complex64", "transposed"])
@pytest.mark.parametrize("name", ["fftn", "ifftn", "rfftn", "irfftn", "fft2", "irfft2"])
def test_many_axes(name: str, operand: str) -> None:
    if name == "rfftn" and np.iscomplexobj(OPERANDS[operand]):
        return
    for keywords in MANY_AXES:
        assert_same(getattr(np.fft, name), OPERANDS[operand], **keywords)


def test_shifts() -> None:
    assert_same(np.fft.fftshift, Z)
    assert_same(np.fft.fftshift, X, axes=(0, 2))
    assert_same(np.fft.ifftshift, X, axes=1)


def test_a_convolution_in_a_loop() -> None:
    kernel = np.fft.rfft(np.array([0.5, 0.25, 0, 0, 0, 0, 0, 0.25]))

    def smooth(x: Any) -> Any:
        return lw.fori_loop(0, 3, lambda i, v: np.fft.irfft(np.fft.rfft(v) * kernel), x)

    x = RNG.standard_normal(8)
    wanted = x
    for _ in range(3):
        wanted = np.fft.irfft(np.fft.rfft(wanted) * kernel)
    np.testing.assert_allclose(lw.compile(smooth)(x), wanted, rtol=1e-12)


def test_keywords_are_checked() -> None:
    with pytest.raises(lw.LoopwrightValueError, match="norm 'other'"):
        lw.compile(lambda x: np.fft.fft(x, norm="other"))(X)
    with pytest.raises(lw.LoopwrightValueError, match=r"FFT data points \(0\)"):
        lw.compile(lambda x: np.fft.fft(x, 0))(X)
