"""Sorts, searches, scans, histograms and sets."""

from __future__ import annotations

from .rows import row

__all__ = ["ROWS"]

ROWS = [
    row("np.isin", "{f}(x, [1, 2])", "{f}(i, y)", "{f}(x, [], invert=True)",
        "{f}(n, np.arange(50), invert=True)", "{f}(v, w)"),
    row("np.sort np.argsort", "{f}(x1, axis, kind='stable')", "{f}(e1, axis, kind='stable')"),
    row("np.partition np.argpartition", "np.sum({f}(f1, 0, axis) * 0)"),
    row("np.searchsorted", "{f}(sv, f)", "{f}(sv, f, 'right')"),
    row("np.digitize", "{f}(f, sv)", "{f}(f, sv, True)"),
    row("np.cumsum np.cumprod", "{f}(x)", "{f}(x1, axis)", "{f}(f1, axis, dtype=dt)"),
    row("np.nancumsum np.nancumprod", "{f}(a)", "{f}(a1, axis)"),
    row("np.cumulative_sum np.cumulative_prod", "{f}(f1, axis=axis)",
        "{f}(v, include_initial=True)"),
]  # fmt: skip
