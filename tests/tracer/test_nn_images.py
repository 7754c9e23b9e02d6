"""Functions of ``lw.nn`` that resample images, against formulas in NumPy's float64."""

from __future__ import annotations

from typing import Any

import loopwright as lw
import numpy as np
import pytest
from loopwright import nn

R = np.random.default_rng(5)
IMAGE = R.normal(size=(2, 3, 7, 6))


def both(function: Any, *args: Any) -> Any:
    """The result of a function on arrays, after a check that compiled code gives the same."""
    plain = function(*args)
    compiled = lw.compile(lambda *xs: function(*xs))(*args)
    np.testing.assert_allclose(compiled, plain, rtol=1e-12, atol=1e-12)
    return plain


@pytest.mark.parametrize("count", [3, 7, 11, 14])
def test_linear_resizing_interpolates(count: int) -> None:
    places = np.clip((np.arange(count) + 0.5) * 7 / count - 0.5, 0, 6)
    lines = np.moveaxis(IMAGE, 2, -1).reshape(-1, 7)
    expected = np.stack([np.interp(places, np.arange(7), line) for line in lines])
    expected = np.moveaxis(expected.reshape(2, 3, 6, count), -1, 2)
    got = both(lambda x: nn.resize(x, count, axes=2, mode="linear"), IMAGE)
    np.testing.assert_allclose(got, expected, atol=1e-12)


def test_nearest_resizing_repeats_or_chooses() -> None:
    twice = both(lambda x: nn.resize(x, (14, 18)), IMAGE)
    np.testing.assert_array_equal(twice, IMAGE.repeat(2, 2).repeat(3, 3))
    options = {"coordinates": "asymmetric", "nearest": "floor"}
    half = both(lambda x: nn.resize(x, (7, 3), **options), IMAGE)
    np.testing.assert_array_equal(half, IMAGE[..., ::2])
    odd = both(lambda x: nn.resize(x, (5, 6), **options), IMAGE)
    np.testing.assert_array_equal(odd, IMAGE[:, :, np.arange(5) * 7 // 5])


def test_smooth_resizing_keeps_straight_lines() -> None:
    """A cubic or widened kernel gives lines back, away from the borders."""
    line = np.arange(40.0)[None]
    for options in ({"mode": "cubic"}, {"mode": "linear", "antialias": True}):
        for count in (20, 80):
            got = both(lambda x, n=count, o=options: nn.resize(x, n, **o), line)
            expected = (np.arange(count) + 0.5) * 40 / count - 0.5
            np.testing.assert_allclose(got[0, 8:-8], expected[8:-8], atol=0.05)
            assert got.mean() == pytest.approx(line.mean(), abs=1e-9)


def test_aligned_corners_stay() -> None:
    got = both(lambda x: nn.resize(x, (3, 11), mode="linear", coordinates="align_corners"), IMAGE)
    np.testing.assert_allclose(got[:, :, ::2, ::10], IMAGE[:, :, ::6, ::5], atol=1e-12)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"size": (3, 4), "axes": 2}, "sizes"),
        ({"size": 3, "mode": "area"}, "mode 'area' is none of nearest, linear, cubic"),
        ({"size": 3, "nearest": "up"}, "nearest 'up' is none of"),
        ({"size": 3, "coordinates": "middle"}, "coordinates 'middle'"),
        ({"size": 0}, "sizes"),
        ({"size": 3, "scales": (1.0, 2.0)}, "scales"),
    ],
)
def test_misuse(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(lw.LoopwrightError, match=message):
        nn.resize(IMAGE, **arguments)
