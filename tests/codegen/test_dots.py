"""Products of bytes: register tiles of vectors (VNNI), tile registers (AMX), and plain code."""

from __future__ import annotations

import re
from dataclasses import replace

import loopwright as lw
import numpy as np
import pytest
from compiled import run_kernel
from hypothesis import given, reject, settings
from hypothesis import strategies as st
from loopwright.autotune.space.space import ScheduleSpace, default_schedule
from loopwright.codegen.kernel import compile_kernel
from loopwright.codegen.llvm.engine import disassemble
from loopwright.codegen.target import FEATURES, Target
from loopwright.driver.pipeline import kernels_of, lower_module
from loopwright.ir.errors import ScheduleError
from loopwright.ir.loop.parser import parse_prim
from loopwright.ir.loop.prim import PrimFunc
from loopwright.ir.schedule.steps import (
    Schedule,
    cache_write,
    compute_at,
    compute_inline,
    pack_grouped,
    reorder,
    shift_bytes,
    split,
    unroll,
    vectorize,
)

HOST = Target.host()
TARGETS = [
    HOST,
    replace(HOST, features=HOST.features - {"amx-int8"}),
    replace(HOST, features=frozenset()),
    HOST.with_isa("x86-64"),
]
BYTES = st.sampled_from(["int8", "uint8"])


def product(m: int, k: int, n: int, left: str, right: str, constant: bool) -> PrimFunc:
    known = " const" if constant else ""
    return parse_prim(
        f"prim @f(x: {left}[{m}, {k}], w: {right}[{k}, {n}]{known}) -> out: int32[{m}, {n}] {{\n"
        f"  t[i, j]: int32[{m}, {n}] = sum(k: {k}) int32(x[i, k]) * int32(w[k, j])\n"
        "  out[i, j] = t[i, j] + 3:int32\n}"
    )


