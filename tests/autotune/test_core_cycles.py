"""What the estimate of a core says of schedules where it can be counted by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from loopwright.autotune.space.estimate import Estimate
from loopwright.autotune.space.space import ScheduleSpace
from loopwright.codegen.core import core_of
from loopwright.codegen.target import Target
from prims import KINDS, make_prim

TARGET = Target("x86-64-v3", "some CPU", 4, 32768, 1 << 20, 1 << 25)


class Rule:
    """The variant of a kernel whose name begins so."""

    def __init__(self, rule: str, kind: str, *sizes: int, target: Target = TARGET) -> None:
        self.target = target
        self.space = ScheduleSpace(make_prim(kind, *sizes, dtype="float32"), target, 1)
        names = [v.name for v in self.space.variants]
        self.number = next(n for n, name in enumerate(names) if name.startswith(rule))

    def of(self, **choices: int) -> dict[str, float]:
        """Returns cycles and bytes into L1 of the first value of every knob but of these."""
        row = np.zeros((1, len(self.space.knobs)), np.int32)
        row[:, 0] = self.number
        for name, value in choices.items():
            table = self.space.variants[self.number].tables[name]
            row[0, 1 + self.space.names.index(name)] = table.tolist().index(value)
        (arrays,) = self.space.loops(row)
        estimate = Estimate(arrays, self.target)
        main = estimate.stages[estimate.main.name]
        found = {name: float(getattr(main, name)[0]) for name in type(main).__annotations__}
        return {**found, "into_l1": float(estimate.main_traffic.l1[0])}


def test_arithmetic_is_that_of_the_kernel_and_whole_tiles_have_no_tails() -> None:
    sketch = Rule("tile.j", "matmul", 24, 64, 40)
    found = sketch.of(vectors=2, rows=4)
    assert found["arithmetic"] == pytest.approx(
        24 * 64 * 40 / 8 / 2
    )  # two vectors of 8 lanes a cycle
    assert found["tails"] == 0.0
    assert sketch.of(vectors=2, rows=5)["tails"] > 0.0  # four rows are left over
    assert sketch.of(vectors=3, rows=4)["tails"] > 0.0


def test_small_tiles_load_more_and_large_ones_do_not_fit_the_registers() -> None:
    sketch = Rule("tile.j", "matmul", 96, 64, 40)
    small, good, large = (sketch.of(vectors=v, rows=r) for v, r in ((1, 1), (2, 6), (4, 8)))
    assert small["loads"] > 2 * good["loads"] > large["loads"]
    assert small["spilled"] == good["spilled"] == 0.0 < large["spilled"]
    assert good["cycles"] < min(small["cycles"], large["cycles"])
    assert small["latency"] > small["arithmetic"] and good["latency"] < good["arithmetic"]


def test_short_loops_run_into_each_other_but_for_bursts_of_stores() -> None:
    """Eight sums of eight steps each leave nothing idle; twelve at a time are stored in a burst."""
    core = core_of(TARGET)
    short, long = (Rule("tile.j", "matmul", 24, 48, depth) for depth in (8, 80))
    eight, twelve = (short.of(vectors=v, rows=4) for v in (2, 3))
    assert eight["loop"] == pytest.approx(eight["tiles"] * core.unrolled_tile)
    more = core.burst * (12 - core.held_stores)
    assert twelve["loop"] == pytest.approx(twelve["tiles"] * (core.unrolled_tile + more))
    eight, twelve = (long.of(vectors=v, rows=4) for v in (2, 3))
    assert eight["loop"] / eight["tiles"] > core.tile and eight["loop"] > twelve["loop"]


def test_vectors_of_half_the_lanes_take_a_halved_unit_once() -> None:
    halved, whole = (
        Target("x86-64-v4", cpu, 2, 32768, 1 << 20, 1 << 25) for cpu in ("AMD EPYC", "Intel Xeon")
    )
    for target, share in ((halved, 0.5), (whole, 1.0)):
        ports = core_of(target).fma_ports
        for columns, expected in ((16, 1.0), (8, share), (6, 1.0)):
            found = Rule("tile.j", "matmul", 24, columns, 40, target=target).of(vectors=1, rows=8)
            assert found["arithmetic"] == pytest.approx(24 * 40 / ports * expected)


def test_blocks_turned_in_registers_take_fewer_shuffles_than_single_lanes() -> None:
    sketch = Rule("tile.j", "map", 64, 128, 1)
    single, turned = sketch.of(vectors=1, rows=1), sketch.of(vectors=1, rows=8)
    assert single["loads"] > 4 * turned["loads"]
    assert single["shuffles"] > turned["shuffles"]


def test_rows_a_page_apart_crowd_one_set() -> None:
    crowded, apart = Rule("tile.j", "map", 64, 1024, 1), Rule("tile.j", "map", 64, 1040, 1)
    assert crowded.of(vectors=4)["into_l1"] > 1.5 * apart.of(vectors=4)["into_l1"]


@pytest.mark.parametrize("kind", sorted(set(KINDS) - {"nothing"}))
def test_they_are_finite_whatever_is_chosen(kind: str) -> None:
    space = ScheduleSpace(make_prim(kind, 24, 40, 16, dtype="float32"), TARGET, 1)
    rows = np.concatenate([space.default(), space.sample(40, np.random.default_rng(0))])
    with np.errstate(all="raise", under="ignore"):
        assert np.isfinite(space.features(rows)).all()


def test_a_core_is_described_by_the_family_of_its_cpu() -> None:
    wide = Target("x86-64-v4", "AMD EPYC", 2)
    halves, narrow = core_of(wide), core_of(wide.with_isa("x86-64-v3"))
    assert (halves.fma_ports, halves.loads) == (1.0, 1.0)  # units of 256 bits, vectors of 512
    assert (narrow.fma_ports, narrow.loads) == (2.0, 2.0)
    whole = core_of(replace(wide, cpu="AMD EPYC 9555 64-Core Processor"))
    assert whole.fma_ports == 2.0
    assert core_of(replace(wide, cpu="generic")) == core_of(replace(wide, cpu="Intel(R) Xeon(R)"))
