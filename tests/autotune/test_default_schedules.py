"""Every group that fusion makes has a schedule of the rules: no kernel runs as the plain nest."""

from __future__ import annotations

from dataclasses import replace
from math import prod

import loopwright as lw
import numpy as np
import pytest
from loopwright.autotune.space.analysis import groups_of
from loopwright.autotune.space.rules.tile import tile_of
from loopwright.autotune.space.space import ScheduleSpace, default_variant
from loopwright.autotune.space.tiling import Pack
from loopwright.codegen.limits import check_private_buffers
from loopwright.codegen.target import Target
from loopwright.driver.pipeline import kernels_of, lower_module, preferences_of
from loopwright.ir.errors import ScheduleError
from loopwright.ir.loop.prim import PrimFunc
from loopwright.ir.loop.verify import verify_nest
from loopwright.ir.loop.work import prim_flops
from loopwright.ir.schedule.apply import apply_schedule
from loopwright.ir.schedule.steps import Schedule, cache_write, reorder
from prims import parse_prim, run_nest
from random_draw import RandomDraw
from random_steps import draw_program

TARGET = Target(isa="x86-64-v4")
NO_WORK = 200  # instructions in all: scalars


def kernels(function, *specs) -> list[PrimFunc]:
    module = lw.compile(function).trace(*specs).module
    return list(kernels_of(lower_module(module)).values())


def rule_of(prim: PrimFunc) -> str:
    variant = default_variant(prim, TARGET)[1]
    return "plain" if variant is None else variant.name.split(".")[0]


def softmax(scores):
    e = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def attention_of(select, masked=lambda s: s):
    def attention(*args):
        q, k, v = select(*args)
        return softmax(masked(q @ np.swapaxes(k, -1, -2) / 8)) @ v

    return attention


ATTENTIONS = {
    "stacked": (attention_of(lambda x: (x[0], x[1], x[2])), (lw.f32[3, 4, 64, 32],)),
    "packed": (
        attention_of(lambda x: np.moveaxis(x.reshape(64, 3, 4, 32), (1, 2), (0, 1))),
        (lw.f32[64, 384],),
    ),
    "self": (attention_of(lambda x: (x, x, x)), (lw.f32[4, 64, 32],)),
    "shared keys": (attention_of(lambda q, k: (q, k, k)), (lw.f32[4, 64, 32], lw.f32[4, 96, 32])),
}
for low in (-np.inf, -1e9, np.finfo(np.float32).min, -3.0):
    ATTENTIONS[f"masked by {low:g}"] = (
        attention_of(
            lambda q, k, v: (q, k, v),
            lambda s, low=low: np.where(np.tri(256, dtype=bool), s, np.float32(low)),
        ),
        (lw.f32[2, 256, 32],) * 3,
    )


@pytest.mark.parametrize("name", ATTENTIONS)
def test_attention_is_scheduled_as_a_chain(name: str) -> None:
    """Slices of one array, and masks of any value: 10 to 150 times as slow without."""
    function, specs = ATTENTIONS[name]
    assert "chain" in [rule_of(p) for p in kernels(function, *specs)]


def test_reductions_that_know_nothing_of_each_other_share_their_loops() -> None:
    prim = parse_prim("""
        prim @p(x0: float32[64, 1000], x1: float32[64, 1000]) -> out: float32[64] {
          t0[i]: float32[64] = max(k: 1000) x0[i, k]
          t1[i]: float32[64] = max(r: 1000) x1[i, r]
          out[i] = sum(s: 1000) exp(x0[i, s] - t0[i]) * exp(x1[i, s] - t1[i])
        }""")
    assert rule_of(prim) == "lanes"


UNALIKE = """
    prim @p(x0: float32[64, 512, 64], x1: float32[64, 512, 64]) -> out: float32[64, 512, 64] {
      t0[i, j, m]: float32[64, 512, 512] = sum(k: 64) x0[i, j, k] * x1[i, m, k]
      t1[i, j, m]: float32[64, 512, 512] = tanh(t0[i, j, m])
      out[i, j, l] = sum(t: 512) t1[i, j, t] * x0[i, t, l]
    }"""


def test_stages_no_rule_can_do_together_are_done_one_by_one() -> None:
    prim = parse_prim(UNALIKE)
    schedule, variant = default_variant(prim, TARGET)
    assert variant is not None and variant.name.startswith("tile")
    assert "own_axis" in [s.name for s in schedule.steps]


