"""Taking and putting elements."""

from __future__ import annotations

from .rows import row

__all__ = ["ROWS"]

ROWS = [
    row("np.lib.stride_tricks.sliding_window_view", "{f}(v, 1)", "{f}(np.stack([v] * 3), 2, 0)",
        "{f}(x2[..., None] + np.arange(3), 2, -1)"),
    row("np.lib.stride_tricks.as_strided", "{f}(v, (1, v.size), (0, v.itemsize))",
        "{f}(v, (v.size // 2, 2), (v.itemsize, v.itemsize))",
        limits="known strides; called by this name"),
    row("np.choose", "{f}(n % 3, [1, 2, 3])", "{f}(b.astype(int), [f, g])",
        "{f}(i, [1, 2], mode='wrap')", "{f}(i, (1.5, 2), mode='clip')", limits="32 choices"),
    row("np.compress", "{f}([True, False], x1, -1)", "{f}([False, True], x)",
        "{f}(v > 0, v)"),
    row("np.extract", "{f}([True], x)", "{f}(v > 0, v)"),
    row("np.nonzero np.argwhere", "{f}(x1)", "{f}(f1 > 0)"),
    row("np.flatnonzero", "{f}(x)", "f1.ravel()[{f}(f1 > 0)]"),
    row("np.unique", "{f}(n)", "{f}(v)", "{f}(n, return_counts=True)",
        "{f}(n, return_index=True, return_inverse=True)",
        limits="an array with elements, without axis="),
    row("np.union1d np.setxor1d", "{f}(n, iv)", "{f}(v, w)", "{f}(n, [1, 2])"),
    row("np.intersect1d", "{f}(n, iv)", "{f}(v, w)", "{f}(n, [1, 2])",
        "{f}(np.unique(n), np.unique(iv), assume_unique=True)", limits="without return_indices="),
    row("np.setdiff1d", "{f}(n, iv)", "{f}(v, w)", "{f}(n, [1, 2])",
        "{f}(n, iv, assume_unique=True)", limits="a second array whose size no data decides"),
    row("np.place", "y = f.copy(); {f}(y, f > 0, [1, 2, 3]); y"),
    row("np.piecewise", "{f}(f, [f < 0, f > 1], [lambda t: -t, 3, lambda t: t * 2])",
        "{f}(f, [f > 0], [1, -1])", limits="functions are computed for all elements"),
    row("np.diagflat", "{f}(v, k)", "{f}(m)"),
    row("np.tril_indices_from np.triu_indices_from", "m[{f}(m)]", "m[{f}(m, k)]"),
    row("np.diag_indices_from", "s[{f}(s)]"),
    row("np.ravel_multi_index", "{f}((n % 3, n % 2), (3, 2))", "{f}((i, i), (3, 4), mode='wrap')",
        "{f}((n % 2, n % 3), (2, 3), order='F')"),
    row("np.unravel_index", "{f}(n, (3, 4))", "{f}(n, 9)", "{f}(n, (2, 5), order='F')",
        "m[{f}(0, m.shape)]"),
    row("np.take", "{f}(x1, idx, -1)", "{f}(x1, [0, -1], axis)", "{f}(x1, idx, mode='wrap')"),
    row("np.take_along_axis", "{f}(x1, idx, -1)"),
    row("np.put", "y = x1.copy(); {f}(y, [0, -1], 3); y"),
    row("np.put_along_axis", "y = x1.copy(); {f}(y, idx, 1, -1); y"),
    row("np.putmask np.copyto", "y = f.copy(); np.putmask(y, y > 0, 2); y",
        "y = f.copy(); np.copyto(y, 2, where=b); y"),
    row("np.fill_diagonal", "y = x2.copy(); {f}(y, 1); y"),
    row("np.diagonal", "{f}(x2)", "{f}(x2, k)", "{f}(x2, 0, axis, 1 - axis % 2)"),
    row("np.diag", "{f}(v, k)", "{f}(m, k)"),
]  # fmt: skip
