"""Converters of operators that resize images."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....ir.errors import UnsupportedError
from ... import nn
from .table import Value, converter, known

Ints = tuple[int, ...]


def _mode(mode: str) -> str:
    return {"bilinear": "linear", "bicubic": "cubic"}.get(mode, mode)


def _by_scales(x: Value, scales: Value, mode: str, **options: Any) -> Value:
    """Resizes all axes by ``scales``; their sizes are rounded down."""
    factors = tuple(float(s) for s in scales)
    sizes = tuple(int(np.floor(n * s)) for n, s in zip(x.shape, factors, strict=True))
    return nn.resize(x, sizes, mode=_mode(mode), scales=factors, **options)


_OLD = {"coordinates": "asymmetric", "nearest": "floor"}


@converter("Upsample", since=9, attributes=(7, {"scales": "scales"}))
@converter("Resize", since=10)
def _resize_10(x: Value, scales: Value, *, mode: str = "nearest") -> Value:
    return _by_scales(x, known(scales, "scales"), mode, **_OLD)


@converter("Resize", since=11)
def _resize(
    x: Value,
    roi: Value = None,
    scales: Value = None,
    sizes: Value = None,
    *,
    antialias: int = 0,
    axes: Ints | None = None,
    coordinate_transformation_mode: str = "half_pixel",
    cubic_coeff_a: float = -0.75,
    exclude_outside: int = 0,
    extrapolation_value: float = 0.0,
    keep_aspect_ratio_policy: str = "stretch",
    mode: str = "nearest",
    nearest_mode: str = "round_prefer_floor",
) -> Value:
    along = tuple(a % x.ndim for a in axes) if axes is not None else tuple(range(x.ndim))
    old = [x.shape[a] for a in along]
    factors = [] if scales is None else known(scales, "scales").tolist()
    if factors:
        counts = [int(np.floor(n * s)) for n, s in zip(old, factors, strict=True)]
    else:
        if sizes is None:
            raise UnsupportedError("it needs scales or sizes")
        counts = known(sizes, "sizes").tolist()
        factors = [count / n for count, n in zip(counts, old, strict=True)]
        if keep_aspect_ratio_policy != "stretch":
            choose = min if keep_aspect_ratio_policy == "not_larger" else max
            factors = [choose(factors)] * len(factors)
            counts = [int(np.floor(n * s + 0.5)) for n, s in zip(old, factors, strict=True)]
    crops = coordinate_transformation_mode == "tf_crop_and_resize"
    part = known(roi, "roi").tolist() if crops and roi is not None else None
    return nn.resize(
        x,
        tuple(counts),
        mode=_mode(mode),
        axes=along,
        coordinates=coordinate_transformation_mode,
        nearest=nearest_mode,
        cubic_a=cubic_coeff_a,
        antialias=bool(antialias),
        exclude_outside=bool(exclude_outside),
        scales=tuple(factors),
        roi=None if not part else tuple(part),
        extrapolation=extrapolation_value,
    )