def test_no_schedule_keeps_more_accumulators_than_there_are_registers() -> None:
    prim = parse_prim(UNALIKE)
    wide = ScheduleSpace(prim, TARGET)
    for row in wide.sample(64, np.random.default_rng(0)):
        check_private_buffers(apply_schedule(prim, wide.schedule(row)), TARGET)


def test_the_limits_are_told() -> None:
    prim = parse_prim("""
        prim @p(x0: float32[64, 64], x1: float32[64, 64]) -> out: float32[64, 64] {
          out[i, j] = sum(k: 64) x0[i, k] * x1[k, j]
        }""")
    whole = Schedule((reorder("i", "k", "j"), cache_write("out", "registers", "i")))
    check_private_buffers(apply_schedule(prim, whole), TARGET)
    large = parse_prim(str(prim).replace("64", "6400"))
    with pytest.raises(ScheduleError, match=r"out.acc is larger than the registers"):
        check_private_buffers(apply_schedule(large, whole), TARGET)


@pytest.mark.parametrize("seed", range(40))
def test_random_programs_have_no_plain_nest(seed: int) -> None:
    program = draw_program(RandomDraw(seed))
    for prim in kernels(program, *program.inputs):
        assert rule_of(prim) != "plain" or prim_flops(prim) < NO_WORK, str(prim)


def test_no_estimate_is_told_that_is_the_same_for_every_kernel() -> None:
    """How much slower than tuned a schedule of the rules is, nobody knows before measuring."""
    lowered = lw.compile(lambda x: np.exp(x).sum(axis=0)).lower(lw.f32[40, 50])
    assert "by the rules" in lowered.built.summary
    assert "%" not in lowered.built.summary


@pytest.mark.parametrize(
    "rule, function, specs",
    [
        (
            "pick",
            lambda x, w: lw.nn.conv2d(x, w, padding=1),
            (lw.f32[1, 128, 28, 28], (128, 128, 3, 3)),
        ),
        (
            "window",
            lambda x, w: lw.nn.conv2d(x, w, padding=2, strides=2, groups=288),
            (lw.f32[1, 288, 16, 16], (288, 1, 5, 5)),
        ),
    ],
)
def test_large_kernels_of_the_rules_are_within_the_limits_of_code(rule, function, specs) -> None:
    weights = np.ones(specs[1], np.float32)
    module = lw.compile(lambda x: function(x, weights)).trace(specs[0]).module
    prims = kernels_of(lower_module(module, preferences_of(None, TARGET))).values()
    assert rule in [rule_of(p) for p in prims]


def test_a_change_of_layout_is_not_read_anew_for_every_tap() -> None:
    """ConvNeXt's depthwise convolution, channels first to channels last: a copy is made before."""
    weights = np.ones((96, 1, 7, 7), np.float32)

    def function(x):
        return lw.nn.conv2d(x, weights, padding=3, groups=96).transpose(0, 2, 3, 1)

    prim = next(p for p in kernels(function, lw.f32[1, 96, 56, 56]) if len(p.stages) == 2)
    schedule, variant = default_variant(prim, TARGET)
    assert variant is not None and variant.tiling.vector_axis == "l"
    assert "compute_inline" not in [s.name for s in schedule.steps]


def test_a_product_with_few_results_is_made_in_register_tiles() -> None:
    """Sums along long rows, 64 x 64 of them: lanes along the rows would read both operands anew
    for each, in 3.6 times the time."""
    prims = kernels(lambda x: x @ x.T, lw.f32[64, 2048])
    assert [rule_of(p) for p in prims] == ["mirror"]  # register tiles of one triangle


@pytest.mark.parametrize("isa", ["x86-64-v4", "x86-64-v3", "x86-64"])
@pytest.mark.parametrize(("size", "channels"), [(4, 96), (4, 768), (8, 64), (16, 192)])
def test_vectors_of_a_patch_embedding_run_along_its_channels(
    size: int, channels: int, isa: str
) -> None:
    """Patches do not overlap: vectors along the image would be put together in every step, from
    panels too."""
    image, weights = lw.f32[1, 3, 224, 224], lw.f32[channels, 3, size, size]
    prims = kernels(lambda x, w: lw.nn.conv2d(x, w, strides=size), image, weights)
    prim = max(prims, key=prim_flops)
    variant = default_variant(prim, replace(TARGET, isa=isa, cpu="AMD EPYC"))[1]
    assert variant is not None and variant.tiling.extent(variant.tiling.vector_axis) == channels


