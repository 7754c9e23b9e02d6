"""Arguments of one shape that lie in memory in every way: apart, overlapping, read-only."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import loopwright as lw
import numpy as np

__all__ = ["DTYPES", "PROGRAMS", "SHAPES", "call_failure", "function_of", "place"]

Array = np.ndarray[Any, Any]

PROGRAMS = (
    "x += y",
    "x += x",
    "x -= y; y *= 2",
    "x[1:] += y[:-1]",
    "x[1:] += x[:-1]",
    "x[1:-1] += y[1:-1]; x[0] *= 2",
    "x[0] += x[-1]; x[-1] = 5",
    "x[2:5] += y[2:5]; return x.sum()",
    "x[::2] *= 2; x[..., 1:] -= 1",
    "x[..., :1] = 3; y[..., -1:] += x[..., :1]",
    "x[y > 0] += 1; x[x > 1] = 0",
    "x += y; y += x; z[...] = x",
    "x[...] = x[::-1]",
    "t = x.copy(); x[...] = y; y[...] = t",
    "x[...], y[...], z[...] = y + 0, z + 0, x + 0",
    "x += y.sum(); return y",
    "x.fill(2); y[...] = x",
    "np.maximum(x, y, out=z); return z, x - z",
    "x *= 2; return x.sum(), y + x, x",
    "old = x + 0; x -= y; return old, x - old",
    "z += 1; x[...] = 1; return (x * z).sum()",
    "x += 0.5 * y; z *= x; y -= z",
)

SHAPES = ((7,), (64,), (1001,), (5, 6), (33, 65), (3, 4, 5), (1, 3), (0,), (0, 3), (2, 0), ())
DTYPES = ("float32", "float64", "int32", "int8")

DENSE = ("dense", "shifted")
KINDS = (*DENSE, "stepped", "reversed", "columns", "same", "overlap")


def function_of(text: str) -> Callable[..., Any]:
    """The program as a function of x, y and z."""
    scope: dict[str, Any] = {"np": np}
    exec("def program(x, y, z):\n    " + text.replace("; ", "\n    "), scope)
    return scope["program"]


def place(seed: int, shape: tuple[int, ...], dtype: str) -> tuple[list[Array], list[Array]]:
    """Three arguments, and the memory they lie in: the same for the same seed."""
    rng = np.random.default_rng(seed)
    size = int(np.prod(shape))
    kinds = DENSE if rng.integers(0, 2) else KINDS if shape else ("dense", "same")
    arguments: list[Array] = []
    bases: list[Array] = []
    for _ in range(3):
        kind = str(rng.choice(kinds))
        base = rng.integers(-3, 4, 2 * size + 40).astype(dtype)
        shift = int(rng.integers(0, 5))
        if kind == "same" and arguments:
            arguments.append(arguments[-1])
            continue
        if kind == "overlap" and bases:
            array = bases[-1][shift : shift + size].reshape(shape)
        elif kind == "stepped":
            array = base[: 2 * size].reshape(*shape[:-1], 2 * shape[-1])[..., ::2]
        elif kind == "reversed":
            array = base[:size].reshape(shape)[::-1]
        elif kind == "columns":
            array = base[:size].reshape(shape[::-1]).T
        else:
            array = base[shift : shift + size].reshape(shape)
        assert array.shape == shape
        if rng.integers(0, 20) == 0:
            array.flags.writeable = False
        arguments.append(array)
        bases.append(base)
    return arguments, bases


def call_failure(
    compiled: Callable[..., Any],
    function: Callable[..., Any],
    seed: int,
    shape: tuple[int, ...],
    dtype: str,
) -> str:
    """What one call of compiled code does otherwise than NumPy, or nothing.

    What overlaps in part may be refused; a call that raises leaves all memory as it was.
    """
    plain, plain_bases = place(seed, shape, dtype)
    given, bases = place(seed, shape, dtype)
    before = [b.copy() for b in bases]
    wanted, refused = _run(function, plain)
    got, error = _run(compiled, given)
    if error is not None:
        allowed = refused is not None or "shares memory" in str(error)
        if not allowed:
            return f"raises {type(error).__name__}: {error}"
        plain_bases = before
    elif refused is not None:
        return f"is not refused as by NumPy: {refused}"
    else:
        for n, (a, b) in enumerate(zip(_flat(wanted), _flat(got), strict=True)):
            if not np.array_equal(a, b):
                return f"result {n} is {np.asarray(b).tolist()}, not {np.asarray(a).tolist()}"
    for n, (a, b) in enumerate(zip(plain_bases, bases, strict=True)):
        if not np.array_equal(a, b):
            return f"memory {n} holds {b.tolist()}, not {a.tolist()}"
    return ""


def _run(function: Callable[..., Any], arrays: Sequence[Array]) -> tuple[Any, Exception | None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return function(*arrays), None
        except (ValueError, TypeError, IndexError, lw.LoopwrightError) as error:
            return None, error


def _flat(result: Any) -> list[Any]:
    if result is None:
        return []
    return list(result) if isinstance(result, tuple) else [result]
