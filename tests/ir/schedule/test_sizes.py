"""Schedules of PrimFuncs with symbolic sizes: made for one size, right at all others."""

from textwrap import dedent

import numpy as np
import pytest
from loopwright.ir.errors import ScheduleError
from loopwright.ir.loop.evaluate import evaluate_prim
from loopwright.ir.loop.interpret import interpret
from loopwright.ir.loop.parser import parse_nest, parse_prim
from loopwright.ir.loop.verify import verify_nest, verify_prim
from loopwright.ir.schedule.apply import apply_schedule
from loopwright.ir.schedule.steps import (
    Schedule,
    blockwise,
    cache_read,
    cache_write,
    compute_at,
    cut,
    fuse,
    layout,
    mirror,
    own_axis,
    pack,
    pack_at,
    parallel,
    prefetch_next,
    reorder,
    rfactor,
    skip,
    split,
    split_reduction,
    unroll,
    vectorize,
)

PRODUCT = """
prim @mm(x: float32[n, 12], w: float32[12, m]) -> out: float32[n, m] for n in 0..99, m in 1..99 {
  out[i, j] = sum(k: 12) x[i, k] * w[k, j]
}"""

SOFTMAX = """
prim @softmax(x: float32[n, m]) -> out: float32[n, m] for n in 0..2147483647, m in 1..4096 {
  s[i]: float32[n] = max(k: m) x[i, k]
  e[i, j]: float32[n, m] = exp(x[i, j] - s[i])
  t[i]: float32[n] = sum(r: m) e[i, r]
  out[i, j] = e[i, j] / t[i]
}"""


def check(text, schedule, *sizes):
    """The nest is well-formed, its text is read back, and it computes what the PrimFunc means."""
    prim = parse_prim(text)
    verify_prim(prim)
    nest = apply_schedule(prim, schedule)
    verify_nest(nest)
    assert parse_nest(str(nest)) == nest
    rng = np.random.default_rng(0)
    for values in sizes:
        values = dict(zip((s.name for s in prim.sizes), values, strict=True))
        special = prim.at(values)
        arrays = {p.name: rng.standard_normal(p.shape, np.float32) for p in special.params}
        wanted = evaluate_prim(special, arrays)
        for buffer in special.output_buffers:
            arrays[buffer.name] = np.full(buffer.shape, 77, buffer.dtype.numpy)
        for operand in nest.operands:
            if operand.pack is not None:
                packed = operand.pack.array(arrays[operand.pack.source])
                arrays[operand.buffer.name] = packed
        interpret(nest, arrays, values)
        for name, value in wanted.items():
            np.testing.assert_allclose(arrays[name], value, rtol=1e-4, atol=1e-5)
        interpret(nest.at(values), arrays)
    return nest


TILES = Schedule.of(
    split("i", (16, 2, 4)),
    split("j", (3, 8)),
    reorder("i.0", "j.0", "i.1", "k", "i.2", "j.1"),
    unroll("i.2"),
    vectorize("j.1"),
    cache_write("out", "registers", "i.1"),
)


@pytest.mark.parametrize(
    "more", [(), (parallel("i.0"),), (fuse("i.0", "j.0"), parallel("i.0*j.0"))]
)
def test_what_tiles_leave_runs_in_smaller_tiles(more):
    check(PRODUCT, Schedule((*TILES.steps, *more)), (0, 5), (1, 8), (7, 1), (9, 15), (8, 16))


def test_a_multiple_of_the_tile_leaves_nothing():
    even = PRODUCT.replace("[n,", "[4 * n,").replace("m]", "8 * m]")
    nest = check(even, Schedule((*TILES.steps, parallel("i.0"))), (0, 1), (1, 2), (5, 1))
    assert "rest" not in str(nest) and "if " not in str(nest)


def test_rows_are_kept_in_private_memory_if_they_are_bounded():
    rows = Schedule.of(compute_at("e", "i"), compute_at("t", "i"), compute_at("out", "i"))
    nest = check(SOFTMAX, rows, (0, 3), (1, 1), (3, 17))
    assert "stack e: float32[1, 4096]" in str(nest) and not nest.workspace
    nest = check(SOFTMAX.replace("4096", "2147483647"), rows, (0, 3), (2, 5))
    assert "workspace e: float32[n, m]" in str(nest)


