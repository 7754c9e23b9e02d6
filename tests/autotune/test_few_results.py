"""Convolutions to few channels, as decoders end with: vectors run along the image."""

from __future__ import annotations

import pytest
from compiled import check_variants
from loopwright.autotune.space.space import ScheduleSpace, default_schedule
from loopwright.codegen.target import ISA_LEVELS, Target
from loopwright.ir.loop.parser import parse_prim
from loopwright.ir.loop.prim import PrimFunc

HOST = Target.host()
LEVELS = list(ISA_LEVELS)[: list(ISA_LEVELS).index(HOST.isa) + 1]


def narrow(channels: int, results: int, size: int, stride: int = 1) -> PrimFunc:
    """A 3x3 convolution with a border of one, channels last in its operands and its result."""
    n, last = size + 2, size - 1
    inside = (
        f"((0 <= index(m - 1)) and (index(m - 1) <= {last})) and "
        f"((0 <= index(n - 1)) and (index(n - 1) <= {last}))"
    )
    places = (size - 1) // stride + 1
    return parse_prim(
        f"prim @f(x: float32[{size}, {size}, {channels}], "
        f"w: float32[3, 3, {channels}, {results}] const) -> "
        f"out: float32[{places}, {places}, {results}] {{\n"
        f" t[m, n, o]: float32[{n}, {n}, {channels}] = "
        f"where({inside}, x[m - 1, n - 1, o], 0.0)\n"
        f" out[i, j, l] = sum(k: 3, r: 3, s: {channels}) "
        f"t[{stride} * i + k, {stride} * j + r, s] * w[k, r, s, l] }}"
    )


@pytest.mark.parametrize("isa", LEVELS)
@pytest.mark.parametrize(
    "channels, results, size, stride", [(16, 3, 21, 1), (24, 2, 18, 2), (5, 6, 9, 1)]
)
def test_every_variant_is_right(isa, channels, results, size, stride):
    prim = narrow(channels, results, size, stride)
    attrs = {"data_layout": "NHWC", "kernel_layout": "HWIO", "padding": 1, "strides": stride}
    space = check_variants(prim, HOST.with_isa(isa), 9 * channels, **attrs)
    assert any("layout" in (s.name for s in v.prepare) for v in space.variants)


@pytest.mark.parametrize(
    "channels, results, axis", [(16, 2, "j"), (64, 3, "j"), (32, 4, "j"), (64, 16, "l")]
)
def test_vectors_run_along_the_image_where_channels_leave_most_lanes_empty(channels, results, axis):
    _, name = default_schedule(narrow(channels, results, 64), HOST.with_isa("x86-64-v4"))
    assert name == f"tile.{axis}()"


def test_maps_whose_vectors_are_stored_across_prefetch_nothing():
    """Lines ahead of the end of a short row are no lines that the tile reads next."""
    prim = parse_prim(
        "prim @f(x: float32[128, 128, 64]) -> out: float32[128, 64, 128] {"
        " out[m, o, n] = x[m, n, o] * 2.0 }"
    )
    for variant in ScheduleSpace(prim, HOST.with_isa("x86-64-v4")).variants:
        assert variant.defaults[0]["prefetch"] == 0
