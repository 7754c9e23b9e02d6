"""Long sums in blocks: the nest computes the same, and adds to no accumulator often."""

from __future__ import annotations

import random

import numpy as np
import pytest
from compiled import run_kernel
from loopwright.codegen import kernel as kernels
from loopwright.codegen.target import Target
from loopwright.ir.errors import ScheduleError
from loopwright.ir.loop import block_sums as blocks
from loopwright.ir.loop import block_tiles
from loopwright.ir.loop.block_sums import block_sums
from loopwright.ir.loop.evaluate import evaluate_prim
from loopwright.ir.loop.interpret import interpret
from loopwright.ir.loop.parser import parse_nest, parse_prim
from loopwright.ir.loop.verify import verify_nest
from loopwright.ir.schedule.apply import apply_schedule
from loopwright.ir.schedule.state import State
from loopwright.ir.schedule.steps import Schedule, cache_write, reorder, split
from prims import KINDS, make_prim, random_inputs, run_nest
from random_schedules import random_schedule

BEFORE = """prim @sum(x: float32[80, 8]) -> out: float32[] {
  registers acc: float32[8]
  vectorize l in 8:
    acc[l] = 0.0
  for k in 80:
    vectorize l in 8:
      acc[l] += x[k, l]
  out[] = 0.0
  vectorize l in 8:
    out[] += acc[l]
}
"""
AFTER = """prim @sum(x: float32[80, 8]) -> out: float32[] {
  registers acc: float32[8]
  vectorize l in 8:
    acc[l] = 0.0
  for k.a in 5:
    registers acc.1: float32[8]
    vectorize acc.1.0 in 8:
      acc.1[acc.1.0] = 0.0
    for k.b in 16:
      vectorize l in 8:
        acc.1[l] += x[16 * k.a + k.b, l]
    vectorize acc.1.0 in 8:
      acc[acc.1.0] += acc.1[acc.1.0]
  out[] = 0.0
  vectorize l in 8:
    out[] += acc[l]
}
"""


def test_the_text_before_and_after():
    assert str(block_sums(parse_nest(BEFORE), 512)) == AFTER


@pytest.mark.parametrize(
    "text",
    [BEFORE.replace("80", "64"), BEFORE.replace("float32", "int32"), BEFORE.replace("+=", "max=")],
)
def test_short_sums_and_what_does_not_round_stay(text):
    nest = parse_nest(text.replace("0.0", "0") if "int32" in text else text)
    assert block_sums(nest, 512) is nest


LANES = "  out[] = 0.0\n  vectorize l in 8:\n    out[] += acc[l]\n"
TILE = "  vectorize l in 8:\n    out[l] = acc[l]\n"


@pytest.mark.parametrize(
    ("end", "depth", "block"),
    [(TILE, 256, 0), (TILE, 768, 128), (LANES, 128, 0), (LANES, 256, 128)],
)
def test_a_tile_of_many_accumulators_is_summed_in_long_blocks(end, depth, block):
    """Lanes of one sum in shorter ones: it has few terms in all, so that its bound is small."""
    text = BEFORE.replace(LANES, end)
    text = text.replace("out: float32[]", "out: float32[8]") if end == TILE else text
    text = text.replace("80", str(depth)).replace("8]", "1024]").replace("in 8:", "in 1024:")
    lines = str(block_sums(parse_nest(text), 512)).splitlines()
    assert sum("for k" in line for line in lines) == (2 if block else 1)
    assert not block or f"    for k.b in {block}:" in lines


def test_tiles_that_are_added_to_a_private_buffer():
    """What stores the first tile and adds the others is one sum, wherever the buffer lies."""
    nest = parse_nest(
        BEFORE.replace("  for k in 80:", "  for k in 80:\n    registers t: float32[8]")
    )
    lines = str(nest).replace(
        "      acc[l] += x[k, l]",
        "      t[l] = x[k, l]\n"
        "    if index(k) == 0:\n      vectorize l in 8:\n        acc[l] = t[l]\n"
        "    else:\n      vectorize l in 8:\n        acc[l] += t[l]",
    )
    assert "for k.b in 16:" in str(block_sums(parse_nest(lines), 512))


