"""Every lane of a register tile is what the loop nest says, however vectors lie in it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import loopwright as lw
import numpy as np
import pytest
from compiled import run_kernel
from loopwright.codegen.kernel import compile_kernel
from loopwright.codegen.target import Target
from loopwright.ir.loop.evaluate import evaluate_prim
from loopwright.ir.loop.parser import parse_prim
from loopwright.ir.loop.prim import PrimFunc
from loopwright.ir.schedule.steps import (
    Schedule,
    cache_write,
    compute_at,
    pack_at,
    pack_grouped,
    parallel,
    reorder,
    rfactor,
    split,
    unroll,
    vectorize,
)

HOST = Target.host()
TARGETS = [HOST, HOST.with_isa("x86-64"), replace(HOST, features=frozenset())]
if HOST.isa == "x86-64-v4":
    TARGETS.append(HOST.with_isa("x86-64-v3"))

ROWS = """
prim @rows(x: int32[5, 192]) -> out: int32[5, 192] {
  m[i]: int32[5] = max(k: 192) x[i, k]
  e[i, j]: int32[5, 192] = (x[i, j] - m[i]) * 3:int32
  s[i]: int32[5] = sum(r: 192) e[i, r]
  out[i, j] = e[i, j] - s[i]
}"""
TOTAL = "prim @f(x: int64[7, 64]) -> out: int64[7] {\n  out[i] = sum(k: 64) x[i, k]\n}"


TILES = [(32, 4), (33, 4), (33, 5), (16, 8)]
GROUPS = [(2, 4, 4), (8, 1, 4), (3, 3, 4)]
ORDERS = [("i", "k.0"), ("k.0", "i")]
PRODUCTS = [
    (ORDERS[(i + j) % 2], groups, tile)
    for i, tile in enumerate(TILES)
    for j, groups in enumerate(GROUPS)
]
"""All pairs of an order, groups and a tile with its group, in half as many cases as there are."""


def rows_schedule(columns: tuple[int, int], reduced: tuple[int, int]) -> Schedule:
    return Schedule.of(
        split("i", (5, 1)),
        split("k", reduced),
        split("j", columns),
        split("r", reduced),
        reorder("i.0", "k.0", "j.0", "r.0", "i.1", "k.1", "j.1", "r.1"),
        cache_write("m", "registers", "i.0"),
        cache_write("s", "registers", "i.0"),
        compute_at("e", "i.0"),
        compute_at("s", "i.0"),
        compute_at("out", "i.0"),
        rfactor("m", "k.1"),
        rfactor("s", "r.1"),
        *(unroll(loop) for loop in ("j.0", "k.0", "r.0", "i.1")),
        *(vectorize(loop) for loop in ("k.1", "j.1", "r.1")),
    )


def check(prim: PrimFunc, schedule: Schedule, target: Target) -> None:
    kernel = compile_kernel(prim, schedule, target)
    rng = np.random.default_rng(1)
    inputs = {
        p.name: rng.integers(-90, 90, [int(str(n)) for n in p.shape]).astype(p.dtype.numpy)
        for p in prim.params
    }
    expected = evaluate_prim(prim, inputs)
    for name, found in zip(prim.outputs, run_kernel(kernel, target, inputs), strict=True):
        np.testing.assert_array_equal(found, expected[name])


@pytest.mark.parametrize("target", TARGETS, ids=lambda t: f"{t.isa}{'+' * bool(t.features)}")
class TestLanes:
    def test_joined_by_the_turns_of_an_unrolled_loop(self, target):
        steps = Schedule.of(split("k", (16, 4)), unroll("k.1"), vectorize("k.0"))
        check(parse_prim(TOTAL), steps, target)

    def test_joined_into_the_accumulators_of_another_loop(self, target):
        steps = Schedule.of(
            split("k", (2, 32)),
            cache_write("out", "registers", "i"),
            rfactor("out", "k.1"),
            vectorize("k.0"),
            unroll("k.1"),
        )
        check(parse_prim(TOTAL), steps, target)

    @pytest.mark.parametrize("rows", [2, 4, 8])
    @pytest.mark.parametrize("dtype", ["int64", "float32", "float64", "int16"])
    @pytest.mark.parametrize("combiner", ["sum", "max"])
    def test_rows_joined_at_once_are_those_joined_alone(self, target, rows, dtype, combiner):
        prim = parse_prim(
            f"prim @f(x: {dtype}[32, 48], y: {dtype}[32]) -> out: {dtype}[32] {{\n"
            f"  t[i]: {dtype}[32] = {combiner}(k: 48) x[i, k]\n  out[i] = t[i] - y[i]\n}}"
        )
        rng, results = np.random.default_rng(rows), []
        inputs = {p.name: rng.normal(0, 99, p.shape).astype(p.dtype.numpy) for p in prim.params}
        for count in (1, rows):
            steps = Schedule.of(
                split("i", (32 // count, count)),
                split("k", (3, 16)),
                reorder("i.0", "k.0", "i.1", "k.1"),
                cache_write("t", "registers", "i.0"),
                compute_at("out", "i.0"),
                rfactor("t", "k.1"),
                unroll("i.1"),
                vectorize("k.1"),
            )
            (result,) = run_kernel(compile_kernel(prim, steps, target), target, inputs)
            results.append(result)
        np.testing.assert_array_equal(*results)
        expected = evaluate_prim(prim, inputs)["out"]
        np.testing.assert_allclose(results[1], expected, rtol=1e-5, atol=1e-4)

    @pytest.mark.parametrize(
        ("columns", "reduced"),
        [((2, 96), (2, 100)), ((2, 100), (2, 96)), ((8, 24), (5, 40)), ((64, 3), (2, 100))],
    )
    def test_read_where_no_vector_begins(self, target, columns, reduced):
        check(parse_prim(ROWS), rows_schedule(columns, reduced), target)

    def test_one_element_for_all_lanes(self, target):
        prim = parse_prim(
            "prim @f(x: int32[8, 16]) -> out: int32[8, 8] {\n"
            "  out[i, j] = sum(k: 16) x[i, k] * x[j, k]\n}"
        )
        steps = Schedule.of(
            split("k", (2, 8)),
            reorder("k.0", "k.1", "i", "j"),
            cache_write("out", "registers", "k.0"),
            *(unroll(loop) for loop in ("i", "k.1")),
            vectorize("j"),
            pack_at("x", "j", 8, "k.0"),
        )
        check(prim, steps, target)

    @pytest.mark.parametrize(("order", "groups", "packed"), PRODUCTS)
    def test_products_of_bytes(self, target, order, groups, packed):
        tile, group = packed
        prim = parse_prim(
            "prim @f(x: int8[2, 32], w: int8[32, 40] const) -> out: int32[2, 40] {\n"
            "  out[i, j] = sum(k: 32) int32(x[i, k]) * int32(w[k, j])\n}"
        )
        steps = Schedule.of(
            pack_grouped("w", "j", tile, "k", group),
            split("j", (-(-40 // tile), tile)),
            split("k", groups),
            reorder("j.0", *order, "j.1", "k.1", "k.2"),
            cache_write("out", "registers", "j.0"),
            *(unroll(loop) for loop in ("i", "k.1", "k.2")),
            vectorize("j.1"),
        )
        check(prim, steps, target)


@pytest.mark.parametrize("target", TARGETS, ids=lambda t: f"{t.isa}{'+' * bool(t.features)}")
def test_unrolled_loops_may_be_empty(target: Target) -> None:
    """Of a padded array, the rows that lie in the padding add nothing."""
    rows = "(0 <= index(k - 3)) and (index(k - 3) <= 3)"
    inside = f"({rows}) and ((0 <= index(i - 1)) and (index(i - 1) <= 2))"
    prim = parse_prim(
        "prim @sum(x: int64[4, 3]) -> out: int64[7] {\n"
        f"  out[i] = sum(k: 8) where({inside}, x[k - 3, i - 1], 0)\n}}"
    )
    schedule = Schedule.of(
        split("i", (2, 4)),
        split("k", (1, 8)),
        reorder("k.0", "i.0", "k.1", "i.1"),
        cache_write("out", "registers", "i.0"),
        rfactor("out", "k.1"),
        unroll("i.1"),
        vectorize("k.1"),
    )
    check(prim, schedule, target)


def test_a_choice_of_what_lies_inside_reads_without_a_guard() -> None:
    """``take`` limits its indices, so the element is there whatever is chosen."""

    def shifted(x: Any, by: Any, values: Any, i: Any) -> Any:
        rest = np.arange(len(x)) - by
        return np.where(rest >= 0, x[np.maximum(rest, 0)] + values[i], x)

    rng = np.random.default_rng(0)
    args = rng.random(77), np.int64(5), rng.random(9), np.int64(3)
    compiled = lw.compile(shifted)
    np.testing.assert_array_equal(compiled(*args), shifted(*args))
    assert "ptr @lw_nowhere" not in compiled.lower(*args).as_text("llvm")


def test_a_choice_reads_what_its_condition_has_read_without_a_guard() -> None:
    """Nothing proves that row i of n is inside of n, but its divisor has been read by then."""

    def divided(x: Any, by: Any) -> Any:
        shares = x / by[:, None]
        return np.where(np.isfinite(shares), shares, 0)

    sizes = {"x": {0: lw.Dim("n", max=64)}, "by": {0: lw.Dim("n", max=64)}}
    compiled = lw.compile(divided, dynamic=sizes)
    x, by = np.random.default_rng(0).random((5, 77), np.float32), np.arange(5, dtype=np.float32)
    with np.errstate(divide="ignore"):
        np.testing.assert_allclose(compiled(x, by), divided(x, by), rtol=1e-6)
    assert "ptr @lw_nowhere" not in compiled.lower(x, by).as_text("llvm")


@pytest.mark.parametrize("target", TARGETS, ids=lambda t: f"{t.isa}{'+' * bool(t.features)}")
@pytest.mark.parametrize(("size", "block"), [(208, 64), (64, 48), (80, 32)])
def test_whole_tiles_before_a_smaller_one_read_without_a_guard(
    size: int, block: int, target: Target
) -> None:
    prim = parse_prim(
        f"prim @leaky(x: float32[{size}]) -> out: float32[{size}] {{\n"
        "  out[i] = where(x[i] < 0.5, x[i] * 0.1, sqrt(x[i]))\n}"
    )
    count = -(-size // block)
    schedule = Schedule.of(split("i", (count, block)), vectorize("i.1"), parallel("i.0"))
    kernel = compile_kernel(prim, schedule, target)
    assert "masked.load" not in kernel.text and "ptr @lw_nowhere" not in kernel.text
    check(prim, schedule, target)
