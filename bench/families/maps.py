"""Elementwise chains, and work that only moves elements: permutes, joins, cuts, look-ups."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ..workload import Input, Workload
from .kind import Draw, Kind, Params, workload

__all__ = ["KINDS"]

# A sum of positive and negative terms of size one may cancel: this many of them are allowed for.
_TERMS = 8


def _size(n: int) -> str:
    if n >= 1 << 20 and n % (1 << 20) == 0:
        return f"{n >> 20}M"
    return f"{n >> 10}K" if n >= 1024 and n % 1024 == 0 else str(n)


def _chain(F: Any, x: Any, y: Any) -> Any:
    return F.sqrt(x * x + y * y) * F.exp(-x) + F.tanh(y)


_UNARY: dict[str, Callable[..., Any]] = {
    "gelu_tanh": lambda F, x: F.gelu_tanh(x),
    "gelu": lambda F, x: F.gelu(x),
    "silu": lambda F, x: F.silu(x),
    "sigmoid": lambda F, x: F.sigmoid(x),
    "chain": _chain,
}


def _elementwise(op: str, n: int) -> Workload:
    inputs = {"x": Input((n,))} | ({"y": Input((n,))} if op == "chain" else {})
    name = f"{op}_{_size(n)}"
    return workload(name, "elementwise", _UNARY[op], inputs, (n,), reduction=_TERMS)


def _bias_relu(rows: int, n: int) -> Workload:
    def body(F: Any, x: Any, bias: Any) -> Any:
        return F.relu(x + bias)

    inputs = {"x": Input((rows, n)), "bias": Input((n,), constant=True)}
    return workload(
        f"bias_relu_{rows}x{n}", "elementwise", body, inputs, (rows, n), reduction=_TERMS
    )


def _outer(rows: int, n: int) -> Workload:
    """A column and a row, broadcast against each other."""

    def body(F: Any, x: Any, y: Any) -> Any:
        return F.tanh(x * y)

    inputs = {"x": Input((rows, 1)), "y": Input((1, n))}
    return workload(
        f"outer_tanh_{rows}x{n}", "elementwise", body, inputs, (rows, n), reduction=_TERMS
    )


def _residual(c: int, size: int) -> Workload:
    """Scale and shift per channel, another image added, and the positive part."""

    def body(F: Any, x: Any, y: Any, scale: Any, shift: Any) -> Any:
        return F.relu(x * scale + shift + y)

    image, weight = Input((1, c, size, size)), Input((1, c, 1, 1), constant=True)
    inputs = {"x": image, "y": image, "scale": weight, "shift": weight}
    name = f"residual_{c}x{size}"
    return workload(name, "elementwise", body, inputs, image.shape, reduction=_TERMS)


def _permute(shape: tuple[int, ...], axes: tuple[int, ...], split: bool = False) -> Workload:
    """``split``: the last axis is 64 long and joined with the one before, as heads are."""
    shape, axes = tuple(shape), tuple(axes)
    given = (*shape[:-2], shape[-2] * shape[-1]) if split else shape

    def body(F: Any, x: Any) -> Any:
        return F.copy(F.transpose(F.reshape(x, shape) if split else x, axes))

    out = tuple(shape[a] for a in axes)
    name = f"{'heads' if split else 'permute'}_{'x'.join(map(str, shape))}"
    name += f"_{''.join(map(str, axes))}"
    return workload(name, "transpose", body, {"x": Input(given)}, out)


def _transpose_add(m: int, n: int) -> Workload:
    def body(F: Any, x: Any, y: Any) -> Any:
        return F.transpose(x, (1, 0)) + y

    inputs = {"x": Input((n, m)), "y": Input((m, n))}
    return workload(f"transpose_add_{m}x{n}", "transpose", body, inputs, (m, n), reduction=_TERMS)


def _concat(c: int, more: int, size: int) -> Workload:
    """Two images joined along their channels, and the positive part."""

    def body(F: Any, x: Any, y: Any) -> Any:
        return F.relu(F.concat((x, y), 1))

    inputs = {"x": Input((1, c, size, size)), "y": Input((1, more, size, size))}
    name = f"concat_relu_{c}+{more}x{size}"
    return workload(name, "join and cut", body, inputs, (1, c + more, size, size))


def _pad(c: int, size: int) -> Workload:
    def body(F: Any, x: Any) -> Any:
        return F.pad(F.relu(x), ((0, 0), (0, 0), (1, 1), (1, 1)))

    out = (1, c, size + 2, size + 2)
    x = Input((1, c, size, size))
    return workload(f"relu_pad_{c}x{size}", "join and cut", body, {"x": x}, out)


def _rotary(heads: int, length: int, depth: int) -> Workload:
    """Rotary positions: two halves of a row change places, one of them negated."""
    half = depth // 2

    def body(F: Any, x: Any, cos: Any, sin: Any) -> Any:
        first = F.slice(x, (0, 0, 0), (heads, length, half))
        second = F.slice(x, (0, 0, half), (heads, length, depth))
        return x * cos + F.concat((-second, first), 2) * sin

    table = Input((length, depth), constant=True)
    inputs = {"x": Input((heads, length, depth)), "cos": table, "sin": table}
    name = f"rotary_{heads}x{length}x{depth}"
    return workload(name, "join and cut", body, inputs, (heads, length, depth), reduction=_TERMS)


def _difference(rows: int, n: int) -> Workload:
    """Neighbours' differences: two overlapping cuts."""

    def body(F: Any, x: Any) -> Any:
        return F.slice(x, (0, 1), (rows, n)) - F.slice(x, (0, 0), (rows, n - 1))

    out = (rows, n - 1)
    x = Input((rows, n))
    return workload(f"diff_{rows}x{n}", "join and cut", body, {"x": x}, out, reduction=_TERMS)


