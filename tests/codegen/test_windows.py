"""Depthwise convolutions and pools as compiled without a log, against float64 references."""

from __future__ import annotations

import loopwright as lw
import numpy as np
import pytest
from compiled import lower, operator_module, run_module
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from loopwright.autotune.space.estimate import cycles_of, offers
from loopwright.autotune.space.rules.window import Window
from loopwright.autotune.space.space import ScheduleSpace, default_variant
from loopwright.autotune.space.tiling import Choices
from loopwright.codegen.kernel import compile_kernel
from loopwright.codegen.target import ISA_LEVELS, Target
from loopwright.driver.pipeline import kernels_of, lower_module
from loopwright.ir.dtype import FLOAT32
from loopwright.ir.errors import LoopwrightValueError
from loopwright.ir.graph.operator import OPERATORS
from loopwright.ir.loop.parser import parse_prim
from loopwright.ir.loop.verify import verify_nest
from loopwright.ir.schedule.steps import Schedule
from loopwright.ir.tolerance import tolerance
from page_borders import run_at_page_borders

HOST = Target.host()
LEVELS = list(ISA_LEVELS)[: list(ISA_LEVELS).index(HOST.isa) + 1]
TERM = 8.0  # the size of a product of two of the random numbers
PADS = st.tuples(*[st.integers(0, 2)] * 4)
PAIRS = st.tuples(st.integers(1, 3), st.integers(1, 3))


def check(name: str, arrays: list[np.ndarray], attrs: dict[str, object], isa: str) -> None:
    """The operator's compiled kernels against its reference on the same numbers in float64."""
    operator = OPERATORS[name]
    try:
        module = lower(operator_module(operator, arrays, attrs))
    except LoopwrightValueError:
        assume(False)
    found = run_module(module, arrays, HOST.with_isa(isa))
    exact = operator.reference([a.astype(np.float64) for a in arrays], module_attrs(name, attrs))
    taps = int(np.prod(arrays[1].shape[2:] if len(arrays) > 1 else attrs["pool_size"]))
    rtol, atol = tolerance(FLOAT32, taps, scale=TERM)
    np.testing.assert_allclose(found, exact, rtol=rtol, atol=atol)


def module_attrs(name: str, attrs: dict[str, object]) -> dict[str, object]:
    return {**{a.name: a.default for a in OPERATORS[name].attrs}, **attrs}


@settings(max_examples=30, deadline=None)
@given(
    isa=st.sampled_from(LEVELS),
    shape=st.tuples(st.integers(1, 2), st.integers(1, 40), st.integers(3, 40), st.integers(3, 40)),
    kernel=PAIRS,
    multiplier=st.sampled_from((1, 1, 2)),
    strides=PAIRS,
    dilation=PAIRS,
    padding=PADS,
    layout=st.sampled_from(("NCHW", "NHWC")),
)
def test_depthwise_convolution(isa, shape, kernel, multiplier, strides, dilation, padding, layout):
    rng = np.random.default_rng(5)
    batch, channels, height, width = shape
    if layout == "NHWC":
        shape = (batch, height, width, channels)
    x = rng.standard_normal(shape, dtype=np.float32)
    w = rng.standard_normal((channels * multiplier, 1, *kernel), dtype=np.float32)
    attrs = {
        "strides": strides,
        "dilation": dilation,
        "padding": padding,
        "groups": channels,
        "data_layout": layout,
    }
    check("nn.conv2d", [x, w], attrs, isa)


@pytest.mark.parametrize("kind", ["max", "avg"])
@settings(max_examples=30, deadline=None)
@given(
    isa=st.sampled_from(LEVELS),
    shape=st.tuples(st.integers(1, 2), st.integers(1, 20), st.integers(2, 40), st.integers(2, 40)),
    window=PAIRS,
    strides=PAIRS,
    dilation=PAIRS,
    padding=PADS,
    ceil=st.booleans(),
    layout=st.sampled_from(("NCHW", "NHWC")),
)
def test_pools(isa, kind, shape, window, strides, dilation, padding, ceil, layout):
    rng = np.random.default_rng(6)
    x = rng.standard_normal(shape, dtype=np.float32)
    if layout == "NHWC":
        x = np.ascontiguousarray(np.moveaxis(x, 1, 3))
    attrs: dict[str, object] = {
        "pool_size": window,
        "strides": strides,
        "dilation": dilation,
        "padding": padding,
        "ceil_mode": ceil,
        "layout": layout,
    }
    if kind == "avg":
        attrs["count_include_pad"] = bool(shape[0] - 1)
    check(f"nn.{kind}_pool2d", [x], attrs, isa)


@pytest.mark.parametrize("isa", LEVELS)
def test_nan_wins_in_a_padded_max_pool(isa, rng):
    x = rng.standard_normal((1, 2, 9, 37), dtype=np.float32)
    x[0, 0, 4, 5], x[0, 1, 0, 36] = np.nan, -np.inf
    attrs = {"pool_size": (3, 3), "strides": 2, "padding": 1}
    check("nn.max_pool2d", [x], attrs, isa)


