"""What to write instead of a function or method that traced arrays do not have.

A row is a name, a use of it, and an expression that gives the same; tests/tracer/test_rewrites.py
runs both. Where nothing gives the same the use is empty, and the expression only has to run. What
follows a semicolon is said, not run.
"""

from __future__ import annotations

__all__ = ["FUNCTION_REWRITES", "METHOD_REWRITES", "misspelt"]

_KEEPS = "np.where(condition, a, b); which keeps the shape"
_PRINT = "x; print it to see its type, return it to see its values"
_MASKED = "np.where(mask, value, x)"

FUNCTION_REWRITES: dict[str, tuple[str, str]] = {
    "append": ("np.append(x, y, axis=0)", "np.concatenate([x, y])"),
    "argwhere": ("", _KEEPS),
    "array2string": ("", _PRINT),
    "array_equiv": ("np.array_equiv(x, y)", "(x == y).all()"),
    "array_repr": ("", _PRINT),
    "array_str": ("", _PRINT),
    "bincount": ("np.bincount(i, minlength=4)", "(i[:, None] == np.arange(4)).sum(axis=0)"),
    "choose": ("np.choose(i, [u, v])", "np.select([i == 0, i == 1], [u, v])"),
    "compress": ("", _KEEPS),
    "corrcoef": (
        "np.corrcoef(x)",
        "(z := (x - x.mean(1, keepdims=True)) / x.std(1, keepdims=True)) @ z.T / x.shape[1]",
    ),
    "cov": ("np.cov(x)", "(d := x - x.mean(axis=1, keepdims=True)) @ d.T / (x.shape[1] - 1)"),
    "cumsum": ("np.cumsum(x, axis=0)", "np.tri(len(x), dtype=x.dtype) @ x"),
    "delete": ("np.delete(x, 2, axis=0)", "np.concatenate([x[:2], x[3:]])"),
    "digitize": ("np.digitize(x, bins)", "(x[..., None] >= bins).sum(axis=-1)"),
    "ediff1d": ("np.ediff1d(x)", "np.diff(x.ravel())"),
    "extract": ("", _KEEPS),
    "fill_diagonal": ("", "np.where(np.eye(*x.shape, dtype=bool), value, x)"),
    "flatnonzero": ("", _KEEPS),
    "gradient": (
        "np.gradient(u)",
        "np.concatenate([u[1:2] - u[:1], (u[2:] - u[:-2]) / 2, u[-1:] - u[-2:-1]])",
    ),
    "imag": ("np.imag(x)", "np.zeros_like(x)"),
    "insert": (
        "np.insert(x, 2, value, axis=0)",
        "np.concatenate([x[:2], np.full_like(x[:1], value), x[2:]])",
    ),
    "iscomplex": ("np.iscomplex(x)", "np.zeros_like(x, dtype=bool)"),
    "isin": ("np.isin(x, values)", "(x[..., None] == values).any(axis=-1)"),
    "isreal": ("np.isreal(x)", "np.ones_like(x, dtype=bool)"),
    "linalg.matrix_power": ("np.linalg.matrix_power(x @ x.T, 2)", "(x @ x.T) @ (x @ x.T)"),
    "linalg.multi_dot": ("np.linalg.multi_dot([x, y.T, x])", "x @ y.T @ x"),
    "logaddexp2": (
        "np.logaddexp2(x, y)",
        "np.logaddexp(x * np.log(2), y * np.log(2)) / np.log(2)",
    ),
    "nanargmax": ("np.nanargmax(x)", "np.argmax(np.where(np.isnan(x), -np.inf, x))"),
    "nanargmin": ("np.nanargmin(x)", "np.argmin(np.where(np.isnan(x), np.inf, x))"),
    "nancumsum": (
        "np.nancumsum(x, axis=0)",
        "np.tri(len(x), dtype=x.dtype) @ np.where(np.isnan(x), 0, x)",
    ),
    "nanprod": ("np.nanprod(x)", "np.prod(np.where(np.isnan(x), 1, x))"),
    "nanstd": ("np.nanstd(x)", "np.sqrt(np.nanmean((x - np.nanmean(x)) ** 2))"),
    "nanvar": ("np.nanvar(x)", "np.nanmean((x - np.nanmean(x)) ** 2)"),
    "nonzero": ("", _KEEPS),
    "place": ("", _MASKED),
    "polyval": ("np.polyval([1.0, 2.0, 3.0], x)", "(1.0 * x + 2.0) * x + 3.0"),
    "put": ("", _MASKED),
    "real_if_close": ("np.real_if_close(x)", "x"),
    "rollaxis": ("np.rollaxis(x, 1)", "np.moveaxis(x, 1, 0)"),
    "save": ("", "x; save what the compiled function returns"),
    "searchsorted": ("np.searchsorted(bins, x)", "(bins < x[..., None]).sum(axis=-1)"),
    "trapezoid": ("np.trapezoid(u, v)", "((u[1:] + u[:-1]) * np.diff(v) / 2).sum()"),
    "vectorize": ("", "f(x); on whole arrays"),
}
"""By the name after ``np.``."""

METHOD_REWRITES: dict[str, tuple[str, str]] = {
    "choose": ("i.choose([u, v])", "np.select([i == 0, i == 1], [u, v])"),
    "compress": ("", _KEEPS),
    "cpu": ("", "x; it already behaves as a NumPy array"),
    "cumsum": ("x.cumsum(axis=0)", "np.tri(len(x), dtype=x.dtype) @ x"),
    "detach": ("", "x; it already behaves as a NumPy array"),
    "exp": ("", "np.exp(x)"),
    "float": ("", "x.astype(np.float32)"),
    "gelu": ("", "lw.nn.gelu(x)"),
    "imag": ("x.imag", "np.zeros_like(x)"),
    "log": ("", "np.log(x)"),
    "log_softmax": ("", "lw.nn.log_softmax(x)"),
    "nonzero": ("", _KEEPS),
    "norm": ("", "np.linalg.norm(x)"),
    "numpy": ("", "x; it already behaves as a NumPy array"),
    "permute": ("", "x.transpose(1, 0)"),
    "put": ("", _MASKED),
    "relu": ("", "lw.nn.relu(x)"),
    "resize": ("", "np.reshape(x, (6, 4))"),
    "searchsorted": ("bins.searchsorted(x)", "(bins < x[..., None]).sum(axis=-1)"),
    "setflags": ("", "x; nothing has to be set for writing"),
    "sigmoid": ("", "lw.nn.sigmoid(x)"),
    "softmax": ("", "lw.nn.softmax(x)"),
    "sqrt": ("", "np.sqrt(x)"),
    "tanh": ("", "np.tanh(x)"),
    "tobytes": ("", "x; do that with what the compiled function returns"),
    "tofile": ("", "x; write what the compiled function returns"),
    "unsqueeze": ("", "x[..., None]"),
}
"""By the name after the dot."""


def misspelt(name: str, known: str) -> bool:
    """Whether one letter too many, too few, wrong, or swapped with its neighbour makes ``known``.

    >>> misspelt("reshpae", "reshape"), misspelt("softmax", "max")
    (True, False)
    """
    if name == known or abs(len(name) - len(known)) > 1 or len(name) < 4:
        return False
    start = next((i for i, (a, b) in enumerate(zip(name, known)) if a != b), -1)
    if start < 0:
        return True
    here, there = name[start:], known[start:]
    swapped = here[1:2] + here[:1] + here[2:]
    return there in (swapped, here[1:]) or here == there[1:] or here[1:] == there[1:]