def _halves(rows: int, n: int) -> Workload:
    """A gated unit: one half of each row times the sigmoid of the other."""

    def body(F: Any, x: Any) -> Any:
        return F.slice(x, (0, 0), (rows, n)) * F.sigmoid(F.slice(x, (0, n), (rows, 2 * n)))

    x = Input((rows, 2 * n))
    return workload(f"glu_{rows}x{n}", "join and cut", body, {"x": x}, (rows, n), reduction=_TERMS)


def _lookup(rows: int, n: int, count: int) -> Workload:
    """Rows of a table by index: an embedding."""

    def body(F: Any, table: Any, index: Any) -> Any:
        return F.take(table, index, 0)

    inputs = {
        "table": Input((rows, n), constant=True),
        "index": Input((count,), "int64", below=rows),
    }
    name, read = f"embedding_{rows}x{n}_{count}", 4 * min(count, rows) * n + 8 * count
    return workload(name, "gather", body, inputs, (count, n), read=read)


def _columns(rows: int, n: int, count: int) -> Workload:
    """Columns of a matrix by index."""

    def body(F: Any, x: Any, index: Any) -> Any:
        return F.take(x, index, 1)

    inputs = {"x": Input((rows, n)), "index": Input((count,), "int64", below=n)}
    read = 4 * rows * min(count, n) + 8 * count
    return workload(f"columns_{rows}x{n}_{count}", "gather", body, inputs, (rows, count), read=read)


def _draw_elementwise(draw: Draw) -> Params:
    return {"op": draw.choice(*_UNARY), "n": draw.size(1 << 10, 1 << 22)}


def _draw_matrix(draw: Draw) -> tuple[int, int]:
    while True:
        rows, n = draw.size(16, 4096), draw.size(16, 4096)
        if 2**14 <= rows * n <= 2**22:
            return rows, n


def _draw_rows_n(draw: Draw) -> Params:
    rows, n = _draw_matrix(draw)
    return {"rows": rows, "n": n}


def _draw_mn(draw: Draw) -> Params:
    rows, n = _draw_matrix(draw)
    return {"m": rows, "n": n}


def _draw_image(draw: Draw) -> Params:
    while True:
        c, size = draw.size(16, 512), draw.size(7, 112)
        if c * size * size <= 2**21:
            return {"c": c, "size": size}


