"""From a histogram to a scale and a zero point."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..ir.dataclass import dataclass
from ..ir.dtype import Array
from ..ir.errors import LoopwrightValueError
from .profile import BINS, Observed

LEVELS = 255
"""Steps between the integers of a byte, from the least to the greatest."""

CANDIDATES = 100
"""Ranges that are tried, from a hundredth of the observed one to all of it."""

Range = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Scheme:
    """A way to quantise, for ``lw.quantize``.

    Values are uint8, weights int8 without zero points. ``ranges`` is the way from a histogram to a
    range: "minmax" takes all of it, "percentile" leaves out what lies beyond ``percentile`` per
    cent of the elements on each side, "mse" has the least mean square error, and "kl" the least
    Kullback-Leibler divergence of the distributions. With ``per_channel`` weights have a scale for
    each channel of the result. ``symmetric`` ranges have the same greatest number on both sides,
    and scales may be rounded up to a ``power_of_two``. ``smooth``, from 0 to 1, divides channels of
    what is multiplied by constant weights, and multiplies the weights, so that outliers of single
    channels go where they do no harm ("SmoothQuant", G. Xiao and others, 2023); 0.5 is usual for
    transformers. ``correct_bias`` adds what rounding the weights takes off the mean of each channel
    ("Data-free quantization", M. Nagel and others, 2019).

    With ``weights_only`` of 4 or 8 bits, products with constant matrices keep their floats, and the
    matrices get so many bits, with a scale for each ``group`` of neighbours that are summed. They
    are rounded so that products on the samples are near (``least_squares``), not each by itself.

    >>> import loopwright as lw
    >>> lw.Scheme(ranges="kl").ranges
    'kl'
    """

    ranges: str = "mse"
    per_channel: bool = True
    symmetric: bool = False
    power_of_two: bool = False
    percentile: float = 99.99
    smooth: float | None = None
    correct_bias: bool = True
    weights_only: int | None = None
    group: int = 32
    least_squares: bool = True

    def __post_init__(self) -> None:
        """Raises LoopwrightValueError for a way that does not exist, and numbers out of range."""
        if self.ranges not in _WAYS:
            raise LoopwrightValueError(
                f"ranges={self.ranges!r} is none of {', '.join(map(repr, _WAYS))}"
            )
        if not 50 < self.percentile <= 100:
            raise LoopwrightValueError(f"percentile={self.percentile} is not above 50, up to 100")
        if self.smooth is not None and not 0 <= self.smooth <= 1:
            raise LoopwrightValueError(f"smooth={self.smooth} is not from 0 to 1")
        if self.weights_only not in (None, 4, 8) or self.group < 2 or self.group % 2:
            raise LoopwrightValueError(
                f"weights_only={self.weights_only}, group={self.group}: 4 or 8 bits in even groups"
            )


def scale_of(observed: Observed, scheme: Scheme) -> tuple[np.float32, np.uint8]:
    """Returns the scale and the zero point of uint8 integers for a value."""
    low, high = _WAYS[scheme.ranges](observed, scheme)
    if scheme.symmetric:
        half = max(-low, high)
        scale, zero = rounded(np.array(half / (LEVELS // 2)), scheme), 128
    else:
        scale = rounded(np.array((high - low) / LEVELS), scheme)
        zero = int(np.clip(np.rint(-low / scale), 0, LEVELS))
    return np.float32(scale), np.uint8(zero)


def rounded(scales: Array, scheme: Scheme) -> Array:
    """Returns scales as float32 that can be divided by, powers of two if the scheme wants them."""
    scales = np.maximum(scales, np.finfo(np.float32).tiny).astype(np.float64)
    return np.exp2(np.ceil(np.log2(scales))) if scheme.power_of_two else scales


def _minmax(observed: Observed, _scheme: Scheme) -> Range:
    return observed.least, observed.greatest


def _percentile(observed: Observed, scheme: Scheme) -> Range:
    share = np.cumsum(observed.counts) / max(1, observed.counts.sum())
    cut = 1 - scheme.percentile / 100
    first, last = np.searchsorted(share, (cut, 1 - cut))
    edges = _edges(observed)
    return min(0.0, float(edges[first])), max(0.0, float(edges[min(last + 1, BINS)]))


def _mse(observed: Observed, scheme: Scheme) -> Range:
    centres, counts = _centres(observed), observed.counts

    def error(ends: Range) -> float:
        return float(counts @ (_quantised(centres, ends) - centres) ** 2)

    return _best(observed, scheme, error)


def _kl(observed: Observed, scheme: Scheme) -> Range:
    """The range whose integers, spread over their bins, are distributed most as the values are,
    with what lies beyond on its ends. (S. Migacz, "8-bit inference with TensorRT", 2017.)"""
    centres, counts = _centres(observed), observed.counts.astype(np.float64)
    counts[np.argmin(np.abs(centres))] = 0  # those of 0, which is exact in any range
    total = max(1.0, counts.sum())

    def divergence(ends: Range) -> float:
        inside = (centres >= ends[0]) & (centres <= ends[1])
        p = np.where(inside, counts, 0.0)
        if not inside.any():
            return np.inf
        first, last = np.flatnonzero(inside)[[0, -1]]
        p[first] += counts[:first].sum()
        p[last] += counts[last + 1 :].sum()
        level = np.rint((centres - ends[0]) / ((ends[1] - ends[0]) / LEVELS or 1.0))
        level = np.clip(level, 0, LEVELS).astype(np.int64)
        filled = inside & (counts > 0)
        sums = np.bincount(level[filled], counts[filled], LEVELS + 1)
        bins = np.bincount(level[filled], minlength=LEVELS + 1)
        q = np.where(filled, (sums / np.maximum(bins, 1))[level], 0.0)
        p, q = p / total, q / max(q.sum(), 1e-300)
        both = p > 0
        # Of which so much is expected of counting so few elements alone.
        chance = (filled.sum() - np.count_nonzero(sums)) / (2 * total)
        return float(np.sum(p[both] * np.log(p[both] / np.maximum(q[both], 1e-12))) - chance)

    return _best(observed, scheme, divergence)


_WAYS: dict[str, Callable[[Observed, Scheme], Range]] = {
    "minmax": _minmax,
    "percentile": _percentile,
    "mse": _mse,
    "kl": _kl,
}


def _best(observed: Observed, scheme: Scheme, cost: Callable[[Range], float]) -> Range:
    """Returns the part of the observed range of the least cost: both ends are drawn in at once,
    then either alone."""
    low, high = observed.least, observed.greatest
    if scheme.symmetric:
        low, high = -max(-low, high), max(-low, high)
    parts = np.arange(1, CANDIDATES + 1) / CANDIDATES
    low, high = min(((low * p, high * p) for p in parts), key=cost)
    low = min(((low * p) for p in parts), key=lambda end: cost((end, high)))
    high = min(((high * p) for p in parts), key=lambda end: cost((low, end)))
    return low, high


def _quantised(x: Array, ends: Range) -> Array:
    step = (ends[1] - ends[0]) / LEVELS or 1.0
    zero = np.rint(-ends[0] / step)
    return (np.clip(np.rint(x / step) + zero, 0, LEVELS) - zero) * step


def _edges(observed: Observed) -> Array:
    return np.linspace(observed.least, observed.greatest, BINS + 1)


def _centres(observed: Observed) -> Array:
    edges = _edges(observed)
    return (edges[1:] + edges[:-1]) / 2
