"""Every primitive: its rewrite as loop nests before and after, and each of its guards."""

from textwrap import dedent

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


def body(text, *steps):
    """The statements of the nest, without its header."""
    nest = apply_schedule(parse_prim(text), Schedule(steps))
    verify_nest(nest)
    return dedent("\n".join(str(nest).splitlines()[1:-1])) + "\n"


def shows(text, *steps, after):
    assert body(text, *steps) == dedent(after).lstrip("\n")


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
              out[i.1, j] = x[i.1, j]
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
    """The last panel is filled only as far as somebody reads it, and nothing needs a guard."""
    text = "prim @f(x: float32[3]) -> out: float32[3] { out[i] = x[i] }"
    shows(
        text,
        pack("x", "i", 2),
        split("i", (2, 2)),
        after="""
        workspace x.packed: float32[2, 2]
        vectorize x.packed.i in 2:
          x.packed[0, x.packed.i] = x[x.packed.i]
        x.packed[1, 0] = x[2]
        for i.1 in 2:
          out[i.1] = x.packed[0, i.1]
        out[2] = x.packed[1, 0]
        """,
    )


COLUMN = "prim @f(x: float32[{}, {}]) -> out: float32[40] {{ out[i] = x[{}] }}"


def test_pack_copies_some_rows_of_a_panel_after_another():
    shows(
        COLUMN.format(1000, 40, "0, i"),
        pack("x", "i", 32),
        after="""
        workspace x.packed: float32[2, 1000, 32]
        parallel x.packed.0.0*x.packed.o in 126:
          let x.packed.0.0 = ((x.packed.0.0*x.packed.o) // 2)
          let x.packed.o = ((x.packed.0.0*x.packed.o) % 2)
          if index(x.packed.0.0) < 62:
            if index(x.packed.o) < 1:
              for x.packed.0.1 in 16:
                vectorize x.packed.i in 32:
                  x.packed[0, 16 * x.packed.0.0 + x.packed.0.1, x.packed.i] = \
x[16 * x.packed.0.0 + x.packed.0.1, x.packed.i]
            else:
              for x.packed.0.1 in 16:
                vectorize x.packed.i in 8:
                  x.packed[1, 16 * x.packed.0.0 + x.packed.0.1, x.packed.i] = \
x[16 * x.packed.0.0 + x.packed.0.1, x.packed.i + 32]
          else:
            if index(x.packed.o) < 1:
              for x.packed.0.1 in 8:
                vectorize x.packed.i in 32:
                  x.packed[0, x.packed.0.1 + 992, x.packed.i] = \
x[x.packed.0.1 + 992, x.packed.i]
            else:
              for x.packed.0.1 in 8:
                vectorize x.packed.i in 8:
                  x.packed[1, x.packed.0.1 + 992, x.packed.i] = \
x[x.packed.0.1 + 992, x.packed.i + 32]
        for i in 40:
          out[i] = x.packed[(i // 32), 0, (i % 32)]
        """,
    )


def test_pack_of_columns_writes_out_the_loop_along_the_lines_of_the_source():
    shows(
        COLUMN.format(40, 20, "i, 0"),
        pack("x", "i", 40),
        after="""
        workspace x.packed: float32[1, 20, 40]
        unroll x.packed.1.1 in 16:
          vectorize x.packed.i in 40:
            x.packed[0, x.packed.1.1, x.packed.i] = x[x.packed.i, x.packed.1.1]
        unroll x.packed.1.1 in 4:
          vectorize x.packed.i in 40:
            x.packed[0, x.packed.1.1 + 16, x.packed.i] = x[x.packed.i, x.packed.1.1 + 16]
        for i in 40:
          out[i] = x.packed[0, 0, i]
        """,
    )


