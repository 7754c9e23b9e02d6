"""The least arithmetic of a kernel."""

from __future__ import annotations

import loopwright as lw
import numpy as np
from loopwright.autotune.space.least_work import least_flops
from loopwright.ir.loop.parser import parse_prim
from loopwright.ir.loop.work import prim_flops


def prims(function, *specs):
    built = lw.compile(function, threads=1).lower(*specs).built
    return built.parts.prims


def test_what_chooses_by_place_costs_the_branch_that_is_taken():
    kernel = np.ones((64, 64, 3, 3), np.float32)
    found = prims(lambda x: lw.nn.conv2d(x, kernel, padding=1), lw.f32[1, 64, 32, 32])
    image = next(p for n, p in found.items() if "winograd_image" in n)
    tiles = 16 * 16 * 64  # F(2 x 2): 4 x 4 places of a tile of 2 x 2 results, per channel
    # 32 additions a tile by hand (Lavin and Gray, "Fast algorithms for convolutional neural
    # networks", 2016, section 4.1), 24 if what the four places of a row share is taken once.
    assert 24 * tiles <= least_flops(image) <= 32 * tiles
    assert prim_flops(image) > 4 * least_flops(image)


def test_where_no_place_is_chosen_by_nothing_is_saved():
    found = prims(lambda x, w: np.maximum(x @ w, 0), lw.f32[30, 40], lw.f32[40, 50])
    (prim,) = found.values()
    assert least_flops(prim) == prim_flops(prim) >= 2 * 30 * 40 * 50


def test_the_border_of_a_padded_array_costs_nothing():
    (prim,) = prims(lambda x: np.pad(x, 1) * 2, lw.f32[30, 40]).values()
    assert least_flops(prim) <= 32 * 42 * 2


def test_the_work_of_statements_is_counted():
    """A kernel without work would get none of the time of a search."""
    prim = parse_prim(
        "prim @f(x: float32[9]) -> y: float32[9] procedure {\n"
        "  y[0] = x[0]\n  for i in 8:\n    y[i + 1] = y[i]\n    y[i + 1] += x[i + 1]\n}"
    )
    assert least_flops(prim) == prim_flops(prim) == 17
