"""Register tiles whose rows are no whole vectors, or whose vectors lie along their first axis."""

from __future__ import annotations

import loopwright as lw
import numpy as np
import pytest
from compiled import run_kernel
from loopwright.codegen.kernel import Kernel, compile_kernel
from loopwright.codegen.target import ISA_LEVELS, Target
from loopwright.driver.pipeline import kernels_of, lower_module
from loopwright.ir.loop.prim import PrimFunc
from loopwright.ir.schedule.steps import (
    Schedule,
    cache_write,
    compute_at,
    reorder,
    rfactor,
    split,
    unroll,
    vectorize,
)

HOST = Target.host()
LEVELS = list(ISA_LEVELS)[: list(ISA_LEVELS).index(HOST.isa) + 1]


def kernel_of(function, *arrays: np.ndarray) -> PrimFunc:
    traced = lw.compile(function).trace(*arrays)
    (prim,) = kernels_of(lower_module(traced.module)).values()
    return prim


@pytest.mark.parametrize("isa", LEVELS)
@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "float32", "float64"])
def test_idle_lanes_are_not_the_next_row(dtype: str, isa: str, rng: np.random.Generator) -> None:
    x, w = rng.integers(-5, 6, (16, 13)).astype(dtype), rng.integers(-5, 6, 13).astype(dtype)
    y = np.array(0.5)
    prim = kernel_of(lambda x, w, y: x @ w - y, x, w, y)
    schedule = Schedule.of(
        split("i", (4, 4)),
        split("k", (3, 6)),
        reorder("i.0", "k.0", "i.1", "k.1"),
        cache_write("t0", "registers", "i.0"),
        compute_at("out", "i.0"),
        rfactor("t0", "k.1"),
        unroll("i.1"),
        vectorize("k.1"),
    )
    target = HOST.with_isa(isa)
    kernel = compile_kernel(prim, schedule, target)
    (found,) = run_kernel(kernel, target, {"x0": x, "x1": w, "x2": y})
    np.testing.assert_array_equal(found, x @ w - y)


def product(vector: str, row: str, a: np.ndarray, b: np.ndarray) -> Kernel:
    """``a.T @ b.T`` with vectors along one axis of the result and rows along the other."""
    prim = kernel_of(lambda a, b: a.T @ b.T, a, b)
    schedule = Schedule.of(
        split(vector, (2, 40)),
        split(row, (7, 5)),
        reorder(f"{vector}.0", f"{row}.0", "k", f"{row}.1", f"{vector}.1"),
        cache_write("out", "registers", f"{row}.0"),
        unroll(f"{row}.1"),
        vectorize(f"{vector}.1"),
    )
    return compile_kernel(prim, schedule, HOST)


@pytest.mark.parametrize(("vector", "row"), [("i", "j"), ("j", "i")])
def test_vectors_along_either_axis_stay_in_registers(
    vector: str, row: str, rng: np.random.Generator
) -> None:
    a = rng.integers(-5, 6, (9, 70 if vector == "i" else 33)).astype(np.float32)
    b = rng.integers(-5, 6, (33 if vector == "i" else 70, 9)).astype(np.float32)
    kernel = product(vector, row, a, b)
    assert "alloca" not in kernel.text
    (found,) = run_kernel(kernel, HOST, {"x0": a, "x1": b})
    np.testing.assert_array_equal(found, a.T @ b.T)


@pytest.mark.parametrize("isa", LEVELS)
@pytest.mark.parametrize("width", [5, 12, 18, 20, 24, 31])
def test_the_last_vector_of_a_row_is_as_short_as_its_elements_allow(
    width: int, isa: str, rng: np.random.Generator
) -> None:
    a = rng.integers(-5, 6, (14, 9)).astype(np.float32)
    b = rng.integers(-5, 6, (9, width)).astype(np.float32)
    schedule = Schedule.of(
        split("i", (2, 7)),
        reorder("i.0", "k", "i.1", "j"),
        cache_write("out", "registers", "i.0"),
        unroll("i.1"),
        vectorize("j"),
    )
    target = HOST.with_isa(isa)
    kernel = compile_kernel(kernel_of(lambda a, b: a @ b, a, b), schedule, target)
    (found,) = run_kernel(kernel, target, {"x0": a, "x1": b})
    np.testing.assert_array_equal(found, a @ b)
    lanes = target.lanes(4)
    if width % lanes and 4 < width % lanes <= lanes // 2:
        assert kernel.text.count(f"<{lanes // 2} x float>") > 0
    if width in (20, 24):  # two vectors of different lengths, each of them full
        assert "llvm.masked." not in kernel.text
