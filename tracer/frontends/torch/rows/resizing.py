"""Images resized and sampled: backward, and forward where PyTorch has no decomposition."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from .... import nn
from ..derivatives import pulled_back
from ..table import Value, aten

_NEAREST = {
    "upsample_nearest": {"coordinates": "asymmetric", "nearest": "floor"},
    "_upsample_nearest_exact": {"coordinates": "tf_half_pixel_for_nn", "nearest": "floor"},
}
_SMOOTH = {
    "upsample_linear1d": {"mode": "linear"},
    "upsample_bilinear2d": {"mode": "linear"},
    "upsample_trilinear3d": {"mode": "linear"},
    "upsample_bicubic2d": {"mode": "cubic"},
    "_upsample_bilinear2d_aa": {"mode": "linear", "antialias": True, "exclude_outside": True},
    "_upsample_bicubic2d_aa": {
        "mode": "cubic",
        "cubic_a": -0.5,
        "antialias": True,
        "exclude_outside": True,
    },
}


def _resized(x: Value, output_size: Sequence[int], scales: Sequence[Any], how: Any) -> Value:
    sizes = x.shape[2:]
    if how.get("antialias") and how["coordinates"] == "align_corners":
        # The kernels scale by distances of corners, yet begin at half an element.
        scales = [
            (n - 1) / (s - 1) if min(n, s) > 1 else math.inf for n, s in zip(output_size, sizes)
        ]
        how = {**how, "coordinates": "half_pixel"}
    exact = [s or n / size for s, n, size in zip(scales, output_size, sizes)]
    given = any(scales) and how.get("coordinates") != "align_corners"
    return nn.resize(x, tuple(output_size), scales=exact if given else None, **how)


def _smooth(how: Any, align_corners: bool) -> Any:
    return {**how, "coordinates": "align_corners" if align_corners else "half_pixel"}


def _enter(name: str, how: Any, smooth: bool, forward: bool) -> None:
    def options(rest: Sequence[Any]) -> tuple[Sequence[Any], Any]:
        return (rest[1:], _smooth(how, rest[0])) if smooth else (rest, how)

    def resize(self: Value, output_size: Sequence[int], *rest: Any) -> Value:
        return _resized(self, output_size, *options(rest))

    def backward(grad_output: Value, output_size: Any, input_size: Any, *rest: Any) -> Value:
        """A sum of weighted elements has the same gradient everywhere."""
        anywhere = np.zeros(tuple(input_size), grad_output.dtype)
        scales, how = options(rest)
        return pulled_back(lambda x: _resized(x, output_size, scales, how), grad_output, anywhere)[
            0
        ]

    aten(f"{name}_backward.default")(backward)
    if forward:
        aten(f"{name}.default")(resize)


for _name, _how in _SMOOTH.items():
    _enter(_name, _how, smooth=True, forward=_name.endswith("_aa"))
for _name, _how in _NEAREST.items():
    for _rank in (1, 2, 3):
        _enter(f"{_name}{_rank}d", _how, smooth=False, forward=False)


def _sampled(x: Value, grid: Value, mode: int, padding: int, align_corners: bool) -> Value:
    words = ("linear", "nearest", "cubic")[mode], ("zeros", "border", "reflection")[padding]
    return nn.grid_sample(x, grid, *words, align_corners)


@aten("grid_sampler_3d.default")
def _grid_sampler(
    input: Value, grid: Value, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Value:
    return _sampled(input, grid, interpolation_mode, padding_mode, align_corners)


@aten("grid_sampler_2d_backward.default", "grid_sampler_3d_backward.default")
def _grid_sampler_backward(
    grad_output: Value,
    input: Value,
    grid: Value,
    interpolation_mode: int,
    padding_mode: int,
    align_corners: bool,
    output_mask: Sequence[bool],
) -> list[Value | None]:
    how = interpolation_mode, padding_mode, align_corners
    grads = pulled_back(lambda x, at: _sampled(x, at, *how), grad_output, input, grid)
    return [grad if wanted else None for grad, wanted in zip(grads, output_mask)]
