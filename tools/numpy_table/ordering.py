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
    row("np.median np.nanmedian", "{f}(f1, axis, keepdims=keep)", "{f}(v)"),
    row("np.quantile np.nanquantile", "{f}(f1, [0.2, 0.5], axis)", "{f}(f1, 0.3, keepdims=keep)",
        limits="weights=None"),
    row("np.percentile np.nanpercentile", "{f}(f1, 30, axis, method='hazen')",
        limits="weights=None"),
    row("np.histogram", "{f}(f, sv)[0]", "{f}(f, 5, (-1.0, 1.0))[0]",
        limits="a number of bins or their edges"),
    row("np.histogram_bin_edges", "{f}(f, 5, (-1.0, 1.0))",
        limits="a number of bins or their edges"),
    row("np.bincount", "{f}(iv % 4, minlength=4)",
        limits="minlength is needed; greater values are an error"),
    row("np.lexsort", "{f}((iv, w))"),
]  # fmt: skip
