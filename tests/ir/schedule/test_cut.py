"""Axes run in pieces: the nests, and that each piece has no condition left."""

from textwrap import dedent

import numpy as np
from loopwright.ir.loop.parser import parse_prim
from loopwright.ir.loop.verify import verify_nest
from loopwright.ir.schedule.apply import apply_schedule
from loopwright.ir.schedule.steps import (
    Schedule,
    cut,
    fuse,
    pack,
    parallel,
    prefetch,
    split,
    vectorize,
)
from prims import run_nest

JOINED = """
prim @f(x: float32[4], y: float32[6]) -> out: float32[10] {
  out[i] = where(index(i) < 4, x[i], y[i - 4])
}"""
PADDED = """
prim @f(x: float32[4, 5]) -> out: float32[6, 5] {
  out[i, j] = where((1 <= index(i)) and (index(i) <= 4), x[i - 1, j], 0.0)
}"""


def shows(text, *steps, after):
    nest = apply_schedule(parse_prim(text), Schedule(steps))
    verify_nest(nest)
    found = dedent("\n".join(str(nest).splitlines()[1:-1])) + "\n"
    assert found == dedent(after).lstrip("\n")


def test_each_piece_is_a_loop():
    shows(
        JOINED,
        cut("i", (4,)),
        after="""
        for i in 4:
          out[i] = x[i]
        for i in 6:
          out[i + 4] = y[i]
        """,
    )


def test_a_piece_has_a_rest_of_its_own():
    shows(
        JOINED,
        split("i", (3, 4)),
        cut("i", (4,)),
        vectorize("i.1"),
        after="""
        vectorize i.1 in 4:
          out[i.1] = x[i.1]
        vectorize i.1 in 4:
          out[i.1 + 4] = y[i.1]
        vectorize i.1 in 2:
          out[i.1 + 8] = y[i.1 + 4]
        """,
    )


def test_turns_of_a_parallel_loop_ask_for_their_piece():
    shows(
        JOINED,
        split("i", (5, 2)),
        cut("i", (4, 7)),
        parallel("i.0"),
        after="""
        parallel i.0 in 6:
          if index(i.0) < 2:
            for i.1 in 2:
              out[2 * i.0 + i.1] = x[2 * i.0 + i.1]
          else:
            if index(i.0) < 3:
              for i.1 in 2:
                out[i.1 + 4] = y[i.1]
            else:
              if index(i.0) < 4:
                out[6] = y[2]
              else:
                if index(i.0) < 5:
                  for i.1 in 2:
                    out[i.1 + 7] = y[i.1 + 3]
                else:
                  out[9] = y[5]
        """,
    )


def test_turns_of_a_fused_loop_ask_too():
    shows(
        PADDED,
        cut("i", (1, 5)),
        fuse("i", "j"),
        after="""
        for i*j in 30:
          let i = ((i*j) // 5)
          let j = ((i*j) % 5)
          if index(i) < 1:
            out[0, j] = 0.0
          else:
            if index(i) < 5:
              out[i, j] = x[i - 1, j]
            else:
              out[5, j] = 0.0
        """,
    )


def test_a_piece_prefetches_what_it_reads():
    shows(
        JOINED,
        split("i", (5, 2)),
        cut("i", (4,)),
        vectorize("i.1"),
        prefetch("out", "x", "i.0", 1),
        prefetch("out", "y", "i.0", 1),
        after="""
        for i.0 in 2:
          vectorize i.1 in 2:
            prefetch x[2 * i.0 + i.1 + 2]
            out[2 * i.0 + i.1] = x[2 * i.0 + i.1]
        for i.0 in 3:
          vectorize i.1 in 2:
            prefetch y[2 * i.0 + i.1 + 2]
            out[2 * i.0 + i.1 + 4] = y[2 * i.0 + i.1]
        """,
    )


def test_a_short_panel_has_no_piece_behind_its_end():
    """Its second piece would read x[5, 0] of 5 rows."""
    text = "prim @f(x: int64[5, 2]) -> out: int64[5, 2] { out[i, j] = x[i, j] }"
    nest = apply_schedule(
        parse_prim(text), Schedule((pack("x", "i", 4), cut("x.packed.i", (1, 2))))
    )
    verify_nest(nest)
    x = np.arange(10).reshape(5, 2)
    assert (run_nest(nest, {"x": x})["out"] == x).all()
