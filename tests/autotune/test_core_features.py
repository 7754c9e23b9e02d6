"""What the core's features say of schedules where it can be counted by hand."""

from __future__ import annotations

import numpy as np
import pytest
from loopwright.autotune.space.core_features import core_features
from loopwright.autotune.space.space import ScheduleSpace
from loopwright.autotune.space.tiling import Kind, Tiling
from loopwright.codegen.target import Target
from prims import KINDS, make_prim

TARGET = Target("x86-64-v3", "some CPU", 4, 32768, 1 << 20, 1 << 25)


def of(tiling: Tiling, **choices: int) -> dict[str, float]:
    """The features of one candidate: the first value of every knob but of these."""
    values = {
        name: np.array([value]) for name, value in {**tiling.base_choices(), **choices}.items()
    }
    found = core_features(tiling, tiling.values(values, 1))
    return {name: float(value[0]) for name, value in found.items()}


def tiled(kind: str, *sizes: int, kind_of_nest: int = Kind.TILES) -> Tiling:
    space = ScheduleSpace(make_prim(kind, *sizes, dtype="float32"), TARGET, 1)
    return next(v.tiling for v in space.variants if v.tiling.kind == kind_of_nest)


def test_arithmetic_is_that_of_the_kernel_and_whole_tiles_have_no_tails() -> None:
    sketch = tiled("matmul", 24, 64, 40)
    found = of(sketch, vectors=2, rows=4)
    assert found["arithmetic"] == pytest.approx(24 * 64 * 40 / 8)  # one vector a cycle, 8 lanes
    assert found["tails"] == 0.0
    assert of(sketch, vectors=2, rows=5)["tails"] > 0.0  # four rows are left over
    assert of(sketch, vectors=3, rows=4)["tails"] > 0.0


def test_small_tiles_load_more_and_large_ones_do_not_fit_the_registers() -> None:
    sketch = tiled("matmul", 96, 64, 40)
    small, good, large = (of(sketch, vectors=v, rows=r) for v, r in ((1, 1), (2, 6), (4, 8)))
    assert small["loads"] > 2 * good["loads"] > large["loads"]
    assert small["spilled"] == good["spilled"] == 0.0 < large["spilled"]
    assert good["cycles"] < min(small["cycles"], large["cycles"])
    assert small["latency"] > small["arithmetic"] and good["latency"] < good["arithmetic"]


def test_blocks_turned_in_registers_take_fewer_shuffles_than_single_lanes() -> None:
    sketch = tiled("map", 64, 128, 1)
    single, turned = of(sketch, vectors=1, rows=1), of(sketch, vectors=1, rows=8)
    assert single["loads"] > 4 * turned["loads"]
    assert single["shuffles"] > turned["shuffles"]


def test_rows_a_page_apart_crowd_one_set() -> None:
    crowded, apart = tiled("map", 64, 1024, 1), tiled("map", 64, 1040, 1)
    assert of(crowded, vectors=4)["set_conflicts"] > 4 * of(apart, vectors=4)["set_conflicts"]


@pytest.mark.parametrize("kind", sorted(set(KINDS) - {"nothing"}))
def test_they_are_finite_whatever_is_chosen(kind: str) -> None:
    space = ScheduleSpace(make_prim(kind, 24, 40, 16, dtype="float32"), TARGET, 1)
    rows = np.concatenate([space.default(), space.sample(40, np.random.default_rng(0))])
    with np.errstate(all="raise", under="ignore"):
        assert np.isfinite(space.features(rows)).all()
