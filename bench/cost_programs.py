"""Programs for what derivatives cost beside the values: the work dominates the call.

Each is a function of an array ``x`` that returns a number; numbers behind its name are the shape.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import loopwright as lw
import numpy as np

__all__ = ["PROGRAMS"]

Program = tuple[Callable[[Any], Any], tuple[int, ...]]

PROGRAMS: dict[str, Program] = {}
"""Functions with the shape of their argument, by name."""

_rng = np.random.default_rng(1)
MATRIX = _rng.standard_normal((256, 256)) / 16
OTHER = _rng.standard_normal((256, 256)) / 16
PLACES = _rng.integers(0, 200_000, 100_000)
ORDER = _rng.permutation(200_000)
LABELS = _rng.integers(0, 256, 1024)
KERNEL = _rng.standard_normal((32, 32, 3, 3)) / 16
DENSE = np.eye(256) * 4 + MATRIX
RAMP = np.linspace(0.5, 1.5, 200_000)


def program(*shape: int) -> Callable[[Any], Any]:
    """Enters a function of an array of this shape."""

    def enter(function: Any) -> Any:
        PROGRAMS[function.__name__] = function, shape
        return function

    return enter


@program(200_000)
def rosenbrock(x: Any) -> Any:
    return (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()


@program(256, 256)
def two_layers(w: Any) -> Any:
    return (np.tanh(np.tanh(MATRIX @ w) @ OTHER) ** 2).sum()


@program(1024, 256)
def cross_entropy(z: Any) -> Any:
    z = z - z.max(axis=1, keepdims=True)
    logs = z - np.log(np.exp(z).sum(axis=1, keepdims=True))
    return -np.take_along_axis(logs, LABELS[:, None], axis=1).mean()


@program(1024, 256)
def log_sum_exp(z: Any) -> Any:
    return np.logaddexp.reduce(z, axis=1).sum()


@program(600)
def pairwise(x: Any) -> Any:
    d = x[:, None] - x[None, :]
    return np.exp(-(d * d)).sum() + np.sqrt(d * d + 1).mean()


@program(512, 32)
def distances(x: Any) -> Any:
    return ((x[:, None] - x[None]) ** 2).sum(axis=-1).max(axis=1).sum()


@program(200_000)
def polynomial(x: Any) -> Any:
    y = x * 0
    for c in (1.0, -0.5, 0.25, 2.0, 0.75, -0.3):
        y = y * x + c
    return y.sum()


@program(100_000)
def elementary(x: Any) -> Any:
    parts = np.sin(x) * np.exp(-x) + np.log1p(x * x) * np.arctan(x)
    return (parts + np.sinh(x / 2) * np.cbrt(x) + np.hypot(x, 2.0)).sum()


@program(200_000)
def powers(x: Any) -> Any:
    return (x**1.5 + x**2.7 * np.sqrt(x)).sum()


@program(200_000)
def choices(x: Any) -> Any:
    y = np.where(x > 1, x**2, np.sin(x))
    return (np.maximum(y, 0.5) * np.minimum(x, 1.1) + np.clip(x, 0.7, 1.2)).sum()


@program(200_000)
def views(x: Any) -> Any:
    y = np.concatenate([x[::2], x[::-2]])
    z = np.stack([y, np.cos(y)], axis=1)
    return (z[1:] * np.exp(z[:-1])).sum()


@program(200_000)
def gathered(x: Any) -> Any:
    return (np.exp(x[PLACES]) * x[PLACES[::-1]]).sum()


@program(200_000)
def permuted(x: Any) -> Any:
    return (np.sin(x[ORDER]) * x).sum()


@program(200_000)
def updated(x: Any) -> Any:
    y = np.sin(x)
    y[:50_000] = y[50_000:100_000] * x[:50_000]
    y[100_000:] += np.exp(x[100_000:])
    return (y * y).sum()


@program(200_000)
def running_sums(x: Any) -> Any:
    return (np.cumsum(x) * RAMP).sum() + np.log(np.cumsum(x * x)).sum()


@program(512, 256)
def spread(x: Any) -> Any:
    return x.std(axis=0).sum() + x.var(axis=1).sum()


@program(512, 64)
def products_of_rows(x: Any) -> Any:
    return np.log(np.prod(np.abs(x) + 0.5, axis=1)).sum()


@program(100_000)
def ordered(x: Any) -> Any:
    return (np.sort(x) * RAMP[:100_000]).sum()


@program(256, 256)
def chain_of_products(x: Any) -> Any:
    return (x @ MATRIX @ x.T @ OTHER).sum()


@program(64, 32, 32)
def contraction(x: Any) -> Any:
    return (np.einsum("bij,bjk,bkl->bil", x, np.cos(x), x) ** 2).sum()


@program(600)
def outer_products(x: Any) -> Any:
    return np.tanh(np.outer(x, x)).sum() + (np.outer(x, np.sin(x)) @ x).sum()


@program(256, 64)
def equations(b: Any) -> Any:
    return np.sin(np.linalg.solve(DENSE, b)).sum()


@program(192, 192)
def determinant(x: Any) -> Any:
    return np.linalg.slogdet(x + 20 * np.eye(192))[1]


@program(192, 192)
def inverse(x: Any) -> Any:
    return (np.linalg.inv(x + 20 * np.eye(192)) ** 2).sum()


@program(192, 192)
def cholesky(x: Any) -> Any:
    return np.linalg.cholesky(x @ x.T + 20 * np.eye(192)).sum()


@program(64, 64)
def eigenvalues(x: Any) -> Any:
    return (np.linalg.eigvalsh(x + x.T) ** 3).sum()


@program(128, 512)
def recurrence(x: Any) -> Any:
    def step(h: Any, v: Any) -> Any:
        h = np.tanh(h * v + 0.1)
        return h, h * h

    last, rows = lw.scan(step, x[0], x)
    return last.sum() + rows.sum()


@program(20_000)
def euler(x: Any) -> Any:
    return lw.fori_loop(0, 40, lambda i, y: y + 0.01 * (np.sin(y) * x - y * y), x).sum()


@program(20_000)
def pendulum(x: Any) -> Any:
    angle, speed = x[:10_000], x[10_000:]
    for _ in range(25):
        speed = speed - 0.05 * np.sin(angle)
        angle = angle + 0.05 * speed
    return (angle**2 + speed**2).sum()


@program(256, 256)
def diffusion(x: Any) -> Any:
    def step(i: Any, u: Any) -> Any:
        inner = u[1:-1, 1:-1]
        around = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:]
        u = u.copy()
        u[1:-1, 1:-1] = inner + 0.1 * (around - 4 * inner)
        return u

    return (lw.fori_loop(0, 20, step, x) ** 2).sum()


@program(256)
def matrix_steps(x: Any) -> Any:
    return (lw.fori_loop(0, 50, lambda i, y: np.tanh(MATRIX @ y), x) ** 2).sum()


@program(20_000)
def branch_in_loop(x: Any) -> Any:
    def step(i: Any, y: Any) -> Any:
        return lw.cond(y[0] > 1, lambda v: v * 0.5 + x, lambda v: np.exp(v * 0.1) * x, y)

    return lw.fori_loop(0, 20, step, x).sum()


@program(100_000)
def complex_numbers(x: Any) -> Any:
    z = x[:50_000] + 1j * x[50_000:]
    return (np.abs(z * z + 1) ** 2).sum() + (z * np.conj(z[::-1])).real.sum() + np.exp(z).imag.sum()


@program(65_536)
def spectrum(x: Any) -> Any:
    return (np.abs(np.fft.rfft(x)) ** 2).sum()


@program(4, 32, 28, 28)
def convolution(x: Any) -> Any:
    return (lw.nn.relu(lw.nn.conv2d(x, KERNEL, padding=1)) ** 2).sum()


@program(32, 32, 3, 3)
def kernel_of_convolution(k: Any) -> Any:
    image = np.resize(RAMP, (4, 32, 28, 28))
    return (lw.nn.relu(lw.nn.conv2d(image, k, padding=1)) ** 2).sum()


@program(8, 32, 28, 28)
def pooling(x: Any) -> Any:
    return (lw.nn.max_pool2d(x, 2, strides=2) ** 2).sum() + lw.nn.avg_pool2d(x, 2, strides=2).sum()


@program(1024, 256)
def layer_norm(x: Any) -> Any:
    return np.sin(lw.nn.layer_norm(x, RAMP[:256], RAMP[256:512])).sum()


@program(8, 128, 32)
def attention(x: Any) -> Any:
    scores = lw.nn.softmax(x @ x.swapaxes(-1, -2) / 6, axis=-1)
    return ((scores @ x) ** 2).sum()


@program(512, 256)
def gelu(x: Any) -> Any:
    return (lw.nn.gelu(x @ MATRIX) @ OTHER).sum()


@program(16, 32, 28, 28)
def batch_norm(x: Any) -> Any:
    centred = x - x.mean(axis=(0, 2, 3), keepdims=True)
    variance = (centred**2).mean(axis=(0, 2, 3), keepdims=True)
    return (lw.nn.relu(centred / np.sqrt(variance + 1e-5)) ** 2).sum()