def schedule(prim: PrimFunc, rows: int, width: int, groups: int, scope: str) -> Schedule:
    m, k = (int(str(s)) for s in prim.params[0].shape)
    n = int(str(prim.params[1].shape[1]))
    shifted = scope == "registers" and prim.params[0].dtype == prim.params[1].dtype
    return Schedule.of(
        pack_grouped("w", "j", width, "k", 4),
        *([shift_bytes("t", "w.packed"), compute_inline("t")] if shifted else []),
        split("j", (-(-n // width), width)),
        split("i", (-(-m // rows), rows)),
        split("k", (-(-k // (4 * groups)), groups, 4)),
        reorder("j.0", "i.0", "k.0", "i.1", "j.1", "k.1", "k.2"),
        cache_write("t.raw" if shifted else "t", scope, "i.0"),
        compute_at("out", "i.0"),
        *(unroll(loop) for loop in ("i.1", "k.1", "k.2")),
        vectorize("j.1"),
    )


def check(prim: PrimFunc, steps: Schedule, target: Target, seed: int = 0) -> str:
    kernel = compile_kernel(prim, steps, target)
    rng = np.random.default_rng(seed)
    x, w = (
        rng.integers(
            np.iinfo(p.dtype.numpy).min,
            np.iinfo(p.dtype.numpy).max,
            [int(str(s)) for s in p.shape],
            p.dtype.numpy,
            endpoint=True,
        )
        for p in prim.params
    )
    (found,) = run_kernel(kernel, target, {"x": x, "w": w})
    np.testing.assert_array_equal(found, x.astype(np.int32) @ w.astype(np.int32) + 3)
    return kernel.text


def check_within_limits(prim: PrimFunc, steps: Schedule, target: Target) -> None:
    """As ``check``; draws that ask for more code than is compiled are passed over."""
    try:
        check(prim, steps, target)
    except ScheduleError as error:
        assert "the kernel has more than" in error.message
        reject()


@settings(max_examples=40)
@given(
    sizes=st.tuples(st.integers(1, 40), st.integers(1, 70), st.integers(1, 50)),
    left=BYTES,
    right=BYTES,
    constant=st.booleans(),
    tile=st.tuples(st.integers(1, 6), st.sampled_from([4, 16, 20, 32, 48]), st.integers(1, 3)),
    target=st.sampled_from(TARGETS),
)
def test_sums_in_vectors(sizes, left, right, constant, tile, target):
    prim = product(*sizes, left, right, constant)
    check_within_limits(prim, schedule(prim, *tile, "registers"), target)


# Without tile registers LLVM spills them, and takes a second for each example.
@settings(max_examples=25 if HOST.has_tiles else 5)
@given(
    sizes=st.tuples(st.integers(1, 70), st.integers(1, 150), st.integers(1, 70)),
    left=BYTES,
    right=BYTES,
    constant=st.booleans(),
    rows=st.sampled_from([1, 7, 16, 32]),
    width=st.sampled_from([5, 16, 32]),
    groups=st.sampled_from([1, 5, 16]),
)
def test_sums_in_tile_registers(sizes, left, right, constant, rows, width, groups):
    prim = product(*sizes, left, right, constant)
    check_within_limits(prim, schedule(prim, rows, width, groups, "tiles"), HOST)


def test_the_instructions_are_used():
    prim = product(32, 128, 32, "int8", "int8", True)
    vectors = check(prim, schedule(prim, 8, 32, 1, "registers"), HOST)
    assert ("vpdpbusd" in vectors) == HOST.has_dots
    if HOST.isa != "x86-64-v4":
        return  # with narrow vectors such a tile is more code than is compiled
    tiles = check(prim, schedule(prim, 32, 32, 16, "tiles"), HOST)
    assert tiles.count("@llvm.x86.tdpbssd(") == (5 if HOST.has_tiles else 0)  # and declared once
    assert tiles.count("call void @llvm.x86.ldtilecfg") == int(HOST.has_tiles)


@pytest.mark.parametrize("left", ["int8", "uint8"])
@pytest.mark.parametrize("right", ["int8", "uint8"])
@pytest.mark.parametrize("constant", [True, False])
def test_the_default_multiplies_bytes_of_any_kind_by_the_instruction(left, right, constant):
    prim = product(37, 132, 70, left, right, constant)
    target = replace(HOST, features=HOST.features - {"amx-int8"})
    space = ScheduleSpace(prim, target)
    text = check(prim, space.schedule(space.default()[0]), target)
    assert ("vpdpbusd" in text) == target.has_dots


@pytest.mark.parametrize("features", [frozenset(), frozenset({"avx512vnni"}), frozenset(FEATURES)])
@pytest.mark.parametrize("left", ["int8", "uint8"])
def test_every_row_of_the_space_is_right(features: frozenset[str], left: str) -> None:
    if not HOST.features >= {"avx512vnni", "amx-int8"} & features:
        pytest.skip("this machine has not the instructions")
    target = replace(HOST, features=features & HOST.features)
    prim = product(37, 133, 70, left, "int8", True)
    space = ScheduleSpace(prim, target)
    rows = np.concatenate([space.default(), space.sample(8, np.random.default_rng(0))])
    for row in rows[:12]:
        check(prim, space.schedule(row), target)
        if space.sketch_name(row).startswith("dots"):
            again = space.row_of(space.schedule(row))
            assert again is not None and space.schedule(again) == space.schedule(row)


def test_weights_widened_before_tracing_are_bytes_again():
    w = np.arange(-300, 300).reshape(20, 30).clip(-128, 127).astype(np.int8)
    x = np.ones((4, 20), np.int8)
    traced = lw.compile(lambda x: x.astype(np.int32) @ w.astype(np.int32)).trace(x)
    (prim,) = kernels_of(lower_module(traced.module)).values()
    assert [str(p.dtype) for p in prim.params] == ["int8", "int8"]


@pytest.mark.parametrize("low", [-129, -128])
def test_only_weights_that_fit_are_narrowed(low: int) -> None:
    w = np.zeros((20, 30), np.int32)
    w[3, 4] = low
    x = np.ones((4, 20), np.int8)
    traced = lw.compile(lambda x: x.astype(np.int32) @ w).trace(x)
    (prim,) = kernels_of(lower_module(traced.module)).values()
    assert str(prim.params[1].dtype) == ("int8" if low == -128 else "int32")
    np.testing.assert_array_equal(lw.compile(lambda x: x.astype(np.int32) @ w)(x), x @ w)


def test_widened_bytes_are_read_by_the_product_and_by_others():
    rng = np.random.default_rng(0)
    x = rng.integers(-128, 128, (17, 33)).astype(np.int8)
    w = rng.integers(0, 256, (21, 33)).astype(np.uint8)

    def both(x, w):
        wide = x.astype(np.int32)
        return wide @ w.astype(np.int32).T, wide + 1, wide

    for found, expected in zip(lw.compile(both)(x, w), both(x, w), strict=True):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("target", TARGETS[:2])
@pytest.mark.parametrize(
    ("m", "k", "n"), [(559, 128, 192), (64, 64, 100), (33, 52, 290), (8, 8, 8)]
)
def test_favourites_are_in_the_space(m: int, k: int, n: int, target: Target) -> None:
    """Tuning begins with them: of 192 columns in panels of 32, eight side by side are none."""
    space = ScheduleSpace(product(m, k, n, "int8", "int8", True), target, 1)
    for variant in space.variants:
        for choices in variant.defaults:
            values = {name: np.array([value]) for name, value in choices.items()}
            assert variant.sketch.fits(values).all(), (variant.name, choices)
    first = space.schedule(space.default()[0])
    assert first == space.variants[0].schedule(space.variants[0].defaults[0])


@pytest.mark.parametrize("isa", ["x86-64-v3", "x86-64-v4"])
@pytest.mark.parametrize("left", ["int8", "uint8"])
@pytest.mark.parametrize(("m", "k", "n"), [(128, 768, 384), (17, 256, 100), (1, 64, 256)])
def test_the_default_tile_stays_in_registers(m: int, k: int, n: int, left: str, isa: str) -> None:
    """Sums and operands fit, and loads broadcast the elements of rows."""
    features = frozenset({"avx512vnni" if isa == "x86-64-v4" else "avxvnni"})
    target = replace(HOST, isa=isa, features=features)
    prim = product(m, k, n, left, "int8", True)
    kernel = compile_kernel(prim, default_schedule(prim, target)[0], target)
    text = disassemble(kernel.text, target)
    between = [part for part in text.split("vpdpbusd") if ".LBB" not in part]
    assert len(between) > 8
    assert not any("%rsp" in part or re.search(r"broadcastd\s+%xmm", part) for part in between)
