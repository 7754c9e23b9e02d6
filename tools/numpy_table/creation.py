"""Arrays from nothing, and like others."""

from __future__ import annotations

from .rows import row

__all__ = ["ROWS"]

ROWS = [
    row("np.array", "{f}(x)", "{f}([x, y[..., None].sum(-1)]) if x.shape == y.shape else x",
        "{f}(f, dtype=dt, ndmin=2)", "{f}([v, w])", "{f}([[v[0], 1], [2.5, w[0]]])",
        "{f}([f.sum(), 2])", "y = {f}(f); y *= 2; y + f"),
    row("np.asarray np.asanyarray np.ascontiguousarray np.asfortranarray np.asarray_chkfinite",
        "{f}(x)", "{f}(f, dtype=np.float64)", "{f}([v, w])"),
    row("np.require", "{f}(f, np.float64, 'C')"),
    row("np.isscalar", "x * {f}(f) + {f}(f.sum())"),
    row("np.iterable", "x * {f}(x)"),
    row("np.r_", "{f}[v, w]", "{f}[v, 1, 1:4]", "{f}['1,2,0', v, w]", "{f}['0,2', v, w]"),
    row("np.c_", "{f}[v, w]", "{f}[m, m]", "{f}[v, np.ones(v.shape)]"),
    row("np.vectorize", "{f}(lambda t: t * 2 + 1)(p)", "{f}(lambda r, t: (r + t, r))(v, w)",
        limits="no signature=, excluded=; the function runs on traced scalars"),
    row("np.empty", "y = {f}(v.shape); y[:] = v; y", "{f}(f.shape).shape"),
    row("np.zeros np.ones", "0 * {f}(f.shape) + f", "0 * {f}(3, dtype=dt) + f[..., None]",
        "y = {f}(v.shape); y[:] = v; y"),
    row("np.full", "{f}(x.shape, 2.5) + x", "{f}((2, 3), f.sum())", "{f}(2, 7.5, int) * s[0, 0]"),
    row("np.eye np.identity np.tri", "{f}(s.shape[0]) + s"),
    row("np.arange", "{f}(v.size) * v", limits="no traced bounds: start + np.arange(n)"),
    row("np.linspace", "{f}(0, 1, v.size) * v", "{f}(v[0], w[0], 5)",
        "{f}(v, 2, 3, endpoint=False, axis=-1)"),
    row("np.logspace np.geomspace", "{f}(1, 2, v.size) * v", "{f}(p, 2, 4)"),
    row("np.hanning np.hamming np.blackman np.bartlett", "{f}(v.size) * v"),
    row("np.kaiser", "{f}(v.size, 14) * v"),
    row("np.indices", "{f}(m.shape)[0] * m"),
    row("np.fromfunction", "{f}(lambda r, t: r * v[0] + t, (3, 4))"),
    row("np.diag_indices np.tril_indices np.triu_indices", "s[{f}(s.shape[0])]"),
    row("np.ix_", "m[{f}([0, -1], [0])]"),
    row("np.mask_indices", "s[{f}(s.shape[0], np.triu)]"),
    row("np.zeros_like np.ones_like", "{f}(x)", "{f}(f, dtype=dt)"),
    row("np.empty_like", "{f}(x).shape"),
    row("np.full_like", "{f}(x, 1)", "{f}(f, 2.5)", "{f}(i, 2.5)"),
    row("np.meshgrid", "{f}(v, iv)", "{f}(v, w, indexing='ij')", "{f}(v, w, sparse=True)"),
]  # fmt: skip
