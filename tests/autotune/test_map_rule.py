"""What the rules choose for maps without a log, where memory is all that counts."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from loopwright.autotune.space.space import ScheduleSpace, default_schedule
from loopwright.codegen.kernel import compile_kernel
from loopwright.codegen.target import CACHE_LINE, ISA_LEVELS, Target
from loopwright.ir.loop.parser import parse_prim
from loopwright.ir.loop.prim import PrimFunc
from loopwright.ir.schedule.apply import apply_schedule
from prims import random_inputs, run_nest

TARGET = Target(isa="x86-64-v4", cores=2, l1=1 << 15, l2=1 << 16, l3=1 << 28)


def _prim(rows: int, columns: int) -> PrimFunc:
    whole = f"float32[{rows}, {columns}]"
    return parse_prim(f"""
prim @scaled(x: {whole}, b: float32[{columns}]) -> out: {whole} {{
  out[i, j] = (x[i, j] + b[j]) * 2.0
}}""")


@pytest.mark.parametrize("isa", ISA_LEVELS)
def test_what_comes_from_afar_is_asked_for_once_a_line(isa: str) -> None:
    prim, target = _prim(64, 4096), TARGET.with_isa(isa)
    schedule, _ = default_schedule(prim, target)
    steps = [step for step in schedule.steps if step.name == "prefetch"]
    assert [step.args[:2] for step in steps] == [("out", "x")], "a row of b stays near"
    kernel = compile_kernel(prim, schedule, target)
    width = schedule.steps[0].args[1][-1] * 4
    assert steps[0].args[3] * width == 32 * CACHE_LINE
    asked = kernel.text.count("call void @llvm.prefetch")
    assert asked == width // CACHE_LINE or (width < CACHE_LINE and asked == 1)


def test_what_is_near_or_comes_by_itself_is_not_asked_for() -> None:
    zen = dataclasses.replace(TARGET, cpu="AMD EPYC 9B14")
    for prim, target in ((_prim(4, 1024), TARGET), (_prim(64, 4096), zen)):
        schedule, _ = default_schedule(prim, target)
        assert not [step for step in schedule.steps if step.name == "prefetch"]


@pytest.mark.parametrize(
    ("shape", "cache", "streamed"),
    [
        ((128, 4096), 1 << 28, True),  # of 16 L2 caches
        ((16, 4096), 1 << 28, False),
        ((16, 4096), 1 << 19, True),  # of a quarter of the last cache
        ((128, 4100), 1 << 28, False),  # each row ends within a line
    ],
)
def test_whole_lines_of_large_results_go_past_the_caches(
    shape: tuple[int, int], cache: int, streamed: bool
) -> None:
    schedule, _ = default_schedule(_prim(*shape), dataclasses.replace(TARGET, l3=cache))
    assert ("stream" in [step.name for step in schedule.steps]) == streamed


@pytest.mark.parametrize("columns", [4096, 4100])
def test_such_schedules_are_rows_of_the_space_and_compute_the_same(columns: int) -> None:
    prim = _prim(5, columns)
    space = ScheduleSpace(prim, TARGET)
    schedule, _ = default_schedule(prim, TARGET)
    row = space.row_of(schedule)
    assert row is not None and space.choices(row)["prefetch"] == 32
    inputs = random_inputs(prim, np.random.default_rng(0))
    out = run_nest(apply_schedule(prim, schedule), inputs)["out"]
    np.testing.assert_allclose(out, (inputs["x"] + inputs["b"]) * 2)


def test_rows_that_are_looked_up_at_the_same_places_share_finding_them() -> None:
    prim = parse_prim("""
prim @columns(x: float32[9, 500], n: int64[70]) -> out: float32[9, 70] {
  out[i, j] = x[i, minimum(maximum(n[j], 0:int64), 499:int64)]
}""")
    schedule, _ = default_schedule(prim, TARGET)
    assert ("i", (5, 1, 2)) in [step.args for step in schedule.steps if step.name == "split"]
    rng = np.random.default_rng(0)
    inputs = random_inputs(prim, rng) | {"n": rng.integers(-9, 520, 70)}
    out = run_nest(apply_schedule(prim, schedule), inputs)["out"]
    np.testing.assert_array_equal(out, inputs["x"][:, np.clip(inputs["n"], 0, 499)])
    kernel = compile_kernel(prim, schedule, TARGET)
    assert kernel.text.count("llvm.smax") * 70 <= 2 * 5 * 70


def test_what_is_read_back_does_not_go_past_the_caches() -> None:
    """A load of what a non-temporal store has just written waits for memory."""
    prim = parse_prim("""
prim @counted(x: float32[4096, 64]) -> a: int32[4096, 64], b: int32[4096, 64] {
  a[i, j] = int32(x[i, j])
  b[i, j] = a[i, j] + 1:int32
}""")
    schedule, _ = default_schedule(prim, dataclasses.replace(TARGET, l2=1 << 15))
    assert [step.args for step in schedule.steps if step.name == "stream"] == [("b",)]


@pytest.mark.parametrize(("dtype", "streamed"), [("float32", True), ("int16", False)])
def test_transposed_lines_go_past_the_caches_as_a_whole_only(dtype: str, streamed: bool) -> None:
    """More lines would be open than are gathered in front of memory."""
    target = dataclasses.replace(TARGET, l2=1 << 15)
    prim = parse_prim(f"""
prim @turned(x: {dtype}[1024, 512]) -> out: {dtype}[512, 1024] {{
  out[i, j] = x[j, i]
}}""")
    schedule, _ = default_schedule(prim, target)
    assert ("stream" in [step.name for step in schedule.steps]) == streamed
    (width,) = [s.args[1][1:] for s in schedule.steps if s.name == "split" and s.args[0] == "j"]
    assert np.prod(width) * np.dtype(dtype).itemsize == 2 * CACHE_LINE


@pytest.mark.parametrize("isa", ISA_LEVELS)
@pytest.mark.parametrize("channels", [3, 8])
def test_few_channels_that_come_to_lie_last_are_stored_as_vectors(channels: int, isa: str) -> None:
    shapes = f"float32[2, {channels}, 70]", f"float32[2, 70, {channels}]"
    prim = parse_prim(f"""
prim @last(x: {shapes[0]}) -> out: {shapes[1]} {{
  out[n, i, c] = x[n, c, i]
}}""")
    target = TARGET.with_isa(isa)
    schedule, _ = default_schedule(prim, target)
    rows = max(r for r in (3, 4, 8) if r <= min(channels, target.lanes(4)))
    assert [s.args[1][-1] for s in schedule.steps if s.name == "split"] == [target.lanes(4), rows]
    inputs = random_inputs(prim, np.random.default_rng(0))
    out = run_nest(apply_schedule(prim, schedule), inputs)["out"]
    np.testing.assert_array_equal(out, inputs["x"].transpose(0, 2, 1))


@pytest.mark.parametrize("columns", [256, 1 << 16])
def test_a_row_that_data_selects_is_read_in_vectors(columns: int) -> None:
    text = f"prim @f(x: float32[20000, {columns}], n: int64[]) -> out: float32[{columns}] {{"
    prim = parse_prim(f"{text} out[i] = x[minimum(maximum(n[], 0), 19999), i] * 2.0 }}")
    schedule, _ = default_schedule(prim, TARGET)
    assert any(step.name == "vectorize" for step in schedule.steps)
    assert not any(step.name in ("prefetch", "stream") for step in schedule.steps)
