"""Reductions."""

from __future__ import annotations

from .rows import row

__all__ = ["ROWS"]

ROWS = [
    row("np.nanprod", "{f}(a)", "{f}(a, axes, keepdims=keep)", "{f}(x)"),
    row("np.nanvar np.nanstd", "{f}(a)", "{f}(a, axes, keepdims=keep)", "{f}(a1, axis, ddof=1)",
        "{f}(i)"),
    row("np.nanargmax np.nanargmin", "{f}(np.where(c, 1.0, f))", "{f}(f1, axis)",
        limits="of nan alone: 0 and no error"),
    row("np.cov", "{f}(m)", "{f}(m, rowvar=False, ddof=0)", "{f}(v, w)", "{f}(v, bias=True)",
        "{f}(m, aweights=np.arange(1, m.shape[1] + 1))", "{f}(m, m, rowvar=False)",
        "{f}(m, fweights=np.arange(1, m.shape[1] + 1), aweights=np.ones(m.shape[1]))"),
    row("np.corrcoef", "{f}(m[:, ::-1], rowvar=False)", "{f}(v, w)", "{f}(sv, sv * 2 + w * 0.1)"),
    row("np.sum np.prod", "{f}(x)", "{f}(x, axes, keepdims=keep)", "{f}(f1, axis, dtype=dt)",
        "{f}(f, where=b)", "{f}(i, axes, initial=3)"),
    row("np.max np.amax np.min np.amin", "{f}(x)", "{f}(x, axes, keepdims=keep)", "{f}(e)",
        "{f}(f, initial=0, where=b)", "{f}(i, axes, initial=3)"),
    row("np.any np.all", "{f}(x)", "{f}(e, axes, keepdims=keep)", "{f}(x, axes, where=b)"),
    row("np.mean", "{f}(x)", "{f}(x, axes, keepdims=keep)", "{f}(f1, axis, dtype=np.float64)",
        "{f}(f, where=b)"),
    row("np.var np.std", "{f}(x)", "{f}(x, axes, keepdims=keep)", "{f}(f1, axis, ddof=1)"),
    row("np.argmax np.argmin", "{f}(x)", "{f}(x1, axis, keepdims=keep)", "{f}(e1, axis)"),
    row("np.count_nonzero", "{f}(x)", "{f}(x, axes, keepdims=keep)"),
    row("np.ptp", "{f}(f)", "{f}(i, axes, keepdims=keep)"),
    row("np.average", "{f}(f1, axis, keepdims=keep)", "{f}(v, weights=w * w)",
        limits="returned=False"),
    row("np.nansum", "{f}(a)", "{f}(x, axes, keepdims=keep)"),
    row("np.nanmean", "{f}(a)", "{f}(a, axes, keepdims=keep)"),
    row("np.nanmax np.nanmin", "{f}(a)", "{f}(a, axes, keepdims=keep)", "{f}(i)"),
]  # fmt: skip
