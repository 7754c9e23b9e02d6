"""Each guard of the schedule primitives, with its whole message."""

import pytest
from loopwright.ir.errors import ScheduleError
from loopwright.ir.loop.parser import parse_prim
from loopwright.ir.schedule.apply import apply_schedule
from loopwright.ir.schedule.limits import LIMITS
from loopwright.ir.schedule.steps import (
    Schedule,
    cache_write,
    compute_at,
    compute_inline,
    cut,
    fuse,
    pack,
    parallel,
    peel,
    prefetch,
    prefetch_next,
    reorder,
    rfactor,
    split,
    split_reduction,
    stream,
    unroll,
    vectorize,
)

COPY = "prim @f(x: float32[100]) -> out: float32[100] { out[i] = x[i] }"
GRID = "prim @f(x: float32[4, 6]) -> out: float32[4, 6] { out[i, j] = x[i, j] }"
SUM = "prim @f(x: float32[4, 6]) -> t: float32[4] { t[i] = sum(k: 6) x[i, k] }"
ROWS = """
prim @f(x: float32[4, 6]) -> out: float32[4] {
  t[i]: float32[4] = sum(k: 6) x[i, k]
  out[i] = t[i] * 2.0
}"""
MAPS = """
prim @f(x: float32[4]) -> out: float32[4] {
  e[i]: float32[4] = exp(x[i])
  out[i] = e[i] * 2.0
}"""
MATMUL = """
prim @f(x: float32[4, 6], w: float32[6, 5] const) -> out: float32[4, 5] {
  out[i, j] = sum(k: 6) x[i, k] * w[k, j]
}"""


def refusal(text, *steps):
    with pytest.raises(ScheduleError) as caught:
        apply_schedule(parse_prim(text), Schedule(steps))
    return caught.value.message


