"""The price of ``precision="reproducible"``: the time of programs over that by standard precision.

    python -m bench.reproducible                    eleven programs, on all cores
    python -m bench.reproducible --threads 1 --rounds 9 attention softmax

Both forms of a program run in this process, by their default schedules, alternately; of the rounds
the median ratio counts. The bar: at most 15 % in the geometric mean. The exit status is 1 if it is
missed.
"""

from __future__ import annotations

import argparse
import math
import os
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import loopwright as lw
import numpy as np

from .lock import MachineLock

__all__ = ["PROGRAMS", "main"]

BAR = 1.15
RNG = np.random.default_rng(0)
Array = np.ndarray[Any, Any]


def _numbers(*shape: int) -> Array:
    return (RNG.standard_normal(shape) / math.sqrt(shape[0])).astype(np.float32)


def _mlp(x: Any, w1: Any, w2: Any, w3: Any) -> Any:
    return np.maximum(np.maximum(x @ w1, 0) @ w2, 0) @ w3


def _conv_net(x: Any, w1: Any, w2: Any, w3: Any) -> Any:
    x = lw.nn.relu(lw.nn.conv2d(x, w1, padding=1))
    x = lw.nn.max_pool2d(lw.nn.relu(lw.nn.conv2d(x, w2, padding=1)), 2)
    return lw.nn.relu(lw.nn.conv2d(x, w3, padding=1)).mean(axis=(2, 3))


def _attention(q: Any, k: Any, v: Any) -> Any:
    return lw.nn.softmax(q @ np.swapaxes(k, -1, -2) * 0.125, axis=-1) @ v


def _layer_norm(x: Any) -> Any:
    centred = x - x.mean(axis=-1, keepdims=True)
    return centred / np.sqrt((centred**2).mean(axis=-1, keepdims=True) + 1e-5)


def _gru(x: Any, h: Any, w: Any, u: Any) -> Any:
    size = h.shape[-1]
    for t in range(x.shape[0]):
        given, kept = x[t] @ w, h @ u
        z = lw.nn.sigmoid(given[:, :size] + kept[:, :size])
        r = lw.nn.sigmoid(given[:, size : 2 * size] + kept[:, size : 2 * size])
        h = z * h + (1 - z) * np.tanh(given[:, 2 * size :] + r * kept[:, 2 * size :])
    return h


Program = tuple[Callable[..., Any], Sequence[Array]]

PROGRAMS: dict[str, Program] = {
    "mlp": (_mlp, [_numbers(64, 784), _numbers(784, 512), _numbers(512, 256), _numbers(256, 10)]),
    "conv net": (
        _conv_net,
        [_numbers(4, 16, 48, 48)]
        + [_numbers(*s) for s in ((32, 16, 3, 3), (64, 32, 3, 3), (64, 64, 3, 3))],
    ),
    "attention": (_attention, [_numbers(1, 8, 256, 64) for _ in range(3)]),
    "softmax": (lambda x: lw.nn.softmax(x, axis=-1), [_numbers(512, 1000)]),
    "layer norm": (_layer_norm, [_numbers(512, 768)]),
    "sum": (lambda x: x.sum(), [_numbers(1000, 1000)]),
    "row sums": (lambda x: x.sum(axis=1), [_numbers(1000, 1000)]),
    "gru": (
        _gru,
        [_numbers(12, 16, 128), _numbers(16, 128), _numbers(128, 384), _numbers(128, 384)],
    ),
    "matmul 1": (lambda x, w: x @ w, [_numbers(1, 1024), _numbers(1024, 1024)]),
    "matmul 64": (lambda x, w: x @ w, [_numbers(64, 1024), _numbers(1024, 1024)]),
    "x @ w.T 64": (lambda x, w: x @ w.T, [_numbers(64, 512), _numbers(512, 512)]),
}


def _seconds(call: Callable[..., Any], arguments: Sequence[Array], spent: float) -> float:
    """The least time of a call among those that fill ``spent`` seconds."""
    best, end = math.inf, time.perf_counter() + spent
    while time.perf_counter() < end:
        begun = time.perf_counter()
        call(*arguments)
        best = min(best, time.perf_counter() - begun)
    return best


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="bench.reproducible")
    parser.add_argument("programs", nargs="*", help=", ".join(PROGRAMS))
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.2, help="of each form in a round")
    given = parser.parse_args(argv)
    ratios: list[float] = []
    print("| program | standard, ms | reproducible, ms | price |\n|---|---|---|---|")
    for name in given.programs or PROGRAMS:
        function, arguments = PROGRAMS[name]
        forms = [
            lw.compile(function, precision=precision, threads=given.threads)
            for precision in ("standard", "reproducible")
        ]
        for form in forms:
            form(*arguments)
        with MachineLock():
            rounds = [
                [_seconds(form, arguments, given.seconds) for form in forms]
                for _ in range(given.rounds)
            ]
        ratio = statistics.median(after / before for before, after in rounds)
        before, after = (1e3 * statistics.median(each) for each in zip(*rounds, strict=True))
        print(f"| {name} | {before:.4g} | {after:.4g} | {100 * (ratio - 1):+.0f} % |", flush=True)
        ratios.append(ratio)
    mean = math.exp(statistics.fmean(map(math.log, ratios)))
    print(f"geometric mean {mean:.3f}, bar {BAR}: {'met' if mean <= BAR else 'MISSED'}")
    return int(mean > BAR)


if __name__ == "__main__":
    sys.exit(main())
