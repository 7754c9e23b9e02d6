"""The ``mirror`` rule: which kernels compute one triangle, in which blocks."""

from __future__ import annotations

import loopwright as lw
import numpy as np
import pytest
from loopwright.autotune.measure.kernels import task_of
from loopwright.autotune.space.estimate import Estimate
from loopwright.autotune.space.least_work import least_flops
from loopwright.autotune.space.space import ScheduleSpace, default_variant
from loopwright.codegen.target import Target
from loopwright.driver.pipeline import kernels_of, lower_module
from loopwright.ir.loop.prim import PrimFunc
from loopwright.ir.loop.work import prim_flops, stage_flops
from loopwright.ir.schedule.apply import apply_schedule
from prims import make_prim, parse_prim

TARGET = Target(isa="x86-64-v4", l1=48 << 10, l2=2 << 20)


def kernels(function, *specs) -> list[PrimFunc]:
    return list(kernels_of(lower_module(lw.compile(function).trace(*specs).module)).values())


def mirrored(prim: PrimFunc, target: Target = TARGET) -> bool:
    schedule, _ = default_variant(prim, target)
    return any(step.name == "mirror" for step in schedule.steps)


def gram(n: int, k: int, dtype: str = "float32") -> PrimFunc:
    return parse_prim(f"""
        prim @gram(x: {dtype}[{k}, {n}]) -> out: {dtype}[{n}, {n}] {{
          out[i, j] = sum(k: {k}) x[k, i] * x[k, j]
        }}""")


@pytest.mark.parametrize("isa", ["x86-64", "x86-64-v3", "x86-64-v4"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
def test_little_more_than_half_is_computed(isa: str, dtype: str) -> None:
    prim = gram(160, 64, dtype)
    target = Target(isa=isa)
    space = ScheduleSpace(prim, target)
    (row, *_), (variant, *_) = space.default(), space.variants
    assert variant.name.startswith("mirror") and mirrored(prim, target)
    (arrays,) = space.loops(row[None])
    estimate = Estimate(arrays, target)
    whole = stage_flops(estimate.main) / 2 / estimate.lanes_of[estimate.main.name]
    share = estimate.stages[estimate.main.name].arithmetic[0] * estimate.core.fma_ports / whole
    assert 0.5 < share < 0.66


STATISTICS = {
    "gram": (lambda x: x.T @ x, (1500, 300)),
    "batched": (lambda x: x @ np.swapaxes(x, -1, -2), (3, 128, 64)),
    "covariance": (lambda x: (d := x - x.mean(axis=1)[:, None]) @ d.T / 299, (128, 300)),
    "correlation": (lambda x: (z := x / x.std(axis=1)[:, None]) @ z.T, (128, 300)),
    "centred": (lambda x: (x - x.mean(axis=0)).T @ (x - x.mean(axis=0)) / 9, (1500, 300)),
    "normalised": (lambda x: (u := x / np.linalg.norm(x, axis=1)[:, None]) @ u.T, (512, 256)),
    "einsum": (lambda x: np.einsum("ki,kj->ij", x, x), (256, 128)),
    "distances": (lambda x: ((x[:, None] - x[None]) ** 2).sum(axis=-1), (200, 64)),
    "city blocks": (lambda x: np.abs(x[:, None] - x[None]).sum(axis=-1), (200, 64)),
    "kernel": (
        lambda x: np.exp(-(((s := (x * x).sum(1))[:, None] + s) - 2 * (x @ x.T))),
        (400, 64),
    ),
}


@pytest.mark.parametrize("name", STATISTICS)
def test_statistics_are_mirrored(name: str) -> None:
    function, shape = STATISTICS[name]
    assert any(mirrored(prim) for prim in kernels(function, lw.f32[shape]))


@pytest.mark.parametrize("n, k", [(1, 1000), (8, 1000), (31, 1000), (400, 1), (400, 4)])
def test_what_is_narrow_or_shallow_is_not_mirrored(n: int, k: int) -> None:
    assert not mirrored(gram(n, k))


def test_a_product_of_two_arrays_is_not_mirrored() -> None:
    assert not any(mirrored(p) for p in kernels(lambda x, y: x.T @ y, *[lw.f32[256, 128]] * 2))


def test_what_is_read_otherwise_behind_the_product_is_not_in_the_way() -> None:
    assert any(mirrored(p) for p in kernels(lambda x: x @ x.T + x, lw.f32[256, 256]))


@pytest.mark.parametrize("n, k", [(200, 64), (97, 33), (300, 1500)])
def test_every_schedule_is_found_again(n: int, k: int) -> None:
    prim = gram(n, k)
    space = ScheduleSpace(prim, TARGET)
    rows = np.concatenate([space.default(), space.sample(40, np.random.default_rng(0))])
    mirrors = [r for r in rows if space.sketch_name(r).startswith("mirror")]
    assert len(mirrors) > 5
    for row in mirrors:
        schedule = space.schedule(row)
        apply_schedule(prim, schedule)
        found = space.row_of(schedule)
        assert found is not None and space.schedule(found) == schedule
    assert np.isfinite(space.features(np.stack(mirrors))).all()


def test_limits_count_one_triangle() -> None:
    prim = gram(300, 100)
    assert least_flops(prim) == pytest.approx(prim_flops(prim) * 301 / 600)


def test_a_task_has_no_share_of_the_peak_above_all_of_it() -> None:
    """ "124 % of peak" was shown where operations were counted that need not be done."""
    prim = gram(300, 100)
    assert task_of(prim, TARGET, 1).flops == least_flops(prim)


@pytest.mark.parametrize("sizes", [(0, 24), (24, 0), (0, 0)])
def test_a_product_of_an_empty_array_has_a_schedule(sizes: tuple[int, int]) -> None:
    """An estimate is made of no offer."""
    schedule, _ = default_variant(make_prim("gram", *sizes, 1, dtype="float32"), Target.host())
    assert not any(step.name == "mirror" for step in schedule.steps)
