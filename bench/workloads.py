"""What is measured. A workload is written once, in terms of a namespace ``F`` (namespaces.py)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["WORKLOADS", "Workload", "limit_seconds"]


@dataclass(frozen=True, slots=True)
class Workload:
    """``body(F, *arrays)`` computes it; arrays named in ``constants`` are known when compiling.

    ``flops`` counts multiplications and additions of contractions only; where memory is the limit
    it is 0. ``read`` and ``written`` are the bytes that must be moved at least.
    """

    name: str
    shapes: dict[str, tuple[int, ...]]
    body: Callable[..., Any]
    flops: int
    read: int
    written: int
    constants: frozenset[str] = frozenset()

    def arrays(self) -> dict[str, np.ndarray[Any, Any]]:
        """Random float32 inputs, the same in every process."""
        rng = np.random.default_rng(1)
        return {
            name: rng.standard_normal(shape, dtype=np.float32)
            for name, shape in self.shapes.items()
        }


def _workload(
    name: str,
    body: Callable[..., Any],
    out: tuple[int, ...],
    *,
    flops: int = 0,
    constants: tuple[str, ...] = (),
    **shapes: tuple[int, ...],
) -> Workload:
    read = 4 * sum(int(np.prod(s)) for s in shapes.values())
    written = 4 * int(np.prod(out))
    return Workload(name, shapes, body, flops, read, written, frozenset(constants))


def _matmul(name: str, m: int, k: int, n: int, *constants: str) -> Workload:
    return _workload(
        name,
        lambda F, x, w: F.matmul(x, w),
        (m, n),
        flops=2 * m * k * n,
        constants=constants,
        x=(m, k),
        w=(k, n),
    )


def _conv(name: str, c: int, size: int, out: int, kernel: int) -> Workload:
    return _workload(
        name,
        lambda F, x, w: F.conv2d(x, w, padding=kernel // 2),
        (1, out, size, size),
        flops=2 * size * size * out * c * kernel * kernel,
        constants=("w",),
        x=(1, c, size, size),
        w=(out, c, kernel, kernel),
    )


def _chain(name: str, n: int) -> Workload:
    return _workload(
        name,
        lambda F, x, y: F.sqrt(x * x + y * y) * F.exp(-x) + F.tanh(y),
        (n,),
        x=(n,),
        y=(n,),
    )


def _all() -> list[Workload]:
    return [
        _matmul("matmul_256", 256, 256, 256),
        _matmul("matmul_1024", 1024, 1024, 1024),
        _matmul("matmul_1024_w", 1024, 1024, 1024, "w"),
        _conv("conv_64x56_k3_64", 64, 56, 64, 3),
        _workload("softmax_4096x1024", lambda F, x: F.softmax(x), (4096, 1024), x=(4096, 1024)),
        _workload(
            "layernorm_512x768",
            lambda F, x, gamma, beta: F.layer_norm(x, gamma, beta),
            (512, 768),
            constants=("gamma", "beta"),
            x=(512, 768),
            gamma=(768,),
            beta=(768,),
        ),
        _workload("gelu_tanh_1M", lambda F, x: F.gelu_tanh(x), (1 << 20,), x=(1 << 20,)),
        _chain("chain_1M", 1 << 20),
        _chain("chain_16M", 1 << 24),
        _workload("rowsum_4096x4096", lambda F, x: F.sum(x, 1), (4096,), x=(4096, 4096)),
        _workload(
            "transpose_add_2048",
            lambda F, x, y: F.transpose(x) + y,
            (2048, 2048),
            x=(2048, 2048),
            y=(2048, 2048),
        ),
    ]


WORKLOADS: dict[str, Workload] = {w.name: w for w in _all()}


def limit_seconds(workload: Workload, machine: Any, target: Any, threads: int) -> tuple[float, str]:
    """The least time this machine could need, and what sets it: "flops" or a memory level.

    ``machine`` is a MachineModel, ``target`` a Target. Data is taken to sit in the smallest level
    that holds all of it.
    """
    size = workload.read + workload.written
    sizes = {"l1": target.l1 * threads, "l2": target.l2 * threads, "l3": target.l3}
    level = next((name for name, room in sizes.items() if size <= 0.75 * room), "dram")
    writes = 4 * workload.written > workload.read
    memory = size / machine.bandwidth(level, threads, writes=writes)
    compute = workload.flops / machine.peak_flops(threads)
    return (compute, "flops") if compute >= memory else (memory, level)
