"""``precision=`` decides which algorithms a convolution may take, and results keep its promise."""

from __future__ import annotations

import loopwright as lw
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from loopwright.codegen.target import ISA_LEVELS, Target
from loopwright.ir.dtype import FLOAT32
from loopwright.ir.errors import LoopwrightValueError
from loopwright.ir.ops.winograd import ERROR_GROWTH
from loopwright.ir.tolerance import tolerance

HOST = Target.host()
LEVELS = list(ISA_LEVELS)[: list(ISA_LEVELS).index(HOST.isa) + 1]


def exact(x: np.ndarray, w: np.ndarray) -> np.ndarray:
    """The convolution with a border of 1, in float64."""
    padded = np.pad(x.astype(np.float64), ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))
    return np.einsum("ncyxij,ocij->noyx", windows, w.astype(np.float64))


def images(kind: str, rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    x = rng.standard_normal(shape, dtype=np.float32)
    if kind == "positive":
        return np.abs(x)
    if kind == "spiked":
        x[..., ::3, ::4] *= 100
    return x


@pytest.mark.parametrize("algorithm", sorted(ERROR_GROWTH))
@settings(max_examples=9, deadline=None)
@given(st.data())
def test_all_algorithms_stay_within_the_tolerance_of_the_sums(
    algorithm: str, data: st.DataObject
) -> None:
    draw = data.draw
    isa = draw(st.sampled_from(LEVELS))
    n, channels = draw(st.integers(1, 2)), draw(st.integers(1, 40))
    outputs = draw(st.integers(1, 40))
    size = (draw(st.integers(1, 13)), draw(st.integers(1, 13)))
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    x = images(draw(st.sampled_from(["normal", "positive", "spiked"])), rng, (n, channels, *size))
    w = rng.standard_normal((outputs, channels, 3, 3), dtype=np.float32)
    run = lw.compile(
        lambda x: lw.nn.conv2d(x, w, padding=1, algorithm=algorithm), target=HOST.with_isa(isa)
    )
    scale = float(np.abs(x).max() * np.abs(w).max())
    bound = tolerance(FLOAT32, 9 * channels, scale=scale)
    np.testing.assert_allclose(run(x), exact(x, w), rtol=bound.rtol, atol=bound.atol)


def test_the_error_is_within_what_the_table_says() -> None:
    """Beside sums taken term by term, for images and kernels of several kinds and depths."""
    rng = np.random.default_rng(5)
    worst = dict.fromkeys(ERROR_GROWTH, 0.0)
    for channels in (4, 32, 128):
        for kind in ("normal", "positive", "spiked"):
            x = images(kind, rng, (1, channels, 16, 16))
            w = rng.standard_normal((16, channels, 3, 3), dtype=np.float32)
            wanted = exact(x, w)
            errors = {
                name: np.sqrt(np.mean((_run(name, x, w) - wanted) ** 2)) for name in ERROR_GROWTH
            }
            for name in worst:
                worst[name] = max(worst[name], float(errors[name] / errors["direct"]))
    assert all(worst[name] <= growth for name, growth in ERROR_GROWTH.items()), worst


def _run(algorithm: str, x: np.ndarray, w: np.ndarray) -> np.ndarray:
    return lw.compile(lambda x: lw.nn.conv2d(x, w, padding=1, algorithm=algorithm))(x)


def _kernels(precision: str | float | None) -> str:
    w = np.ones((128, 128, 3, 3), np.float32)
    function = lw.compile(
        lambda x: np.maximum(lw.nn.conv2d(x, w, padding=1), 0), precision=precision
    )
    return function.lower(lw.f32[1, 128, 28, 28]).as_text("kernels")


def test_precision_says_which_algorithms_are_welcome() -> None:
    assert "winograd" not in _kernels("strict")
    assert "winograd" not in _kernels(1)
    assert "tile=2" in _kernels(2.5)
    assert "tile=4" in _kernels("standard")
    assert _kernels(None) == _kernels("standard") == _kernels(16.0)


def test_precision_comes_from_the_environment_unless_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOOPWRIGHT_PRECISION", "strict")
    assert "winograd" not in _kernels(None)
    assert "winograd" in _kernels("standard")
    monkeypatch.setenv("LOOPWRIGHT_PRECISION", "0.5")
    with pytest.raises(LoopwrightValueError, match=r"PRECISION='0\.5' is not strict"):
        _kernels(None)


@pytest.mark.parametrize("wrong", ["fast", 0.5, -1, float("nan")])
def test_a_precision_that_means_nothing_is_refused(wrong: str | float) -> None:
    with pytest.raises(
        LoopwrightValueError, match="is none of strict, standard, bf16, reproducible, nor a number"
    ):
        lw.compile(lambda x: x, precision=wrong)