def _draw_permute(draw: Draw) -> Params:
    shape, axes = draw.choice(
        (_draw_matrix(draw), (1, 0)),
        ((draw.size(2, 32), draw.size(16, 512), draw.size(16, 256)), (0, 2, 1)),
        ((draw.choice(1, 4), draw.size(8, 512), draw.size(7, 56), draw.size(7, 56)), (0, 2, 3, 1)),
        ((draw.choice(1, 4), draw.size(7, 56), draw.size(7, 56), draw.size(8, 512)), (0, 3, 1, 2)),
    )
    while math.prod(shape) > 2**22:
        shape = (*shape[:-1], max(1, shape[-1] // 2))
    return {"shape": shape, "axes": axes}


def _draw_split(draw: Draw) -> Params:
    shape = (draw.size(32, 1024), draw.choice(4, 8, 12, 16), draw.choice(32, 64, 80, 128))
    return {"shape": shape, "axes": (1, 0, 2), "split": True}


def _draw_rotary(draw: Draw) -> Params:
    depth = draw.choice(32, 64, 128)
    return {"heads": draw.choice(8, 12, 16), "length": draw.size(16, 1024), "depth": depth}


def _draw_lookup(draw: Draw) -> Params:
    return {"rows": draw.size(1000, 20000), "n": draw.size(16, 1024), "count": draw.size(16, 2048)}


def _draw_columns(draw: Draw) -> Params:
    rows, n = _draw_matrix(draw)
    return {"rows": rows, "n": n, "count": draw.size(16, 1024)}


def _sized(*pairs: tuple[str, int]) -> tuple[Params, ...]:
    return tuple({"op": op, "n": n} for op, n in pairs)


_M = 1 << 20

KINDS = (
    Kind(
        "elementwise",
        _elementwise,
        _sized(
            ("gelu_tanh", _M),
            ("gelu", 512 * 3072),
            ("silu", _M),
            ("sigmoid", 4096),
            ("chain", 1 << 14),
            ("chain", _M),
            ("chain", 16 * _M),
        ),
        _draw_elementwise,
        {"op": "chain", "n": 20},
    ),
    Kind("bias_relu", _bias_relu, ({"rows": 128, "n": 3072},), _draw_rows_n, {"rows": 3, "n": 5}),
    Kind("outer", _outer, ({"rows": 1000, "n": 777},), _draw_rows_n, {"rows": 3, "n": 5}),
    Kind("residual", _residual, ({"c": 64, "size": 56},), _draw_image, {"c": 4, "size": 5}),
    Kind("transpose_add", _transpose_add, ({"m": 2048, "n": 2048},), _draw_mn, {"m": 4, "n": 6}),
    Kind(
        "permute",
        _permute,
        (
            {"shape": (1024, 1024), "axes": (1, 0)},
            {"shape": (1, 64, 56, 56), "axes": (0, 2, 3, 1)},
            {"shape": (1, 28, 28, 256), "axes": (0, 3, 1, 2)},
            {"shape": (16, 512, 64), "axes": (0, 2, 1)},
        ),
        _draw_permute,
        {"shape": (2, 3, 4, 5), "axes": (0, 2, 3, 1)},
    ),
    Kind(
        "split_heads",
        _permute,
        ({"shape": (512, 12, 64), "axes": (1, 0, 2), "split": True},),
        _draw_split,
        {"shape": (6, 3, 8), "axes": (1, 0, 2), "split": True},
    ),
    Kind(
        "concat",
        _concat,
        ({"c": 64, "more": 128, "size": 56},),
        lambda draw: {**_draw_image(draw), "more": draw.size(16, 256)},
        {"c": 2, "more": 3, "size": 4},
    ),
    Kind("pad", _pad, ({"c": 64, "size": 56},), _draw_image, {"c": 2, "size": 5}),
    Kind(
        "rotary",
        _rotary,
        ({"heads": 12, "length": 1024, "depth": 64},),
        _draw_rotary,
        {"heads": 2, "length": 3, "depth": 8},
    ),
    Kind(
        "difference", _difference, ({"rows": 1024, "n": 1000},), _draw_rows_n, {"rows": 3, "n": 7}
    ),
    Kind("glu", _halves, ({"rows": 512, "n": 2048},), _draw_rows_n, {"rows": 3, "n": 4}),
    Kind(
        "embedding",
        _lookup,
        ({"rows": 30522, "n": 768, "count": 512}, {"rows": 10000, "n": 64, "count": 4096}),
        _draw_lookup,
        {"rows": 10, "n": 4, "count": 6},
    ),
    Kind(
        "columns",
        _columns,
        ({"rows": 1024, "n": 1000, "count": 256},),
        _draw_columns,
        {"rows": 4, "n": 10, "count": 6},
    ),
)
