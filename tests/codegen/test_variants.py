"""Kernels with a schedule for each range of a size: one symbol, which decides by comparing."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from compiled import run_kernel
from loopwright.codegen.kernel import Kernel, compile_kernel, stored_kernel
from loopwright.codegen.target import Target
from loopwright.ir.dims import evaluate
from loopwright.ir.errors import ScheduleError
from loopwright.ir.loop.evaluate import evaluate_prim
from loopwright.ir.loop.parser import parse_prim
from loopwright.ir.schedule.cases import Cases, on_one_thread
from loopwright.ir.schedule.steps import Schedule, pack, parallel, reorder, split, unroll, vectorize

HOST = Target.host()
PRIM = parse_prim("""
prim @f(x: float32[n, 20], w: float32[20, 16] const) -> out: float32[n, 16] for n in 0..100 {
  t[i, j]: float32[n, 16] = sum(k: 20) x[i, k] * w[k, j]
  out[i, j] = t[i, j] + t[i, 15 - j]
}""")
N = PRIM.params[0].shape[0]
TILES = Schedule.of(
    split("i", (25, 4)), reorder("i.0", "k", "i.1", "j"), unroll("i.1"), vectorize("j")
)
PARALLEL = Schedule.of(*TILES.steps, parallel("i.0"))
ROW = Schedule.of(reorder("i", "k", "j"), vectorize("j"))


def check(kernel: Kernel, sizes: Sequence[int]) -> None:
    rng = np.random.default_rng(3)
    for n in sizes:
        inputs = {
            "x": rng.integers(-9, 9, (n, 20)).astype(np.float32),
            "w": rng.integers(-9, 9, (20, 16)).astype(np.float32),
        }
        found = run_kernel(kernel.at({"n": n}), HOST, inputs)
        np.testing.assert_array_equal(found[0], evaluate_prim(PRIM, inputs)["out"])


def test_every_case_computes_the_same():
    cases = Cases(N, ((0, Schedule()), (1, ROW), (9, TILES)), PARALLEL)
    kernel = compile_kernel(PRIM, cases, HOST)
    check(kernel, (0, 1, 2, 8, 9, 10, 11, 50, 100))
    # No case for 10 or more of its own: the tiles of one thread are the parallel ones.
    assert kernel.text.count("define internal void @lw_f.case") == 5  # with a loop
    assert "call void @lw_loop_on" in kernel.text and kernel.parallel


def test_a_single_value_has_static_code():
    kernel = compile_kernel(PRIM, Cases(N, ((0, Schedule()), (1, ROW)), TILES), HOST)
    assert kernel.at({"n": 1}).nest.sizes == ()
    assert kernel.at({"n": 2}).nest.operands == kernel.at({"n": 2}).operands
    assert "define internal void @lw_f.case1(ptr %a0, ptr %a1, ptr %a2, ptr %workspace) " in (
        kernel.text
    )


def test_the_workspace_has_room_for_every_case():
    kernel = compile_kernel(PRIM, Cases(N, ((1, ROW),), PARALLEL), HOST)
    for n in (0, 1, 7):
        needed = max(
            evaluate(compile_kernel(PRIM, s, HOST).workspace_bytes, {"n": n})
            for s in (ROW, PARALLEL)
        )
        assert kernel.at({"n": n}).workspace_bytes >= needed


def test_the_interface_is_known_without_the_text():
    cases = Cases(N, ((1, ROW),), PARALLEL)
    made = compile_kernel(PRIM, cases, HOST, "f")
    stored = stored_kernel(PRIM, cases, HOST, "f", "entry", b"lw_parallel_for")
    for part in ("operands", "workspace_bytes", "nest", "sizes", "cases", "parallel"):
        assert getattr(stored, part) == getattr(made, part)


def test_schedules_pack_alike():
    packed = Schedule.of(pack("w", "j", 8), *ROW.steps)
    with pytest.raises(ScheduleError, match="pack operands in different ways"):
        compile_kernel(PRIM, Cases(N, ((1, ROW),), packed), HOST)


def test_without_parallel_loops():
    assert on_one_thread(PARALLEL) == TILES