def test_vectors_of_a_softmax_over_channels_run_along_the_image() -> None:
    """On AVX2 too, though an exponential has more constants than there are registers."""
    (prim,) = kernels(lambda x: lw.nn.softmax(x, axis=1), lw.f32[8, 64, 1024])
    variant = default_variant(prim, replace(TARGET, isa="x86-64-v3", cpu="AMD EPYC"))[1]
    assert variant is not None and variant.tiling.extent(variant.tiling.vector_axis) == 1024


def test_tiles_of_uneven_pieces_leave_a_register_free() -> None:
    """Of 512 keys in 7 pieces: 16, or 24 columns and less than 4 keys."""
    select, specs = (lambda q, k, v: (q, k, v)), (lw.f32[8, 512, 64],) * 3
    masked = attention_of(select, lambda s: np.where(np.tri(512, dtype=bool), s, -np.inf))
    (prim,) = kernels(masked, *specs)
    target = Target("x86-64-v3", "AMD EPYC", 1, 32768, 1 << 20, 1 << 25)
    schedule, variant = default_variant(prim, target)
    assert variant is not None and "blockwise" in str(schedule)
    choices = variant.defaults[0]
    assert choices["vectors"] * (choices["rows"] + 1) + 2 <= 16


def test_vectors_do_not_run_along_three_colours() -> None:
    prims = kernels(
        lambda x, y: np.clip(x / (1 + y[:, None]), 0, 1) ** 0.45, lw.f32[6000, 3], lw.f32[6000]
    )
    (variant,) = (default_variant(p, TARGET)[1] for p in prims)
    assert variant is not None and variant.tiling.extent(variant.tiling.vector_axis) == 6000


@pytest.mark.parametrize(("rows", "depth", "columns"), [(1, 1024, 1024), (8, 768, 3072)])
def test_constants_that_are_read_once_are_streamed_in_panels(
    rows: int, depth: int, columns: int
) -> None:
    """Reading them is the work: in memory's order, prefetched from far ahead, without blocks."""
    weights = np.ones((depth, columns), np.float32)
    (prim,) = kernels(lambda x: x @ weights, lw.f32[rows, depth])
    steps = default_variant(prim, TARGET)[0].steps
    assert [s.args[2:] for s in steps if s.name == "prefetch"] == [("k.1", 32)]
    assert {s.name for s in steps} & {"pack", "prefetch_next"} == {"pack"}
    assert next(s.args[1][0] for s in steps if s.name == "split" and s.args[0] == "k") == 1
    zen = default_variant(prim, replace(TARGET, cpu="AMD EPYC 9B14"))[0].steps
    assert any(s.name == "prefetch" for s in zen) == (rows > 1), "one row is fed without"


@pytest.mark.parametrize("width", [20, 300])
def test_an_operand_that_windows_slide_over_is_not_cut_into_panels(width: int) -> None:
    """A window of 9 taps and three results: vectors run along the image, which lies across. It is
    transposed as a whole: vectors of one panel would begin in it and end in the next, and be
    gathered (16 times the time). A copy of a long row has several parts."""
    prim = parse_prim(f"""
prim @f(x0: float32[{width}, 9, 32], x1: float32[9, 32, 3] const) -> out: float32[3, {width - 8}] {{
  out[i, l] = sum(r: 9, s: 32) x0[l + r, 4, s] * x1[r, s, i]
}}""")
    (group,) = groups_of(prim)
    tiling = tile_of(group, TARGET, "l")
    choices = {**tiling.base_choices(), "pack": Pack.VECTORS, "vectors": 2, "rows": 3}
    schedule = Schedule(tuple(tiling.build(**choices)))
    assert [s.args for s in schedule.steps if s.name == "pack"] == [("x0", "l", width)]
    widest = max(
        s.args[1][-1] for s in schedule.steps if s.name == "split" and s.args[0].startswith("x0")
    )
    assert widest <= 128
    nest = apply_schedule(prim, schedule)
    verify_nest(nest)
    rng = np.random.default_rng(width)
    x = rng.integers(-3, 4, (width, 9, 32)).astype(np.float32)
    w = rng.integers(-3, 4, (9, 32, 3)).astype(np.float32)
    windows = np.lib.stride_tricks.sliding_window_view(x[:, 4], 9, axis=0)  # [l, s, r]
    found = run_nest(nest, {"x0": x, "x1": w})["out"]
    np.testing.assert_array_equal(found, np.einsum("lsr,rsi->il", windows, w))


