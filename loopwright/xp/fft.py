"""``lw.xp.fft``: Fourier transforms with the parameters of the standard."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from .eager import check_device, compiled, define, defined

if TYPE_CHECKING:
    from .eager import __getattr__ as __getattr__


define(
    globals(),
    """
    fft ifft rfft irfft hfft ihfft(x, /, *, n=None, axis=-1, norm="backward")
        As ``numpy.fft.{}``.
    fftshift(x, /, *, axes=None)
        Returns ``x`` with the frequency 0 moved to the middle of the axes.
    ifftshift(x, /, *, axes=None)
        Undoes ``fftshift``.
    """,
    np.fft,
)


def _along_many(name: str) -> Callable[..., Any]:
    def transform(x: Any, /, *, s: Any = None, axes: Any = None, norm: str = "backward") -> Any:
        if s is not None and axes is None:
            axes = tuple(range(-len(s), 0))
        return getattr(np.fft, name)(x, s=s, axes=axes, norm=norm)

    transform.__name__ = transform.__qualname__ = name
    transform.__doc__ = f"As ``numpy.fft.{name}``."
    return compiled(transform)


fftn, ifftn, rfftn, irfftn = map(_along_many, ("fftn", "ifftn", "rfftn", "irfftn"))


def fftfreq(n: int, /, *, d: float = 1.0, dtype: Any = None, device: Any = None) -> Any:
    """Returns the frequencies of a transform of ``n`` samples ``d`` apart."""
    check_device(device)
    return np.fft.fftfreq(n, d).astype(np.float64 if dtype is None else dtype)


def rfftfreq(n: int, /, *, d: float = 1.0, dtype: Any = None, device: Any = None) -> Any:
    """Returns the frequencies of a transform of ``n`` real samples ``d`` apart."""
    check_device(device)
    return np.fft.rfftfreq(n, d).astype(np.float64 if dtype is None else dtype)


__all__ = [*defined(globals())]  # pyright: ignore[reportUnsupportedDunderAll]
