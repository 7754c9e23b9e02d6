"""``lw.xp.fft``: Fourier transforms with the parameters of the standard."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .arrays import check_device
from .eager import compiled

__all__ = [
    "fft",
    "fftfreq",
    "fftn",
    "fftshift",
    "hfft",
    "ifft",
    "ifftn",
    "ifftshift",
    "ihfft",
    "irfft",
    "irfftn",
    "rfft",
    "rfftfreq",
    "rfftn",
]


def _along_one(name: str) -> Callable[..., Any]:
    def transform(x: Any, /, *, n: Any = None, axis: int = -1, norm: str = "backward") -> Any:
        return getattr(np.fft, name)(x, n=n, axis=axis, norm=norm)

    return _named(name, transform)


def _along_many(name: str) -> Callable[..., Any]:
    def transform(x: Any, /, *, s: Any = None, axes: Any = None, norm: str = "backward") -> Any:
        if s is not None and axes is None:
            axes = tuple(range(-len(s), 0))
        return getattr(np.fft, name)(x, s=s, axes=axes, norm=norm)

    return _named(name, transform)


def _named(name: str, transform: Callable[..., Any]) -> Callable[..., Any]:
    transform.__name__ = transform.__qualname__ = name
    transform.__doc__ = f"As ``numpy.fft.{name}``."
    return compiled(transform)


fft, ifft, rfft, irfft, hfft, ihfft = map(
    _along_one, ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")
)
fftn, ifftn, rfftn, irfftn = map(_along_many, ("fftn", "ifftn", "rfftn", "irfftn"))


def fftfreq(n: int, /, *, d: float = 1.0, dtype: Any = None, device: Any = None) -> Any:
    """Returns the frequencies of a transform of ``n`` samples ``d`` apart."""
    check_device(device)
    return np.fft.fftfreq(n, d).astype(np.float64 if dtype is None else dtype)


def rfftfreq(n: int, /, *, d: float = 1.0, dtype: Any = None, device: Any = None) -> Any:
    """Returns the frequencies of a transform of ``n`` real samples ``d`` apart."""
    check_device(device)
    return np.fft.rfftfreq(n, d).astype(np.float64 if dtype is None else dtype)


@compiled
def fftshift(x: Any, /, *, axes: Any = None) -> Any:
    """Returns ``x`` with the frequency 0 moved to the middle of the axes."""
    return np.fft.fftshift(x, axes=axes)


@compiled
def ifftshift(x: Any, /, *, axes: Any = None) -> Any:
    """Undoes ``fftshift``."""
    return np.fft.ifftshift(x, axes=axes)
