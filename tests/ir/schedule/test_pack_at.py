"""pack_at: panels of an operand that are made inside of a loop, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from loopwright.ir.errors import ScheduleError
from loopwright.ir.loop.parser import parse_nest, parse_prim
from loopwright.ir.loop.verify import verify_nest
from loopwright.ir.schedule.apply import apply_schedule
from loopwright.ir.schedule.steps import (
    Schedule,
    Step,
    cache_write,
    fuse,
    pack,
    pack_at,
    parallel,
    prefetch,
    reorder,
    split,
    unroll,
    vectorize,
)
from prims import run_nest

MATMUL = """
prim @f(x: float32[5, 7], w: float32[7, 11]) -> out: float32[5, 11] {
  out[i, j] = sum(k: 7) x[i, k] * w[k, j]
}"""
TURNED = """
prim @f(x: float32[5, 40], w: float32[11, 40]) -> out: float32[5, 11] {
  out[i, j] = sum(k: 40) x[i, k] * w[j, k]
}"""


def tiled(*more: Step, chunk: int = 7, depth: int = 7) -> Schedule:
    return Schedule.of(
        split("j", (2, 3, 2)),
        split("i", (2, 3)),
        split("k", (-(-depth // chunk), chunk)),
        reorder("j.0", "k.0", "i.0", "j.1", "k.1", "i.1", "j.2"),
        cache_write("out", "registers", "j.1"),
        unroll("i.1"),
        vectorize("j.2"),
        *more,
    )


def check(text: str, schedule: Schedule) -> None:
    prim = parse_prim(text)
    nest = apply_schedule(prim, schedule)
    verify_nest(nest)
    assert parse_nest(str(nest)) == nest
    rng = np.random.default_rng(0)
    x, w = (
        rng.integers(-3, 4, [int(str(s)) for s in p.shape]).astype(np.float32) for p in prim.params
    )
    found = run_nest(nest, {"x": x, "w": w})["out"]
    np.testing.assert_array_equal(found, x @ (w if len(w) == x.shape[1] else w.T))


def test_the_copy_stands_before_what_reads_it():
    text = str(apply_schedule(parse_prim(MATMUL), tiled(pack_at("w", "j", 2, "k.0"), chunk=4)))
    assert "stack w.packed: float32[3, 4, 2]\n" in text
    assert "w.packed[w.packed.o, w.packed.0, w.packed.i] = w[w.packed.0, w.packed.i + " in text
    assert "* w.packed[j.1, k.1, j.2]" in text


@pytest.mark.parametrize("chunk", [7, 4, 3])
@pytest.mark.parametrize("tile", [1, 2, 3, 4])
@pytest.mark.parametrize("loop", ["j.0", "k.0", "i.0"])
def test_any_loop_and_any_width(loop, tile, chunk):
    check(MATMUL, tiled(pack_at("w", "j", tile, loop), chunk=chunk))


@pytest.mark.parametrize("chunk", [40, 17, 3])
def test_an_operand_that_lies_across_is_turned(chunk):
    check(TURNED, tiled(pack_at("w", "j", 2, "k.0"), chunk=chunk, depth=40))


def test_inside_a_fused_parallel_loop():
    steps = [fuse("j.0", "i.0"), parallel("j.0*i.0"), pack_at("w", "j", 2, "j.0*i.0")]
    order = reorder("j.0", "i.0", "k.0", "j.1", "k.1", "i.1", "j.2")
    base = [order if s.name == "reorder" else s for s in tiled(*steps).steps]
    check(MATMUL, Schedule.of(*base))


def test_a_constant_operand_and_two_at_once():
    const = MATMUL.replace("w: float32[7, 11]", "w: float32[7, 11] const")
    check(const, tiled(pack_at("w", "j", 2, "k.0"), pack_at("x", "i", 3, "i.0")))


def test_lines_of_the_copy_are_asked_for():
    schedule = tiled(prefetch("out", "w", "k.1", 2), pack_at("w", "j", 2, "j.0"))
    assert "prefetch w.packed[j.1, k.1 + 2, j.2]" in str(
        apply_schedule(parse_prim(MATMUL), schedule)
    )
    check(MATMUL, schedule)


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        ([pack_at("y", "j", 2, "j.0")], "'y' is not a parameter that can be packed"),
        ([pack_at("w", "j", 0, "j.0")], "'w' is not a parameter that can be packed"),
        ([pack_at("w", "j", 2, "j.9")], "pack_at: no loop 'j.9'"),
        ([pack_at("w", "i", 2, "j.0")], "i does not walk exactly one dimension of w"),
        ([pack_at("w", "j", 2, "j.2")], "pack_at: j.2 runs in lanes or unrolled"),
        ([pack_at("w", "j", 2, "k.1")], "pack_at: k.1 is inside a register tile"),
        (
            [pack_at("w", "j", 2, "j.0"), pack_at("w", "j", 2, "j.0")],
            "'w' is not a parameter that can be packed",
        ),
        (
            [pack_at("w", "j", 2, "j.0"), parallel("i.0")],
            "parallel: the iterations of i.0 would share w.packed",
        ),
    ],
)
def test_what_is_refused(steps, message):
    with pytest.raises(ScheduleError) as error:
        apply_schedule(parse_prim(MATMUL), tiled(*steps))
    assert message in str(error.value)


def test_what_is_packed_already_is_refused():
    with pytest.raises(ScheduleError, match="can be packed"):
        apply_schedule(
            parse_prim(MATMUL), Schedule.of(pack("w", "j", 2), pack_at("w", "j", 2, "j"))
        )
