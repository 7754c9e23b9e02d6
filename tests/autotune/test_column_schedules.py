"""Reductions that read everything once: in the order of memory, one row after the other."""

from __future__ import annotations

import loopwright as lw
import numpy as np
from loopwright.autotune.space.space import default_schedule
from loopwright.codegen.target import Target
from loopwright.driver.pipeline import kernels_of, lower_module
from loopwright.ir.schedule.steps import Step

TARGET = Target("x86-64-v4", "test", cores=2, l1=48 << 10, l2=2 << 20, l3=32 << 20)


def steps(function, *specs) -> tuple[Step, ...]:
    traced = lw.compile(function).trace(*specs)
    (prim,) = kernels_of(lower_module(traced.module)).values()
    return default_schedule(prim, TARGET)[0].steps


def test_middle_axis_is_reduced_row_by_row() -> None:
    found = steps(lambda x: np.sum(x, axis=1), lw.f32[64, 128, 256])
    assert Step("split", ("i", (64, 1, 1))) in found
    assert Step("split", ("j", (2, 1, 128))) in found


def test_a_product_keeps_its_tile_of_rows() -> None:
    found = steps(lambda x, y: x @ y, lw.f32[64, 128], lw.f32[128, 256])
    (rows,) = [s.args[1][-1] for s in found if s.name == "split" and s.args[0] == "i"]
    assert rows > 1
