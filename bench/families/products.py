"""Matrix products: square and awkward, skinny, with vectors, batched, transposed, and of other
dtypes."""

from __future__ import annotations

from typing import Any

from ..workload import Input, Workload
from .kind import Draw, Kind, Params, workload

__all__ = ["KINDS"]

_FLOPS = 6e9  # of a drawn product, so that a round of every library stays short


def _sizes(*sizes: int) -> str:
    return "x".join(map(str, sizes))


def _product(
    name: str, family: str, body: Any, x: Input, w: Input, out: tuple[int, ...], depth: int
) -> Workload:
    flops = 2 * depth
    for size in out:
        flops *= size
    dtype = "int32" if x.dtype == "int8" else x.dtype
    named = f"{name}_w" if w.constant else name
    inputs = {"x": x, "w": w}
    return workload(
        named, family, body, inputs, out, dtype=dtype, flops=flops, reduction=depth, need=3.0
    )


def _matmul(m: int, k: int, n: int, *, const: bool = False, dtype: str = "float32") -> Workload:
    short = {"float32": "", "float64": "_f64", "int8": "_int8"}[dtype]
    narrow = min(m, k, n)
    family = "skinny matmul" if dtype == "float32" and narrow <= 64 else "matmul"
    square = str(m) if m == k == n else _sizes(m, k, n)
    body = (lambda F, x, w: F.matmul_int32(x, w)) if dtype == "int8" else _times
    w = Input((k, n), dtype, const)
    return _product(f"matmul{short}_{square}", family, body, Input((m, k), dtype), w, (m, n), k)


def _times(F: Any, x: Any, w: Any) -> Any:
    return F.matmul(x, w)


def _batched(b: int, m: int, k: int, n: int) -> Workload:
    x, w = Input((b, m, k)), Input((b, k, n))
    return _product(f"batched_{b}x{_sizes(m, k, n)}", "matmul", _times, x, w, (b, m, n), k)


def _right_transposed(m: int, k: int, n: int, *, const: bool = False) -> Workload:
    def body(F: Any, x: Any, w: Any) -> Any:
        return F.matmul(x, F.transpose(w, (1, 0)))

    x, w = Input((m, k)), Input((n, k), constant=const)
    family = "skinny matmul" if min(m, k, n) <= 64 else "matmul"
    return _product(f"matmul_xwT_{_sizes(m, k, n)}", family, body, x, w, (m, n), k)


def _left_transposed(m: int, k: int, n: int) -> Workload:
    def body(F: Any, x: Any, w: Any) -> Any:
        return F.matmul(F.transpose(x, (1, 0)), w)

    x, w = Input((k, m)), Input((k, n))
    family = "skinny matmul" if min(m, k, n) <= 64 else "matmul"
    return _product(f"matmul_xTw_{_sizes(m, k, n)}", family, body, x, w, (m, n), k)


def _row_times_matrix(k: int, n: int, *, const: bool = True) -> Workload:
    x, w = Input((1, k)), Input((k, n), constant=const)
    return _product(f"gemv_1x{_sizes(k, n)}", "gemv", _times, x, w, (1, n), k)


def _matrix_times_vector(m: int, k: int) -> Workload:
    x, w = Input((m, k)), Input((k,))
    return _product(f"gemv_{_sizes(m, k)}x1", "gemv", _times, x, w, (m,), k)


def _bounded(draw: Draw, low: int, high: int) -> tuple[int, int, int]:
    while True:
        m, k, n = (draw.size(low, high) for _ in range(3))
        if 2 * m * k * n <= _FLOPS:
            return m, k, n


def _draw_matmul(draw: Draw) -> Params:
    m, k, n = _bounded(draw, 80, 2048)
    return {"m": m, "k": k, "n": n, "const": draw.flag()}


def _draw_skinny(draw: Draw) -> Params:
    sizes = [draw.size(2, 64), draw.size(256, 4096), draw.size(256, 4096)]
    turn = draw.choice(0, 0, 1, 2)
    m, k, n = sizes[turn:] + sizes[:turn]
    return {"m": m, "k": k, "n": n, "const": draw.flag()}


def _draw_typed(dtype: str) -> Any:
    def draw_typed(draw: Draw) -> Params:
        m, k, n = _bounded(draw, 80, 1024)
        return {"m": m, "k": k, "n": n, "const": draw.flag(), "dtype": dtype}

    return draw_typed


def _draw_batched(draw: Draw) -> Params:
    b, m, k, n = draw.size(2, 64), draw.size(32, 512), draw.size(32, 256), draw.size(32, 512)
    return {"b": b, "m": m, "k": k, "n": n}


def _draw_transposed(draw: Draw) -> Params:
    m, k, n = _bounded(draw, 64, 1536)
    return {"m": m, "k": k, "n": n}


def _mkn(m: int, k: int, n: int, **more: Any) -> Params:
    return {"m": m, "k": k, "n": n, **more}


KINDS = (
    Kind(
        "matmul",
        _matmul,
        (
            _mkn(256, 256, 256),
            _mkn(1024, 1024, 1024),
            _mkn(2048, 2048, 2048),
            _mkn(1024, 1024, 1024, const=True),
            _mkn(1000, 999, 1001),
            _mkn(128, 768, 3072, const=True),
        ),
        _draw_matmul,
        _mkn(5, 7, 9),
    ),
    Kind(
        "skinny",
        _matmul,
        (
            _mkn(16, 1024, 4096, const=True),
            _mkn(8, 768, 768, const=True),
            _mkn(12, 3072, 768, const=True),
            _mkn(64, 784, 512, const=True),
            _mkn(4096, 64, 4096),
            _mkn(2048, 1024, 10, const=True),
        ),
        _draw_skinny,
        _mkn(1, 8, 5, const=True),
    ),
    Kind(
        "matmul_f64",
        _matmul,
        (_mkn(1000, 999, 1001, dtype="float64"),),
        _draw_typed("float64"),
        _mkn(6, 5, 4, dtype="float64"),
    ),
    Kind(
        "matmul_int8",
        _matmul,
        (
            _mkn(512, 512, 512, dtype="int8"),
            _mkn(128, 768, 3072, const=True, dtype="int8"),
            _mkn(128, 768, 3072, dtype="int8"),
        ),
        _draw_typed("int8"),
        _mkn(24, 16, 8, dtype="int8"),
    ),
    Kind(
        "batched",
        _batched,
        ({"b": 12, **_mkn(128, 64, 128)},),
        _draw_batched,
        {"b": 2, **_mkn(3, 4, 5)},
    ),
    Kind(
        "matmul_xwT",
        _right_transposed,
        (_mkn(128, 768, 768, const=True),),
        lambda draw: {**_draw_transposed(draw), "const": draw.flag()},
        _mkn(3, 4, 5),
    ),
    Kind("matmul_xTw", _left_transposed, (_mkn(512, 512, 512),), _draw_transposed, _mkn(3, 4, 5)),
    Kind(
        "gemv_row",
        _row_times_matrix,
        ({"k": 4096, "n": 4096}, {"k": 768, "n": 768}),
        lambda draw: {"k": draw.size(128, 4096), "n": draw.size(128, 4096)},
        {"k": 5, "n": 7},
    ),
    Kind(
        "gemv_column",
        _matrix_times_vector,
        ({"m": 4096, "k": 4096}, {"m": 1000, "k": 777}),
        lambda draw: {"m": draw.size(128, 4096), "k": draw.size(128, 4096)},
        {"m": 5, "k": 7},
    ),
)