DEPTHWISE = """
prim @f(x0: float32[8, 30, 30], x1: float32[3, 3, 8] const, x2: float32[8]) \
-> out: float32[8, 30, 30] {
  t0[m, n, o]: float32[32, 32, 8] = where(((1 <= index(m)) and (index(m) <= 30)) and \
((1 <= index(n)) and (index(n) <= 30)), x0[o, m - 1, n - 1], 0.0)
  t1[i, j, l]: float32[8, 30, 30] = sum(k: 3, r: 3) t0[j + k, l + r, i] * x1[k, r, i]
  out[i, j, l] = maximum(t1[i, j, l] + x2[i], 0.0)
}"""


def test_depthwise_runs_along_the_width_without_a_copy_or_a_condition():
    space = ScheduleSpace(parse_prim(DEPTHWISE), HOST)
    best = space.variants[0].tiling
    assert isinstance(best, Window) and best.vector_axis == "l"
    kernel = compile_kernel(space.prim, space.schedule(space.default()[0]), HOST)
    assert not kernel.nest.workspace
    verify_nest(kernel.nest)
    middle = str(kernel.nest).split("for l.0 in")[0]
    assert "where" in middle  # the border asks, in lanes
    assert "icmp" not in kernel.text.replace("icmp ult i64 %i", "")  # and is answered beforehand


def test_rows_of_the_window_space_read_back():
    space = ScheduleSpace(parse_prim(DEPTHWISE), HOST)
    rows = space.sample(40, np.random.default_rng(3))
    for row in rows[rows[:, 0] == 0]:
        found = space.row_of(space.schedule(row))
        assert found is not None and space.schedule(found) == space.schedule(row)


LARGE_WINDOW = """
prim @f(x0: float32[32, 106, 106], x1: float32[5, 5, 32] const) -> out: float32[32, 106, 106] {
  t0[m, n, o]: float32[110, 110, 32] = where(((0 <= index(m - 2)) and (index(m - 2) <= 105)) and \
((0 <= index(n - 2)) and (index(n - 2) <= 105)), x0[o, m - 2, n - 2], 0.0)
  out[i, j, l] = sum(k: 5, r: 5) t0[j + k, l + r, i] * x1[k, r, i]
}"""


def test_tuning_tries_the_fewest_cycles_early():
    """Untuned code has to compile fast; what takes fewer cycles stands right behind it."""
    sketch = ScheduleSpace(parse_prim(LARGE_WINDOW), HOST).variants[0].tiling
    assert isinstance(sketch, Window)
    cycles = [_cycles(sketch, c) for c in sketch.defaults]
    assert len(cycles) > 2 and min(cycles[:2]) == min(cycles)


@pytest.mark.parametrize(("channels", "size", "kernel"), [(96, 56, 7), (384, 14, 7), (240, 14, 5)])
def test_rows_share_the_image_in_large_windows(channels: int, size: int, kernel: int) -> None:
    """Without masks the code of all borders would be long; the masks of loads leave one body."""
    pad = kernel // 2
    x = f"x0[i, j + k - {pad}, l + r - {pad}]"
    inside = [f"({c})" for a in ("j + k", "l + r") for c in _inside(f"index({a} - {pad})", size)]
    prim = parse_prim(
        f"prim @f(x0: float32[{channels}, {size}, {size}], x1: float32[{kernel}, {kernel}, "
        f"{channels}] const) -> out: float32[{channels}, {size}, {size}] {{\n"
        f"  out[i, j, l] = sum(k: {kernel}, r: {kernel}) where((({inside[0]} and {inside[1]}) and "
        f"{inside[2]}) and {inside[3]}, {x}, 0.0) * x1[k, r, i]\n}}"
    )
    target = Target(isa="x86-64-v4", l1=48 << 10, l2=2 << 20)
    schedule, variant = default_variant(prim, target)
    assert variant is not None and isinstance(variant.tiling, Window)
    c = variant.defaults[0]
    tables = {name: variant.tiling.knobs[name] for name in ("vectors", "rows")}
    best = cycles_of(variant.tiling, offers(variant.tiling, **tables)).min()
    assert _cycles(variant.tiling, c) <= 1.2 * best
    assert schedule == variant.schedule(c)
    assert variant.tiling.written(c) < 1400


def _inside(index: str, size: int) -> tuple[str, str]:
    return f"0 <= {index}", f"{index} <= {size - 1}"


def _cycles(sketch: Window, choices: Choices) -> float:
    return float(cycles_of(sketch, {name: np.array([n]) for name, n in choices.items()})[0])


