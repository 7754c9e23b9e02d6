"""The verifiers of PrimFuncs and loop nests: what they refuse, and how they say so."""

from textwrap import dedent, indent

import pytest
from loopwright.ir.dims import symbol
from loopwright.ir.dtype import FLOAT32, INT32
from loopwright.ir.errors import InternalError
from loopwright.ir.loop.expr import read
from loopwright.ir.loop.nest import Loop, Nest, Store
from loopwright.ir.loop.parser import parse_nest, parse_prim
from loopwright.ir.loop.prim import Axis, Buffer, PrimFunc, Stage
from loopwright.ir.loop.verify import verify_nest, verify_prim


def prim(*stages, out="out: float32[4]"):
    head = f"prim @f(x: float32[4], w: float32[4, 6]) -> {out} {{"
    return parse_prim("\n".join([head, *(f"  {s}" for s in stages), "}"]))


def nest(text):
    head = "prim @f(x: float32[4], w: float32[4, 6]) -> out: float32[4] {\n"
    return parse_nest(head + indent(dedent(text).strip("\n"), "  ") + "\n}")


def refusal(verify, ir):
    with pytest.raises(InternalError) as caught:
        verify(ir)
    return caught.value


def test_the_bad_stage_is_marked():
    error = refusal(verify_prim, prim("t[i]: float32[4] = x[i]", "out[i] = t[i + 1]"))
    assert str(error).splitlines() == [
        "prim @f: t[.. i + 1 ..] runs from 1 to 4 outside of t: float32[4]",
        "    prim @f(x: float32[4], w: float32[4, 6]) -> out: float32[4] {",
        "      t[i]: float32[4] = x[i]",
        "  >   out[i] = t[i + 1]",
        "    }",
    ]


@pytest.mark.parametrize(
    "stages, message",
    [
        (["out[i] = x[k]"], "no loop or size k is known here"),
        (["out[i] = x[i, i]"], "x has 1 dimensions, not 2"),
        (["out[i] = w[2 * i, 0]"], "w[.. 2 * i ..] runs from 0 to 6 outside of w: float32[4, 6]"),
        (["out[i] = float32(index(n))"], "no loop or size n is known here"),
        (["t[i]: float32[5] = x[0]", "out[i] = t[i]"], "the axis i has the extents 5 and 4"),
        (["t[i]: int32[4] = x[i]", "out[i] = x[i]"], "t is int32, its value float32"),
        (["out[i] = sum(i: 4) x[i]"], "out walks an axis twice"),
        (["x[i]: float32[4] = w[i, 0]", "out[i] = w[i, 0]"], "x is there already"),
    ],
)
def test_prims_that_are_refused(stages, message):
    assert refusal(verify_prim, prim(*stages)).message == f"prim @f: {message}"


def test_prims_that_the_text_cannot_spell():
    x, out = Buffer("x", (4,), FLOAT32), Buffer("out", (4,), FLOAT32)
    value = read("x", (symbol("i"),), FLOAT32)

    def message(*stages, params=(x,), outputs=("out",)):
        return refusal(verify_prim, PrimFunc("f", params, outputs, stages)).message

    four = (Axis("i", 4),)
    stage = Stage(out, four, value)
    assert message(Stage(out, (Axis("i", 3),), value)).endswith("do not have its shape")
    assert message(Stage(out, four, value, (Axis("k", 2),))).endswith("without a combiner")
    assert message(Stage(out, four, value, (), "mean")).endswith("no combiner 'mean'")
    assert message(stage, params=(x, x)).endswith("two parameters are called x")
    assert message(stage, params=()).endswith("no buffer x")
    assert message(stage, outputs=("out", "out")).endswith("an output is there twice")
    wrong = Stage(Buffer("out", (4,), INT32), four, read("x", (symbol("i"),), INT32))
    assert message(wrong).endswith("x is float32, but read as int32")


def test_guards_and_gathers_are_left_to_the_data():
    verify_prim(prim("out[i] = where(index(i) < 3, x[i + 1], 0.0)"))
    verify_prim(prim("out[i] = x[int64(x[i])]"))


