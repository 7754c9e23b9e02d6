"""Joining, looking up, and constants made inside of the program."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..workload import Input
from .program import program

__all__: list[str] = []

_IDS = Input((512,), "int64", below=5000)


@program((256, 1536), x=(256, 512), y=(256, 512), z=(256, 512))
def concatenate_three(x: Any, y: Any, z: Any) -> Any:
    return np.concatenate([x, y, z], axis=1)


@program((512, 256), x=(128, 256), y=(256, 256), z=(128, 256))
def concatenate_activated(x: Any, y: Any, z: Any) -> Any:
    return np.tanh(np.concatenate([x, y * 2, z + 1], axis=0))


@program((1 << 18,), x=(1 << 17,), y=(1 << 16,), z=(1 << 16,))
def concatenate_vectors(x: Any, y: Any, z: Any) -> Any:
    return np.concatenate([x, y, z])


@program((16, 40, 100), x=(16, 40, 20), y=(16, 40, 30), z=(16, 40, 50))
def concatenate_last(x: Any, y: Any, z: Any) -> Any:
    return np.concatenate([x, y, z], axis=-1)


@program((300, 200, 3), r=(300, 200), g=(300, 200), b=(300, 200))
def stack_channels(r: Any, g: Any, b: Any) -> Any:
    return np.stack([r, g, b], axis=-1)


@program((200, 300, 3), dtype="uint8", x=Input((200, 300, 3), "uint8", below=256))
def reversed_channels(x: Any) -> Any:
    return 255 - np.flip(x, axis=-1)


@program((204, 304), x=(200, 300))
def rolled_and_padded(x: Any) -> Any:
    return np.pad(np.roll(x, (100, 150), axis=(0, 1)), 2, mode="reflect")


@program((128, 200), x=(128, 100), y=(128, 60), z=(128, 40))
def side_by_side(x: Any, y: Any, z: Any) -> Any:
    return np.hstack([x, y, z])


@program((512, 256), ids=_IDS, table=Input((5000, 256), constant=True))
def embedding(ids: Any, table: Any) -> Any:
    return np.take(table, ids, axis=0) * 16


@program(
    (512, 128),
    flops=2 * 512 * 128 * 1000,
    ids=Input((512,), "int64", below=1000),
    table=Input((1000, 128), constant=True),
)
def one_hot_product(ids: Any, table: Any) -> Any:
    return (ids[:, None] == np.arange(1000)).astype(table.dtype) @ table


@program((512, 256), reduction=2, x=(512, 256))
def positional_encoding(x: Any) -> Any:
    length, width = x.shape
    angle = np.arange(length)[:, None] / 10000 ** (np.arange(0, width, 2) / width)
    table = np.stack([np.sin(angle), np.cos(angle)], axis=-1).reshape(length, width)
    return x + table.astype(x.dtype)


@program((256, 256), reduction=2, x=(256, 256))
def regularised(x: Any) -> Any:
    return 0.5 * (x + x.T) + 1e-3 * np.eye(256, dtype=x.dtype)


@program((512,), reduction=512, x=(512, 512))
def windowed_power(x: Any) -> Any:
    window = (0.5 - 0.5 * np.cos(2 * np.pi * np.arange(512) / 511)).astype(x.dtype)
    return ((x * window) ** 2).sum(axis=1) / (window**2).sum()


@program((256, 256), x=(256, 256))
def lower_triangle_mean(x: Any) -> Any:
    i = np.arange(256)
    return np.where(i[:, None] >= i, x / (i[:, None] + 1).astype(x.dtype), 0)


@program((128, 1024), reduction=128, x=(128, 1024))
def prefix_sums(x: Any) -> Any:
    return np.tri(128, dtype=x.dtype) @ x
