"""The primitives for the borders of images, by the nests they make."""

from textwrap import dedent

from loopwright.ir.loop.parser import parse_prim
from loopwright.ir.loop.verify import verify_nest
from loopwright.ir.schedule.apply import apply_schedule
from loopwright.ir.schedule.steps import (
    Schedule,
    compute_inline,
    fuse,
    parallel,
    peel,
    split,
    unroll,
)

COPY = "prim @f(x: float32[100]) -> out: float32[100] { out[i] = x[i] }"
GRID = "prim @f(x: float32[4, 6]) -> out: float32[4, 6] { out[i, j] = x[i, j] }"
PADDED = """
prim @f(x: float32[8], w: float32[3]) -> out: float32[8] {
  t[h]: float32[10] = where((1 <= index(h)) and (index(h) <= 8), x[h - 1], 0.0)
  out[i] = sum(k: 3) t[i + k] * w[k]
}"""


def body(text, *steps):
    """The statements of the nest, without its header."""
    nest = apply_schedule(parse_prim(text), Schedule(steps))
    verify_nest(nest)
    return dedent("\n".join(str(nest).splitlines()[1:-1])) + "\n"


def shows(text, *steps, after):
    assert body(text, *steps) == dedent(after).lstrip("\n")


def test_peel():
    shows(
        PADDED,
        compute_inline("t"),
        split("i", (4, 2)),
        peel("i.0", 1, 1),
        unroll("i.1"),
        after="""
        unroll i.1 in 2:
          registers out.acc: float32[1]
          out.acc[0] = 0.0
          for k in 3:
            out.acc[0] += where(1 <= index(i.1 + k), x[i.1 + k - 1], 0.0) * w[k]
          out[i.1] = out.acc[0]
        for i.0 in 2:
          unroll i.1 in 2:
            registers out.acc: float32[1]
            out.acc[0] = 0.0
            for k in 3:
              out.acc[0] += x[2 * i.0 + i.1 + k + 1] * w[k]
            out[2 * i.0 + i.1 + 2] = out.acc[0]
        unroll i.1 in 2:
          registers out.acc: float32[1]
          out.acc[0] = 0.0
          for k in 3:
            out.acc[0] += where(index(i.1 + k + 6) <= 8, x[i.1 + k + 5], 0.0) * w[k]
          out[i.1 + 6] = out.acc[0]
        """,
    )


def test_peel_of_a_parallel_loop_with_a_rest():
    shows(
        COPY,
        split("i", (15, 7)),
        peel("i.0", 1, 2),
        parallel("i.0"),
        after="""
        parallel i.0 in 15:
          if index(i.0) < 1:
            for i.1 in 7:
              out[i.1] = x[i.1]
          else:
            if index(i.0) < 13:
              for i.1 in 7:
                out[7 * i.0 + i.1] = x[7 * i.0 + i.1]
            else:
              if index(i.0) < 14:
                for i.1 in 7:
                  out[i.1 + 91] = x[i.1 + 91]
              else:
                for i.1 in 2:
                  out[i.1 + 98] = x[i.1 + 98]
        """,
    )


def test_peel_of_fused_loops():
    shows(
        GRID,
        peel("i", 1, 1),
        fuse("i", "j"),
        after="""
        for i*j in 24:
          let i = ((i*j) // 6)
          let j = ((i*j) % 6)
          if index(i) < 1:
            out[0, j] = x[0, j]
          else:
            if index(i) < 3:
              out[i, j] = x[i, j]
            else:
              out[3, j] = x[3, j]
        """,
    )