@pytest.mark.parametrize(("channels", "rule"), [(24, "tile"), (6, "tile"), (1, "window")])
def test_an_image_that_many_channels_read_is_shared_by_a_tile(channels: int, rule: str) -> None:
    prim = parse_prim(
        f"prim @f(x0: float32[100, 100], x1: float32[5, 5, {channels}] const) -> "
        f"out: float32[{channels}, 48, 48] {{\n"
        f"  out[i, j, l] = sum(k: 5, r: 5) x0[2 * j + k, 2 * l + r] * x1[k, r, i]\n}}"
    )
    _, variant = default_variant(prim, HOST)
    assert variant is not None and variant.name.startswith(rule)


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("isa", ["x86-64-v3", "x86-64-v4"])
def test_large_windows_are_windows_in_every_layout(layout: str, isa: str) -> None:
    """Where the borders of both axes are too much code, on a padded copy."""
    w = np.ones((96, 1, 7, 7), np.float32)
    traced = lw.compile(
        lambda x: lw.nn.conv2d(x, w, padding=3, groups=96, data_layout=layout, kernel_layout="OIHW")
    ).trace(lw.f32[(1, 96, 28, 28) if layout == "NCHW" else (1, 28, 28, 96)])
    (prim,) = kernels_of(lower_module(traced.module)).values()
    target = Target(isa=isa, l1=48 << 10, l2=2 << 20)
    _, variant = default_variant(prim, target)
    assert variant is not None and variant.name.startswith("window"), variant


@pytest.mark.parametrize(
    ("channels", "size", "kernel", "goes_down"),
    [(192, 28, 3, False), (128, 24, 3, False), (144, 24, 3, True), (240, 28, 5, True)],
)
def test_one_vector_goes_down_all_rows_where_its_lines_stay_in_l1(
    channels: int, size: int, kernel: int, goes_down: bool
) -> None:
    """Places 768 bytes apart share a quarter of the sets of L1, places 576 bytes apart use all."""
    w = np.ones((channels, 1, kernel, kernel), np.float32)
    traced = lw.compile(
        lambda x: lw.nn.conv2d(
            x, w, padding=kernel // 2, groups=channels, data_layout="NHWC", kernel_layout="OIHW"
        )
    ).trace(lw.f32[1, size, size, channels])
    (prim,) = kernels_of(lower_module(traced.module)).values()
    target = Target(isa="x86-64-v4", l1=48 << 10, l2=2 << 20).with_threads(1)
    _, variant = default_variant(prim, target)
    assert variant is not None and isinstance(variant.tiling, Window)
    assert variant.tiling.keeps_rows(4) == goes_down
    c = variant.defaults[0]
    assert bool(c["vectors_outer"]) == variant.tiling.keeps_rows(c["second_rows"])


@pytest.mark.parametrize("channels", [16, 24])
def test_vectors_are_not_gathered_along_an_image_of_few_channels(channels: int) -> None:
    """The last convolution of a network writes channels first what it reads channels last."""
    inside = [f"({c})" for a in "mn" for c in _inside(f"index({a} - 1)", 64)]
    prim = parse_prim(
        f"prim @f(x0: float32[64, 64, 24], x1: float32[3, 3, 24, {channels}] const) -> "
        f"out: float32[{channels}, 64, 64] {{\n"
        f"  t0[m, n, o]: float32[66, 66, 24] = where((({inside[0]} and {inside[1]}) and "
        f"{inside[2]}) and {inside[3]}, x0[m - 1, n - 1, o], 0.0)\n"
        f"  t1[i, j, l]: float32[{channels}, 64, 64] = sum(k: 3, r: 3, s: 24) "
        "t0[j + k, l + r, s] * x1[k, r, s, i]\n"
        "  out[i, j, l] = maximum(t1[i, j, l], 0.0)\n}"
    )
    target = Target(isa="x86-64-v4", l1=48 << 10, l2=2 << 20)
    _, variant = default_variant(prim, target)
    assert variant is not None and variant.tiling.vector_axis == "i"


@pytest.mark.parametrize("at_start", [False, True])
def test_taps_of_a_strided_window_are_read_inside_of_the_array_only(at_start: bool) -> None:
    """The tap in the middle lies inside in every lane, those beside it not: a block of all taps is
    loaded for it, whose rows have a mask each."""
    inside = [
        f"(0 <= index({i} - 2)) and (index({i} - 2) <= {n})" for i, n in (("m", 1), ("o", 14))
    ]
    prim = parse_prim(
        "prim @sums(x: float32[2, 15]) -> out: float32[6, 8] {\n  t[m, o]: float32[6, 19] = "
        f"where(({inside[0]}) and ({inside[1]}), x[m - 2, o - 2], 0.0)\n"
        "  out[i, l] = sum(k: 5) t[i, k + 2 * l]\n}"
    )
    steps = [["compute_inline", "t"], ["split", "l", [1, 8]], ["reorder", ["i", "l.0", "k", "l.1"]]]
    steps += [["cache_write", "out", "registers", "l.0"], ["unroll", "k"], ["vectorize", "l.1"]]
    x = np.arange(30, dtype=np.float32).reshape(2, 15)
    kernel = compile_kernel(prim, Schedule.from_json([*steps, ["peel", "l.0", 1, 0]]), HOST)
    (found,) = run_at_page_borders(kernel, HOST, {"x": x}, at_start)
    padded = np.pad(x, 2)
    assert np.array_equal(found, sum(padded[:, k : k + 15 : 2] for k in range(5)))
