"""Every primitive: its rewrite as loop nests before and after, and each of its guards."""

from textwrap import dedent

import pytest
from loopwright.ir.errors import ScheduleError
from loopwright.ir.loop.parser import parse_prim
from loopwright.ir.loop.verify import verify_nest
from loopwright.ir.schedule.apply import apply_schedule
from loopwright.ir.schedule.steps import (
    Schedule,
    Step,
    cache_write,
    compute_at,
    compute_inline,
    fuse,
    pack,
    parallel,
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


def body(text, *steps):
    """The statements of the nest, without its header."""
    nest = apply_schedule(parse_prim(text), Schedule(steps))
    verify_nest(nest)
    return dedent("\n".join(str(nest).splitlines()[1:-1])) + "\n"


def shows(text, *steps, after):
    assert body(text, *steps) == dedent(after).lstrip("\n")


def refusal(text, *steps):
    with pytest.raises(ScheduleError) as caught:
        apply_schedule(parse_prim(text), Schedule(steps))
    return caught.value.message


def test_no_steps_give_the_plain_nest():
    shows(
        ROWS,
        after="""
        workspace t: float32[4]
        for i in 4:
          registers t.acc: float32[1]
          t.acc[0] = 0.0
          for k in 6:
            t.acc[0] += x[i, k]
          t[i] = t.acc[0]
        for i in 4:
          out[i] = t[i] * 2.0
        """,
    )


def test_split_runs_the_rest_in_a_body_of_its_own():
    shows(
        COPY,
        split("i", (13, 8)),
        after="""
        for i.0 in 12:
          for i.1 in 8:
            out[8 * i.0 + i.1] = x[8 * i.0 + i.1]
        for i.1 in 4:
          out[i.1 + 96] = x[i.1 + 96]
        """,
    )


def test_reorder():
    shows(
        GRID,
        reorder("j", "i"),
        after="""
        for j in 6:
          for i in 4:
            out[i, j] = x[i, j]
        """,
    )


def test_fuse():
    shows(
        GRID,
        fuse("i", "j"),
        parallel("i*j"),
        after="""
        parallel i*j in 24:
          let i = ((i*j) // 6)
          let j = ((i*j) % 6)
          out[i, j] = x[i, j]
        """,
    )


def test_fused_loops_with_a_rest():
    shows(
        GRID,
        split("i", (2, 3)),
        reorder("i.0", "j", "i.1"),
        fuse("i.0", "j"),
        after="""
        for i.0*j in 12:
          let i.0 = ((i.0*j) // 6)
          let j = ((i.0*j) % 6)
          if index(i.0) < 1:
            for i.1 in 3:
              out[3 * i.0 + i.1, j] = x[3 * i.0 + i.1, j]
          else:
            out[3, j] = x[3, j]
        """,
    )


def test_kinds_of_loops():
    shows(
        GRID,
        parallel("i"),
        split("j", (2, 4)),
        unroll("j.0"),
        vectorize("j.1"),
        after="""
        parallel i in 4:
          vectorize j.1 in 4:
            out[i, j.1] = x[i, j.1]
          vectorize j.1 in 2:
            out[i, j.1 + 4] = x[i, j.1 + 4]
        """,
    )


def test_a_parallel_loop_has_one_body_for_the_rest():
    shows(
        COPY,
        split("i", (13, 8)),
        parallel("i.0"),
        vectorize("i.1"),
        after="""
        parallel i.0 in 13:
          if index(i.0) < 12:
            vectorize i.1 in 8:
              out[8 * i.0 + i.1] = x[8 * i.0 + i.1]
          else:
            vectorize i.1 in 4:
              out[i.1 + 96] = x[i.1 + 96]
        """,
    )


def test_compute_inline():
    shows(
        MAPS,
        compute_inline("e"),
        after="""
        for i in 4:
          out[i] = exp(x[i]) * 2.0
        """,
    )


def test_compute_at():
    shows(
        ROWS,
        compute_at("out", "i"),
        after="""
        for i in 4:
          registers t.acc: float32[1]
          t.acc[0] = 0.0
          for k in 6:
            t.acc[0] += x[i, k]
          out[i] = t.acc[0] * 2.0
        """,
    )


def test_compute_at_of_maps_keeps_what_an_iteration_makes():
    shows(
        MAPS,
        split("i", (1, 4)),
        compute_at("out", "i.0"),
        after="""
        stack e: float32[4]
        for i.1 in 4:
          e[i.1] = exp(x[i.1])
        for i.1 in 4:
          out[i.1] = e[i.1] * 2.0
        """,
    )


def test_cache_write():
    steps = (split("i", (2, 2)), reorder("i.0", "k", "i.1"), cache_write("t", "registers", "i.0"))
    shows(
        SUM,
        *steps,
        unroll("i.1"),
        after="""
        for i.0 in 2:
          registers t.acc: float32[2]
          unroll i.1 in 2:
            t.acc[i.1] = 0.0
          for k in 6:
            unroll i.1 in 2:
              t.acc[i.1] += x[2 * i.0 + i.1, k]
          unroll i.1 in 2:
            t[2 * i.0 + i.1] = t.acc[i.1]
        """,
    )


def test_a_tile_inside_a_reduced_loop_is_joined_to_what_is_there():
    steps = (split("k", (2, 3)), reorder("k.0", "i", "k.1"), cache_write("t", "stack", "i"))
    shows(
        SUM,
        *steps,
        after="""
        for k.0 in 2:
          for i in 4:
            stack t.acc: float32[1]
            t.acc[0] = 0.0
            for k.1 in 3:
              t.acc[0] += x[i, 3 * k.0 + k.1]
            if index(k.0) == 0:
              t[i] = t.acc[0]
            else:
              t[i] += t.acc[0]
        """,
    )


def test_rfactor():
    shows(
        SUM,
        split("k", (2, 4)),
        rfactor("t", "k.1"),
        vectorize("k.1"),
        after="""
        for i in 4:
          registers t.acc: float32[1]
          registers t.rf: float32[1, 4]
          vectorize k.1 in 4:
            t.rf[0, k.1] = 0.0
          vectorize k.1 in 4:
            t.rf[0, k.1] += x[i, k.1]
          vectorize k.1 in 2:
            t.rf[0, k.1] += x[i, k.1 + 4]
          t.acc[0] = 0.0
          vectorize k.1 in 4:
            t.acc[0] += t.rf[0, k.1]
          t[i] = t.acc[0]
        """,
    )


def test_split_reduction():
    shows(
        SUM,
        split_reduction("t", "k", 4),
        parallel("t.ko"),
        after="""
        workspace t.part: float32[4, 4]
        parallel t.ko in 4:
          for t.i in 4:
            registers t.part.acc: float32[1, 1]
            t.part.acc[0, 0] = 0.0
            for t.ki in 2:
              t.part.acc[0, 0] += where(index(t.ki + 2 * t.ko) <= 5, x[t.i, t.ki + 2 * t.ko], 0.0)
            t.part[t.ko, t.i] = t.part.acc[0, 0]
        for i in 4:
          registers t.acc: float32[1]
          t.acc[0] = 0.0
          for t.kj in 4:
            t.acc[0] += t.part[t.kj, i]
          t[i] = t.acc[0]
        """,
    )


def test_pack_of_a_constant():
    nest = apply_schedule(parse_prim(MATMUL), Schedule.of(pack("w", "j", 2)))
    assert str(nest).splitlines() == [
        "prim @f(x: float32[4, 6], w.packed: float32[3, 6, 2] packs w[6, 5] 1)"
        " -> out: float32[4, 5] {",
        "  for i in 4:",
        "    for j in 5:",
        "      registers out.acc: float32[1, 1]",
        "      out.acc[0, 0] = 0.0",
        "      for k in 6:",
        "        out.acc[0, 0] += x[i, k] * w.packed[(j // 2), k, (j % 2)]",
        "      out[i, j] = out.acc[0, 0]",
        "}",
    ]


def test_pack_at_run_time():
    text = "prim @f(x: float32[3]) -> out: float32[3] { out[i] = x[i] }"
    shows(
        text,
        pack("x", "i", 2),
        split("i", (2, 2)),
        after="""
        workspace x.packed: float32[2, 2]
        parallel x.packed.o in 2:
          vectorize x.packed.i in 2:
            x.packed[x.packed.o, x.packed.i] = \
where(index(x.packed.i + 2 * x.packed.o) <= 2, x[x.packed.i + 2 * x.packed.o], 0.0)
        for i.1 in 2:
          out[i.1] = x.packed[0, i.1]
        out[2] = x.packed[1, 0]
        """,
    )


def test_stream():
    shows(
        COPY,
        stream("out"),
        after="""
        for i in 100:
          stream out[i] = x[i]
        """,
    )


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
]

WHOLE = {
    "reorder('i.1', 'i.0')": "reorder: i.1 stands outside a loop it belongs into",
    "fuse('i', 'k')": "t reduces only a part of the fused loop i*k",
    "parallel('k')": "parallel: t accumulates over k",
    "cache_write('e', 'registers', 'i')": "cache_write: e is no reduction, or 'registers' is no "
    "private scope",
    "cache_write('t', 'arena', 'i')": "cache_write: t is no reduction, or 'arena' is no private "
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
    assert refusal(text, *steps) == "the nest has more than 20000 statements"


def test_a_step_prints_as_the_python_that_makes_it():
    step = Step("split", ("i", (4, 8)))
    assert str(step) == "split('i', (4, 8))"
    assert step == split("i", (4, 8))
