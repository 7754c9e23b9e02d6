"""Small programs of every family, whose kernels the gate is tried on.

Sizes are odd on purpose: splits leave rests, rows do not fill vectors. They are small, so that an
interpreter can say what a mutant computes.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import loopwright as lw
import numpy as np
from loopwright.codegen.target import Target
from loopwright.driver.pipeline import called_kernels, lower_module, preferences_of
from loopwright.ir.loop.prim import PrimFunc

__all__ = ["PROGRAMS", "all_prims", "prims_of"]

_RNG = np.random.default_rng(5)


def _weights(*shape: int, dtype: str = "float32") -> np.ndarray[Any, Any]:
    return (_RNG.random(shape) - 0.5).astype(dtype)


_W, _B = _weights(37, 29), _weights(29)
_K3, _KD, _K1 = _weights(3, 3, 5, 11), _weights(3, 3, 1, 13), _weights(1, 1, 6, 9)
_GAMMA, _BETA = _weights(35), _weights(35)
_BYTES = _RNG.integers(-9, 10, (21, 19)).astype(np.int8)


def _conv(x: Any, w: Any, **more: Any) -> Any:
    return lw.nn.conv2d(x, w, data_layout="NHWC", kernel_layout="HWIO", **more)


def _wide(x: Any, dtype: Any) -> Any:
    return x.astype(dtype)


def _attention(q: Any, k: Any, v: Any) -> Any:
    return lw.nn.softmax(q @ k.swapaxes(-1, -2) * 0.3) @ v


f32, f64, i8, i32 = lw.f32, lw.f64, lw.i8, lw.i32

PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "matmul_relu": (lambda x: np.maximum(x @ _W + _B, 0), (f32[23, 37],)),
    "matmul_gelu": (lambda x, y: lw.nn.gelu(x @ y), (f32[17, 26], f32[26, 33])),
    "batched": (lambda x, y: x @ y, (f32[3, 11, 18], f32[3, 18, 21])),
    "transposed": (lambda x, y: x.T @ y.T, (f32[31, 14], f32[25, 31])),
    "gemv": (lambda x, y: x @ y, (f32[45, 67], f32[67])),
    "matmul_f64": (lambda x, y: x @ y, (f64[19, 22], f64[22, 27])),
    "matmul_int8": (lambda x: _wide(x, np.int32) @ _BYTES.astype(np.int32), (i8[18, 21],)),
    "conv3x3": (lambda x: _conv(x, _K3, padding=1), (f32[1, 9, 11, 5],)),
    "conv_strided": (lambda x: _conv(x, _K3, strides=2, padding=1), (f32[1, 11, 13, 5],)),
    "conv1x1": (lambda x: np.maximum(_conv(x, _K1), 0), (f32[1, 7, 9, 6],)),
    "depthwise": (lambda x: _conv(x, _KD, padding=1, groups=13), (f32[1, 8, 9, 13],)),
    "max_pool": (
        lambda x: lw.nn.max_pool2d(x, 3, strides=2, padding=1, layout="NHWC"),
        (f32[1, 11, 13, 7],),
    ),
    "avg_pool": (lambda x: lw.nn.avg_pool2d(x, 2, layout="NHWC"), (f32[1, 10, 12, 9],)),
    "softmax": (lambda x: lw.nn.softmax(x), (f32[19, 45],)),
    "softmax_axis0": (lambda x: lw.nn.softmax(x, axis=0), (f32[21, 34],)),
    "layer_norm": (lambda x: lw.nn.layer_norm(x, _GAMMA, _BETA), (f32[13, 35],)),
    "row_sums": (lambda x: x.sum(-1), (f32[29, 61],)),
    "column_sums": (lambda x: x.sum(0), (f32[43, 37],)),
    "whole_sum": (lambda x: x.sum(), (f32[33, 41],)),
    "variance": (lambda x: x.var(-1), (f64[15, 39],)),
    "row_maxima": (lambda x: x.max(-1), (f32[11, 83],)),
    "column_minima": (lambda x: x.min(0), (f32[47, 23],)),
    "argmax": (lambda x: np.argmax(x, -1), (f32[27, 53],)),
    "any_all": (lambda x: (x > 0.9).any(-1), (f32[31, 21],)),
    "int_sums": (lambda x: x.sum(-1), (i32[17, 51],)),
    "chain": (lambda x, y: np.tanh(x * y + 1.0) * np.exp(-x), (f32[37, 29], f32[37, 29])),
    "broadcast": (lambda x, y: (x - y) / (1.5 + y * y), (f32[23, 31], f32[31])),
    "compare": (lambda x, y: np.where(x > y, x, y * 0.5), (f32[41, 19], f32[41, 19])),
    "transpose": (lambda x: x.transpose(2, 0, 1) * 2.0, (f32[9, 13, 17],)),
    "join": (lambda x, y: np.concatenate([x, y * 2.0], 1), (f32[15, 17], f32[15, 24])),
    "pad": (lambda x: np.pad(x, 2) + 1.0, (f32[21, 18],)),
    "strided": (lambda x: x[1::2, ::-1] + x[:-1:2], (f32[31, 27],)),
    "gather": (lambda x, at: np.take(x, at, axis=0, mode="clip"), (f32[120, 15], i32[33])),
    "attention": (_attention, (f32[2, 13, 8], f32[2, 17, 8], f32[2, 17, 8])),
}  # fmt: skip


@cache
def prims_of(name: str) -> tuple[PrimFunc, ...]:
    """The kernels of a program, on the machine this runs on."""
    function, specs = PROGRAMS[name]
    module = lw.compile(function).trace(*specs).module
    lowered = lower_module(module, preferences_of(None, Target.host()))
    return tuple(called_kernels(lowered))


def all_prims() -> list[PrimFunc]:
    """All kernels of all programs, each once."""
    found = {str(prim): prim for name in PROGRAMS for prim in prims_of(name)}
    return list(found.values())