def test_lanes_of_a_reduction():
    lanes = Schedule.of(split("r", (9, 8)), vectorize("r.1"), rfactor("t", "r.1"))
    check(SOFTMAX, lanes, (0, 3), (2, 1), (2, 7), (1, 8), (1, 17))


def test_a_plain_nest_is_always_there():
    crossed = """
    prim @f(x: float32[n, m]) -> t: float32[m], out: float32[n] for n in 0..9, m in 0..9 {
      t[j] = sum(k: n) x[k, j]
      out[i] = sum(j: m) x[i, j] * t[j]
    }"""
    check(crossed, Schedule(), (0, 3), (3, 0), (2, 4))


def test_steps_that_need_constants_are_refused():
    prim = parse_prim(PRODUCT)
    with pytest.raises(ScheduleError, match="vectorize: j has m iterations"):
        apply_schedule(prim, Schedule.of(reorder("i", "k", "j"), vectorize("j")))


def test_reductions_of_nothing_that_are_stored_in_parts():
    parts = Schedule.of(
        split("k", (3, 4)),
        split("i", (2, 4)),
        reorder("k.0", "i.0", "k.1", "i.1"),
        cache_write("out", "registers", "i.0"),
    )
    sums = """
    prim @sums(x: float32[n, m]) -> out: float32[n] for n in 0..9, m in 0..9 {
      out[i] = sum(k: m) x[i, k]
    }"""
    check(sums, parts, (3, 0), (0, 2), (5, 1), (4, 4), (6, 9))


def test_operands_are_packed_at_run_time():
    packs = [pack("w", "j", 8), pack("x", "i", 4)]
    check(PRODUCT, Schedule((*packs, *TILES.steps)), (0, 5), (1, 8), (7, 1), (9, 17))


def test_pieces_of_operands_are_packed_in_loops():
    inside = Schedule.of(
        split("i", (16, 4)),
        split("j", (3, 2, 8)),
        reorder("j.0", "i.0", "j.1", "k", "i.1", "j.2"),
        unroll("i.1"),
        vectorize("j.2"),
        cache_write("out", "registers", "j.1"),
        pack_at("w", "j", 8, "j.0"),
        parallel("j.0"),
    )
    check(PRODUCT, inside, (0, 5), (1, 8), (7, 1), (9, 17), (4, 33))
    turned = PRODUCT.replace("w: float32[12, m]", "w: float32[m, 12]").replace("w[k, j]", "w[j, k]")
    check(turned, inside, (0, 5), (1, 8), (7, 1), (9, 17), (4, 33))


CAUSAL = """
prim @causal(x: float32[n, m]) -> s: float32[n], out: float32[n] for n in 1..40, m in 1..40 {
  p[i, l]: float32[n, m] = where(index(l) <= index(i + m - n), x[i, l], -inf)
  s[i] = max(k: m) p[i, k]
  e[i, j]: float32[n, m] = exp(p[i, j] - s[i])
  out[i] = sum(r: m) e[i, r]
}"""


@pytest.mark.parametrize(
    "steps",
    [
        (split_reduction("out", "r", 3),),
        (split_reduction("s", "k", 2), split("s.ki", (3, 4)), reorder("s.ki.0", "s.ki.1")),
        (blockwise("s", 3),),
        (cache_read("x", "i", "l"),),
        (own_axis("e", "j"), layout("e", "e.j", "i"), split("e.j", (4, 4)), vectorize("e.j.1")),
    ],
)
def test_steps_on_stages(steps):
    if steps[0].name == "blockwise":
        text = CAUSAL.replace("s: float32[n], out", "out").replace("s[i] =", "s[i]: float32[n] =")
    else:
        text = CAUSAL
    check(text, Schedule(tuple(steps)), (3, 5), (5, 5), (1, 1), (4, 9))