def test_panels_taken_apart_are_copied_with_a_guard():
    text = "prim @f(x: float32[5]) -> out: float32[5] { out[i] = x[i] }"
    shows(
        text,
        pack("x", "i", 2),
        split("x.packed.o", (3, 1)),
        after="""
        workspace x.packed: float32[3, 2]
        for x.packed.o.0 in 3:
          vectorize x.packed.i in 2:
            x.packed[x.packed.o.0, x.packed.i] = \
where(index(x.packed.i + 2 * x.packed.o.0) <= 4, x[x.packed.i + 2 * x.packed.o.0], 0.0)
        for i in 5:
          out[i] = x.packed[(i // 2), (i % 2)]
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


def test_prefetch():
    shows(
        GRID,
        split("j", (2, 4)),
        prefetch("out", "x", "i"),
        vectorize("j.1"),
        after="""
        for i in 4:
          vectorize j.1 in 4:
            prefetch x[i + 1, j.1]
            out[i, j.1] = x[i, j.1]
          vectorize j.1 in 2:
            prefetch x[i + 1, j.1 + 4]
            out[i, j.1 + 4] = x[i, j.1 + 4]
        """,
    )


def test_prefetch_in_a_reduction_and_a_fused_loop():
    shows(
        MATMUL,
        prefetch("out", "x", "i"),
        prefetch("out", "w", "k"),
        fuse("i", "j"),
        after="""
        for i*j in 20:
          let i = ((i*j) // 5)
          let j = ((i*j) % 5)
          registers out.acc: float32[1, 1]
          out.acc[0, 0] = 0.0
          for k in 6:
            prefetch x[i + 1, k]
            prefetch w[k + 1, j]
            out.acc[0, 0] += x[i, k] * w[k, j]
          out[i, j] = out.acc[0, 0]
        """,
    )


def test_prefetch_of_panels_some_turns_ahead():
    shows(
        "prim @f(x: float32[8], w: float32[8, 4]) -> out: float32[4] "
        "{ out[j] = sum(k: 8) x[k] * w[k, j] }",
        pack("w", "j", 4),
        split("k", (2, 4)),
        prefetch("out", "w.packed", "k.1", 2),
        after="""
        workspace w.packed: float32[1, 8, 4]
        for w.packed.0 in 8:
          vectorize w.packed.i in 4:
            w.packed[0, w.packed.0, w.packed.i] = w[w.packed.0, w.packed.i]
        for j in 4:
          registers out.acc: float32[1]
          out.acc[0] = 0.0
          for k.0 in 2:
            for k.1 in 4:
              prefetch w.packed[0, 4 * k.0 + k.1 + 2, j]
              out.acc[0] += x[4 * k.0 + k.1] * w.packed[0, 4 * k.0 + k.1, j]
          out[j] = out.acc[0]
        """,
    )


def test_the_next_panel_comes_while_all_rows_pass_over_this_one():
    """Two lines of the next panel in eight iterations."""
    shows(
        "prim @f(x: float32[4, 2], w: float32[2, 64] const) -> out: float32[4, 64] "
        "{ out[i, j] = sum(k: 2) x[i, k] * w[k, j] }",
        pack("w", "j", 16),
        split("j", (4, 16)),
        reorder("j.0", "i", "k", "j.1"),
        cache_write("out", "registers", "i"),
        prefetch_next("out", "w.packed", "j.0"),
        vectorize("j.1"),
        after="""
        for j.0 in 4:
          for i in 4:
            registers out.acc: float32[1, 16]
            vectorize j.1 in 16:
              out.acc[0, j.1] = 0.0
            for k in 2:
              vectorize j.1 in 16:
                prefetch w.packed[j.0 + 1, 0, 16 * ((2 * i + k) // 4)] in L2
                out.acc[0, j.1] += x[i, k] * w.packed[j.0, k, j.1]
            vectorize j.1 in 16:
              out[i, 16 * j.0 + j.1] = out.acc[0, j.1]
        """,
    )


def test_a_step_prints_as_the_python_that_makes_it():
    step = Step("split", ("i", (4, 8)))
    assert str(step) == "split('i', (4, 8))"
    assert step == split("i", (4, 8))
