"""Taking and putting elements."""

from __future__ import annotations

from .rows import row

__all__ = ["ROWS"]

ROWS = [
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
