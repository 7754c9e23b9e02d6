"""The ``lanes`` rule: rows that are read twice, and reductions that need no pieces."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import loopwright as lw
import numpy as np
import pytest
from loopwright.autotune.space.estimate import cycles_of
from loopwright.autotune.space.space import ScheduleSpace, default_schedule
from loopwright.autotune.space.tiling import Tiling
from loopwright.codegen.target import Target
from loopwright.driver.pipeline import kernels_of, lower_module
from loopwright.ir.loop.prim import PrimFunc

TARGET = Target("x86-64-v4", "test", cores=2, l1=48 << 10, l2=2 << 20, l3=32 << 20)


def kernel_of(function: Callable[..., Any], *specs: Any) -> PrimFunc:
    traced = lw.compile(function).trace(*specs)
    (prim,) = kernels_of(lower_module(traced.module)).values()
    return prim


def steps_of(prim: PrimFunc, name: str) -> list[tuple[Any, ...]]:
    schedule, _ = default_schedule(prim, TARGET)
    return [step.args for step in schedule.steps if step.name == name]


def test_the_next_row_is_asked_for_where_l1_does_not_hold_all_rows() -> None:
    large = kernel_of(lw.nn.softmax, lw.f32[128, 1024])
    assert steps_of(large, "prefetch") == [("t1", "x0", "i.0", 1)]
    assert steps_of(kernel_of(lw.nn.softmax, lw.f32[64, 128]), "prefetch") == []


def test_rows_that_are_read_once_are_left_to_the_machine() -> None:
    prim = kernel_of(lambda x: np.sum(x, axis=1), lw.f32[4096, 1024])
    assert steps_of(prim, "prefetch") == []


def test_a_schedule_with_prefetches_is_found_in_its_space() -> None:
    space = ScheduleSpace(kernel_of(lw.nn.softmax, lw.f32[4096, 1024]), TARGET)
    (row, *_) = space.default()
    schedule = space.schedule(row)
    assert any(step.name == "prefetch" for step in schedule.steps)
    np.testing.assert_array_equal(space.row_of(schedule), row)
    without = space.with_choice(row, "prefetch", 0)
    assert not any(step.name == "prefetch" for step in space.schedule(without).steps)
    np.testing.assert_array_equal(space.row_of(space.schedule(without)), without)


def test_tiles_of_a_product_are_estimated_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The least estimate of those that were tried is enough to compare them with other rules."""
    estimated: list[str] = []

    def noted(tiling: Tiling, *args: Any) -> Any:
        estimated.append(tiling.name)
        return cycles_of(tiling, *args)

    monkeypatch.setattr("loopwright.autotune.space.estimate.cycles_of", noted)
    prim = kernel_of(np.matmul, lw.f32[131, 64], lw.f32[64, 96])
    default_schedule(prim, TARGET)
    assert estimated.count("tile.j") == 1


