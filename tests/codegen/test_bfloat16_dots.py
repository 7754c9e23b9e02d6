"""Products of bfloat16 with sums of float32: the instruction for pairs, and plain code."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from compiled import run_kernel
from hypothesis import given, settings
from hypothesis import strategies as st
from loopwright.autotune.space.space import ScheduleSpace
from loopwright.codegen.kernel import Kernel, compile_kernel
from loopwright.codegen.llvm.engine import disassemble
from loopwright.codegen.target import Target
from loopwright.debug.machine.kernels import run_text
from loopwright.ir.dtype import FLOAT32, Array
from loopwright.ir.loop.nest import Intrinsic, statements
from loopwright.ir.loop.parser import parse_nest, parse_prim
from loopwright.ir.loop.prim import PrimFunc
from loopwright.ir.schedule.steps import Schedule, split, vectorize
from loopwright.ir.tolerance import tolerance

ml_dtypes = pytest.importorskip("ml_dtypes")

HOST = Target.host()
PAIRS = Target("x86-64-v4", features=frozenset({"avx512bf16"}))
"""A machine with the instruction, whichever this one is."""
LEAST = np.finfo(np.float32).tiny
"""Numbers below this are zero to the instruction."""


def product(m: int, k: int, n: int, constant: bool = True) -> PrimFunc:
    known = " const" if constant else ""
    return parse_prim(
        f"prim @f(x: bfloat16[{m}, {k}], w: bfloat16[{k}, {n}]{known}) -> out: float32[{m}, {n}]"
        f" {{\n  t[i, j]: float32[{m}, {n}] = sum(k: {k}) float32(x[i, k]) * float32(w[k, j])\n"
        "  out[i, j] = t[i, j] + 3.0\n}"
    )


def draw(prim: PrimFunc, rng: np.random.Generator) -> dict[str, Array]:
    shapes = {p.name: [int(str(s)) for s in p.shape] for p in prim.params}
    return {
        name: rng.normal(size=shape).astype(ml_dtypes.bfloat16) for name, shape in shapes.items()
    }


def check(kernel: Kernel, inputs: dict[str, Array], target: Target) -> None:
    """A result is within the bound of sums of float32 in any order: products are exact."""
    (result,) = run_kernel(kernel, target, inputs)
    x, w = (inputs[name].astype(np.float64) for name in "xw")
    sizes = np.abs(x) @ np.abs(w) + 3
    bound = tolerance(FLOAT32, x.shape[1]).rtol
    assert (np.abs(result - (x @ w + 3)) <= bound * sizes).all()


def dot_schedules(prim: PrimFunc, target: Target, count: int, seed: int = 0):
    """The schedules of the rule ``dots`` among the default and some rows of the space."""
    space = ScheduleSpace(prim, target)
    rows = np.concatenate([space.default(), space.sample(count, np.random.default_rng(seed))])
    for row in rows:
        if space.sketch_name(row).startswith("dots"):
            steps = space.schedule(row)
            again = space.row_of(steps)
            assert again is not None and space.schedule(again) == steps
            yield steps


@settings(max_examples=25)
@given(
    sizes=st.tuples(st.integers(1, 40), st.integers(1, 70), st.integers(1, 50)),
    constant=st.booleans(),
    target=st.sampled_from([HOST, replace(HOST, features=frozenset()), HOST.with_isa("x86-64")]),
    seed=st.integers(0, 1000),
)
def test_sums_of_any_size_on_machines_with_and_without(sizes, constant, target, seed):
    prim = product(*sizes, constant)
    inputs = draw(prim, np.random.default_rng(seed))
    for steps in list(dot_schedules(prim, PAIRS, 12, seed))[:2]:
        check(compile_kernel(prim, steps, target), inputs, target)


@pytest.mark.parametrize("sizes", [(37, 132, 70), (1, 256, 64), (64, 64, 48), (5, 7, 19)])
@pytest.mark.parametrize("constant", [True, False])
def test_the_default_multiplies_pairs_by_the_instruction(sizes, constant):
    prim = product(*sizes, constant)
    space = ScheduleSpace(prim, PAIRS)
    kernel = compile_kernel(prim, space.schedule(space.default()[0]), PAIRS)
    assert any(isinstance(s, Intrinsic) and s.instruction == "bf16" for s in _all(kernel))
    assert "vdpbf16ps" in disassemble(kernel.text, PAIRS)
    if HOST.dot("bf16"):
        check(kernel, draw(prim, np.random.default_rng(0)), HOST)


def _all(kernel: Kernel):
    return statements(kernel.nest.body)


def test_rows_are_broadcast_from_memory():
    """A pair of the left operand is read as one word, and sums and operands fit the registers."""
    prim = product(64, 256, 96)
    space = ScheduleSpace(prim, PAIRS)
    text = disassemble(compile_kernel(prim, space.schedule(space.default()[0]), PAIRS).text, PAIRS)
    between = [part for part in text.split("vdpbf16ps") if ".LBB" not in part]
    assert len(between) > 8
    assert not any("%rsp" in part or re.search(r"broadcast\w+\s+%xmm", part) for part in between)


def test_without_the_instruction_the_rule_offers_nothing():
    assert not list(dot_schedules(product(37, 132, 70), replace(PAIRS, features=frozenset()), 20))


def test_the_text_means_what_the_machine_does():
    """To the last bit, in which order a pair is added and what is zero among it."""
    prim = product(3, 6, 17)
    steps = next(dot_schedules(prim, PAIRS, 20))
    kernel = compile_kernel(prim, steps, PAIRS)
    assert "dpbf16ps" in kernel.text
    assert parse_nest(str(kernel.nest)) == kernel.nest
    rng = np.random.default_rng(0)
    for power in 0, 0, 18, 30, 37:
        inputs = draw(prim, rng)
        for name in inputs:
            scale = 10.0 ** rng.integers(-power, power + 1, inputs[name].shape)
            inputs[name] = (inputs[name] * scale).astype(ml_dtypes.bfloat16)
        with np.errstate(all="ignore"):
            (meaning,) = run_text(kernel, inputs)
        if HOST.dot("bf16"):
            (result,) = run_kernel(kernel, HOST, inputs)
            np.testing.assert_array_equal(result, meaning)


def test_rounding_what_was_flushed_is_one_instruction():
    """It gives the bits that flushing and rounding give in two steps, those of nan aside."""
    prim = parse_prim(
        "prim @f(x: float32[64]) -> out: bfloat16[64] {\n  out[i] = bfloat16(flush(x[i]))\n}"
    )
    x = np.random.default_rng(0).normal(size=64).astype(np.float32)
    x *= np.float32(10.0) ** np.random.default_rng(1).integers(-44, 38, 64)
    x[:6] = np.inf, -np.inf, np.nan, 0, -0.0, np.float32(1.5) * LEAST / 2
    expected = np.where(np.abs(x) < LEAST, np.copysign(np.float32(0), x), x)
    expected = expected.astype(ml_dtypes.bfloat16)
    assert (np.abs(x) < LEAST).sum() > 4
    for target in (PAIRS, replace(PAIRS, features=frozenset()), HOST.with_isa("x86-64")):
        steps = Schedule.of(split("i", (4, 16)), vectorize("i.1"))
        kernel = compile_kernel(prim, steps, target)
        assert ("cvtneps2bf16" in kernel.text) == bool(target.features)
        results = run_text(kernel, {"x": x})
        if target.features <= HOST.features and not target.missing_here:
            results += run_kernel(kernel, target, {"x": x})
        for result in results:
            np.testing.assert_array_equal(result[3:].view(np.int16), expected[3:].view(np.int16))
            np.testing.assert_array_equal(*(a[:3].astype(np.float32) for a in (result, expected)))


def test_subnormal_numbers_are_zero_and_the_error_is_bounded():
    """Of each factor, sum and result at most ``LEAST`` is lost: below any relative bound of sums
    whose largest term is above ``LEAST / 2**-24``."""
    prim = parse_prim(str(product(1, 8, 32)).replace(" + 3.0", " * 1.0"))
    kernel = compile_kernel(prim, next(dot_schedules(prim, PAIRS, 20)), PAIRS)
    rng = np.random.default_rng(1)
    inputs = draw(prim, rng)
    inputs["x"] = (inputs["x"] * np.float32(LEAST / 4)).astype(ml_dtypes.bfloat16)
    (result,) = run_text(kernel, inputs)
    x, w = (inputs[name].astype(np.float64) for name in "xw")
    assert (np.abs(result - x @ w) <= LEAST * (np.abs(w).sum(0) + 8)).all()
    assert (np.abs(x @ w) > 0).all() and (np.abs(result) < np.abs(x @ w)).any()
