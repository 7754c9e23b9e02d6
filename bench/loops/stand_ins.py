"""What stands for ``loopwright`` in the processes of others: Python's loops, or JAX's."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np

__all__ = ["jax_loops", "python_loops"]


def python_loops() -> ModuleType:
    """Returns a module with Python's own loops, as somebody would write them by hand."""
    module = ModuleType("loopwright")

    def cond(pred: Any, true_fn: Any, false_fn: Any, *operands: Any) -> Any:
        return true_fn(*operands) if pred else false_fn(*operands)

    def while_loop(cond_fn: Any, body_fn: Any, carry: Any) -> Any:
        while cond_fn(carry):
            carry = body_fn(carry)
        return carry

    def fori_loop(lower: Any, upper: Any, body_fn: Any, carry: Any) -> Any:
        for i in range(lower, upper):
            carry = body_fn(i, carry)
        return carry

    def scan(f: Any, carry: Any, xs: Any, reverse: bool = False) -> Any:
        ys = []
        rows = list(zip(*xs)) if isinstance(xs, tuple) else list(xs)
        for x in reversed(rows) if reverse else rows:
            carry, y = f(carry, x)
            ys.append(y)
        if reverse:
            ys.reverse()
        if isinstance(ys[0], tuple):
            return carry, tuple(np.array(column) for column in zip(*ys))
        return carry, None if ys[0] is None else np.array(ys)

    def map_(f: Any, xs: Any) -> Any:
        return np.array([f(x) for x in xs])

    return _filled(module, cond, while_loop, fori_loop, scan, map_)


def jax_loops() -> ModuleType:
    """Returns a module with the functions of ``jax.lax``."""
    from jax import lax

    module = ModuleType("loopwright")
    return _filled(module, lax.cond, lax.while_loop, lax.fori_loop, lax.scan, lax.map)


def _filled(module: ModuleType, *functions: Callable[..., Any]) -> ModuleType:
    names = ("cond", "while_loop", "fori_loop", "scan", "map")
    for name, function in zip(names, functions):
        setattr(module, name, function)
    for decorator in ("compile", "function"):
        setattr(module, decorator, lambda f: f)
    return module
