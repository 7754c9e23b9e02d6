"""Functions that change their arguments: steps of optimisers, slices, masks."""

from __future__ import annotations

from typing import Any

import numpy as np

from .program import program

__all__: list[str] = []

_LINE = (100_000,)
_PLANE = (1024, 1024)
_WHOLE = 4 * 1024 * 1024  # bytes of a plane


@program(_LINE, x=_LINE, g=_LINE)
def add_in_place(x: Any, g: Any) -> Any:
    x += g
    return x


@program(_PLANE, reduction=2, x=_PLANE, g=_PLANE)
def axpy_in_place(x: Any, g: Any) -> Any:
    x += 0.01 * g
    return x


@program(_PLANE, reduction=4, moved=(3 * _WHOLE, 2 * _WHOLE), x=_PLANE, g=_PLANE, m=_PLANE)
def sgd_momentum_in_place(x: Any, g: Any, m: Any) -> Any:
    m *= 0.9
    m += g
    x -= 0.01 * m
    return x


@program(
    _PLANE,
    reduction=8,
    strays=1e-3,  # where v is nearly 0
    moved=(4 * _WHOLE, 3 * _WHOLE),
    x=_PLANE,
    g=_PLANE,
    m=_PLANE,
    v=_PLANE,
)
def adam_in_place(x: Any, g: Any, m: Any, v: Any) -> Any:
    m *= 0.9
    m += (1 - 0.9) * g
    v *= 0.999
    v += (1 - 0.999) * g * g
    x -= 1e-3 * m / (np.sqrt(np.abs(v)) + 1e-8)
    return x


@program(
    (256, 128),
    reduction=512,
    flops=4 * 512 * 256 * 128,
    w=(256, 128),
    x=(512, 256),
    y=(512, 128),
)
def gradient_step_in_place(w: Any, x: Any, y: Any) -> Any:
    w -= 1e-4 * (x.T @ (x @ w - y))
    return w


@program(_PLANE, reduction=1024, x=_PLANE)
def standardise_rows_in_place(x: Any) -> Any:
    x -= x.mean(axis=1, keepdims=True)
    x /= np.sqrt((x * x).mean(axis=1, keepdims=True) + 1e-5)
    return x


@program(_PLANE, moved=(_WHOLE, _WHOLE // 2), x=_PLANE, g=_PLANE)
def rows_in_place(x: Any, g: Any) -> Any:
    x[256:768] += g[256:768]
    return x


@program(_PLANE, moved=(_WHOLE // 8, _WHOLE // 16), x=_PLANE, g=_PLANE)
def columns_in_place(x: Any, g: Any) -> Any:
    x[:, :64] -= g[:, :64]
    return x


@program(_PLANE, moved=(64 * 1024, 4 * 1024), x=_PLANE, g=(1024,))
def one_column_in_place(x: Any, g: Any) -> Any:
    x[:, 0] += g
    return x


@program(_PLANE, x=_PLANE, g=_PLANE)
def inside_in_place(x: Any, g: Any) -> Any:
    x[1:-1, 1:-1] += g[1:-1, 1:-1]
    return x


@program(_PLANE, reduction=4, x=_PLANE)
def jacobi_in_place(x: Any) -> Any:
    x[1:-1, 1:-1] = 0.25 * (x[2:, 1:-1] + x[:-2, 1:-1] + x[1:-1, 2:] + x[1:-1, :-2])
    return x


@program(_PLANE, x=_PLANE, g=_PLANE)
def masked_in_place(x: Any, g: Any) -> Any:
    x[g > 1] = 0
    x[g < -1] += 1
    return x