NO_PARAMETER = "prefetch: {loop} is a fused loop, or '{buffer}' not a parameter"
GUARDS = [
    (COPY, [split("a", (1, 2))], "split: 'a' is not an axis that can still be split"),
    (COPY, [split("i", (50, 2))] * 2, "split: 'i' is not an axis that can still be split"),
    (COPY, [split("i", (3, 8))], "split: (3, 8) does not cover i of extent 100"),
    (COPY, [split("i", (100,))], "split: (100,) does not cover i of extent 100"),
    (COPY, [split("i", (1, 0))], "split: (1, 0) does not cover i of extent 100"),
    (COPY, [vectorize("i"), split("i", (13, 8))], "split: i is already vectorize"),
    (GRID, [reorder("i", "k")], "reorder: no loop 'k' (the loops are i, j)"),
    (GRID, [reorder("i", "i")], "reorder: a loop is named twice"),
    (COPY, [split("i", (13, 8)), reorder("i.1", "i.0")], None),
    (GRID, [fuse("i")], "fuse: needs at least two loops"),
    (GRID, [fuse("j", "i")], "fuse: j, i do not stand directly inside one another"),
    (GRID, [parallel("i"), fuse("i", "j")], "fuse: i is already fused or annotated"),
    (
        COPY,
        [split("i", (13, 8)), fuse("i.0", "i.1")],
        "fuse: i.0, i.1 are not all of different axes",
    ),
    (
        ROWS,
        [compute_at("out", "i"), fuse("i", "k")],
        "fuse: out is placed inside i, between the fused loops",
    ),
    (SUM, [fuse("i", "k")], None),
    (GRID, [unroll("k")], "unroll: no loop 'k' (the loops are i, j)"),
    (GRID, [unroll("i"), vectorize("i")], "vectorize: i is already unroll"),
    (GRID, [fuse("i", "j"), unroll("i*j")], "unroll: i*j is a fused loop"),
    (SUM, [parallel("k")], None),
    (MAPS, [compute_inline("y")], "compute_inline: no stage 'y' (the stages are e, out)"),
    (MAPS, [compute_inline("out")], "compute_inline: out is a reduction or an output"),
    (ROWS, [compute_inline("t")], "compute_inline: t is a reduction or an output"),
    (MAPS, [compute_at("out", "k")], "compute_at: no loop 'k' (the loops are i)"),
    (MAPS, [cache_write("e", "registers", "i")], None),
    (SUM, [cache_write("t", "arena", "i")], None),
    (SUM, [rfactor("t", "i")], "rfactor: i is not an innermost reduction loop of t"),
    (
        SUM,
        [split("k", (2, 3)), rfactor("t", "k.0")],
        "rfactor: k.0 is not an innermost reduction loop of t",
    ),
    (SUM, [split_reduction("t", "i", 2)], "split_reduction: i of t cannot be cut into 2"),
    (SUM, [split_reduction("t", "k", 7)], "split_reduction: k of t cannot be cut into 7"),
    (
        SUM,
        [split("k", (2, 3)), split_reduction("t", "k", 2)],
        "split_reduction: must come before all steps on loops",
    ),
    (MATMUL, [pack("v", "j", 2)], "pack: 'v' is not a parameter that can be packed"),
    (MATMUL, [pack("w", "j", 2)] * 2, "pack: 'w' is not a parameter that can be packed"),
    (MATMUL, [pack("w", "j", 2), pack("w.packed", "k", 2)], None),
    (MATMUL, [pack("w", "i", 2)], "pack: i does not walk exactly one dimension of w"),
    (MATMUL, [split("i", (2, 2)), pack("w", "j", 2)], "pack: must come before splits"),
    (MAPS, [stream("e")], "stream: e is not an output"),
    (GRID, [prefetch("out", "out", "i")], NO_PARAMETER.format(loop="i", buffer="out")),
    (
        GRID,
        [fuse("i", "j"), prefetch("out", "x", "i*j")],
        NO_PARAMETER.format(loop="i*j", buffer="x"),
    ),
    (MATMUL, [prefetch("out", "x", "i", 0)], "prefetch: the distance is one iteration at least"),
    (
        MATMUL,
        [pack("w", "j", 2), prefetch("out", "w", "k")],
        NO_PARAMETER.format(loop="k", buffer="w"),
    ),
    (MATMUL, [prefetch("out", "x", "j")], "prefetch: j does not move what out reads of x"),
    (MATMUL, [prefetch_next("out", "w", "j")], "prefetch_next: 'w' is not packed"),
    (
        MATMUL,
        [pack("w", "j", 2), prefetch_next("out", "w.packed", "i")],
        "prefetch_next: i does not move what out reads of w.packed",
    ),
    (
        MATMUL,
        [pack("w", "j", 2), reorder("k", "j", "i"), prefetch_next("out", "w.packed", "k")],
        "prefetch_next: k reads parts of w.packed",
    ),
    (
        GRID,
        [pack("x", "j", 4), prefetch_next("out", "x.packed", "j"), compute_inline("x.packed")],
        "prefetch_next: out no longer reads x.packed",
    ),
    (COPY, [peel("j", 1, 1)], "peel: no loop 'j' (the loops are i)"),
    (COPY, [peel("i", 1, 1)] * 2, "peel: i is fused, peeled, or peeled of more than 16"),
    (COPY, [peel("i", 9, 8)], "peel: i is fused, peeled, or peeled of more than 16"),
    (COPY, [vectorize("i"), peel("i", 1, 1)], "peel: i runs in vector lanes"),
    (COPY, [peel("i", 1, 1), vectorize("i")], "vectorize: i is peeled"),
    (COPY, [peel("i", 1, 1), split("i", (13, 8))], "split: i is already peeled"),
    (SUM, [peel("k", 1, 1)], "peel: k is a reduced loop"),
    (COPY, [cut("a", (1,))], "cut: 'a' is not an axis that can still be cut"),
    (COPY, [cut("i", (1,)), cut("i", (2,))], "cut: 'i' is not an axis that can still be cut"),
    (SUM, [cut("k", (1,))], "cut: k is reduced"),
    (COPY, [cut("i", ())], "cut: () are no points inside i of extent 100"),
    (COPY, [cut("i", (0, 3))], "cut: (0, 3) are no points inside i of extent 100"),
    (COPY, [cut("i", (5, 3))], "cut: (5, 3) are no points inside i of extent 100"),
    (COPY, [cut("i", (100,))], "cut: (100,) are no points inside i of extent 100"),
]