@pytest.mark.parametrize(("rows", "columns", "depth"), [(16, 32, 4096), (1, 128, 4096)])
def test_cores_with_few_tiles_have_equal_shares(rows: int, columns: int, depth: int) -> None:
    """Tiles that one core alone would walk fastest leave the other idle: 12 of 16 rows, or all."""
    (prim,) = kernels(lambda x, y: x @ y, lw.f32[rows, depth], lw.f32[depth, columns])
    target = Target(isa="x86-64-v4", l1=48 << 10, l2=2 << 20, cores=2)
    steps = default_variant(prim, target)[0].steps
    splits = {s.args[0]: s.args[1][1:] for s in steps if s.name == "split"}
    counts = [n // prod(splits.get(axis, (n,))) for axis, n in (("i", rows), ("j", columns))]
    assert prod(counts) % 2 == 0 and "parallel" in {s.name for s in steps}


@pytest.mark.parametrize(
    ("rows", "width", "fetched"), [(32, 6272, 0), (128, 1024, 1), (128, 10000, 1)]
)
def test_next_rows_are_fetched_where_they_do_not_evict_these(
    rows: int, width: int, fetched: int
) -> None:
    (prim,) = kernels(softmax, lw.f32[rows, width])
    target = Target(isa="x86-64-v4", l1=48 << 10, l2=2 << 20)
    steps = default_variant(prim, target)[0].steps
    assert sum(s.name == "prefetch" for s in steps) == fetched


def test_blocks_of_rows_are_as_many_for_each_core() -> None:
    weights = np.ones((96, 384), np.float32)
    (prim,) = kernels(lambda x: x @ weights, lw.f32[3136, 96])
    target = Target(isa="x86-64-v4", l1=48 << 10, l2=2 << 20, cores=2)
    steps = default_variant(prim, target)[0].steps
    block = next(prod(s.args[1][1:]) for s in steps if s.name == "split" and s.args[0] == "i")
    assert -(-3136 // block) % 2 == 0 and -(-3136 // block) * block < 1.02 * 3136


def test_what_is_refused_gives_its_place_to_the_next_of_the_rules() -> None:
    (prim,) = kernels(lambda x, y: x @ y, lw.f32[96, 64], lw.f32[64, 80])
    refused: list[Schedule] = []
    for _ in range(3):
        schedule, variant = default_variant(prim, TARGET, refused)
        assert variant is not None and schedule not in refused
        refused.append(schedule)


@pytest.mark.parametrize(
    ("rows", "depth", "columns", "rule"),
    [(2, 512, 512, "lanes"), (9, 768, 3072, "lanes"), (4, 4096, 4096, "lanes")]
    + [(16, 2048, 2048, "tile"), (32, 512, 32, "tile")],
)
def test_weights_are_not_transposed_in_every_call_for_few_rows(
    rows: int, depth: int, columns: int, rule: str
) -> None:
    """Lanes along what is summed read the weights as they are, and once for up to four rows."""
    prims = kernels(lambda x, w: x @ w.T, lw.f32[rows, depth], lw.f32[columns, depth])
    assert [rule_of(p) for p in prims] == [rule]
    if rule == "lanes":
        schedule, _ = default_variant(prims[0], TARGET)
        splits = {s.args[0]: s.args[1] for s in schedule.steps if s.name == "split"}
        assert splits["i"][-1] == min(rows, 4)


@pytest.mark.parametrize(("formula", "dtype"), [("jjk,ki->ij", "float32"), ("ijj,j->i", "int8")])
def test_a_diagonal_that_a_product_reads_is_not_packed(formula: str, dtype: str) -> None:
    """One loop walks two dimensions of the operand, of which a packed copy could follow one."""
    operands = formula.split("->")[0].split(",")
    sizes = {"i": 4, "j": 16, "k": 2} if dtype == "float32" else {"i": 33, "j": 4}
    wide = np.int32 if dtype == "int8" else np.float32

    def product(x, y):
        return np.einsum(formula, x.astype(wide), y.astype(wide)) + 3

    rng = np.random.default_rng(3)
    x, y = (rng.integers(0, 9, [sizes[a] for a in axes]).astype(dtype) for axes in operands)
    np.testing.assert_array_equal(lw.compile(product)(x, y), product(x, y))
