"""``layout``, ``cache_read`` and ``own_axis``: what they make of the stages, and their guards."""

import numpy as np
import pytest
from loopwright.ir.errors import ScheduleError
from loopwright.ir.loop.parser import parse_prim
from loopwright.ir.loop.verify import verify_nest, verify_prim
from loopwright.ir.schedule.apply import apply_schedule
from loopwright.ir.schedule.steps import (
    Schedule,
    cache_read,
    cut,
    layout,
    own_axis,
    pack,
    reorder,
    split,
    state_of,
)
from prims import run_nest

MAPS = """
prim @f(x: float32[4, 6]) -> out: float32[4, 6] {
  t[i, j]: float32[4, 6] = exp(x[i, j])
  out[i, j] = t[i, 5 - j] * 2.0
}"""
MATMUL = """
prim @f(x: float32[4, 6], w: float32[6, 5]) -> out: float32[4, 5] {
  out[i, j] = sum(k: 6) x[i, k] * w[k, j]
}"""
GATHER = """
prim @f(x: float32[9], y: int64[4]) -> out: float32[4] {
  out[i] = x[y[i]]
}"""


def stages(text, *steps):
    prim = state_of(parse_prim(text), Schedule.of(*steps)).prim
    verify_prim(prim)
    return [line.strip() for line in str(prim).splitlines()[1:-1]]


def test_layout():
    assert stages(MAPS, layout("t", "j", "i")) == [
        "t[j, i]: float32[6, 4] = exp(x[i, j])",
        "out[i, j] = t[-j + 5, i] * 2.0",
    ]


def test_a_parameter_is_copied_before_all_else():
    assert stages(MATMUL, cache_read("x", "k", "i")) == [
        "x.copy[k, i]: float32[6, 4] = x[i, k]",
        "out[i, j] = sum(k: 6) x.copy[k, i] * w[k, j]",
    ]


def test_a_copy_may_walk_axes_that_it_is_not_read_along():
    assert stages(MATMUL, cache_read("w", "i", "k", "j"))[0] == (
        "w.copy[i, k, j]: float32[4, 6, 5] = w[k, j]"
    )


def test_an_intermediate_value_is_copied_once_it_is_there():
    assert stages(MAPS, cache_read("t", "j", "i")) == [
        "t[i, j]: float32[4, 6] = exp(x[i, j])",
        "t.copy[j, i]: float32[6, 4] = t[i, -j + 5]",
        "out[i, j] = t.copy[j, i] * 2.0",
    ]


def test_own_axis():
    assert stages(MAPS, own_axis("t", "j")) == [
        "t[i, t.j]: float32[4, 6] = exp(x[i, t.j])",
        "out[i, j] = t[i, -j + 5] * 2.0",
    ]


@pytest.mark.parametrize(
    "text, steps, message",
    [
        (
            MAPS,
            [layout("out", "j", "i")],
            "layout: out is an output, or its axes are not j, i but i, j",
        ),
        (MAPS, [layout("t", "i")], "layout: t is an output, or its axes are not i but i, j"),
        (
            MAPS,
            [split("i", (2, 2)), layout("t", "j", "i")],
            "layout: must come before all steps on loops",
        ),
        (MAPS, [layout("s", "i")], "layout: no stage 's' (the stages are t, out)"),
        (MAPS, [cache_read("y", "i")], "cache_read: y is not read at exactly one place"),
        (
            MATMUL.replace("w[k, j]", "x[i, 5 - k]"),
            [cache_read("x", "i", "k")],
            "cache_read: x is not read at exactly one place",
        ),
        (MATMUL, [cache_read("x", "i")], "cache_read: x is read along i, k, not i"),
        (MATMUL, [cache_read("x", "i", "k", "z")], "cache_read: x is read along i, k, not i, k, z"),
        (MATMUL, [cache_read("x", "i", "k", "i")], "cache_read: x is read along i, k, not i, k, i"),
        (GATHER, [cache_read("x", "i")], "cache_read: x is indexed by data"),
        (
            MATMUL,
            [cache_read("x", "i", "k"), cache_read("x", "i", "k"), cache_read("x", "i", "k")],
            "cache_read: x is copied already",
        ),
        (MAPS, [own_axis("t", "k")], "own_axis: k is not an axis of t"),
        (
            MAPS,
            [split("i", (2, 2)), own_axis("t", "j")],
            "own_axis: must come before all steps on loops",
        ),
    ],
)
def test_guards(text, steps, message):
    with pytest.raises(ScheduleError) as caught:
        state_of(parse_prim(text), Schedule.of(*steps))
    assert caught.value.message.endswith(message)


def test_only_stages_that_walk_the_axes_can_read_the_copy():
    text = """
    prim @f(x: float32[4, 6]) -> out: float32[4] {
      t[i]: float32[4] = sum(k: 6) x[i, k]
      out[i] = t[i] * 2.0
    }"""
    with pytest.raises(ScheduleError, match="out does not walk i, k"):
        stages(text, cache_read("t", "i", "k"))


@pytest.mark.parametrize(
    "steps",
    [
        [],
        [reorder("w.packed.o", "w.packed.i")],
        [split("w.packed.o", (2, 2))],
        [cut("w.packed.o", (2,))],
    ],
)
def test_panels_that_are_laid_out_anew_are_copied_to_their_end(steps):
    prim = parse_prim("""
prim @f(w: float32[7]) -> out: float32[7] {
  out[i] = w[i] + 1.0
}""")
    turned = layout("w.packed", "w.packed.i", "w.packed.o")
    nest = apply_schedule(prim, Schedule.of(pack("w", "i", 2), turned, *steps))
    verify_nest(nest)
    w = np.arange(7, dtype=np.float32)
    np.testing.assert_array_equal(run_nest(nest, {"w": w})["out"], w + 1)
