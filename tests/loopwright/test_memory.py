"""The memory that calls take: sums, lifetimes, and what the process really holds."""

from __future__ import annotations

import os
import subprocess
import sys
from itertools import pairwise
from typing import Any

import loopwright as lw
import numpy as np

W = np.ones((256, 256), np.float32)


def _net(x):
    hidden = np.maximum(x @ W, 0)
    return lw.nn.softmax(hidden @ W) @ W


def test_sums_and_lifetimes() -> None:
    x = np.ones((128, 256), np.float32)
    f = lw.compile(_net, threads=1)
    memory = f.memory(x)
    assert W.nbytes <= memory.weights < 3.5 * W.nbytes, "packed once for each layout"
    assert memory.arguments == memory.results == x.nbytes
    assert memory.lower_bound <= memory.arena == max(b.offset + b.nbytes for b in memory.buffers)
    calls = len(memory.live)
    for n in range(calls):
        alive = [b for b in memory.buffers if b.begin <= n <= b.end]
        assert sum(b.nbytes for b in alive) == memory.live[n]
        alive.sort(key=lambda b: b.offset)
        assert all(a.offset + a.nbytes <= b.offset for a, b in pairwise(alive))
    assert max(memory.live) <= memory.lower_bound
    assert memory.peak == memory.held + memory.arguments + memory.results
    assert {b.kernel for b in memory.buffers} <= {*f.lower(x).built.kernels}


def test_specs_do_for_arguments() -> None:
    assert lw.compile(_net).memory(lw.f32[128, 256]).weights >= W.nbytes


def test_originals_are_what_a_module_still_holds() -> None:
    weights = np.random.default_rng(0).standard_normal((256, 256)).astype(np.float32)
    text = "def @main(%x: Tensor[(64, 256), float32]) { nn.matmul(%x, meta[w]) }"
    f = lw.build(lw.parse(text, constants={"w": weights}))
    assert f.memory().originals < 1.1 * weights.nbytes
    function = lw.compile(lambda x: x @ weights)
    function(np.ones((64, 256), np.float32))
    assert function.memory(lw.f32[64, 256]).originals < 1000


def test_fusion_keeps_no_more_alive_than_operators_one_by_one() -> None:
    def rows(x, a, b, c):
        h = x @ a
        return (h @ a).sum(1) + (h @ b).sum(1) + (h @ c).sum(1) + (h @ x).sum(1)

    memory = lw.compile(rows, threads=1).memory(*[lw.f32[128, 128]] * 4)
    assert memory.arena == memory.lower_bound == 2 * 4 * 128 * 128, "h and one product"


def test_the_text() -> None:
    text = str(lw.compile(_net, threads=1).memory(lw.f32[128, 256]))
    assert text.startswith("_net   ")
    assert "KiB   as the kernels read them" in text
    assert (
        "of the lower bound for these kernels" in text and "arena in use, kernel call 0 to" in text
    )
    assert "first written by" in text and "matmul_maximum" in text
    small = str(lw.compile(lambda x: x + 1).memory(lw.f32[4]))
    assert "0 buffers" in small and "first written by" not in small


_RESIDENT = """
import gc, numpy as np, loopwright as lw

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096

x = np.ones((1024, 2048), np.float32)
lw.compile(lambda x: x @ np.float32(np.eye(8)))(np.ones((8, 8), np.float32))
before = resident()

def make():
    weights = [np.full((2048, 2048), n + 1, np.float32) for n in range(4)]
    def net(x):
        for w in weights:
            x = np.exp(x @ w)
        return x
    f = lw.compile(net, threads=1)
    return f, f(x)

f, result = make()
gc.collect()
after = resident()
memory = f.memory(lw.f32[1024, 2048])
weights = 4 * 2048 * 2048 * 4  # the user's, which the function holds
print(after - before - weights, memory.held + memory.results)
"""


def test_sums_agree_with_the_resident_memory() -> None:
    # By default malloc keeps what was freed once it was as large: 16 MB in three of four runs.
    env = {**os.environ, "MALLOC_MMAP_THRESHOLD_": str(1 << 20)}
    done = subprocess.run(
        [sys.executable, "-c", _RESIDENT], capture_output=True, text=True, timeout=300, env=env
    )
    assert done.returncode == 0, done.stderr
    resident, told = map(int, done.stdout.split())
    assert told > 64e6
    assert abs(resident - told) < 0.25 * told, (resident, told)


def test_the_cost_of_each_line_is_told_without_running() -> None:
    def mlp(x: Any, w: Any) -> Any:
        h = np.maximum(x @ w, 0)
        return h.sum(axis=1)

    cost = lw.compile(mlp, threads=1).lower(lw.f32[64, 128], lw.f32[128, 256]).cost()
    product, total = cost.lines if len(cost.lines) == 2 else (cost.lines[0], None)
    assert product.flops >= 2 * 64 * 128 * 256
    assert product.span is not None and product.span.line and "64 KiB" in str(cost)
    assert total is None or total.nbytes == 4 * (64 * 256 + 64)
    assert str(cost).startswith("mlp   4.2")