def test_masked_blocks_are_skipped():
    mask = """
    prim @f(x: float32[m]) -> out: float32[n, m] for n in 0..40, m in 0..40 {
      t[i, l]: float32[n, m] = where(index(l) <= index(i + m - n), x[l], 0.0)
      out[i, l] = t[i, l] * 2.0
    }"""
    blocks = [split("i", (3, 3)), split("l", (4, 2)), reorder("i.0", "l.0", "i.1", "l.1")]
    steps = [*blocks, compute_at("out", "l.0"), skip("t", "l.0")]
    check(mask, Schedule(tuple(steps)), (0, 3), (5, 5), (4, 9), (1, 2))


def test_loops_of_procedures():
    sums = """
    prim @sums(x: float32[n, m]) -> out: float32[n, m] for n in 0..40, m in 0..40 procedure {
      for j in m:
        registers sum: float32[1]
        sum[0] = 0.0
        for k in n:
          sum[0] += x[k, j]
          out[k, j] = sum[0]
    }"""
    sums = dedent(sums)
    check(sums, Schedule(), (0, 3), (2, 3))
    check(sums, Schedule.of(split("j", (2, 4)), vectorize("j.1")), (2, 0), (2, 3), (3, 4), (1, 9))
    check(sums, Schedule.of(parallel("j"), split("k", (2, 4))), (2, 0), (9, 3), (4, 4))


@pytest.mark.parametrize("step", [cut("i", (3,)), mirror("out", "i")])
def test_steps_that_say_why_not(step):
    square = PRODUCT.replace("w[k, j]", "x[j, k]").replace("[n, m]", "[n, n]").replace("m]", "n]")
    with pytest.raises(ScheduleError, match=f"step 0, {step.name}"):
        apply_schedule(parse_prim(square), Schedule.of(step))


class TestRowsThatDoNotExist:
    """Tiles of many rows run a rest in one pass: missing rows read the last one."""

    STEPS = (
        split("i", (9, 8)),
        split("j", (9, 4)),
        reorder("i.0", "j.0", "k", "i.1", "j.1"),
        cache_write("out", "registers", "j.0"),
        unroll("i.1"),
        vectorize("j.1"),
    )

    def test_every_number_of_rows(self):
        sizes = [(n, 5) for n in range(18)] + [(3, 1), (13, 4), (23, 9)]
        check(PRODUCT, Schedule.of(*self.STEPS), *sizes)

    def test_in_parallel(self):
        shared = (fuse("i.0", "j.0"), parallel("i.0*j.0"))
        check(PRODUCT, Schedule.of(*self.STEPS, *shared), *[(n, 6) for n in range(10)])

    def test_text(self):
        text = str(apply_schedule(parse_prim(PRODUCT), Schedule.of(*self.STEPS)))
        assert "for i.0 in ((n + 3) // 8):" in text
        assert "x[8 * i.0 + min(-8 * i.0 + n - 1, i.1), k]" in text
        assert "if index(i.1) < index(-8 * i.0 + n):" in text

    def test_what_is_reduced_is_not_clamped(self):
        steps = (split("k", (9, 8)), unroll("k.1"))
        total = (
            "prim @s(x: float32[n]) -> out: float32[] for n in 0..99 {\n  out[] = sum(k: n) x[k]\n}"
        )
        assert "min(" not in str(apply_schedule(parse_prim(total), Schedule.of(*steps)))
        check(total, Schedule.of(*steps), *[(n,) for n in range(18)])


def test_prefetched_lines_are_spread_over_a_likely_number_of_iterations():
    """Beyond it they are prefetched again: not addresses behind the next panel."""
    product = (
        "prim @p(x: float32[n, 64], w: float32[64, 32] const) -> out: float32[n, 32] "
        "for n in 1..512 {\n  out[i, j] = sum(k: 64) x[i, k] * w[k, j]\n}"
    )
    steps = (
        pack("w", "j", 16),
        split("i", (1, 8)),
        split("j", (2, 16)),
        reorder("j.0", "i.0", "k", "i.1", "j.1"),
        cache_write("out", "registers", "i.0"),
        unroll("i.1"),
        vectorize("j.1"),
        prefetch_next("out", "w.packed", "j.0"),
    )
    text = str(apply_schedule(parse_prim(product), Schedule.of(*steps)))
    assert "prefetch w.packed[j.0 + 1, 0, 64 * (i.0 % 16) + 16 * (k // 16)] in L2" in text
    check(product, Schedule.of(*steps), (1,), (9,))
