"""Images: convolutions, pooling, blurs, and changes of layout between them."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..workload import Input
from .program import program

__all__: list[str] = []


def _weight(*shape: int) -> Input:
    return Input(shape, constant=True)


@program((1, 64, 56, 56), x=(1, 64, 56, 56))
def max_pool_13(F: Any, x: Any) -> Any:
    return F.max_pool(x, kernel=13, stride=1, padding=6)


@program((1, 256, 20, 20), x=(1, 64, 20, 20))
def pooling_pyramid(F: Any, x: Any) -> Any:
    levels = [F.max_pool(x, kernel=k, stride=1, padding=k // 2) for k in (5, 9, 13)]
    return np.concatenate([x, *levels], axis=1)


@program((1, 64, 14, 14), x=(1, 64, 56, 56))
def pooling_by_reshape(x: Any) -> Any:
    return x.reshape(1, 64, 14, 4, 14, 4).max(axis=(3, 5))


_CONVNEXT = 56 * 56 * 96


@program(
    (1, 96, 56, 56),
    flops=2 * _CONVNEXT * (49 + 8 * 96),
    reduction=384,
    scale=30.0,
    x=(1, 96, 56, 56),
    depthwise=_weight(96, 1, 7, 7),
    g=_weight(96),
    b=_weight(96),
    wide=_weight(96, 384),
    narrow=_weight(384, 96),
)
def convnext_block(F: Any, x: Any, depthwise: Any, g: Any, b: Any, wide: Any, narrow: Any) -> Any:
    h = F.conv2d(x, depthwise, padding=3, groups=96).transpose(0, 2, 3, 1)
    h = F.layer_norm(h, g, b) @ (wide / 10)
    h = F.gelu(h) @ (narrow / 20)
    return x + h.transpose(0, 3, 1, 2)


@program(
    (1, 56, 56, 96),
    flops=2 * _CONVNEXT * (49 + 8 * 96),
    reduction=384,
    scale=30.0,
    x=(1, 56, 56, 96),
    depthwise=_weight(96, 1, 7, 7),
    g=_weight(96),
    b=_weight(96),
    wide=_weight(96, 384),
    narrow=_weight(384, 96),
)
def convnext_block_channels_last(
    F: Any, x: Any, depthwise: Any, g: Any, b: Any, wide: Any, narrow: Any
) -> Any:
    h = F.conv2d(x.transpose(0, 3, 1, 2), depthwise, padding=3, groups=96).transpose(0, 2, 3, 1)
    mean, var = h.mean(-1, keepdims=True), h.var(-1, keepdims=True)
    h = ((h - mean) / np.sqrt(var + 1e-6) * g + b) @ (wide / 10)
    return x + F.gelu(h) @ (narrow / 20)


@program(
    (1, 40, 28, 28),
    flops=2 * 784 * 120 * (40 + 25 + 40),
    reduction=120,
    scale=4.0,
    x=(1, 40, 28, 28),
    expand=_weight(120, 40, 1, 1),
    depthwise=_weight(120, 1, 5, 5),
    squeeze=_weight(120, 32),
    excite=_weight(32, 120),
    project=_weight(40, 120, 1, 1),
)
def inverted_residual(
    F: Any, x: Any, expand: Any, depthwise: Any, squeeze: Any, excite: Any, project: Any
) -> Any:
    h = _hard_swish(F.conv2d(x, expand / 6, padding=0))
    h = _hard_swish(F.conv2d(h, depthwise / 5, padding=2, groups=120))
    s = np.maximum(h.mean(axis=(2, 3)) @ (squeeze / 11), 0)
    s = np.clip(s @ (excite / 6) + 3, 0, 6) / 6
    return x + F.conv2d(h * s[:, :, None, None], project / 11, padding=0)


def _hard_swish(x: Any) -> Any:
    return x * np.clip(x + 3, 0, 6) / 6


@program(
    (1, 24, 64, 64),
    flops=2 * 4096 * 9 * 24 * (72 + 24),
    reduction=648,
    scale=4.0,
    deep=(1, 48, 32, 32),
    skip=(1, 24, 64, 64),
    w=_weight(24, 72, 3, 3),
    v=_weight(24, 24, 3, 3),
)
def unet_level(F: Any, deep: Any, skip: Any, w: Any, v: Any) -> Any:
    up = np.repeat(np.repeat(deep, 2, axis=2), 2, axis=3)
    h = F.relu(F.conv2d(np.concatenate([up, skip], axis=1), w / 25, padding=1))
    return F.relu(F.conv2d(h, v / 15, padding=1))


@program(
    (1, 56, 56, 96), flops=2 * _CONVNEXT * 9, reduction=9, x=(1, 56, 56, 96), w=_weight(96, 1, 3, 3)
)
def depthwise_channels_last(F: Any, x: Any, w: Any) -> Any:
    h = F.conv2d(x.transpose(0, 3, 1, 2), w, padding=1, groups=96)
    return F.relu(h.transpose(0, 2, 3, 1))


@program(
    (1, 16, 112, 112),
    flops=2 * 112 * 112 * 16 * 75,
    reduction=75,
    x=(1, 3, 224, 224),
    w=_weight(16, 3, 5, 5),
)
def stem_5x5(F: Any, x: Any, w: Any) -> Any:
    return F.relu(F.conv2d(x, w, padding=2, stride=2))


@program(
    (4, 32, 56, 56),
    flops=2 * 4 * 56 * 56 * 32 * 144,
    reduction=144,
    x=(4, 16, 112, 112),
    w=_weight(32, 16, 3, 3),
)
def strided_3x3_batch(F: Any, x: Any, w: Any) -> Any:
    return F.conv2d(x, w, padding=1, stride=2)


@program((512, 512), reduction=25, x=(512, 512))
def gaussian_blur(x: Any) -> Any:
    weights = [1 / 16, 4 / 16, 6 / 16, 4 / 16, 1 / 16]
    padded = np.pad(x, ((2, 2), (0, 0)), mode="edge")
    rows = sum(w * padded[k : k + 512] for k, w in enumerate(weights))
    padded = np.pad(rows, ((0, 0), (2, 2)), mode="edge")
    return sum(w * padded[:, k : k + 512] for k, w in enumerate(weights))


@program((510, 510), reduction=25, x=(512, 512))
def sobel(x: Any) -> Any:
    gx = (x[:-2, 2:] + 2 * x[1:-1, 2:] + x[2:, 2:]) - (x[:-2, :-2] + 2 * x[1:-1, :-2] + x[2:, :-2])
    gy = (x[2:, :-2] + 2 * x[2:, 1:-1] + x[2:, 2:]) - (x[:-2, :-2] + 2 * x[:-2, 1:-1] + x[:-2, 2:])
    return np.sqrt(gx * gx + gy * gy)


@program((3, 224, 224), reduction=4, x=Input((224, 224, 3), "int32", below=256), mean=_weight(3))
def image_to_tensor(x: Any, mean: Any) -> Any:
    return ((x.astype(np.float32) / 255 - mean) / 0.25).transpose(2, 0, 1)


@program((196, 768), flops=2 * 196 * 768 * 768, reduction=768, x=(3, 224, 224), w=_weight(768, 768))
def patch_embedding(x: Any, w: Any) -> Any:
    patches = x.reshape(3, 14, 16, 14, 16).transpose(1, 3, 0, 2, 4).reshape(196, 768)
    return patches @ w


@program((1, 32, 112, 112), x=(1, 32, 56, 56))
def upsample_nearest(x: Any) -> Any:
    return np.repeat(np.repeat(x, 2, axis=2), 2, axis=3)


@program((512, 512), reduction=25, x=(512, 512))
def heat_steps(x: Any) -> Any:
    for _ in range(4):
        around = np.roll(x, 1, 0) + np.roll(x, -1, 0) + np.roll(x, 1, 1) + np.roll(x, -1, 1)
        x = x + 0.1 * (around - 4 * x)
    return x


@program((1, 48, 56, 56), reduction=4, x=(1, 96, 56, 56))
def gated_channels(x: Any) -> Any:
    left, right = np.split(x, 2, axis=1)
    return left / (1 + np.exp(-right))
