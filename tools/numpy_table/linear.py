"""Products of arrays, np.linalg."""

from __future__ import annotations

from .rows import row

__all__ = ["ROWS"]  # fmt: skip

ROWS = [
    row("np.matmul np.linalg.matmul", "{f}(m, mt)", "{f}(m.T, v)"),
    row("np.dot", "{f}(m, mt)", "{f}(v, w)", "{f}(x, 2)"),
    row("np.vecdot np.linalg.vecdot", "{f}(v, w)", "{f}(m, m)"),
    row("np.matvec", "{f}(m.T, v)"),
    row("np.vecmat", "{f}(v, m)"),
    row("np.inner", "{f}(v, w)", "{f}(m, m)"),
    row("np.outer", "{f}(v, w)", "{f}(m, iv)"),
    row("np.linalg.outer", "{f}(v, w)"),
    row("np.vdot", "{f}(v, w)", "{f}(m, m)"),
    row("np.kron", "{f}(v, w)", "{f}(m, mt)"),
    row("np.tensordot np.linalg.tensordot", "{f}(m, mt, axes=1)", "{f}(m, v, axes=(0, 0))",
        "{f}(m, mt, axes=0)"),
    row("np.einsum", "{f}('ij,jk->ki', m, mt)", "{f}('ij,i', m, v)", "{f}('ii', s)"),
    row("np.trace", "{f}(x2)", "{f}(x2, k)"),
    row("np.linalg.trace", "{f}(s)"),
    row("np.linalg.diagonal", "{f}(x2)"),
    row("np.cross", "{f}(m[:, [0, 0, 0]], m[:, [0, -1, 0]])"),
    row("np.linalg.norm", "{f}(f)", "{f}(v, 3)", "{f}(m, 1)", "{f}(f1, axis=axis, keepdims=keep)"),
    row("np.linalg.vector_norm", "{f}(f, axis=axes)"),
    row("np.linalg.matrix_norm", "{f}(f2)"),
]  # fmt: skip
