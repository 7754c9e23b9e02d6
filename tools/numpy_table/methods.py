"""Methods and attributes of arrays, methods of ufuncs."""

from __future__ import annotations

from .rows import row

__all__ = ["ROWS"]

ROWS = [
    row("ndarray.T", "x.T"),
    row("ndarray.mT", "x2.mT"),
    row("ndarray.real ndarray.imag", "x.{f}"),
    row("ndarray.flat", "x.flat"),
    row("ndarray.shape ndarray.ndim ndarray.size ndarray.itemsize ndarray.nbytes",
        "np.full_like(f, 1) * x.{f}"),
    row("ndarray.dtype", "f.astype(x.dtype)"),
    row("ndarray.strides", "x.shape"),
    row("ndarray.device", "x * (x.device == 'cpu')"),
    row("ndarray.sum ndarray.prod", "x.{f}()", "x.{f}(axes, keepdims=keep)", "f.{f}(where=b)"),
    row("ndarray.max ndarray.min ndarray.any ndarray.all", "x.{f}()", "x.{f}(axes, keepdims=keep)"),
    row("ndarray.mean ndarray.var ndarray.std", "x.{f}()", "x.{f}(axes, keepdims=keep)"),
    row("ndarray.argmax ndarray.argmin", "x.{f}()", "x1.{f}(axis)"),
    row("ndarray.cumsum ndarray.cumprod", "x.{f}()", "x1.{f}(axis)"),
    row("ndarray.argsort", "x1.{f}(axis, kind='stable')"),
    row("ndarray.argpartition", "f1.{f}(0) * 0"),
    row("ndarray.searchsorted", "sv.{f}(f)"),
    row("ndarray.clip", "f.{f}(-0.5, 0.5)", "i.{f}(0, 5)", "f.{f}(0)"),
    row("ndarray.round", "f.{f}()", "f.{f}(2)"),
    row("ndarray.astype", "x.{f}(bool)", "i.{f}(dt)", "f.{f}(np.float64)"),
    row("ndarray.view", "x.{f}()"),
    row("ndarray.copy ndarray.conj ndarray.conjugate ndarray.flatten ndarray.ravel", "x.{f}()"),
    row("ndarray.reshape", "x.{f}(-1)", "x1.{f}((1, -1))", "x1.{f}(*x1.shape[::-1])"),
    row("ndarray.transpose", "x.{f}()", "x2.{f}(range(x2.ndim)[::-1])"),
    row("ndarray.swapaxes", "x1.{f}(axis, 0)"),
    row("ndarray.squeeze", "x.{f}()"),
    row("ndarray.repeat", "x.{f}(2)", "x1.{f}(3, axis)"),
    row("ndarray.take", "x1.{f}(idx, -1)"),
    row("ndarray.diagonal ndarray.trace", "x2.{f}()", "x2.{f}(k)"),
    row("ndarray.dot", "v.{f}(w)", "m.{f}(mt)"),
    row("ndarray.choose", "(n % 2).{f}([1, 2])"),
    row("ndarray.compress", "v.{f}([True])", limits="a condition that is known"),
    row("ndarray.fill", "y = f.copy(); y.{f}(3); y"),
    row("ndarray.sort", "y = x1.copy(); y.{f}(axis); y"),
    row("ndarray.partition", "y = np.zeros_like(f1); y.{f}(0, axis); y"),
    row("ndarray.put", "y = x1.copy(); y.{f}([0, -1], 3); y"),
    row("ndarray.item ndarray.tolist", limits="an error says what to write instead"),
    row("ufunc.reduce", "np.add.reduce(x1, axis)", "np.maximum.reduce(f1, axis, keepdims=keep)",
        "np.multiply.reduce(f, axes)", "np.logical_or.reduce(x1, axis)",
        "np.minimum.reduce(f1, axis)", "np.logical_and.reduce(x1)"),
    row("ufunc.outer", "np.multiply.outer(v, w)", "np.subtract.outer(f, v)"),
    row("ufunc.at", "y = f1.copy(); np.add.at(y, 0, 2); y",
        "y = v.copy(); np.multiply.at(y, [0, -1, 0], 3); y"),
]  # fmt: skip