WHOLE = {
    "reorder('i.1', 'i.0')": "reorder: i.1 stands outside a loop it belongs into",
    "fuse('i', 'k')": "t reduces only a part of the fused loop i*k",
    "parallel('k')": "parallel: t accumulates over k",
    "cache_write('e', 'registers', 'i')": "cache_write: e is not a reduction, or 'registers' not "
    "a private scope",
    "cache_write('t', 'arena', 'i')": "cache_write: t is not a reduction, or 'arena' not a private "
    "scope",
    "pack('w.packed', 'k', 2)": "pack: 'w.packed' is not a parameter that can be packed",
}


@pytest.mark.parametrize("text, steps, message", GUARDS, ids=lambda v: str(v)[:40])
def test_guards(text, steps, message):
    found = refusal(text, *steps)
    last = steps[-1]
    place = f"step {len(steps) - 1}, {last}: "
    message = message or WHOLE[str(last)]
    assert found in (place + message, message)


TREE_GUARDS = [
    (ROWS, [compute_at("t", "i")], "compute_at: t is the first stage"),
    (SUM, [reorder("k", "i"), parallel("i")], "parallel: the iterations of i would share t.acc"),
    (ROWS, [compute_at("out", "k")], "compute_at: out has no loop k"),
    (
        ROWS,
        [reorder("k", "i"), cache_write("t", "stack", "i"), compute_at("out", "i")],
        "cache_write: no reduced loop of t is inside i",
    ),
    (SUM, [cache_write("t", "stack", "k")], "cache_write: no reduced loop of t is inside k"),
    (
        """
prim @f(x: float32[4]) -> out: float32[4] {
  e[i]: float32[4] = exp(x[i])
  out[i] = e[3 - i]
}""",
        [compute_at("out", "i")],
        "out reads e[-i + 3] inside the loop i, which makes e[i]",
    ),
    (
        """
prim @f(x: float32[4, 4]) -> out: float32[4, 4] {
  e[i]: float32[4] = exp(x[i, 0])
  out[j, i] = e[i]
}""",
        [reorder("j", "i"), compute_at("out", "i")],
        "compute_at: out runs j, i down to i, the stages before it i",
    ),
    (
        "prim @f(x: float32[4, 0]) -> t: float32[4] { t[i] = sum(k: 0) x[i, k] }",
        [split("k", (1, 2)), reorder("k.0", "i"), cache_write("t", "stack", "i")],
        "t has nothing to reduce inside k.0",
    ),
    (
        MAPS,
        [fuse("i", "k")],
        "step 0, fuse('i', 'k'): fuse: no loop 'k' (the loops are i)",
    ),
]


@pytest.mark.parametrize("text, steps, message", TREE_GUARDS, ids=lambda v: str(v)[:40])
def test_what_sharing_loops_may_not_break(text, steps, message):
    assert refusal(text, *steps) == message


def test_an_axis_has_one_extent():
    text = """
prim @f(x: float32[6]) -> out: float32[4] {
  t[i]: float32[6] = x[i]
  out[i] = t[i]
}"""
    assert refusal(text) == "f: the axis i has the extents 6 and 4"


def test_inlining_must_leave_fused_loops_whole():
    text = """
prim @f(x: float32[4, 6]) -> out: float32[4] {
  e[i, j]: float32[4, 6] = exp(x[i, j])
  out[i] = e[i, 0]
}"""
    steps = (fuse("i", "j"), compute_inline("e"))
    assert refusal(text, *steps).endswith("compute_inline: only e runs all of the fused loop i*j")


def test_a_nest_does_not_grow_without_bound():
    axes = [f"i{n}" for n in range(16)]
    shape = ", ".join(["3"] * 16)
    text = f"prim @f(x: float32[{shape}]) -> out: float32[{shape}] " + (
        f"{{ out[{', '.join(axes)}] = x[{', '.join(axes)}] }}"
    )
    steps = [split(axis, (2, 2)) for axis in axes]
    assert refusal(text, *steps) == f"the nest has more than {LIMITS.loops} loops"
