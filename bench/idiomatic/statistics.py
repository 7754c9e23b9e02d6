"""Statistics and distances: products of an array with itself, sums of squares, k-means.

Of a symmetric product, the operations of one triangle are counted.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..workload import Input
from .program import program

__all__: list[str] = []

_TALL = (1500, 300)


@program((300, 300), flops=300 * 301 * 1500, reduction=1500, x=_TALL)
def gram(x: Any) -> Any:
    return x.T @ x


@program((300, 300), flops=300 * 301 * 1500, reduction=1500, scale=1 / 1500, x=_TALL)
def covariance(x: Any) -> Any:
    c = x - x.mean(axis=0)
    return c.T @ c / (len(x) - 1)


@program((300, 300), flops=300 * 301 * 1500, reduction=1500, scale=1 / 1500, x=_TALL)
def correlation(x: Any) -> Any:
    z = (x - x.mean(axis=0)) / x.std(axis=0)
    return z.T @ z / len(x)


@program((400, 400), flops=400 * 401 * 128, reduction=128, scale=4.0, x=(400, 128))
def pairwise_one(x: Any) -> Any:
    squares = (x * x).sum(axis=1)
    return squares[:, None] + squares[None, :] - 2 * (x @ x.T)


@program((400, 500), flops=2 * 400 * 500 * 64, reduction=64, scale=4.0, x=(400, 64), y=(500, 64))
def pairwise_two(x: Any, y: Any) -> Any:
    return np.sqrt(np.maximum((x**2).sum(1)[:, None] - 2 * x @ y.T + (y**2).sum(1)[None, :], 1e-3))


@program((200, 200), reduction=64, scale=4.0, x=(200, 64))
def pairwise_broadcast(x: Any) -> Any:
    return ((x[:, None, :] - x[None, :, :]) ** 2).sum(axis=-1)


@program((512, 512), flops=512 * 513 * 256, reduction=256, scale=1 / 256, x=(512, 256))
def cosine_similarity(x: Any) -> Any:
    unit = x / np.linalg.norm(x, axis=1, keepdims=True)
    return unit @ unit.T


@program((400, 400), flops=400 * 401 * 32, reduction=32, x=(400, 32))
def rbf_kernel(x: Any) -> Any:
    squares = (x * x).sum(axis=1)
    return np.exp(-0.01 * np.maximum(squares[:, None] + squares - 2 * x @ x.T, 0))


@program((2000, 50), scale=0.1, reduction=2000, x=(2000, 50))
def standardise(x: Any) -> Any:
    return (x - x.mean(0)) / (x.std(0) + 1e-6)


@program(
    (16, 32),
    flops=4 * 4096 * 16 * 32,
    reduction=4096,
    strays=0.2,
    x=(4096, 32),
    centres=(16, 32),
)
def k_means_step(x: Any, centres: Any) -> Any:
    distance = (x * x).sum(1)[:, None] - 2 * x @ centres.T + (centres * centres).sum(1)
    member = (distance.argmin(axis=1)[:, None] == np.arange(16)).astype(x.dtype)
    return member.T @ x / np.maximum(member.sum(axis=0), 1)[:, None]


@program((300,), flops=4 * 1500 * 300 * 20, reduction=3000, scale=0.1, x=_TALL, v=(300,))
def power_iteration(x: Any, v: Any) -> Any:
    for _ in range(10):
        v = x.T @ (x @ v)
        v = v / np.sqrt((v * v).sum())
    return v


@program((128,), reduction=4096, scale=1 / 1024, x=(4096, 128), w=(128,), y=(4096,))
def logistic_gradient(x: Any, w: Any, y: Any) -> Any:
    p = 1 / (1 + np.exp(-(x @ w)))
    return x.T @ (p - y) / len(x)


@program((64, 64), flops=64 * 65 * 2048, reduction=2048, x=Input((64, 2048)))
def gram_of_features(x: Any) -> Any:
    return np.einsum("cn,dn->cd", x, x) / x.size
