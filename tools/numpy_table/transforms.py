"""np.fft, differences, convolutions, interpolation, polynomials."""

from __future__ import annotations

from .rows import row

__all__ = ["ROWS"]

ROWS = [
    row("np.diff", "{f}(f1)", "{f}(x1, 1, axis)", "{f}(f1, 2, axis)", "{f}(v, prepend=0)"),
]