NESTS = [
    ("  for i in 4:\n    out[i] = x[j]", "no loop or size j is known here"),
    ("  for i in 4:\n    out[j] = x[i]", "no loop j around this statement"),
    ("  for i in 4:\n    out[i + 1] = x[i]", "out[.. i + 1 ..] runs from 1 to 4 outside of out:"),
    ("  for i in 4:\n    for i in 4:\n      out[i] = x[i]", "i is the variable of a loop around"),
    ("  for i in 4:\n    y[i] = x[i]", "no buffer y"),
    ("  for i in 4:\n    x[i] = 0.0", "x is an operand that is only read"),
    ("  for i in 4:\n    out[i, 0] = x[i]", "out has 1 dimensions"),
    ("  for i in 4:\n    out[i] = 1", "out is float32, the value int64"),
    ("  prefetch out[0]\n  out[0] = 1.0", "out is neither an operand that is only read"),
    ("  prefetch x[0, 1]\n  out[0] = 1.0", "x has other dimensions"),
    ("  prefetch x[i]\n  out[0] = 1.0", "no loop i around this statement"),
    ("  if x[0]:\n    out[0] = 1.0", "a condition is bool, not float32"),
    ("  for i in 4:\n    out[i] += x[i]", "out is read before it is written"),
    ("  registers t: float32[4]\n  for i in 4:\n    out[i] = t[i]", "t is read before it is"),
    (
        "  parallel i in 4:\n    out[0] = x[i]",
        "the iterations of the parallel loop i write the same element",
    ),
    (
        "  registers t: float32[1]\n  t[0] = 0.0\n  parallel i in 4:\n    t[0] += x[i]",
        "the iterations of the parallel loop i write the same element",
    ),
]


@pytest.mark.parametrize("text, message", NESTS)
def test_nests_that_are_refused(text, message):
    assert refusal(verify_nest, nest(text)).message.startswith(f"nest @f: {message}")


def test_a_private_buffer_ends_with_its_body():
    t = read("t", (0,), FLOAT32)
    inside = nest("registers t: float32[1]\nt[0] = x[0]")
    body = (Loop("for", "i", 2, inside.body), Store("out", (0,), t))
    error = refusal(verify_nest, Nest("f", inside.operands, (), body))
    assert error.message == "nest @f: no buffer t"


def test_private_buffers_belong_to_their_turn():
    verify_nest(
        nest("""
    parallel i in 4:
      stack t: float32[6]
      for j in 6:
        t[j] = w[i, j]
      out[i] = t[5]
""")
    )


def test_a_branch_for_one_turn_may_write_one_element():
    verify_nest(
        nest("""
    parallel i in 3:
      if index(i) < 2:
        out[i] = x[i]
      else:
        out[2] = x[2]
        out[3] = x[3]
""")
    )


def test_the_bad_statement_is_marked():
    text = "  for i in 4:\n    out[i] = x[i]\n  for i in 5:\n    out[0] = x[i]"
    error = refusal(verify_nest, nest(text))
    marked = [line for line in str(error).splitlines() if line.startswith("  >")]
    assert marked == ["  >     out[0] = x[i]"]
    assert str(error).index("for i in 5") < str(error).index("  >")


@pytest.mark.parametrize(("extent", "fits"), [("min(1, n)", True), ("n", True), ("n + 1", False)])
def test_a_loop_over_a_size_that_may_be_0_has_an_iteration(extent: str, fits: bool):
    head = "prim @f(x: float32[n]) -> out: float32[n + 1] for n in 0..9 {"
    loop = [f"  for i in {extent}:", "    out[i] = x[0]"]
    ir = parse_nest("\n".join([head, *loop, "}"]))
    if fits:
        verify_nest(ir)
    else:
        assert "x[.. 0 ..] may lie outside of x: float32[n]" in str(refusal(verify_nest, ir))


@pytest.mark.parametrize(("size", "more", "fits"), [(1, 0, True), (21, 0, True), (21, 1, False)])
def test_loops_over_what_tiles_leave_are_tried(size: int, more: int, fits: bool):
    """The bounds of loops that have no iterations prove nothing."""
    tiles = f"(({size} - 3 * i + 3) // 8)"
    body = [
        "  for i in 1:",
        f"    for j in {tiles}:",
        "      for k in 8:",
        f"        if index(k) < index({size} - 8 * j):",
        "          out[8 * j + k] = x[0]",
        f"    for j in max({size} - 8 * {tiles}, 0) + {more}:",
        f"      out[8 * {tiles} + j] = x[0]",
    ]
    head = f"prim @f(x: float32[{size}]) -> out: float32[{size}] {{"
    ir = parse_nest("\n".join([head, *body, "}"]))
    if fits:
        verify_nest(ir)
    else:
        assert "outside of out" in str(refusal(verify_nest, ir))


@pytest.mark.parametrize(("most", "fits"), [(8, True), (9, False)])
def test_iterations_of_a_parallel_loop_that_has_one_write_what_they_like(most: int, fits: bool):
    head = f"prim @f(x: float32[n]) -> out: float32[n] for n in 2..{most} {{"
    ir = parse_nest(f"{head}\n  parallel i in ((n + 7) // 8):\n    out[0] = x[0]\n}}")
    if fits:
        verify_nest(ir)
    else:
        assert "write the same element" in str(refusal(verify_nest, ir))
