"""Shapes, joining, splitting, padding."""

from __future__ import annotations

from .rows import row

__all__ = ["ROWS"]

ROWS = [
    row("np.append", "{f}(x, y)", "{f}(x1, x1, axis)", "{f}(v, 3)"),
    row("np.delete", "{f}(x1, 0, axis)", "{f}(x, [0])", "{f}(v, [0, -1])", "{f}(m, slice(0, 2), 0)",
        "{f}(v, np.array(2))", "{f}(v, iv[0] % v.size)", limits="traced: one place"),
    row("np.insert", "{f}(x1, 0, 7, axis)", "{f}(v, [0, 1], [5, 6])", "{f}(m, 1, v, 1)",
        "{f}(m, [1], v[:, None], 1)", "{f}(m, [0, 0, 1], 3, 1)", "{f}(v, iv[0] % (v.size + 1), w)",
        "{f}(x, -1, 2)", limits="traced: one place"),
    row("np.resize", "{f}(x, (2, 5))", "{f}(x, 3)"),
    row("np.block", "{f}([[m, m], [m, m * 2]])", "{f}([v, 1.0])", "{f}(x)", "{f}([x1, x1])"),
    row("np.dsplit", "{f}(x3, [1])"),
    row("np.rollaxis", "{f}(x1, axis)", "{f}(x2, 1, 0)", "{f}(x2, axis, 2)"),
    row("np.apply_along_axis", "{f}(np.sum, axis, f1)", "{f}(lambda r: r * 2, axis, f1)",
        "{f}(lambda r: np.outer(r, r), axis, f2)"),
    row("np.apply_over_axes", "{f}(np.sum, f2, (0, 1))"),
    row("np.reshape", "{f}(x, -1)", "{f}(x, (1, *x.shape))"),
    row("np.ravel", "{f}(x)"),
    row("np.transpose np.permute_dims", "{f}(x)", "{f}(x, range(x.ndim))"),
    row("np.matrix_transpose np.linalg.matrix_transpose", "{f}(x2)"),
    row("np.swapaxes", "{f}(x1, axis, 0)"),
    row("np.moveaxis", "{f}(x1, axis, 0)", "{f}(x2, (0, 1), (1, 0))"),
    row("np.expand_dims", "{f}(x, 0)", "{f}(x, (0, -1))"),
    row("np.squeeze", "{f}(x)", "{f}(x[None], 0)"),
    row("np.broadcast_to", "{f}(x, (2, *x.shape))"),
    row("np.broadcast_arrays", "{f}(x, y)"),
    row("np.atleast_1d np.atleast_2d np.atleast_3d", "{f}(x)", "{f}(x, v)"),
    row("np.flip", "{f}(x)", "{f}(x, axes)"),
    row("np.flipud", "{f}(x1)"),
    row("np.fliplr", "{f}(x2)"),
    row("np.rot90", "{f}(x2, k)", "{f}(x2, 1, (1, 0))"),
    row("np.tril np.triu", "{f}(x2, k)", "{f}(v)"),
    row("np.shape", "f.reshape({f}(f)[::-1])"),
    row("np.ndim np.size", "x * {f}(x)"),
    row("np.concatenate np.concat", "{f}([x1, x1], axis)", "{f}([x1, y], None)", "{f}([v, iv])"),
    row("np.stack", "{f}([x, x])", "{f}([x1, x1], axis)"),
    row("np.vstack np.hstack np.dstack np.column_stack", "{f}([v, w])", "{f}([x2, x2])"),
    row("np.split", "{f}(x1, [1, 3], axis)", "{f}(np.stack([x, x]), 2)"),
    row("np.array_split", "{f}(x1, 3, axis)"),
    row("np.vsplit", "{f}(x2, [1])"),
    row("np.hsplit", "{f}(x1, [1])"),
    row("np.unstack", "{f}(x1, axis=axis)"),
    row("np.roll", "{f}(x, k)", "{f}(x1, k, axis)", "{f}(x2, (1, k), (0, 1))"),
    row("np.tile", "{f}(x, 2)", "{f}(x, (2, 1, 3))"),
    row("np.repeat", "{f}(x, 2)", "{f}(x1, 3, axis)", limits="one count"),
    row("np.pad", "{f}(x, 1)", "{f}(f1, 2, constant_values=7)", "{f}(f1, 1, 'edge')",
        "{f}(v, (0, 2), constant_values=3)"),
]  # fmt: skip
