"""Convolutions in groups: vectors run where a group's results find most in common."""

from __future__ import annotations

import pytest
from compiled import check_variants, on_two_levels
from loopwright.autotune.space.analysis import accesses_of
from loopwright.autotune.space.space import default_schedule
from loopwright.codegen.target import ISA_LEVELS, Target
from loopwright.ir.loop.parser import parse_prim
from loopwright.ir.loop.prim import PrimFunc

HOST = Target.host()
LEVELS = list(ISA_LEVELS)[: list(ISA_LEVELS).index(HOST.isa) + 1]
WIDE = "x86-64-v4"


def grouped(channels: int, each: int, size: int, stride: int = 1) -> PrimFunc:
    """A 3x3 convolution with a border of one, from as many channels as to, ``each`` in a group."""
    results = (size - 1) // stride + 1
    n = size + 2
    return parse_prim(
        f"prim @f(x: float32[{channels}, {size}, {size}], "
        f"w: float32[3, 3, {each}, {channels}] const) -> "
        f"out: float32[{channels}, {results}, {results}] {{\n"
        f" t[m, n, o]: float32[{n}, {n}, {channels}] = where(((0 <= index(m - 1)) and "
        f"(index(m - 1) <= {size - 1})) and ((0 <= index(n - 1)) and (index(n - 1) <= {size - 1}))"
        f", x[o, m - 1, n - 1], 0.0)\n"
        f" out[i, j, l] = sum(k: 3, r: 3, s: {each}) t[{stride} * j + k, {stride} * l + r, "
        f"{each} * (i // {each}) + s] * w[k, r, s, i] }}"
    )


def test_an_index_that_stays_for_a_group_is_one_place():
    (read, weights) = accesses_of(grouped(64, 16, 20), grouped(64, 16, 20).stages[-1].expr)
    assert read.runs == {"i": 16} and weights.runs == {}
    assert [read.places("i", steps) for steps in (8, 16, 32, 12)] == [1, 1, 2, 12]
    assert read.lane_stride("i", 16) == 0 and read.lane_stride("i", 32) is None


@pytest.mark.parametrize(
    "channels, each, size, axis",
    [(64, 4, 40, "l"), (64, 16, 32, "l"), (256, 16, 7, "i"), (256, 64, 28, "i")],
)
def test_vectors_run_along_wide_images_and_across_wide_groups(channels, each, size, axis):
    schedule, name = default_schedule(grouped(channels, each, size), HOST.with_isa(WIDE))
    assert name.startswith(f"tile.{axis}(")
    rows = next(s.args[1][-1] for s in schedule.steps if s.name == "split" and s.args[0] == "i")
    assert axis == "i" or each % rows == 0  # a tile stays in one group


@pytest.mark.parametrize("isa", list(ISA_LEVELS))
@pytest.mark.parametrize("each, groups", [(160, 3), (48, 5), (24, 4), (96, 2)])
def test_no_tile_of_a_pointwise_convolution_reaches_over_the_end_of_a_group(isa, each, groups):
    """The index of what it reads, ``40 * (j // 160) + k``, would differ from lane to lane."""
    prim = parse_prim(
        f"prim @f(x: float32[784, {40 * groups}], w: float32[40, {each * groups}] const) -> "
        f"out: float32[784, {each * groups}] {{\n"
        f" out[i, j] = sum(k: 40) x[i, 40 * (j // {each}) + k] * w[k, j] }}"
    )
    schedule, name = default_schedule(prim, HOST.with_isa(isa))
    assert name == "tile.j()"
    width = next(s.args[1][-1] for s in schedule.steps if s.name == "split" and s.args[0] == "j")
    assert each % width == 0 or width % each == 0


@pytest.mark.parametrize(
    ("sizes", "isa"),
    on_two_levels(
        [(6, 2, 21, 1), (12, 3, 9, 2), (32, 8, 18, 1), (32, 16, 7, 2), (48, 24, 5, 1)],
        LEVELS[-1],
        LEVELS[:-1],
    ),
)
def test_every_variant_is_right(sizes, isa):
    channels, each, size, stride = sizes
    prim = grouped(channels, each, size, stride)
    attrs = {"kernel_layout": "HWIO", "padding": 1, "strides": stride}
    check_variants(prim, HOST.with_isa(isa), 9 * each, groups=channels // each, **attrs)
