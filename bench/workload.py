"""A workload: what is measured, written once in terms of a namespace ``F`` (namespaces/)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from loopwright.ir.dtype import dtype_of
from loopwright.ir.tolerance import tolerance

from .namespaces.of_numpy import Numpy

__all__ = ["Array", "Input", "Workload", "limit_seconds", "wrongness"]

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Input:
    """An argument. ``constant``: a model knows it when it is compiled, as it knows its weights.

    Floats are drawn from the normal distribution, or evenly from ``span``; integers from all of
    int8, and where ``below`` is given from ``0 .. below - 1``: they are indices.
    """

    shape: tuple[int, ...]
    dtype: str = "float32"
    constant: bool = False
    below: int = 0
    span: tuple[float, float] | None = None

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * np.dtype(self.dtype).itemsize

    def draw(self, rng: np.random.Generator) -> Array:
        """A random value."""
        if self.dtype in ("float32", "float64"):
            if self.span is not None:
                return rng.uniform(*self.span, self.shape).astype(self.dtype)
            return rng.standard_normal(self.shape, dtype=np.dtype(self.dtype).type)
        low, high = (0, self.below) if self.below else (-127, 128)
        return rng.integers(low, high, self.shape).astype(self.dtype)


@dataclass(frozen=True, slots=True)
class Workload:
    """``body(F, *arrays)`` computes it from ``inputs``, in their order.

    ``flops`` counts multiplications and additions of contractions only; where memory is the limit
    it is 0. ``read`` and ``written`` are the bytes that must be moved at least. A result sums
    ``reduction`` terms of the size ``scale``, which says how exact it has to be. ``need`` is how
    much there is to find by tuning, beside an elementwise operator: its share of the time for it.
    ``strays`` is the share of the elements that may be anything: those that a comparison sends
    elsewhere where its operands differ by rounding. ``kind`` and ``params`` make the same workload
    again, in another process.
    """

    name: str
    family: str
    inputs: Mapping[str, Input]
    body: Callable[..., Any]
    read: int
    written: int
    flops: int = 0
    reduction: int = 0
    scale: float = 1.0
    strays: float = 0.0
    need: float = 1.0
    result_dtype: str = "float32"
    kind: str = ""
    params: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def arrays(self) -> dict[str, Array]:
        """Random inputs, the same in every process."""
        rng = np.random.default_rng(1)
        return {name: given.draw(rng) for name, given in self.inputs.items()}

    @property
    def constants(self) -> frozenset[str]:
        """Names of the inputs that are known when compiling."""
        return frozenset(name for name, given in self.inputs.items() if given.constant)

    @property
    def dtype(self) -> str:
        """The dtype of the first input: what the operator works on."""
        return next(iter(self.inputs.values())).dtype

    def expected(self) -> Array:
        """The result by NumPy, in float64 (integers as they are)."""
        arrays = self.arrays().values()
        wide = [a.astype(np.float64) if a.dtype.kind == "f" else a for a in arrays]
        return np.asarray(self.body(Numpy(), *wide))


def wrongness(workload: Workload, got: Array, expected: Array) -> float:
    """Distance of a result from the expected one, in tolerances: at most 1 where it is right.

    Infinite for a wrong shape, for NaN, and for integers that differ.
    """
    if got.shape != expected.shape:
        return math.inf
    if expected.dtype.kind != "f":
        return 0.0 if np.array_equal(got, expected) else math.inf
    allowed = tolerance(dtype_of(workload.result_dtype), workload.reduction, scale=workload.scale)
    with np.errstate(all="ignore"):
        off = np.abs(got - expected) / (allowed.atol + allowed.rtol * np.abs(expected))
    kept = off.size - int(workload.strays * off.size)
    worst = float(np.sort(off, axis=None)[:kept].max(initial=0.0))
    return math.inf if math.isnan(worst) else worst


def limit_seconds(workload: Workload, machine: Any, target: Any, threads: int) -> tuple[float, str]:
    """The least time this machine could need, and what sets it: "flops" or a memory level.

    ``machine`` is a MachineModel, ``target`` a Target. Data is taken to sit in the smallest level
    that holds all of it. Products of bytes count at the rate of the best instruction for them.
    """
    size = workload.read + workload.written
    sizes = {"l1": target.l1 * threads, "l2": target.l2 * threads, "l3": target.l3}
    level = next((name for name, room in sizes.items() if size <= 0.75 * room), "dram")
    writes = 4 * workload.written > workload.read
    memory = size / machine.bandwidth(level, threads, writes=writes)
    peak = machine.peak_flops(threads, np.dtype(workload.dtype).itemsize)
    if workload.dtype == "int8":
        peak *= target.byte_products
    compute = workload.flops / peak
    return (compute, "flops") if compute >= memory else (memory, level)
