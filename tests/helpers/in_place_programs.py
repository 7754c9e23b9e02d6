"""Programs that write arrays, run in plain NumPy and compiled, on copies of the same arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import loopwright as lw
import numpy as np

X = np.arange(12, dtype=np.float32).reshape(3, 4)
G = np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4)
D = np.linspace(0, 1, 4)
I4 = np.arange(4)
Program = Callable[..., Any]


def same(one: Any, other: Any) -> None:
    if isinstance(one, list | tuple):
        assert len(one) == len(other)
        for a, b in zip(one, other, strict=True):
            same(a, b)
    elif isinstance(one, dict):
        same(list(one.items()), list(other.items()))
    elif isinstance(one, np.ndarray | np.generic):
        assert (one.dtype, one.shape) == (other.dtype, other.shape)
        np.testing.assert_allclose(other, one, rtol=1e-5, atol=1e-6)
    else:
        assert one == other


def check(program: Program, *args: Any) -> None:
    def copies() -> list[Any]:
        return [a.copy(order="K") if isinstance(a, np.ndarray) else a for a in args]

    plain, compiled = copies(), copies()
    wanted = program(*plain)
    function = lw.compile(program)
    same(wanted, function(*compiled))
    same(plain, compiled)
    same(program(*plain), function(*compiled))  # once more, by the quick way
    same(plain, compiled)


def run(text: str) -> Program:
    """A program of x (3, 4) and g (3, 4), float32; d (4,), float64; i (4,), int64."""
    lines = "\n    ".join(text.split("; "))
    scope: dict[str, Any] = {"np": np, "lw": lw}
    exec(f"def program(x, g, d, i):\n    {lines}", scope)
    return scope["program"]
