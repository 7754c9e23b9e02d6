"""Blocks that are transposed in registers: when they are loaded, when they are stored."""

from __future__ import annotations

import loopwright as lw
import numpy as np
import pytest
from compiled import run_kernel
from hypothesis import given, settings
from hypothesis import strategies as st
from loopwright.autotune.space.space import ScheduleSpace, default_schedule
from loopwright.codegen.kernel import compile_kernel
from loopwright.codegen.target import ISA_LEVELS, Target
from loopwright.driver.pipeline import kernels_of, lower_module
from loopwright.ir.loop.prim import PrimFunc
from loopwright.ir.schedule.steps import Schedule, cache_write, reorder, split, unroll, vectorize

HOST = Target.host()
LEVELS = list(ISA_LEVELS)[: list(ISA_LEVELS).index(HOST.isa) + 1]


def kernel_of(function, *arrays: np.ndarray) -> PrimFunc:
    traced = lw.compile(function).trace(*arrays)
    (prim,) = kernels_of(lower_module(traced.module)).values()
    return prim


@settings(max_examples=30, deadline=None)
@given(st.data())
@pytest.mark.parametrize("dtype", ["float32", "float64", "int8"])
def test_a_tile_is_stored_across_its_vectors(dtype: str, data: st.DataObject) -> None:
    """``(a @ b).T`` with vectors along the rows of the result: any number of turns and lanes."""
    isa = data.draw(st.sampled_from(LEVELS))
    rows, columns = data.draw(st.integers(1, 40)), data.draw(st.integers(1, 40))
    turns, width = data.draw(st.integers(1, 18)), data.draw(st.integers(1, 40))
    rng = np.random.default_rng(data.draw(st.integers(0, 9)))
    a = rng.integers(-5, 6, (columns, 3)).astype(dtype)
    b = rng.integers(-5, 6, (3, rows)).astype(dtype)
    prim = kernel_of(lambda a, b: (a @ b).T, a, b)
    if len(prim.stage("out").axes) < 2:
        return
    schedule = Schedule.of(
        split("i", (-(-rows // width), width)),
        split("j", (-(-columns // turns), turns)),
        reorder("i.0", "j.0", "k", "j.1", "i.1"),
        cache_write("out", "registers", "j.0"),
        unroll("j.1"),
        vectorize("i.1"),
    )
    target = HOST.with_isa(isa)
    kernel = compile_kernel(prim, schedule, target)
    (found,) = run_kernel(kernel, target, {"x0": a, "x1": b})
    np.testing.assert_array_equal(found.reshape(rows, columns), (a @ b).T)


@settings(max_examples=30, deadline=None)
@given(st.data())
def test_a_padded_copy_is_turned_under_its_condition(data: st.DataObject) -> None:
    isa = data.draw(st.sampled_from(LEVELS))
    height, width = data.draw(st.integers(2, 5)), data.draw(st.integers(2, 40))
    depth, turns = data.draw(st.integers(2, 20)), data.draw(st.integers(1, 18))
    before, after = data.draw(st.integers(0, 3)), data.draw(st.integers(0, 3))
    x = np.random.default_rng(0).standard_normal((depth, height, width), dtype=np.float32)
    pads = ((1, 0), (before, after), (0, 0))
    prim = kernel_of(lambda x: np.pad(np.transpose(x, (1, 2, 0)), pads), x)
    total = before + width + after
    schedule = Schedule.of(
        split("j", (-(-total // turns), turns)),
        split("l", (-(-depth // 16), 16)),
        reorder("i", "j.0", "l.0", "j.1", "l.1"),
        unroll("j.1"),
        vectorize("l.1"),
    )
    target = HOST.with_isa(isa)
    kernel = compile_kernel(prim, schedule, target)
    (found,) = run_kernel(kernel, target, {"x0": x})
    np.testing.assert_array_equal(
        found.reshape(height + 1, total, depth), np.pad(x.transpose(1, 2, 0), pads)
    )


def test_the_block_is_loaded_and_stored_in_vectors() -> None:
    """Neither way element by element, where the machine has masks."""
    if not HOST.has_masks:
        pytest.skip("this machine has no masks")
    x = np.ones((16, 4, 40), np.float32)
    w = np.ones((32, 16, 3, 3), np.float32)
    text = lw.compile(lambda x: lw.nn.conv2d(x[None], w, padding=1)).lower(x).as_text("llvm")
    assert "insertelement <16 x float> zeroinitializer" not in text
    assert "store float" not in text


def test_copies_of_blocks_share_a_function() -> None:
    """Once in the text, and called for every block; several blocks are not inlined."""
    x = np.arange(64 * 96, dtype=np.float32).reshape(64, 96)
    prim = kernel_of(lambda x: x.T, x)
    lanes = HOST.lanes(4)
    schedule = Schedule.of(
        split("i", (96 // (2 * lanes), 2 * lanes)),
        split("j", (64 // (2 * lanes), 2 * lanes)),
        reorder("i.0", "j.0", "i.1", "j.1"),
        unroll("i.1"),
        vectorize("j.1"),
    )
    kernel = compile_kernel(prim, schedule, HOST)
    assert kernel.text.count("define internal void @lw_transpose.") == 1
    assert kernel.text.count("call void @lw_transpose.") == 4
    assert " noinline " in kernel.text
    (found,) = run_kernel(kernel, HOST, {"x0": x})
    np.testing.assert_array_equal(found.reshape(96, 64), x.T)


MOVES = {
    "transpose": lambda x, i: np.transpose(x, (2, 0, 1)),
    "computed": lambda x, i: np.exp(np.transpose(x, (0, 2, 1))) / 3,
    "rows": lambda x, i: x[i],
    "columns": lambda x, i: x[:, :, i],
}


@pytest.mark.parametrize("isa", LEVELS)
@pytest.mark.parametrize("name", list(MOVES))
def test_sampled_schedules_move_elements(
    name: str, isa: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOOPWRIGHT_CHECK_INDEX", "0")  # a check is another kernel
    rng = np.random.default_rng(0)
    x = rng.standard_normal((19, 23, 37)).astype(np.float32)
    index = rng.integers(0, 19, 11)
    function, target = MOVES[name], HOST.with_isa(isa)
    given = [x, index] if name in ("rows", "columns") else [x]
    prim = kernel_of(lambda *a: function(*a, *[None][len(a) - 1 :]), *given)
    space = ScheduleSpace(prim, target, 1)
    for row in space.sample(12, rng):
        kernel = compile_kernel(prim, space.schedule(row), target)
        names = [p.name for p in prim.params]
        (found,) = run_kernel(kernel, target, dict(zip(names, given, strict=True)))
        expected = function(x, index)
        np.testing.assert_allclose(found.reshape(expected.shape), expected, rtol=1e-5)


@pytest.mark.parametrize(("rows", "columns"), [(16, 48), (37, 50), (70, 5), (9, 33)])
@pytest.mark.parametrize("isa", LEVELS)
@pytest.mark.parametrize("dtype", ["int8", "uint16", "float64"])
def test_elements_of_all_sizes_are_turned(dtype: str, isa: str, rows: int, columns: int) -> None:
    x = np.arange(rows * columns).astype(dtype).reshape(rows, columns)
    prim = kernel_of(lambda x: np.transpose(x).copy(), x)
    target = HOST.with_isa(isa)
    schedule, _ = default_schedule(prim, target)
    (found,) = run_kernel(compile_kernel(prim, schedule, target), target, {"x0": x})
    np.testing.assert_array_equal(found.reshape(columns, rows), x.T)


@pytest.mark.parametrize("isa", LEVELS)
@pytest.mark.parametrize(("rows", "columns"), [(16, 17), (33, 20), (9, 40)])
@pytest.mark.parametrize("offset", [0, -3, 5])
def test_blocks_of_few_columns_are_not_taken_for_whole_ones(
    offset: int, rows: int, columns: int, isa: str
) -> None:
    """In the first columns of a triangle all lanes are wanted, and in the others only some."""
    x = np.random.default_rng(0).random((rows, columns), np.float32)
    prim = kernel_of(lambda x: np.tril(x, offset) + 1, x)
    target = HOST.with_isa(isa)
    kernel = compile_kernel(prim, Schedule.of(vectorize("i"), unroll("j")), target)
    (found,) = run_kernel(kernel, target, {"x0": x})
    np.testing.assert_array_equal(found.reshape(rows, columns), np.tril(x, offset) + 1)


@pytest.mark.parametrize(("dtype", "zips"), [("int8", 64), ("int16", 96)])
def test_small_elements_are_zipped(dtype: str, zips: int) -> None:
    """16 x 16 bytes take four rounds of 16 instructions, and as many blocks of 8 x 8 three of 8."""
    x = np.zeros((64, 64), dtype)
    prim = kernel_of(lambda x: np.transpose(x).copy(), x)
    target = HOST.with_isa("x86-64-v4")
    schedule = Schedule.of(
        split("i", (4, 16)),
        split("j", (4, 16)),
        reorder("i.0", "j.0", "i.1", "j.1"),
        unroll("i.1"),
        vectorize("j.1"),
    )
    text = compile_kernel(prim, schedule, target).text
    half = 16 // x.itemsize // 2
    firsts = [f"i32 {k}, i32 {2 * half + k}" for k in (0, half)]
    assert (
        sum("shufflevector" in t and any(f in t for f in firsts) for t in text.split("\n")) == zips
    )


def test_rows_that_wrap_around_in_some_lanes_are_not_blocks() -> None:
    x = np.arange(25, dtype=np.float32)

    def tiled(x):
        return np.reshape(np.tile(x, 4)[:96], (8, 4, 3)) * 2

    np.testing.assert_array_equal(lw.compile(tiled)(x), tiled(x))
