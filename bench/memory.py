"""Memory kept by compiling and tuning: ``python -m bench.memory resnet18 gpt2 --budget 20s``.

Each program runs in a process of its own. Columns, in MB:

::

    weights   the constants of the program, held by the user throughout
    packed    the constants of the compiled program, in the layouts that its kernels read
    held      what the process holds more after the compile than before it, without garbage
    compile   the peak of the compile above what the process held before it
    tune      the peak over all processes while it is tuned, the interpreters and weights included

Memory is proportional set size: a page that n processes share counts 1/n in each. Bars: held at
most 1.3 x packed, tune at most 3 x weights + 600 MB.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import loopwright as lw
import numpy as np

from .lock import MachineLock

__all__ = ["main"]

Array = np.ndarray[Any, Any]
_MB = 1e6
_INTERVAL = 0.05
"""Seconds between two samples of the memory of all processes."""


class Weights:
    """Random weights on demand, scaled so that activations keep their size."""

    def __init__(self, seed: int = 0) -> None:
        self.rng = np.random.default_rng(seed)
        self.arrays: list[Array] = []

    def __call__(self, *shape: int, fan_in: int | None = None) -> Array:
        made = self.rng.standard_normal(shape, np.float32)
        made *= np.float32((fan_in or shape[0]) ** -0.5)
        self.arrays.append(made)
        return made

    @property
    def nbytes(self) -> int:
        return sum(a.nbytes for a in self.arrays)


def resnet18(weights: Weights) -> tuple[Callable[..., Any], tuple[Array, ...]]:
    """Eighteen layers of convolutions at 224 x 224, batch normalisation folded: 47 MB."""

    def kernel(out: int, into: int, size: int) -> Array:
        return weights(out, into, size, size, fan_in=into * size * size)

    stem = kernel(64, 3, 7)
    blocks: list[tuple[Array, Array, Array | None, int]] = []
    into = 64
    for out in (64, 128, 256, 512):
        for step in range(2):
            stride = 2 if step == 0 and out != 64 else 1
            short = kernel(out, into, 1) if stride == 2 else None
            blocks.append((kernel(out, into, 3), kernel(out, out, 3), short, stride))
            into = out
    dense = weights(512, 1000)

    def forward(x):
        x = lw.nn.relu(lw.nn.conv2d(x, stem, strides=2, padding=3))
        x = lw.nn.max_pool2d(x, 3, strides=2, padding=1)
        for first, second, short, stride in blocks:
            y = lw.nn.relu(lw.nn.conv2d(x, first, strides=stride, padding=1))
            y = lw.nn.conv2d(y, second, padding=1)
            if short is not None:
                x = lw.nn.conv2d(x, short, strides=stride)
            x = lw.nn.relu(x + y)
        return x.mean(axis=(2, 3)) @ dense

    return forward, (weights.rng.standard_normal((1, 3, 224, 224), np.float32),)


def gpt2(weights: Weights) -> tuple[Callable[..., Any], tuple[Array, ...]]:
    """Twelve decoder blocks on 64 tokens with the vocabulary of GPT-2: 498 MB."""
    tokens, width, heads, vocabulary = 64, 768, 12, 50257
    embedding, positions = weights(vocabulary, width, fan_in=width), weights(1024, width)
    layers = [
        (
            weights(width, 3 * width),
            weights(width, width),
            weights(width, 4 * width),
            weights(4 * width, width),
        )
        for _ in range(12)
    ]
    mask = np.triu(np.full((tokens, tokens), -np.inf, np.float32), 1)

    def forward(ids):
        x = lw.xp.take(embedding, ids, axis=0) + positions[:tokens]
        for packed, out, up, down in layers:
            qkv = (lw.nn.layer_norm(x) @ packed).reshape(tokens, 3, heads, -1)
            q, k, v = (qkv[:, i].transpose(1, 0, 2) for i in range(3))
            scores = lw.nn.softmax(q @ k.transpose(0, 2, 1) * np.float32(0.125) + mask)
            x = x + (scores @ v).transpose(1, 0, 2).reshape(tokens, width) @ out
            x = x + lw.nn.gelu(lw.nn.layer_norm(x) @ up, "tanh") @ down
        return lw.nn.layer_norm(x) @ embedding.T

    return forward, (weights.rng.integers(0, vocabulary, tokens),)


PROGRAMS = {"resnet18": resnet18, "gpt2": gpt2}


def _tree(pid: int) -> list[int]:
    """``pid`` and all that descend from it. One that is about to start another program is still
    its parent, memory included."""
    found = [pid]
    for task in Path(f"/proc/{pid}/task").glob("*"):
        with suppress(OSError):
            for child in (task / "children").read_text().split():
                if _command(int(child)) != _command(pid):
                    found += _tree(int(child))
    return found


def _command(pid: int) -> bytes:
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    return b""


def _held(pid: int) -> int:
    """The proportional set size of a process in bytes; 0 if there is none."""
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return 1024 * int(line.split()[1])
    return 0


class Peak:
    """The largest sum over this process and its descendants while the body runs."""

    def __init__(self) -> None:
        self.bytes = 0
        self.parts: list[int] = []
        self._done = threading.Event()

    def __enter__(self) -> Peak:
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._done.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._done.wait(_INTERVAL):
            parts = [_held(pid) for pid in _tree(os.getpid())]
            if sum(parts) > self.bytes:
                self.bytes, self.parts = sum(parts), parts


def measure(name: str, budget: str, threads: int) -> dict[str, Any]:
    """The figures of one program, in bytes; to be called in a fresh process."""
    weights = Weights()
    function, args = PROGRAMS[name](weights)
    compiled = lw.compile(function, threads=threads)
    lw.compile(lambda x: x + 1, threads=threads)(np.zeros(4, np.float32))  # LLVM is there
    gc.collect()
    before = _held(os.getpid())
    with Peak() as compiling:
        begun = time.perf_counter()
        compiled(*args)
        seconds = time.perf_counter() - begun
    gc.collect()
    held = _held(os.getpid()) - before
    built = next(iter(compiled._known.values())).built
    packed = sum(c.value.nbytes for c in built.parts.program.constants)
    with Peak() as tuning:
        compiled.tune(*args, budget=budget)
    return {
        "weights": weights.nbytes,
        "packed": packed,
        "held": held,
        "compile": compiling.bytes - before,
        "tune": tuning.bytes,
        "parts": tuning.parts,
        "seconds": seconds,
    }


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.memory", description=__doc__)
    parser.add_argument("programs", nargs="*", default=list(PROGRAMS), metavar="PROGRAM")
    parser.add_argument("--budget", default="20s")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        sys.stdout.write(json.dumps(measure(options.programs[0], options.budget, options.threads)))
        return 0
    print("program     weights  packed    held       compile    tune     bar")
    with MachineLock():
        for name in options.programs:
            command = [sys.executable, "-m", "bench.memory", name, "--child"]
            command += ["--budget", options.budget, "--threads", str(options.threads)]
            child = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True)
            f = json.loads(child.stdout)
            bar = 3 * f["weights"] + 600 * _MB
            print(
                f"{name:10}{f['weights'] / _MB:9.0f}{f['packed'] / _MB:8.0f}{f['held'] / _MB:8.0f}"
                f" {f['held'] / f['packed']:.2f}x{f['compile'] / _MB:9.0f}{f['tune'] / _MB:8.0f}"
                f"{bar / _MB:8.0f}   {' '.join(f'{p / _MB:.0f}' for p in f['parts'])}",
                f" compiled in {f['seconds']:.1f} s",
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
