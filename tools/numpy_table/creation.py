"""Arrays from nothing, and like others."""

from __future__ import annotations

from .rows import row

__all__ = ["ROWS"]

ROWS = [
    row("np.zeros_like np.ones_like", "{f}(x)", "{f}(f, dtype=dt)"),
    row("np.empty_like", "{f}(x).shape"),
    row("np.full_like", "{f}(x, 1)", "{f}(f, 2.5)", "{f}(i, 2.5)"),
    row("np.meshgrid", "{f}(v, iv)", "{f}(v, w, indexing='ij')", "{f}(v, w, sparse=True)"),
]
