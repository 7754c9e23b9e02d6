"""``np.fft`` on traced arrays: transforms by NumPy's pocketfft, as library calls."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...ir.dims import as_int
from ...ir.dtype import DTYPES
from ...ir.errors import LoopwrightTypeError, LoopwrightValueError
from ..core.dispatch import implement, implements
from ..core.emitting import call_library, lift
from ..core.proxy import Proxy
from .reductions import normalise_axis

_SWAPPED = {"backward": "forward", "ortho": "ortho", "forward": "backward"}


def _call(kind: str, a: Any, sizes: Sequence[int], axes: Sequence[int], norm: str | None) -> Proxy:
    """Emits a transform along ``axes``, in their order."""
    x = lift(a)
    if x.type.dtype.is_half:
        return _of_halves(kind, x, sizes, axes, norm)
    if not x.type.dtype.part.is_float:
        x = lift(x, DTYPES["float64"])
    if kind == "rfft" and x.type.dtype.is_complex:
        raise LoopwrightTypeError(
            f"np.fft.rfft takes real numbers, not {x.type.short}", hint="np.fft.fft, or its .real"
        )
    norm = "backward" if norm is None else norm
    if norm not in _SWAPPED:
        raise LoopwrightValueError(
            f"np.fft: norm {norm!r}", hint="norm='backward', 'ortho' or 'forward'"
        )
    if any(size < 1 for size in sizes):
        raise LoopwrightValueError(f"Invalid number of FFT data points ({min(sizes)}) specified.")
    if not axes:
        return lift(x, x.type.dtype if kind == "irfft" else x.type.dtype.part.complex)
    places = tuple(normalise_axis(axis, x.ndim) for axis in axes)
    return call_library(f"numpy.fft.{kind}", x, axes=places, sizes=tuple(sizes), norm=norm)[0]


def _of_halves(
    kind: str, x: Proxy, sizes: Sequence[int], axes: Sequence[int], norm: str | None
) -> Proxy:
    """Emits a transform in float32, times factors that NumPy rounds to float16."""
    plain = "forward" if kind in ("ifft", "irfft") else "backward"
    made: Any = _call(kind, lift(x, DTYPES["float32"]), sizes, axes, plain)
    for size in sizes if (norm or "backward") != plain else ():
        whole = np.sqrt(size, dtype=np.float16) if norm == "ortho" else size
        made = made * np.float32(np.reciprocal(whole, dtype=np.float16))
    halved = kind == "irfft" and len(axes) == 1  # several axes begin with a complex transform
    return lift(made, x.type.dtype) if halved else made


def _transform(kind: str) -> Callable[..., Proxy]:
    """Returns the transform of a kind along one axis."""

    def transform(
        a: Any, n: Any = None, axis: int = -1, norm: Any = None, _out: Any = None
    ) -> Proxy:
        size = as_int(lift(a).shape[axis]) if n is None else int(n)
        if kind == "irfft" and n is None:
            size = 2 * (size - 1)
        return _call(kind, a, [size], [axis], norm)

    return transform


_ALONG_ONE = {kind: _transform(kind) for kind in ("fft", "ifft", "rfft", "irfft")}


@implements(np.fft.hfft)
def _hfft(a: Any, n: Any = None, axis: int = -1, norm: Any = None, _out: Any = None) -> Proxy:
    return _ALONG_ONE["irfft"](np.conj(lift(a)), n, axis, _SWAPPED.get(norm or "backward", norm))


@implements(np.fft.ihfft)
def _ihfft(a: Any, n: Any = None, axis: int = -1, norm: Any = None, _out: Any = None) -> Any:
    return np.conj(_ALONG_ONE["rfft"](a, n, axis, _SWAPPED.get(norm or "backward", norm)))


def _sizes_and_axes(
    a: Any, s: Any, axes: Any, real_result: bool = False
) -> tuple[list[int], list[int]]:
    """Returns the sizes and axes of a transform along several axes."""
    shape = lift(a).shape
    if axes is None:
        axes = list(range(-len(shape if s is None else s), 0))
    axes = [int(axis) for axis in axes]
    if s is None:
        sizes = [as_int(shape[axis]) for axis in axes]
        if real_result and sizes:
            sizes[-1] = 2 * (sizes[-1] - 1)
    else:
        sizes = [as_int(shape[k]) if n is None or n == -1 else int(n) for n, k in zip(s, axes)]
        if len(s) != len(axes):
            raise LoopwrightValueError("np.fft: s= and axes= have different lengths")
    return sizes, axes


def _transforms(kind: str, default: Any) -> Callable[..., Proxy]:
    """Returns the transform of a kind along several axes, ``default`` ones at first."""

    def transform(
        a: Any, s: Any = None, axes: Any = default, norm: Any = None, _out: Any = None
    ) -> Proxy:
        sizes, places = _sizes_and_axes(a, s, axes, kind == "irfft")
        if kind != "irfft":  # the last axis is transformed first
            sizes, places = sizes[::-1], places[::-1]
        return _call(kind, a, sizes, places, norm)

    return transform


for _kind, _one in _ALONG_ONE.items():
    implements(getattr(np.fft, _kind))(_one)
    implements(getattr(np.fft, f"{_kind}2"))(_transforms(_kind, (-2, -1)))
    implements(getattr(np.fft, f"{_kind}n"))(_transforms(_kind, None))


def _shifted(x: Any, axes: Any, forward: bool) -> Any:
    a = lift(x)
    if axes is None:
        axes = tuple(range(a.ndim))
    places = [axes] if isinstance(axes, int | np.integer) else list(axes)
    halves: list[Any] = [a.shape[k] // 2 for k in places]
    return np.roll(a, [h if forward else -h for h in halves], places)


implement(
    {
        np.fft.fftshift: lambda x, axes=None: _shifted(x, axes, forward=True),
        np.fft.ifftshift: lambda x, axes=None: _shifted(x, axes, forward=False),
    }
)
