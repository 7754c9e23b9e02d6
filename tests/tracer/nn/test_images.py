"""Functions of ``lw.nn`` that resample images, against formulas in NumPy's float64."""

from __future__ import annotations

import re
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


@pytest.mark.parametrize(
    ("sizes", "axes"), [((14, 12), "3322"), ((3, 4), "2233"), ((3, 12), "2233"), ((14, 4), "3322")]
)
def test_columns_are_gathered_where_rows_are_few(sizes: tuple[int, int], axes: str) -> None:
    resized = lw.compile(lambda x: nn.resize(x, sizes, mode="linear"))
    text = resized.trace(lw.f64[2, 3, 7, 6]).as_text()
    assert "".join(re.findall(r"take.*axis=(\d)", text)) == axes


def test_linear_resizing_repeats_a_single_element() -> None:
    resized = lw.compile(lambda x: nn.resize(x, (8, 8), mode="linear"))
    text = resized.trace(lw.f32[3, 1, 1]).as_text()
    assert "take" not in text and "multiply" not in text


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


@pytest.mark.parametrize("align", [False, True])
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_the_grid_of_the_identity_shows_the_image(mode: str, align: bool) -> None:
    theta = np.array([[[1.0, 0, 0], [0, 1, 0]]] * 2)

    def shown(x: Any) -> Any:
        grid = nn.affine_grid(theta, (7, 6), align) * (1 - 1e-12)
        return nn.grid_sample(x, grid, mode, "border", align)

    np.testing.assert_allclose(both(shown, IMAGE), IMAGE, atol=1e-9)


@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
def test_a_grid_outside_of_the_image(padding: str) -> None:
    """Linear sampling equals sampling of the padded image."""
    width = 4
    modes = {"zeros": "constant", "border": "edge", "reflection": "reflect"}
    wide = np.pad(IMAGE, ((0, 0), (0, 0), (width, width), (width, width)), modes[padding])
    y, z = R.uniform(-3, 9, (2, 5, 4)), R.uniform(-3, 8, (2, 5, 4))
    grid = np.stack([z / 5 * 2 - 1, y / 6 * 2 - 1], axis=-1)
    got = both(lambda x, g: nn.grid_sample(x, g, "linear", padding, True), IMAGE, grid)
    rows, columns = np.floor(y).astype(int), np.floor(z).astype(int)
    expected = np.zeros((2, 3, 5, 4))
    for n in range(2):
        for a in (0, 1):
            for b in (0, 1):
                weight = (1 - abs(y - rows - a)) * (1 - abs(z - columns - b))
                place = wide[n][:, rows[n] + a + width, columns[n] + b + width]
                expected[n] += place * weight[n]
    np.testing.assert_allclose(got, expected, atol=1e-9)


@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
def test_cubic_places_outside_have_neighbours_inside(padding: str) -> None:
    """Cubic sampling equals sampling of the padded image."""
    modes = {"zeros": "constant", "border": "edge", "reflection": "reflect"}
    wide = np.pad(IMAGE, ((0, 0), (0, 0), (4, 4), (4, 4)), modes[padding])
    y, z = R.uniform(-2, 8, (2, 5, 4)), R.uniform(-2, 7, (2, 5, 4))
    inside = np.stack([(z + 4) / 13 * 2 - 1, (y + 4) / 14 * 2 - 1], axis=-1)
    expected = nn.grid_sample(wide, inside, "cubic", "zeros", True)
    grid = np.stack([z / 5 * 2 - 1, y / 6 * 2 - 1], axis=-1)
    got = both(lambda x, g: nn.grid_sample(x, g, "cubic", padding, True), IMAGE, grid)
    np.testing.assert_allclose(got, expected, atol=1e-9)


def test_regions_of_interest_of_a_plane() -> None:
    """The means of places in a linear image are the places' means."""
    plane = (np.arange(10.0)[:, None] * 3 + np.arange(12.0))[None, None]
    rois = np.array([[2.0, 1, 8, 7], [3, 3, 5, 9]])
    got = both(lambda x, r: nn.roi_align(x, r, np.array([0, 0]), (2, 3)), plane, rois)
    for n, (left, top, right, bottom) in enumerate(rois):
        y = top - 0.5 + (np.arange(2) + 0.5) * (bottom - top) / 2
        z = left - 0.5 + (np.arange(3) + 0.5) * (right - left) / 3
        np.testing.assert_allclose(got[n, 0], y[:, None] * 3 + z, atol=1e-9)


def test_a_deformed_convolution_without_offsets_is_a_convolution() -> None:
    x, w = R.normal(size=(2, 4, 7, 6)), R.normal(size=(6, 2, 3, 2))
    options = {"strides": 2, "padding": 1, "dilation": (1, 2), "groups": 2}
    expected = nn.conv2d(x, w, **options)
    offset = np.zeros((2, 2 * 6 * 2, *expected.shape[2:]))
    mask = np.full((2, 2 * 6, *expected.shape[2:]), 0.5)

    def deformed(x: Any, offset: Any, mask: Any) -> Any:
        return nn.deform_conv2d(x, w, offset, None, mask, offset_groups=2, **options)

    np.testing.assert_allclose(both(deformed, x, offset, mask), expected / 2, atol=1e-12)
    del options["padding"]
    moved = nn.deform_conv2d(x, w, offset + 1, offset_groups=2, **options)
    shifted = np.pad(x, ((0, 0), (0, 0), (0, 1), (0, 1)))[:, :, 1:, 1:]
    inside = nn.conv2d(shifted, w, **options)
    size = tuple(slice(n) for n in inside.shape[2:])
    np.testing.assert_allclose(moved[(..., *size)], inside, atol=1e-12)