@pytest.mark.parametrize(
    ("columns", "rows", "vectors"), [(16, 4, 1), (64, 4, 4), (200, 4, 1), (1024, 1, 4)]
)
def test_one_vector_of_each_row_of_exponentials_keeps_a_core_busy(
    columns: int, rows: int, vectors: int
) -> None:
    """Short rows are kept whole, and several vectors of a single row are independent."""
    prim = kernel_of(lw.nn.softmax, lw.f32[4096 if rows == 1 else 64, columns])
    lanes = 16 * vectors
    assert ("i", ((4096 if rows == 1 else 64) // rows, rows)) in steps_of(prim, "split")
    assert ("k", (-(-columns // lanes), lanes)) in steps_of(prim, "split")


@pytest.mark.parametrize("rows, cut", [(1, True), (4, True), (8, False), (128, False)])
def test_reductions_are_cut_where_rows_are_fewer_than_threads_want(rows: int, cut: bool) -> None:
    prim = kernel_of(lambda x: np.sum(x, axis=1), lw.f32[rows, 100_000])
    assert bool(steps_of(prim, "split_reduction")) == cut


@pytest.mark.parametrize(
    "shape, rows",
    [((1536, 128), 4), ((128, 1024), 2), ((4096, 1024), 1), ((64, 50257), 1), ((12, 128), 1)],
)
def test_as_many_rows_at_once_as_the_near_cache_holds(shape: tuple[int, int], rows: int) -> None:
    """Few rows are left to the threads one by one."""
    prim = kernel_of(lw.nn.softmax, lw.f32[shape])
    assert ("i", (shape[0] // rows, rows)) in steps_of(prim, "split")


@pytest.mark.parametrize(
    ("shape", "cores", "rows", "vectors"),
    [((4096, 64), 2, 4, 2), ((64, 200), 2, 4, 2), ((128, 1536), 2, 2, 4), ((8, 32000), 1, 4, 2)],
)
def test_rows_of_a_layer_norm_share_its_operands(
    shape: tuple[int, int], cores: int, rows: int, vectors: int
) -> None:
    """Long rows read what they share from L2, together only once. Sums of several rows do not wait
    for each other: few vectors have to be joined in each."""
    width = lw.f32[shape[1]]
    prim = kernel_of(lw.nn.layer_norm, lw.f32[shape], width, width)
    schedule, _ = default_schedule(prim, replace(TARGET, cores=cores))
    cuts = {s.args[0]: s.args[1][-1] for s in schedule.steps if s.name == "split"}
    assert (cuts["i"], cuts["k"]) == (rows, 16 * vectors)


def test_rows_that_are_divided_are_fewer() -> None:
    """A divisor is several numbers, each in a register for all elements of its row."""

    def function(x: Any) -> Any:
        rest = x - x.mean(1, keepdims=True)
        return rest / np.sqrt((rest * rest).mean(1, keepdims=True) + 1e-5)

    prim = kernel_of(function, lw.f32[4096, 64])
    assert ("i", (1024, 4)) in steps_of(prim, "split")


@pytest.mark.parametrize(("keys", "vectors"), [(lw.i8[12, 4096, 64], 1), (lw.f32[12, 1024, 64], 4)])
def test_rows_of_a_large_operand_of_which_a_part_is_read(keys: Any, vectors: int) -> None:
    """The part decides, as far as it is there: an attention's keys up to this position."""

    def function(q: Any, keys: Any, end: Any) -> Any:
        return q[:, None] @ keys[:, : end + 1].astype(np.float32).swapaxes(1, 2)

    traced = lw.compile(function).trace(lw.f32[12, 64], keys, lw.i64)
    prims = kernels_of(lower_module(traced.module)).values()
    (prim,) = (p for p in prims if any(s.combiner for s in p.stages))
    cuts = {args[0]: args[1][-1] for args in steps_of(prim, "split")}
    assert cuts == {"j": 4, "k": 16 * vectors}


def test_places_of_eight_bytes_are_not_kept_along_the_row() -> None:
    prim = kernel_of(lambda x: x.argmax(1), lw.f32[128, 1024])
    assert ("i", (32, 4)) in steps_of(prim, "split")


@pytest.mark.parametrize(
    "shape, rows", [((1536, 128), 4), ((64, 256), 4), ((8192, 128), 3), ((4096, 256), 1)]
)
def test_sums_of_costly_elements_leave_registers_free(shape: tuple[int, int], rows: int) -> None:
    """Softmax keeps its exponentials before they are summed; its logarithm sums them at once, in
    one vector of each of four rows."""
    prim = kernel_of(lw.nn.log_softmax, lw.f32[shape])
    assert ("i", (-(-shape[0] // rows), rows)) in steps_of(prim, "split")


@pytest.mark.parametrize("rows, at_once", [(4096, 4), (16, 2), (8, 1)])
def test_long_rows_that_are_read_once_share_the_vector_they_are_multiplied_by(
    rows: int, at_once: int
) -> None:
    prim = kernel_of(lambda a, v: a @ v, lw.f32[rows, 8192], lw.f32[8192])
    assert dict(steps_of(prim, "split"))["i"][-1] == at_once


@pytest.mark.parametrize(
    "shape, cpu, rows",
    [
        ((5120, 384), "AMD EPYC", 1),
        ((256, 384), "AMD EPYC", 1),  # in L2, unless a program uses it between two calls
        ((20000, 64), "AMD EPYC", 4),  # as if one long row
        ((5120, 384), "Intel Xeon", 4),
    ],
)
def test_rows_from_afar_are_walked_at_once_as_prefetchers_follow_them(
    shape: tuple[int, int], cpu: str, rows: int
) -> None:
    target = replace(TARGET, cpu=cpu, l1=32 << 10, l2=1 << 20)
    schedule, _ = default_schedule(kernel_of(lambda x: np.sum(x, axis=1), lw.f32[shape]), target)
    splits = dict(step.args for step in schedule.steps if step.name == "split")
    assert splits["i"][-1] == rows


@pytest.mark.parametrize("columns", [1, 2, 3, 4])
@pytest.mark.parametrize("constant", [True, False])
def test_few_columns_are_multiplied_along_the_row(columns: int, constant: bool, rng) -> None:
    """Vectors along two columns would run empty; the columns are copied so that they lie along
    the row, too."""
    w = rng.standard_normal((500, columns), dtype=np.float32)
    specs = (lw.f32[300, 500],) if constant else (lw.f32[300, 500], lw.f32[500, columns])
    function = (lambda x: x @ w) if constant else (lambda x, w: x @ w)
    prim = kernel_of(function, *specs)
    assert default_schedule(prim, TARGET)[1].startswith("lanes")
    reads = [p.name for p in prim.params if p.name != "x0"]
    assert steps_of(prim, "pack") == ([(reads[0], "j", 1)] if columns > 1 else [])
    x = rng.standard_normal((300, 500), dtype=np.float32)
    found = lw.compile(function)(x) if constant else lw.compile(function)(x, w)
    np.testing.assert_allclose(found, x.astype(np.float64) @ w, rtol=1e-4, atol=1e-4)


def test_a_matrix_that_fills_its_vectors_is_multiplied_in_tiles() -> None:
    w = np.ones((500, 16), np.float32)
    prim = kernel_of(lambda x: x @ w, lw.f32[300, 500])
    assert default_schedule(prim, TARGET)[1].startswith("tile")


@pytest.mark.parametrize(
    "function, computed_again",
    [(lw.nn.layer_norm, ["t1"]), (lw.nn.softmax, [])],
    ids=["a difference", "an exponential"],
)
def test_only_cheap_maps_are_computed_again_by_every_reader(
    function: Callable[[Any], Any], computed_again: list[str]
) -> None:
    prim = kernel_of(function, lw.f32[64, 768])
    assert [args[0] for args in steps_of(prim, "compute_inline")] == computed_again
