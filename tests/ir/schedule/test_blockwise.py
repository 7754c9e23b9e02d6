"""``blockwise``: rows in pieces give what whole rows give."""

from textwrap import dedent

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from loopwright.ir.errors import ScheduleError
from loopwright.ir.loop.evaluate import evaluate_prim
from loopwright.ir.loop.parser import parse_prim
from loopwright.ir.loop.verify import verify_nest, verify_prim
from loopwright.ir.schedule.apply import apply_schedule
from loopwright.ir.schedule.steps import Schedule, blockwise, split, split_reduction, state_of
from prims import run_nest


def rows(length, dtype="float32", shape=(3, 2)):
    """softmax(x) @ v of ``shape`` rows and columns."""
    n, m = shape
    return f"""
prim @f(x: {dtype}[{n}, {length}], v: {dtype}[{length}, {m}]) -> out: {dtype}[{n}, {m}] {{
  t[i]: {dtype}[{n}] = max(k: {length}) x[i, k]
  e[i, l]: {dtype}[{n}, {length}] = exp(x[i, l] - t[i])
  s[i]: {dtype}[{n}] = sum(r: {length}) e[i, r]
  o[i, j]: {dtype}[{n}, {m}] = sum(q: {length}) e[i, q] * v[q, j]
  out[i, j] = o[i, j] / s[i]
}}"""


def cut(text, parts):
    prim = state_of(parse_prim(text), Schedule.of(blockwise("t", parts))).prim
    verify_prim(prim)
    return prim


def test_what_becomes_of_the_stages():
    stages = str(cut(rows(8), 2)).splitlines()[1:-1]
    expected = """
      t.part[t.b, i]: float32[2, 3] = max(k: 4) x[i, k + 4 * t.b]
      t.base[t.b, i]: float32[2, 3] = maximum(t.part[t.b, i], -3.4028235e+38)
      e[i, t.b, l]: float32[3, 2, 4] = exp(x[i, l + 4 * t.b] - t.base[t.b, i])
      s.part[t.b, i]: float32[2, 3] = sum(r: 4) e[i, t.b, r]
      o.part[t.b, i, o.j]: float32[2, 3, 2] = sum(q: 4) e[i, t.b, q] * v[q + 4 * t.b, o.j]
      t[i]: float32[3] = max(t.r: 2) t.base[t.r, i]
      t.scale[t.b, i]: float32[2, 3] = exp(t.base[t.b, i] - t[i])
      s[i]: float32[3] = sum(s.r: 2) t.scale[s.r, i] * s.part[s.r, i]
      o[i, j]: float32[3, 2] = sum(o.r: 2) t.scale[o.r, i] * o.part[o.r, i, j]
      out[i, j] = o[i, j] / s[i]
    """
    assert [line.strip() for line in stages] == dedent(expected).split("\n")[1:-1]


@settings(max_examples=40)
@given(
    length=st.integers(2, 40),
    parts=st.integers(2, 7),
    seed=st.integers(0, 1000),
    scale=st.sampled_from([1.0, 1e2, 1e30, 1e300]),
    masked=st.sampled_from(["none", "some", "row"]),
)
def test_pieces_give_what_whole_rows_give(length, parts, seed, scale, masked):
    prim = parse_prim(rows(length, "float64"))
    try:
        pieces = state_of(prim, Schedule.of(blockwise("t", parts))).prim
    except ScheduleError as error:
        size = -(-length // parts)
        assert (parts - 1) * size >= length, error
        return
    verify_prim(pieces)
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((3, length)) * scale
    if masked == "some":
        x[rng.random(x.shape) < 0.7] = -np.inf
    if masked == "row":
        x[1] = -np.inf
    inputs = {"x": x, "v": rng.standard_normal((length, 2))}
    with np.errstate(all="ignore"):
        expected = evaluate_prim(prim, inputs)["out"]
        found = evaluate_prim(pieces, inputs)["out"]
        nest = apply_schedule(prim, Schedule.of(blockwise("t", parts), split("i", (2, 2))))
        verify_nest(nest)
        run = run_nest(nest, inputs)["out"]
    np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-13)
    np.testing.assert_allclose(run, expected, rtol=1e-11, atol=1e-13)
    assert masked != "row" or np.isnan(found[1]).all()


SUM = "prim @f(x: float32[4, 6]) -> t: float32[4] { t[i] = sum(k: 6) x[i, k] }"
WHOLE = rows(8)


@pytest.mark.parametrize(
    "text, steps, message",
    [
        (SUM, [blockwise("t", 2)], "blockwise: t is not the maximum of a row of floats"),
        (WHOLE, [blockwise("t", 1)], "blockwise: 8 elements cannot be cut into 1 pieces"),
        (WHOLE, [blockwise("t", 9)], "blockwise: 8 elements cannot be cut into 9 pieces"),
        (WHOLE, [blockwise("t", 7)], "blockwise: 8 elements cannot be cut into 7 pieces"),
        (
            WHOLE,
            [split("i", (2, 2)), blockwise("t", 2)],
            "blockwise: must come before all steps on loops",
        ),
        (
            WHOLE.replace("exp(x[i, l] - t[i])", "exp(x[i, l] * t[i])"),
            [blockwise("t", 2)],
            "blockwise: e reads t otherwise than in exp(x - maximum)",
        ),
        (
            WHOLE.replace("= o[i, j] / s[i]", "= (o[i, j] / s[i]) + t[i]"),
            [blockwise("t", 2)],
            "blockwise: out reads t otherwise than in exp(x - maximum)",
        ),
        (
            WHOLE.replace("e[i, q] * v[q, j]", "e[i, q] * e[i, q]"),
            [blockwise("t", 2)],
            "blockwise: o is not a sum that is linear in the exponentials",
        ),
        (
            WHOLE.replace("s[i]: float32[3] = sum", "s[i]: float32[3] = max"),
            [blockwise("t", 2)],
            "blockwise: s is not a sum that is linear in the exponentials",
        ),
        (
            WHOLE.replace("e[i, q] * v[q, j]", "(e[i, q] / s[i]) * v[q, j]"),
            [blockwise("t", 2)],
            "blockwise: o needs a whole row before it is done",
        ),
        (
            WHOLE.replace("e[i, r]", "e[2 - i, r]"),
            [blockwise("t", 2)],
            "blockwise: s reads e in another row",
        ),
        (
            WHOLE.replace("e[i, r]", "e[i, 7 - r]"),
            [blockwise("t", 2)],
            "blockwise: s does not walk e one by one",
        ),
        (WHOLE, [blockwise("t", 4), blockwise("t", 2)], "f: two axes of t.part have the same name"),
        (
            WHOLE,
            [split_reduction("s", "r", 2), split_reduction("s", "s.rj", 2)],
            "f: two buffers are called s.part",
        ),
    ],
)
def test_guards(text, steps, message):
    with pytest.raises(ScheduleError) as caught:
        apply_schedule(parse_prim(text), Schedule.of(*steps))
    assert caught.value.message.endswith(message)
