"""Convolutions and poolings of images (NCHW), with the sizes of known networks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..workload import Input, Workload
from .kind import Draw, Kind, Params, workload

__all__ = ["KINDS"]

_FLOPS = 5e9  # of a drawn convolution


def _conv(
    c: int,
    size: int,
    out: int,
    kernel: int = 3,
    stride: int = 1,
    dilation: int = 1,
    groups: int = 1,
    batch: int = 1,
    width: int | None = None,
) -> Workload:
    """``c`` channels of ``size`` rows (and columns, if no ``width`` is given) to ``out``."""
    width = width or size
    pad = dilation * (kernel // 2)

    def body(F: Any, x: Any, w: Any) -> Any:
        return F.conv2d(x, w, padding=pad, stride=stride, dilation=dilation, groups=groups)

    rows, columns = (_extent(s, dilation * (kernel - 1) + 1, stride, pad) for s in (size, width))
    depth = c // groups * kernel * kernel
    single = c == groups > 1
    named = f"dwconv_{c}x{size}" if single else f"conv_{c}x{size}"
    named += f"x{width}" if width != size else ""
    named += f"_k{kernel}"
    named += f"s{stride}" if stride > 1 else ""
    named += f"d{dilation}" if dilation > 1 else ""
    if not single:
        named += f"_{out}" + (f"_g{groups}" if groups > 1 else "")
    named += f"_n{batch}" if batch > 1 else ""
    return workload(
        named,
        "depthwise" if single else "conv 1x1" if kernel == 1 else "conv",
        body,
        {
            "x": Input((batch, c, size, width)),
            "w": Input((out, c // groups, kernel, kernel), constant=True),
        },
        (batch, out, rows, columns),
        flops=2 * batch * out * rows * columns * depth,
        reduction=depth,
        need=1.5 if single else 3.0,
    )


def _extent(size: int, window: int, stride: int, pad: int) -> int:
    return (size + 2 * pad - window) // stride + 1


def _pool(op: str, c: int, size: int, kernel: int = 0, stride: int = 1, pad: int = 0) -> Workload:
    """``op`` is max, avg, or one of them over the whole image if ``kernel`` is 0."""

    def body(F: Any, x: Any) -> Any:
        if kernel == 0:
            return F.global_avg_pool(x) if op == "avg" else F.global_max_pool(x)
        call = F.avg_pool if op == "avg" else F.max_pool
        return call(x, kernel=kernel, stride=stride, padding=pad)

    rows = _extent(size, kernel, stride, pad) if kernel else 1
    named = f"{op}pool_{c}x{size}" + (f"_k{kernel}s{stride}" if kernel else "_global")
    terms = (kernel or size) ** 2
    more = {"reduction": terms, "scale": 1 / terms} if op == "avg" else {}
    shape = (1, c, rows, rows)
    return workload(named, "pooling", body, {"x": Input((1, c, size, size))}, shape, **more)


def _c(c: int, size: int, out: int, kernel: int = 3, **more: int) -> Params:
    return {"c": c, "size": size, "out": out, "kernel": kernel, **more}


def _flops(p: Mapping[str, int]) -> float:
    pixels = p["size"] * p.get("width", p["size"]) / p.get("stride", 1) ** 2
    depth = p["c"] // p.get("groups", 1) * p["kernel"] ** 2
    return 2.0 * p.get("batch", 1) * p["out"] * pixels * depth


def _draw_conv(draw: Draw) -> Params:
    while True:
        p = _c(draw.size(16, 512), draw.size(7, 112), draw.size(8, 512), draw.choice(3, 3, 3, 5, 7))
        p = {**p, "stride": draw.choice(1, 1, 1, 2), "batch": draw.choice(1, 1, 1, 2, 4, 8)}
        p = {**p, "width": draw.choice(p["size"], p["size"], draw.size(7, 112))}
        if 1e7 <= _flops(p) <= _FLOPS:
            return p


def _draw_grouped(draw: Draw) -> Params:
    each, groups = draw.choice(4, 8, 16, 32), draw.choice(2, 4, 8, 32)
    c = each * groups
    return _c(c, draw.size(7, 56), c, groups=groups, stride=draw.choice(1, 1, 2))


def _draw_dilated(draw: Draw) -> Params:
    sizes = draw.size(32, 256), draw.size(14, 56), draw.size(32, 256)
    return _c(*sizes, dilation=draw.choice(2, 2, 4))


def _draw_first(draw: Draw) -> Params:
    kernel, stride = draw.choice((7, 2), (3, 2), (3, 1), (11, 4), (5, 2))
    out = draw.choice(16, 24, 32, 48, 64)
    p = _c(draw.choice(1, 3, 3, 3), draw.size(96, 256), out, kernel, stride=stride)
    return {**p, "batch": draw.choice(1, 1, 4)}


def _draw_1x1(draw: Draw) -> Params:
    while True:
        p = _c(draw.size(16, 2048), draw.size(7, 112), draw.size(16, 2048), 1)
        p = {**p, "stride": draw.choice(1, 1, 1, 2), "batch": draw.choice(1, 1, 1, 4)}
        if 1e7 <= _flops(p) <= _FLOPS / 5:
            return p


def _draw_depthwise(draw: Draw) -> Params:
    batch = draw.choice(1, 1, 4)
    while True:
        c, size = draw.size(16, 1152), draw.size(7, 112)
        if 4 * batch * c * size * size <= 8e6:
            break
    p = _c(c, size, c, draw.choice(3, 3, 5, 5, 7), groups=c)
    return {**p, "stride": draw.choice(1, 1, 2), "batch": batch}


def _draw_pool(draw: Draw) -> Params:
    op, c, size = draw.choice("max", "avg"), draw.size(16, 1024), draw.size(7, 112)
    while 4 * c * size * size > 8e6:
        c, size = draw.size(16, 1024), draw.size(7, 112)
    kernel, stride, pad = draw.choice((3, 2, 1), (2, 2, 0), (3, 1, 1), (5, 1, 2), (0, 1, 0))
    return {"op": op, "c": c, "size": size, "kernel": kernel, "stride": stride, "pad": pad}


def _p(op: str, c: int, size: int, kernel: int = 0, stride: int = 1, pad: int = 0) -> Params:
    return {"op": op, "c": c, "size": size, "kernel": kernel, "stride": stride, "pad": pad}


KINDS = (
    Kind(
        "conv",
        _conv,
        (
            _c(64, 56, 64),
            _c(128, 28, 128),
            _c(256, 14, 256),
            _c(512, 7, 512),
            _c(64, 224, 64),
            _c(512, 14, 512),
            _c(64, 56, 128, stride=2),
            _c(16, 112, 32, stride=2, batch=4),
            _c(24, 56, 40, 5, stride=2),
            _c(24, 28, 24, 7, batch=2),
            _c(48, 28, 56),
        ),
        _draw_conv,
        _c(4, 7, 8, stride=2, width=6, batch=2),
    ),
    Kind(
        "conv_dilated",
        _conv,
        (_c(128, 28, 128, dilation=2), _c(40, 28, 24, dilation=2)),
        _draw_dilated,
        _c(4, 8, 4, dilation=2),
    ),
    Kind(
        "conv_grouped",
        _conv,
        (_c(128, 56, 128, groups=32), _c(64, 56, 64, stride=2, groups=4)),
        _draw_grouped,
        _c(8, 6, 8, groups=2),
    ),
    Kind(
        "conv_first",
        _conv,
        (
            _c(3, 224, 64, 7, stride=2),
            _c(3, 224, 32, stride=2),
            _c(3, 224, 64),
            _c(3, 224, 16, 5, stride=2),
            _c(1, 96, 24, 5, stride=2),
        ),
        _draw_first,
        _c(3, 12, 8, 7, stride=2),
    ),
    Kind(
        "conv_1x1",
        _conv,
        (
            _c(256, 56, 64, 1),
            _c(64, 56, 256, 1),
            _c(1024, 14, 256, 1),
            _c(512, 7, 2048, 1),
            _c(256, 56, 512, 1, stride=2),
            _c(24, 56, 72, 1),
            _c(64, 56, 40, 1, stride=2, batch=2),
        ),
        _draw_1x1,
        _c(8, 5, 4, 1),
    ),
    Kind(
        "depthwise",
        _conv,
        (
            _c(32, 112, 32, groups=32),
            _c(192, 28, 192, groups=192),
            _c(144, 56, 144, groups=144, stride=2),
            _c(576, 14, 576, groups=576, stride=2),
            _c(240, 14, 240, 5, groups=240),
            _c(960, 7, 960, 5, groups=960),
            _c(96, 56, 96, 7, groups=96),
            _c(72, 28, 72, 5, groups=72, stride=2, batch=2),
        ),
        _draw_depthwise,
        _c(8, 7, 8, 5, groups=8, stride=2),
    ),
    Kind(
        "pooling",
        _pool,
        (
            _p("max", 64, 112, 3, 2, 1),
            _p("max", 256, 28, 2, 2),
            _p("avg", 192, 28, 3, 1, 1),
            _p("avg", 2048, 7),
        ),
        _draw_pool,
        _p("avg", 4, 7, 3, 2, 1),
    ),
)
