"""Work along an axis: softmax, normalisation, reductions, attention."""

from __future__ import annotations

import math
from typing import Any

from ..workload import Input, Workload
from .kind import Draw, Kind, Params, workload

__all__ = ["KINDS"]


def _by(shape: tuple[int, ...]) -> str:
    return "x".join(map(str, shape))


def _softmax(shape: tuple[int, ...], axis: int = -1, *, log: bool = False) -> Workload:
    shape = tuple(shape)

    def body(F: Any, x: Any) -> Any:
        return F.log_softmax(x, axis=axis) if log else F.softmax(x, axis=axis)

    name = ("log_softmax_" if log else "softmax_") + _by(shape) + _along(axis)
    n = shape[axis]
    scale = 1.0 / n
    return workload(
        name, "softmax", body, {"x": Input(shape)}, shape, reduction=n, scale=scale, need=1.5
    )


def _along(axis: int) -> str:
    return "" if axis == -1 else f"_axis{axis}"


def _norm(op: str, shape: tuple[int, ...]) -> Workload:
    """``op`` is layer or rms."""
    shape = tuple(shape)
    n = shape[-1]
    inputs = {"x": Input(shape), "gamma": Input((n,), constant=True)}
    if op == "layer":
        inputs["beta"] = Input((n,), constant=True)

    def body(F: Any, x: Any, *weights: Any) -> Any:
        return F.layer_norm(x, *weights) if op == "layer" else F.rms_norm(x, *weights)

    name = f"{op}norm_{_by(shape)}"
    return workload(name, "normalisation", body, inputs, shape, reduction=n, scale=4 / n, need=1.5)


def _reduce(op: str, shape: tuple[int, ...], axis: tuple[int, ...]) -> Workload:
    """``op`` is sum, mean, max or argmax; argmax has one axis."""
    shape, axis = tuple(shape), tuple(axis)

    def body(F: Any, x: Any) -> Any:
        return F.argmax(x, axis[0]) if op == "argmax" else getattr(F, op)(x, axis)

    out = tuple(s for i, s in enumerate(shape) if i not in axis)
    terms = math.prod(shape[i] for i in axis)
    name = f"{op}_{_by(shape)}_axis{''.join(map(str, axis))}"
    more: dict[str, Any] = {"dtype": "int64"} if op == "argmax" else {}
    if op in ("sum", "mean"):
        more = {"reduction": terms, "scale": 1 / terms if op == "mean" else 1.0}
    return workload(name, "reduction", body, {"x": Input(shape)}, out, **more)


def _attention(
    heads: int, length: int, depth: int, keys: int = 0, *, causal: bool = False
) -> Workload:
    """``softmax(q k^T / sqrt(depth)) v`` for ``length`` queries on ``keys`` keys (else as many)."""
    keys = keys or length

    def body(F: Any, q: Any, k: Any, v: Any) -> Any:
        return F.attention(q, k, v, causal=causal, shape=(heads, length, keys, depth))

    pairs = length * (length + 1) // 2 if causal else length * keys
    name = f"attention_{heads}x{length}" + (f"x{keys}" if keys != length else "")
    q, k = Input((heads, length, depth)), Input((heads, keys, depth))
    return workload(
        f"{name}x{depth}{'_causal' if causal else ''}",
        "attention",
        body,
        {"q": q, "k": k, "v": k},
        (heads, length, depth),
        flops=4 * heads * pairs * depth,
        reduction=keys + depth,
        scale=4 / math.sqrt(keys) / math.sqrt(keys + depth),
        need=4.0,
    )


def _draw_rows(draw: Draw) -> tuple[int, ...]:
    while True:
        rows, n = draw.size(1, 8192), draw.size(32, 16384)
        if 2**14 <= rows * n <= 2**22:
            return rows, n


def _draw_softmax(draw: Draw) -> Params:
    if draw.choice(False, False, False, True):
        return {"shape": (draw.size(2, 32), draw.size(8, 128), draw.size(32, 1024)), "axis": 1}
    return {"shape": _draw_rows(draw), "log": draw.choice(False, False, True)}


def _draw_reduce(draw: Draw) -> Params:
    op = draw.choice("sum", "mean", "max", "argmax")
    shape: tuple[int, ...] = _draw_rows(draw)
    if draw.flag():
        shape = (draw.size(2, 64), draw.size(8, 256), draw.size(8, 256))
    axes = [(i,) for i in range(len(shape))]
    if op != "argmax" and len(shape) == 3:
        axes += [(1, 2), (0, 1)]
    return {"op": op, "shape": shape, "axis": draw.choice(*axes)}


def _draw_attention(draw: Draw) -> Params:
    heads, depth, length = draw.size(4, 16), draw.choice(32, 64, 64, 80, 128), draw.size(32, 1024)
    if draw.flag():
        return {"heads": heads, "length": length, "depth": depth, "causal": True}
    keys = draw.choice(0, 0, draw.size(32, 1024))
    return {"heads": heads, "length": length, "depth": depth, "keys": keys}


def _r(op: str, shape: tuple[int, ...], *axis: int) -> Params:
    return {"op": op, "shape": shape, "axis": axis}


def _a(heads: int, length: int, depth: int, **more: Any) -> Params:
    return {"heads": heads, "length": length, "depth": depth, **more}


KINDS = (
    Kind(
        "softmax",
        _softmax,
        (
            {"shape": (128, 1024)},
            {"shape": (4096, 1024)},
            {"shape": (1, 50257)},
            {"shape": (8, 64, 1024), "axis": 1},
            {"shape": (512, 1000), "log": True},
            {"shape": (32, 30522)},
            {"shape": (4096, 91), "log": True},
            {"shape": (128, 10000), "log": True},
        ),
        _draw_softmax,
        {"shape": (3, 4, 5), "axis": 1, "log": True},
    ),
    Kind(
        "norm",
        _norm,
        (
            {"op": "layer", "shape": (512, 768)},
            {"op": "layer", "shape": (64, 256)},
            {"op": "layer", "shape": (3136, 96)},
            {"op": "rms", "shape": (512, 4096)},
        ),
        lambda draw: {"op": draw.choice("layer", "rms"), "shape": _draw_rows(draw)},
        {"op": "rms", "shape": (3, 8)},
    ),
    Kind(
        "reduction",
        _reduce,
        (
            _r("sum", (4096, 4096), 1),
            _r("sum", (4096, 4096), 0),
            _r("sum", (1024, 1024), 0, 1),
            _r("max", (1024, 1000), 0),
            _r("mean", (64, 128, 256), 1),
            _r("argmax", (1024, 1000), 1),
            _r("argmax", (1024, 1000), 0),
        ),
        _draw_reduce,
        _r("argmax", (4, 5), 0),
    ),
    Kind(
        "attention",
        _attention,
        (
            _a(12, 128, 64),
            _a(12, 1024, 64),
            _a(12, 197, 64),
            _a(8, 512, 64, causal=True),
            _a(8, 128, 64, keys=1024),
            _a(12, 1, 64, keys=1024),
        ),
        _draw_attention,
        _a(2, 6, 8, causal=True),
    ),
)
