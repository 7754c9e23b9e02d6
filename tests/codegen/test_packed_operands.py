"""Products whose operands are packed at run time, at sizes that nothing divides."""

from __future__ import annotations

import numpy as np
import pytest
from compiled import run_kernel
from hypothesis import given, settings
from hypothesis import strategies as st
from loopwright.codegen.kernel import compile_kernel
from loopwright.codegen.target import ISA_LEVELS, Target
from loopwright.ir.loop.parser import parse_prim
from loopwright.ir.schedule.steps import (
    Schedule,
    cache_write,
    pack,
    parallel,
    prefetch,
    reorder,
    split,
    unroll,
    vectorize,
)

HOST = Target.host()
LEVELS = list(ISA_LEVELS)[: list(ISA_LEVELS).index(HOST.isa) + 1]
TRANSPOSED = [(False, False), (False, True), (True, False), (True, True)]


@given(
    st.sampled_from(LEVELS),
    st.sampled_from(["float32", "float64", "int32", "int8"]),
    st.sampled_from(TRANSPOSED),
    st.tuples(st.integers(1, 40), st.integers(1, 70), st.integers(1, 100)),
    st.tuples(st.integers(1, 9), st.integers(1, 50)),
)
@settings(max_examples=60, deadline=None)
def test_both_operands_packed(isa, dtype, transposed, sizes, tile):
    (m, k, n), (rows, width) = sizes, tile
    left, right = transposed
    prim = parse_prim(
        f"prim @f(x: {dtype}[{k if left else m}, {m if left else k}], "
        f"w: {dtype}[{n if right else k}, {k if right else n}]) -> out: {dtype}[{m}, {n}] {{"
        f" out[i, j] = sum(k: {k}) x[{'k, i' if left else 'i, k'}]"
        f" * w[{'j, k' if right else 'k, j'}] }}"
    )
    schedule = Schedule.of(
        pack("w", "j", width),
        pack("x", "i", rows),
        split("j", (-(-n // width), width)),
        split("i", (-(-m // rows), rows)),
        reorder("j.0", "i.0", "k", "i.1", "j.1"),
        cache_write("out", "registers", "i.0"),
        unroll("i.1"),
        vectorize("j.1"),
        parallel("j.0"),
    )
    rng = np.random.default_rng(1)
    x = rng.integers(-2, 3, (k, m) if left else (m, k)).astype(dtype)
    w = rng.integers(-2, 3, (n, k) if right else (k, n)).astype(dtype)
    target = HOST.with_isa(isa)
    (found,) = run_kernel(compile_kernel(prim, schedule, target), target, {"x": x, "w": w})
    np.testing.assert_array_equal(found, (x.T if left else x) @ (w.T if right else w))


@pytest.mark.parametrize("isa", LEVELS)
@pytest.mark.parametrize("sizes", [(300, 45), (45, 300), (1000, 200)])
@pytest.mark.parametrize("transposed", [False, True])
def test_an_operand_packed_by_several_threads(isa, sizes, transposed, rng):
    k, n = sizes
    shape, place = ((n, k), "j, k") if transposed else ((k, n), "k, j")
    prim = parse_prim(
        f"prim @f(w: float32[{shape[0]}, {shape[1]}]) -> out: float32[{n}] {{"
        f" out[j] = sum(k: {k}) w[{place}] }}"
    )
    w = rng.integers(-9, 10, shape).astype(np.float32)
    target = HOST.with_isa(isa)
    schedule = Schedule.of(pack("w", "j", 48), split("j", (-(-n // 48), 48)), parallel("j.0"))
    (found,) = run_kernel(compile_kernel(prim, schedule, target), target, {"w": w})
    np.testing.assert_array_equal(found, w.sum(1 if transposed else 0))


@pytest.mark.parametrize("isa", LEVELS)
def test_packed_columns_are_transposed_in_registers(isa):
    """Columns are loaded as vectors, also where a panel is no whole number of them."""
    prim = parse_prim(
        "prim @f(w: float32[60, 64]) -> out: float32[60] { out[j] = sum(k: 64) w[j, k] }"
    )
    text = compile_kernel(prim, Schedule.of(pack("w", "j", 12)), HOST.with_isa(isa)).text
    lanes = HOST.with_isa(isa).lanes(4)
    assert f"= load <{lanes} x float>" in text
    assert "insertelement" not in text


@pytest.mark.parametrize("isa", LEVELS)
def test_lines_asked_for_early(isa, rng):
    """One hint per cache line in a turn, however many rows use it, and also past the end."""
    prim = parse_prim(
        "prim @f(x: float32[4, 9], w: float32[9, 64]) -> out: float32[4, 64] {"
        " out[i, j] = sum(k: 9) x[i, k] * w[k, j] }"
    )
    schedule = Schedule.of(
        reorder("k", "i", "j"),
        prefetch("out", "w", "k", 1000),
        unroll("i"),
        vectorize("j"),
    )
    target = HOST.with_isa(isa)
    kernel = compile_kernel(prim, schedule, target)
    assert kernel.text.count("call void @llvm.prefetch") == 4
    x, w = (rng.integers(-9, 10, s).astype(np.float32) for s in ((4, 9), (9, 64)))
    (found,) = run_kernel(kernel, target, {"x": x, "w": w})
    np.testing.assert_array_equal(found, x @ w)
