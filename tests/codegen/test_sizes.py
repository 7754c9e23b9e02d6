"""Kernels with symbolic sizes: one code for all values, zero included, beside forbidden pages.

The oracle is the interpreter of nests at the same values.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from compiled import interpret_kernel
from loopwright.codegen.kernel import Kernel, compile_kernel, emit_kernel
from loopwright.codegen.target import ISA_LEVELS, Target
from loopwright.ir.dims import evaluate
from loopwright.ir.loop.evaluate import evaluate_prim
from loopwright.ir.loop.parser import parse_nest, parse_prim
from loopwright.ir.schedule.apply import apply_schedule
from loopwright.ir.schedule.steps import (
    Schedule,
    cache_write,
    compute_at,
    reorder,
    split,
    unroll,
    vectorize,
)
from page_borders import run_at_page_borders

Array = np.ndarray[Any, Any]
HOST = Target.host()
LEVELS = list(ISA_LEVELS)[: list(ISA_LEVELS).index(HOST.isa) + 1]
TARGETS = [*map(HOST.with_isa, LEVELS), replace(HOST, features=frozenset())]

SCALED = """
prim @scaled(x: float32[n]) -> out: float32[n] for n in 0..4096 {
  parallel i.0 in n // 16:
    vectorize i.1 in 16:
      out[16 * i.0 + i.1] = x[16 * i.0 + i.1] * 2.0
  for i.0 in (n % 16) // 4:
    vectorize i.1 in 4:
      out[16 * (n // 16) + 4 * i.0 + i.1] = x[16 * (n // 16) + 4 * i.0 + i.1] * 2.0
  for i.0 in n % 4:
    out[4 * (n // 4) + i.0] = x[4 * (n // 4) + i.0] * 2.0
}
"""
PRODUCT = """
prim @product(a: float32[n, m], b: float32[m, n]) -> out: float32[n, n] for n in 0..99, m in 0..99 {
  parallel i.0 in n // 2:
    for j.0 in n // 8:
      registers acc: float32[2, 8]
      unroll i.1 in 2:
        vectorize j.1 in 8:
          acc[i.1, j.1] = 0.0
      for k in m:
        unroll i.1 in 2:
          vectorize j.1 in 8:
            acc[i.1, j.1] += a[2 * i.0 + i.1, k] * b[k, 8 * j.0 + j.1]
      unroll i.1 in 2:
        vectorize j.1 in 8:
          out[2 * i.0 + i.1, 8 * j.0 + j.1] = acc[i.1, j.1]
    for j.0 in n % 8:
      registers acc: float32[2]
      unroll i.1 in 2:
        acc[i.1] = 0.0
      for k in m:
        unroll i.1 in 2:
          acc[i.1] += a[2 * i.0 + i.1, k] * b[k, 8 * (n // 8) + j.0]
      unroll i.1 in 2:
        out[2 * i.0 + i.1, 8 * (n // 8) + j.0] = acc[i.1]
  for i.0 in n % 2:
    for j in n:
      registers acc: float32[]
      acc[] = 0.0
      for k in m:
        acc[] += a[2 * (n // 2) + i.0, k] * b[k, j]
      out[2 * (n // 2) + i.0, j] = acc[]
}
"""
# Lanes along an axis whose stride is a size, on both sides; a workspace behind another one.
TURNED = """
prim @turned(a: int32[n, m]) -> out: int32[m, n] for n in 0..99, m in 0..99 {
  workspace t: int32[n, m + 1]
  workspace u: int32[n]
  parallel i in n:
    u[i] = 0:int32
    for j in m:
      t[i, j + 1] = a[i, j] * 2:int32
      u[i] += t[i, j + 1]
  for i.0 in n // 4:
    for j.0 in m // 4:
      unroll j.1 in 4:
        vectorize i.1 in 4:
          out[4 * j.0 + j.1, 4 * i.0 + i.1] = t[4 * i.0 + i.1, 4 * j.0 + j.1 + 1]
    for j.0 in m % 4:
      let j = 4 * (m // 4) + j.0
      vectorize i.1 in 4:
        out[j, 4 * i.0 + i.1] = t[4 * i.0 + i.1, j + 1] + u[4 * i.0 + i.1]
  for j.0 in m // 4:
    for i.0 in n % 4:
      let i = 4 * (n // 4) + i.0
      vectorize j.1 in 4:
        out[4 * j.0 + j.1, i] = t[i, 4 * j.0 + j.1 + 1] + u[i]
  for j.0 in m % 4:
    for i.0 in n % 4:
      let i = 4 * (n // 4) + i.0
      let j = 4 * (m // 4) + j.0
      out[j, i] = t[i, j + 1] + u[i]
}
"""
# A fused parallel loop, divided by a size that may be zero; a guard that compares sizes.
FUSED = """
prim @fused(a: float64[n, m]) -> out: float64[m, n] for n in 0..99, m in 0..99 {
  parallel i*j in n * m:
    let i = i*j // m
    let j = i*j % m
    if index(i) < index(m - 3):
      out[j, i] = a[i, j]
    else:
      out[j, i] = where(index(j) >= 2, a[i, j - 2], float64(index(n * m)))
}
"""
CHOSEN = """
prim @chosen(a: int64[n], x: float32[n, m]) -> out: float32[n, m] for n in 0..99, m in 0..99 {
  for i in n:
    for j in m:
      out[i, j] = 0.0
  for i in n:
    at k in n = a[i]:
      for j in m:
        out[k, j] = x[minimum(maximum(a[i], 0), index(n - 1)), j]
}
"""
SORTED = """
prim @sorted(a: int64[n, m]) -> out: int64[n, m] for n in 0..4096, m in 1..4096 {
  for i in n:
    for j in m:
      out[i, j] = a[i, j]
    sort out[i, 0] in m
}
"""


# Vectors of which only the first lanes exist: registers, joins of lanes, strides, bools, doubles.
MASKED = """
prim @masked(x: float32[n], y: float64[n], z: int8[n, 3]) \
-> s: float32[2], t: float64[n, 2], b: bool[n], r: int8[n] for n in 0..99 {
  registers acc: float32[16]
  vectorize l in 16:
    acc[l] = 1.0
  registers last: float32[]
  last[] = 0.5
  for i.0 in (n + 15) // 16:
    vectorize i.1 in min(16, n - 16 * i.0):
      acc[i.1] max= x[16 * i.0 + i.1]
    vectorize i.1 in min(16, n - 16 * i.0):
      last[] += x[16 * i.0 + i.1]
    vectorize i.1 in min(16, n - 16 * i.0):
      t[16 * i.0 + i.1, 0] = y[16 * i.0 + i.1] * 2.0:float64
    vectorize i.1 in min(16, n - 16 * i.0):
      t[16 * i.0 + i.1, 1] = y[n - 16 * i.0 - i.1 - 1]
    vectorize i.1 in min(16, n - 16 * i.0):
      b[16 * i.0 + i.1] = x[16 * i.0 + i.1] > 0.0
    vectorize i.1 in min(16, n - 16 * i.0):
      r[16 * i.0 + i.1] = z[16 * i.0 + i.1, 1] + z[0, 2]
    vectorize i.1 in min(16, n - 16 * i.0):
      r[16 * i.0 + i.1] += z[16 * i.0 + i.1, 0]
  registers total: float32[]
  total[] = 0.0
  vectorize l in 16:
    total[] += acc[l]
  s[0] = total[]
  s[1] = last[]
}
"""


def kernel_of(text: str, target: Target) -> Kernel:
    return emit_kernel(parse_nest(text), target, "k")


def check(text: str, target: Target, sizes: Sequence[int], most: int = 60) -> None:
    kernel = kernel_of(text, target)
    values = dict(zip((s.name for s in kernel.sizes), sizes, strict=True))
    at = kernel.at(values)
    rng = np.random.default_rng(list(sizes))
    inputs = {
        o.buffer.name: rng.integers(-most, most, o.buffer.shape).astype(o.buffer.dtype.numpy)
        for o in at.operands
        if not o.role.writes
    }
    expected = interpret_kernel(at, inputs)
    for found, right in zip(run_at_page_borders(at, target, inputs, False), expected, strict=True):
        np.testing.assert_array_equal(found, right)


@pytest.mark.parametrize("target", TARGETS, ids=lambda t: f"{t.isa}{'+' * bool(t.features)}")
class TestEverySize:
    def test_main_part_and_rests(self, target):
        for n in (0, 1, 3, 4, 15, 16, 17, 37, 100):
            check(SCALED, target, [n])

    def test_carried_registers_pass_a_loop_that_does_not_run(self, target):
        for sizes in ((0, 3), (1, 0), (3, 5), (8, 0), (9, 2), (17, 6)):
            check(PRODUCT, target, sizes)

    def test_strides_between_lanes(self, target):
        for sizes in ((0, 4), (4, 0), (4, 4), (5, 7), (9, 3), (13, 6)):
            check(TURNED, target, sizes)

    def test_masked_lanes(self, target):
        for n in (0, 1, 5, 16, 17, 31, 50):
            check(MASKED, target, [n])

    def test_division_by_a_size(self, target):
        for sizes in ((0, 4), (4, 0), (3, 2), (5, 9)):
            check(FUSED, target, sizes)

    def test_what_data_chooses(self, target):
        for sizes in ((0, 1), (1, 0), (9, 3), (5, 1)):
            check(CHOSEN, target, sizes, most=sizes[0] + 2)

    def test_sort(self, target):
        for sizes in ((0, 1), (1, 1), (3, 70)):
            check(SORTED, target, sizes)


def test_workspace_is_an_expression():
    kernel = kernel_of(TURNED, HOST)
    assert [s.name for s in kernel.sizes] == ["n", "m"]
    for n, m in ((0, 0), (1, 16), (5, 3)):
        rows, sums = 4 * n * (m + 1), 4 * n
        expected = sum(-(-size // 64) * 64 for size in (rows, sums))
        assert evaluate(kernel.workspace_bytes, {"n": n, "m": m}) == expected
        at = kernel.at({"n": n, "m": m})
        assert (at.workspace_bytes, at.size_values, at.sizes) == (expected, (n, m), ())


MATRICES = """
prim @f(x: float32[n, 20], w: float32[20, m]) -> out: float32[n, m] for n in 0..99, m in 0..99 {
  t[i, j]: float32[n, m] = sum(k: 20) x[i, k] * w[k, j]
  out[i, j] = t[i, j] + x[i, 0]
}"""


@pytest.mark.parametrize("isa", LEVELS)
@pytest.mark.parametrize("width", [16, 24])
def test_tiles_that_lack_rows_and_lanes(isa, width):
    target = HOST.with_isa(isa)
    steps = (
        split("i", (9, 6)),
        split("j", (9, width)),
        reorder("i.0", "j.0", "k", "i.1", "j.1"),
        cache_write("t", "registers", "j.0"),
        compute_at("out", "j.0"),
        unroll("i.1"),
        vectorize("j.1"),
    )
    prim = parse_prim(MATRICES)
    kernel = compile_kernel(prim, Schedule.of(*steps), target)
    rng = np.random.default_rng(7)
    for n, m in ((0, 3), (3, 0), (1, 1), (2, 30), (5, 7), (6, 24), (11, 41), (16, 25)):
        inputs = {
            "x": rng.integers(-9, 9, (n, 20)).astype(np.float32),
            "w": rng.integers(-9, 9, (20, m)).astype(np.float32),
        }
        found = run_at_page_borders(kernel.at({"n": n, "m": m}), target, inputs, False)
        np.testing.assert_array_equal(found[0], evaluate_prim(prim, inputs)["out"])


CHANNELS = """
prim @f(x: float32[n, 5], w: float32[5, 16]) -> out: float32[16, n] for n in 0..99 {
  copy[a, b]: float32[n, 5] = x[a, b] + 1.0
  t[j, i]: float32[16, n] = sum(k: 5) copy[i, k] * w[k, j]
  out[c, d] = t[c, d] * 2.0
}"""


@pytest.mark.parametrize("isa", LEVELS)
def test_lanes_a_symbolic_stride_apart_are_transposed(isa):
    target = HOST.with_isa(isa)
    steps = (
        split("i", (9, 12)),
        reorder("i.0", "k", "i.1", "j"),
        cache_write("t", "registers", "i.0"),
        unroll("i.1"),
        vectorize("j"),
        split("b", (1, 5)),
        reorder("a", "b.0", "b.1"),
        vectorize("b.1"),  # lanes of another stage do not keep rests of rows from one pass
    )
    prim = parse_prim(CHANNELS)
    nest = apply_schedule(prim, Schedule.of(*steps))
    assert "min(" in str(nest) and "unroll i.1 in 8" in str(nest)
    kernel = compile_kernel(prim, Schedule.of(*steps), target)
    if target.lanes(4) > 1:
        assert "shufflevector" in kernel.code.text
    rng = np.random.default_rng(7)
    for n in (0, 1, 2, 9, 12, 13, 21, 35):
        inputs = {
            "x": rng.integers(-9, 9, (n, 5)).astype(np.float32),
            "w": rng.integers(-9, 9, (5, 16)).astype(np.float32),
        }
        found = run_at_page_borders(kernel.at({"n": n}), target, inputs, False)
        np.testing.assert_array_equal(found[0], evaluate_prim(prim, inputs)["out"])