@pytest.fixture
def tiny_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of two, of any sum longer than three, so that small nests have several levels."""
    tiny = block_tiles.Blocks(short=2, short_sum=3, long=3, long_sum=5, tiles=2, tiles_sum=3)
    for module in (blocks, block_tiles):
        monkeypatch.setattr(module, "BLOCKS", tiny)


def test_tiles_that_are_added_to_memory():
    prim = make_prim("outer_sum", 300, 5, 1, dtype="float32")
    steps = split("k", (100, 3)), reorder("k.0", "k.1", "j"), cache_write("out", "registers", "k.0")
    nest = block_sums(apply_schedule(prim, Schedule.of(*steps)), 512)
    lines = [line.strip() for line in str(nest).splitlines()]
    start = lines.index("if index(10 * k.0.a) == 0:")
    assert lines[start : start + 6] == [
        "if index(10 * k.0.a) == 0:",
        "for j in 5:",
        "out[j] = out.t1[j]",
        "else:",
        "for j in 5:",
        "out[j] += out.t1[j]",
    ]
    assert "for k.0.a in 10:" in lines and "for k.0.b in 10:" in lines


@pytest.mark.parametrize("kind", KINDS)
def test_random_schedules_compute_the_same(kind, tiny_blocks):
    rng = random.Random(kind)
    changed = 0
    for seed in range(40):
        prim = make_prim(kind, *(rng.choice((1, 3, 7, 8, 11)) for _ in range(3)), dtype="float32")
        try:
            nest = apply_schedule(prim, random_schedule(rng, State.of(prim)))
        except ScheduleError:
            continue
        new = block_sums(nest, rng.choice((0, 64)))
        changed += new is not nest
        verify_nest(new)
        assert parse_nest(str(new)) == new
        inputs = random_inputs(prim, np.random.default_rng(seed))
        expected = evaluate_prim(prim, inputs)
        found = run_nest(new, inputs)
        for name in prim.outputs:
            np.testing.assert_array_equal(found[name], expected[name], str(new))
    summed = kind not in ("map", "window", "neighbours", "gather", "framed", "nothing")
    assert changed > 3 or not summed


@pytest.mark.parametrize("kind", ["matmul", "rows", "convolution", "chain", "outer_sum"])
def test_compiled_they_compute_the_same(kind, tiny_blocks):
    rng, target = random.Random(kind), Target.host()
    for seed in range(10):
        prim = make_prim(kind, *(rng.choice((3, 8, 17, 20)) for _ in range(3)), dtype="float32")
        try:
            kernel = kernels.compile_kernel(prim, random_schedule(rng, State.of(prim)), target)
        except ScheduleError:
            continue
        inputs = random_inputs(prim, np.random.default_rng(seed))
        expected = evaluate_prim(prim, inputs)
        for name, array in zip(prim.outputs, run_kernel(kernel, target, inputs), strict=True):
            np.testing.assert_array_equal(array, expected[name], str(kernel.nest))


def test_the_rest_of_a_split_sums_in_the_same_order():
    """A product of an array with itself is symmetric to the last bit."""
    prim = parse_prim("""
        prim @gram(x: float32[700, 11]) -> out: float32[11, 11] {
          out[i, j] = sum(k: 700) x[k, i] * x[k, j]
        }""")
    steps = (split("i", (3, 4)), split("j", (2, 8)), reorder("i.0", "j.0", "k", "i.1", "j.1"))
    nest = apply_schedule(prim, Schedule.of(*steps, cache_write("out", "registers", "j.0")))
    inputs = {"x": np.random.default_rng(0).standard_normal((700, 11)).astype(np.float32)}
    found = run_nest(block_sums(nest, 90), inputs)["out"]
    np.testing.assert_array_equal(found, found.T)


SYMBOLIC = """
prim @f(x: float32[n]) -> out: float32[] for n in 0..100000 {
  registers acc: float32[]
  acc[] = 0.0
  for k in n:
    acc[] += x[k]
  out[] = acc[]
}
"""


def test_symbolic_number_of_terms():
    nest = block_sums(parse_nest(SYMBOLIC), 512)
    verify_nest(nest)
    assert "for k.b in" in str(nest)
    assert str(nest).count("x[") == 1  # a shorter last block is not written once more
    for n in (0, 1, 15, 16, 17, 1040, 5000):
        x = np.full(n, 0.1, np.float32)
        out = np.zeros((), np.float32)
        interpret(nest.at({"n": n}), {"x": x, "out": out})
        np.testing.assert_allclose(out, x.astype(np.float64).sum(), rtol=1e-6)
