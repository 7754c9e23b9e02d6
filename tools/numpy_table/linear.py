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
    row("np.linalg.solve", "{f}(s @ s.T + np.eye(len(s), dtype=s.dtype), s)"),
    row("np.linalg.norm", "{f}(f)", "{f}(v, 3)", "{f}(m, 1)", "{f}(f1, axis=axis, keepdims=keep)"),
    row("np.linalg.vector_norm", "{f}(f, axis=axes)"),
    row("np.linalg.matrix_norm", "{f}(f2)", "{f}(m, ord='nuc')"),
    row("np.linalg.solve", "{f}(s + s.T + 20 * np.eye(len(s), dtype=s.dtype), s)"),
    row("np.linalg.inv np.linalg.det np.linalg.cholesky np.linalg.cond",
        "{f}(s + s.T + 20 * np.eye(len(s), dtype=s.dtype))"),
    row("np.linalg.slogdet", "{f}(s + s.T + 20 * np.eye(len(s), dtype=s.dtype))[1]"),
    row("np.linalg.eigvalsh", "{f}(s + s.T)", "{f}(s, 'U')"),
    row("np.linalg.eigh", "{f}(s + s.T)[0]"),
    row("np.linalg.eig np.linalg.eigvals", limits="of complex matrices: whether the results of a "
        "real one are complex depends on its values"),
    row("np.linalg.qr", "abs({f}(m)[1])", "abs({f}(m, 'r'))", "abs({f}(m, 'complete')[1])"),
    row("np.linalg.svd", "{f}(m)[1]", "{f}(m, full_matrices=False)[1]", "{f}(m, compute_uv=False)"),
    row("np.linalg.svdvals", "{f}(m)"),
    row("np.linalg.pinv", "{f}(m, 1e-3)"),
    row("np.linalg.matrix_rank", "{f}(m)", "{f}(m, 0.5)"),
    row("np.linalg.lstsq", "{f}(s + 20 * np.eye(len(s), dtype=s.dtype), s)[0]",
        limits="LinAlgError if residuals are used of a matrix that has more rows than columns and "
        "not the full rank: NumPy has none then"),
    row("np.linalg.matrix_power", "{f}(s, 3)", "{f}(s, 0)"),
    row("np.linalg.multi_dot", "{f}([m, m.T, m])"),
    row("np.linalg.tensorinv", "{f}(s + s.T + 20 * np.eye(len(s), dtype=s.dtype), 1)"),
    row("np.linalg.tensorsolve", "{f}(s + s.T + 20 * np.eye(len(s), dtype=s.dtype), s[0])"),
    row("np.linalg.cross", "{f}(m[:, [0, 0, 0]], m[:, [0, -1, 0]])"),
]  # fmt: skip
