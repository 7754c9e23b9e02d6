"""Schedules of products, as the rules choose them without a log, give what NumPy gives.

The caches are made small, so that small products meet every way of blocking them.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from compiled import on_two_levels, run_kernel
from hypothesis import given, settings
from hypothesis import strategies as st
from loopwright.autotune.space.space import ScheduleSpace, default_schedule
from loopwright.codegen.kernel import compile_kernel
from loopwright.codegen.target import ISA_LEVELS, Target
from loopwright.ir.loop.parser import parse_prim
from loopwright.ir.loop.prim import PrimFunc
from loopwright.ir.schedule.apply import apply_schedule, completed
from loopwright.ir.schedule.steps import Schedule

HOST = replace(Target.host(), cores=2, l1=2048, l2=8192, l3=65536)
SERVER = Target("x86-64-v4", cores=1, l1=48 << 10, l2=2 << 20, l3=32 << 20)
LEVELS = list(ISA_LEVELS)[: list(ISA_LEVELS).index(HOST.isa) + 1]
TRANSPOSED = [(False, False), (True, False), (False, True)]
ON_TWO_LEVELS = on_two_levels(TRANSPOSED, LEVELS[-1], LEVELS[:-1])


def product(m: int, k: int, n: int, dtype: str, left: bool, right: bool, known: bool) -> PrimFunc:
    return parse_prim(
        f"prim @f(x: {dtype}[{k if left else m}, {m if left else k}], "
        f"w: {dtype}[{n if right else k}, {k if right else n}]{' const' if known else ''}, "
        f"b: {dtype}[{n}]) -> out: {dtype}[{m}, {n}] {{\n"
        f" t[i, j]: {dtype}[{m}, {n}] = sum(k: {k}) x[{'k, i' if left else 'i, k'}]"
        f" * w[{'j, k' if right else 'k, j'}]\n out[i, j] = t[i, j] + b[j] }}"
    )


def check(prim: PrimFunc, schedule: Schedule, target: Target, left: bool, right: bool) -> None:
    rng = np.random.default_rng(1)
    inputs = {
        p.name: rng.integers(-3, 4, [int(str(s)) for s in p.shape]).astype(p.dtype.numpy)
        for p in prim.params
    }
    x, w, b = inputs.values()
    (found,) = run_kernel(compile_kernel(prim, schedule, target), target, inputs)
    np.testing.assert_array_equal(found, (x.T if left else x) @ (w.T if right else w) + b)


@given(
    st.sampled_from(LEVELS),
    st.sampled_from(["float32", "float64"]),
    st.tuples(st.booleans(), st.booleans(), st.booleans()),
    st.tuples(st.integers(1, 50), st.integers(1, 130), st.integers(1, 300)),
)
@settings(max_examples=60, deadline=None)
def test_favourites(isa, dtype, flags, sizes):
    left, right, known = flags
    target = HOST.with_isa(isa)
    prim = product(*sizes, dtype, left, right, known)
    check(prim, default_schedule(prim, target)[0], target, left, right)


@pytest.mark.parametrize(("flags", "isa"), ON_TWO_LEVELS)
def test_any_candidate(isa, flags):
    left, right = flags
    target = HOST.with_isa(isa)
    prim = product(19, 100, 77, "float32", left, right, False)
    space = ScheduleSpace(prim, target)
    for row in space.sample(12, np.random.default_rng(2)):
        check(prim, space.schedule(row), target, left, right)
        assert space.row_of(space.schedule(row)) is not None


@pytest.mark.parametrize(("flags", "isa"), ON_TWO_LEVELS)
def test_panels_made_in_cache_tiles(isa, flags):
    """At run time, with whole sums or a piece of the reduced axis at a time."""
    left, right = flags
    target = replace(HOST.with_isa(isa), l2=65536, cores=1)
    prim = product(350, 70, 333, "float32", left, right, False)
    schedule, name = default_schedule(prim, target)
    assert "pack_at" in [s.name for s in schedule.steps], name
    check(prim, schedule, target, left, right)
    variant = next(v for v in ScheduleSpace(prim, target).variants if v.name == name)
    pieces = {**variant.defaults[0], "k_blocks": 2, "cache_rows": 2, "parallel": 2}
    check(prim, variant.schedule(pieces), target, left, right)


@pytest.mark.parametrize(
    ("target", "const", "ahead"),
    [
        (HOST, " const", [("out", "w.packed", "k.1", 32)]),  # L2 does not hold the panels
        (SERVER, " const", []),
        (HOST, "", [("out", "w", "j.1", 1)]),
    ],
)
def test_what_few_rows_use_is_read_in_the_order_of_memory(
    target: Target, const: str, ahead: list[Any]
) -> None:
    """Constants are packed in that order; other operands stay as they lie."""
    prim = parse_prim(
        f"prim @f(x: float32[6, 64], w: float32[64, 1024]{const}) -> out: float32[6, 1024] {{\n"
        " out[i, j] = sum(k: 64) x[i, k] * w[k, j] }"
    )
    steps = default_schedule(prim, target)[0].steps
    assert [s.args for s in steps if s.name == "prefetch"] == ahead
    assert any(s.name == "pack" for s in steps) == bool(const)


@pytest.mark.parametrize(("rows", "depth", "packs"), [(96, 256, 0), (2048, 256, 1), (2048, 32, 0)])
def test_operands_of_a_call_are_packed_for_many_rows(rows: int, depth: int, packs: int) -> None:
    """Fewer rows, or few steps, take no longer to read them as they lie."""
    prim = parse_prim(
        f"prim @f(x: float32[{rows}, {depth}], w: float32[{depth}, 256]) -> out: float32[{rows}, "
        f"256] {{\n out[i, j] = sum(k: {depth}) x[i, k] * w[k, j] }}"
    )
    steps = default_schedule(prim, replace(SERVER, cores=2))[0].steps
    assert sum(s.name in ("pack", "pack_at") for s in steps) == packs


def test_all_row_tiles_pass_over_a_large_operand_together():
    """However many there are: three would else be two and one, and the operand be read twice."""
    prim = parse_prim(
        "prim @f(x: float32[48, 400], w: float32[400, 1024]) -> out: float32[48, 1024] {\n"
        " out[i, j] = sum(k: 400) x[i, k] * w[k, j] }"
    )
    splits = {
        s.args[0]: s.args[1] for s in default_schedule(prim, HOST)[0].steps if s.name == "split"
    }
    assert splits["i"][0] == 1


def test_weights_that_rows_walk_are_packed_though_vectors_read_what_lies_well():
    """``w.T @ x`` with known weights, the product of a convolution of pixels."""
    prim = parse_prim(
        "prim @f(x: float32[90, 64], w: float32[90, 128] const) -> out: float32[128, 64] {\n"
        " out[i, j] = sum(k: 90) x[k, j] * w[k, i] }"
    )
    schedule = default_schedule(prim, HOST)[0]
    assert [s.args[:2] for s in schedule.steps if s.name == "pack"] == [("w", "i")]
    space = ScheduleSpace(prim, HOST)
    row = space.row_of(schedule)
    assert row is not None and space.schedule(row) == schedule


def test_sums_over_several_axes_pass_over_packed_weights():
    """A window of 3x3 over a small image: weights that no cache holds are read in the order of
    their panels, not a piece of each tap at a time."""
    prim = parse_prim(
        "prim @f(x: float32[6, 6, 64], w: float32[3, 3, 64, 512] const) -> out: float32[512, 4, 4]"
        " { out[i, j, l] = sum(k: 3, r: 3, s: 64) x[j + k, l + r, s] * w[k, r, s, i] }"
    )
    steps = default_schedule(prim, HOST)[0].steps
    assert [s.args[:2] for s in steps if s.name == "pack"] == [("w", "i")]


def test_a_large_operand_that_would_have_to_be_transposed_is_broadcast_instead():
    """``x @ w.T``: vectors run along the few rows of x, which are packed, and blocks of the result
    are turned when they are stored."""
    prim = parse_prim(
        "prim @f(x: float32[16, 64], w: float32[1000, 64]) -> out: float32[16, 1000] {\n"
        " out[i, j] = sum(k: 64) x[i, k] * w[j, k] }"
    )
    schedule, name = default_schedule(prim, HOST)
    assert name.startswith("tile.i")
    assert [s.args[0] for s in schedule.steps if s.name == "pack"] == ["x"]
    wide = parse_prim(
        "prim @f(x: float32[1000, 64], w: float32[1000, 64]) -> out: float32[1000, 1000] {\n"
        " out[i, j] = sum(k: 64) x[i, k] * w[j, k] }"
    )
    assert default_schedule(wide, HOST)[1].startswith("tile.j")


@pytest.mark.parametrize("sizes", [(300, 64, 10), (6, 64, 1024), (9, 60, 700), (2, 7, 3)])
def test_favourites_are_candidates_of_their_space(sizes):
    m, k, n = sizes
    prim = parse_prim(
        f"prim @f(x: float32[{m}, {k}], w: float32[{k}, {n}]) -> out: float32[{m}, {n}] {{\n"
        f" out[i, j] = sum(k: {k}) x[i, k] * w[k, j] }}"
    )
    space = ScheduleSpace(prim, HOST)
    assert len(space.default()) >= sum(len(v.defaults[:1]) for v in space.variants)
    for row in space.default():
        found = space.row_of(space.schedule(row))
        assert found is not None and space.schedule(found) == space.schedule(row)


def test_a_narrow_tile_writes_out_some_turns():
    prim = parse_prim(
        "prim @f(x: float32[9, 64], w: float32[64, 10]) -> out: float32[9, 10] {\n"
        " out[i, j] = sum(k: 64) x[i, k] * w[k, j] }"
    )
    assert "split('k', (1, 16, 4))" in [str(s) for s in default_schedule(prim, HOST)[0].steps]


def test_what_few_rows_of_packed_weights_use_is_asked_for_early_and_not_copied():
    text = (
        "prim @f(x: float32[256, 784], w: float32[256, {0}] const) -> out: float32[{0}, 784] {{\n"
        " out[i, j] = sum(k: 256) x[k, j] * w[k, i] }}"
    )
    target = replace(SERVER, l1=32 << 10, l2=1 << 20)
    packed = {
        rows: [
            s.args[0]
            for s in default_schedule(parse_prim(text.format(rows)), target)[0].steps
            if s.name in ("pack", "pack_at")
        ]
        for rows in (128, 2048)
    }
    assert packed == {128: ["w"], 2048: ["w", "x"]}


@pytest.mark.parametrize(
    ("m", "k", "known", "panels"),
    [(512, 64, True, 1), (512, 768, True, 2), (512, 64, False, 4), (100_000, 64, True, 4)],
)
def test_a_panel_that_fits_the_first_cache_stays_there(
    m: int, k: int, known: bool, panels: int
) -> None:
    """All rows pass over it, if they come from the second cache; else a tile passes over many."""
    schedule, _ = default_schedule(product(m, k, 1024, "float32", False, False, known), SERVER)
    (factors,) = (s.args[1] for s in schedule.steps if s.name == "split" and s.args[0] == "j")
    size = factors[1] * factors[2] * k * 4
    assert (size <= SERVER.l1) if panels == 1 else (factors[1] >= panels), factors


@pytest.mark.parametrize(
    ("m", "k", "n", "divided"),
    [(784, 256, 512, "i.0"), (196, 384, 96, "i.0"), (49, 512, 2048, "j.0")],
)
def test_cores_divide_rows_unless_the_panels_are_large(
    m: int, k: int, n: int, divided: str
) -> None:
    prim = product(m, k, n, "float32", False, False, True)
    schedule, _ = default_schedule(prim, replace(SERVER, cores=2))
    (loop,) = (s.args[0] for s in schedule.steps if s.name == "parallel")
    assert loop.split("*")[0] == divided
    if divided == "i.0":
        (chunks,) = (s.args[1] for s in schedule.steps if s.name == "split" and s.args[0] == "i")
        tiles = -(-m // chunks[-1])
        assert -(-chunks[0] // 2) * chunks[1] <= 1.08 * tiles / 2  # as many for each core
    alone, _ = default_schedule(prim, SERVER)
    order = next(s.args[0] for s in alone.steps if s.name == "reorder")
    assert order.index("j.0") < order.index("i.0")


def test_a_batch_of_products_passes_matrix_by_matrix() -> None:
    prim = parse_prim(
        "prim @f(x: float32[49, 16, 256], w: float32[16, 256, 256] const) -> "
        "out: float32[16, 49, 256] { out[p, i, j] = sum(k: 256) x[i, p, k] * w[p, k, j] }"
    )
    order = next(s.args[0] for s in default_schedule(prim, SERVER)[0].steps if s.name == "reorder")
    places = [order.index(loop) for loop in ("p.0", "i.0", "j.0", "i.1")]
    assert places == sorted(places)


def test_rules_say_how_an_operand_is_copied_and_know_schedules_that_do_not():
    prim = parse_prim(
        "prim @f(x: float32[512, 256], w: float32[256, 784]) -> out: float32[512, 784] {\n"
        " out[i, j] = sum(k: 256) x[i, k] * w[k, j] }"
    )
    space = ScheduleSpace(prim, HOST)
    row = next(r for r in space.sample(200, np.random.default_rng(1)) if says_copies(space, r))
    whole = space.schedule(row)
    assert completed(prim, whole) == whole
    old = Schedule(tuple(s for s in whole.steps if ".packed." not in str(s)))
    assert completed(prim, old) == whole
    assert space.row_of(old) is not None
    assert space.schedule(space.row_of(old)) == whole


def says_copies(space, row):
    return any(str(s).startswith("fuse('w.packed.0.0'") for s in space.schedule(row).steps)


def test_constants_that_L2_does_not_keep_come_one_panel_ahead():
    target = Target("x86-64-v4", cores=1, l1=48 << 10, l2=2 << 20, l3=32 << 20)

    def ahead(k: int, n: int, known: bool) -> list[str]:
        prim = product(128, k, n, "float32", False, False, known)
        schedule, _ = default_schedule(prim, target)
        return [step.args[1] for step in schedule.steps if step.name == "prefetch_next"]

    assert ahead(768, 768, True) == ["w.packed"]
    assert ahead(128, 768, True) == []
    assert ahead(768, 768, False) == []


@pytest.mark.parametrize(("rows", "c", "ahead"), [(196, 128, 0), (49, 256, 1)])
def test_panels_of_several_matrices_come_ahead_where_they_are_adjacent(rows, c, ahead) -> None:
    """Two columns of panels are none that lie side by side: a default that asked for them was
    refused, and the least choices taken."""
    prim = parse_prim(
        f"prim @f(x: int16[{rows}, 16, {c}], w: int16[16, {c}, {c}] const) -> "
        f"out: int32[{rows}, 16, {c}] {{\n"
        f" out[i, j, l] = sum(k: {c}) int32(x[i, j, k]) * int32(w[j, k, l]) }}"
    )
    target = Target("x86-64-v3", cores=1, l1=32 << 10, l2=1 << 20, l3=32 << 20)
    schedule, _ = default_schedule(prim, target)
    assert next(s.args[1][-1] for s in schedule.steps if s.args[0] == "i") > 1
    assert sum(s.name == "prefetch_next" for s in schedule.steps) == ahead


@pytest.mark.parametrize(
    ("expression", "sizes", "outer"),
    [  # one query against a cache whose heads lie between sequence and depth: scores, values
        ("sum(k: 16) x[j, k] * w[i, l, j, k]", (2, 6, 40, 16), ["i", "l.0", "j"]),
        (
            "sum(k: 256) x[i, j, k] * w[i, k, j, l]",
            (2, 6, 16, 256),
            ["i.0", "k.0", "j.1"],
        ),
    ],
)
@pytest.mark.parametrize("isa", LEVELS)
def test_loops_walk_the_largest_operand_in_its_order(expression, sizes, outer, isa) -> None:
    b, j, l, k = sizes
    x, w = ("6, 16", "2, 40, 6, 16") if k == 16 else ("2, 6, 256", "2, 256, 6, 16")
    prim = parse_prim(
        f"prim @f(x: float32[{x}], w: float32[{w}]) -> out: float32[{b}, {j}, {l}] {{\n"
        f" out[i, j, l] = {expression} }}"
    )
    target = replace(HOST.with_isa(isa), cores=1)
    schedule, _ = default_schedule(prim, target)
    text = str(apply_schedule(prim, schedule))
    loops = re.findall(r"(?:for|parallel) (\S+) in", text)
    assert loops[: len(outer)] == outer, text
    rng = np.random.default_rng(1)
    inputs = {p.name: rng.integers(-3, 4, p.shape).astype(np.float32) for p in prim.params}
    (found,) = run_kernel(compile_kernel(prim, schedule, target), target, inputs)
    equation = "jk,iljk->ijl" if k == 16 else "ijk,ikjl->ijl"
    np.testing.assert_array_equal(found, np.einsum(equation, inputs["x"], inputs["w"]))
