"""Normalisation and softmax, in plain NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..workload import Input
from .program import program

__all__: list[str] = []


def _weight(*shape: int) -> Input:
    return Input(shape, constant=True)


@program(
    (4, 64, 28, 28), reduction=6272, scale=1e-3, x=(4, 64, 28, 28), g=_weight(64), b=_weight(64)
)
def group_norm(x: Any, g: Any, b: Any) -> Any:
    parts = x.reshape(x.shape[0], 8, -1)
    mean = parts.mean(axis=-1, keepdims=True)
    var = parts.var(axis=-1, keepdims=True)
    normal = ((parts - mean) / np.sqrt(var + 1e-5)).reshape(x.shape)
    return normal * g[:, None, None] + b[:, None, None]


@program((8, 32, 32, 32), reduction=1024, scale=1e-2, x=(8, 32, 32, 32))
def instance_norm(x: Any) -> Any:
    mean = x.mean(axis=(2, 3), keepdims=True)
    var = ((x - mean) ** 2).mean(axis=(2, 3), keepdims=True)
    return (x - mean) / np.sqrt(var + 1e-5)


@program(
    (32, 64, 14, 14),
    reduction=6272,
    scale=1e-3,
    x=(32, 64, 14, 14),
    g=_weight(1, 64, 1, 1),
    b=_weight(1, 64, 1, 1),
)
def batch_norm_training(x: Any, g: Any, b: Any) -> Any:
    mean = x.mean(axis=(0, 2, 3), keepdims=True)
    var = x.var(axis=(0, 2, 3), keepdims=True)
    return (x - mean) / np.sqrt(var + 1e-5) * g + b


@program((512, 768), reduction=768, scale=1e-2, x=(512, 768), g=_weight(768))
def rms_norm(x: Any, g: Any) -> Any:
    return x * g / np.sqrt(np.mean(np.square(x), axis=-1, keepdims=True) + 1e-6)


@program(
    (512, 768),
    reduction=768,
    scale=1e-2,
    x=(512, 768),
    r=(512, 768),
    g=_weight(768),
    b=_weight(768),
)
def residual_layer_norm(x: Any, r: Any, g: Any, b: Any) -> Any:
    h = x + r
    centred = h - h.mean(axis=-1, keepdims=True)
    return centred / np.sqrt((centred * centred).mean(axis=-1, keepdims=True) + 1e-5) * g + b


@program((2, 56, 56, 96), reduction=96, scale=0.1, x=(2, 56, 56, 96), g=_weight(96), b=_weight(96))
def layer_norm_channels_last(x: Any, g: Any, b: Any) -> Any:
    mean, var = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
    return (x - mean) / np.sqrt(var + 1e-6) * g + b


@program((2, 96, 56, 56), reduction=96, scale=0.1, x=(2, 96, 56, 56), g=_weight(96), b=_weight(96))
def layer_norm_channels_first(x: Any, g: Any, b: Any) -> Any:
    mean = x.mean(axis=1, keepdims=True)
    var = ((x - mean) ** 2).mean(axis=1, keepdims=True)
    return (x - mean) / np.sqrt(var + 1e-6) * g[:, None, None] + b[:, None, None]


@program((32, 30522), reduction=30522, scale=1e-5, x=(32, 30522))
def softmax_wide(x: Any) -> Any:
    e = np.exp(x - np.max(x, axis=-1, keepdims=True))
    return e / np.sum(e, axis=-1, keepdims=True)


@program((4096, 91), reduction=91, x=(4096, 91))
def log_softmax_91(x: Any) -> Any:
    shifted = x - x.max(axis=-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))


@program((256, 1000), reduction=1000, scale=1e-2, x=(256, 1000))
def softmax_temperature_top(x: Any) -> Any:
    z = x / 0.7
    z = np.where(z > z.max(axis=-1, keepdims=True) - 3, z, -np.inf)
    e = np.exp(z - z.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


@program((512, 1024), reduction=512, scale=0.1, x=(512, 1024))
def softmax_columns(x: Any) -> Any:
    e = np.exp(x - x.max(axis=0))
    return e / e.sum(axis=0)


@program((512, 1024), reduction=1024, x=(512, 1024))
def l2_normalise(x: Any) -> Any:
    return x / np.maximum(np.sqrt((x**2).sum(axis=1, keepdims=True)), 1e-12)
