"""Reading PrimFuncs and loop nests back from their text."""

import hypothesis.strategies as st
import pytest
from hypothesis import given
from loopwright.ir.dims import symbol
from loopwright.ir.dtype import BOOL, DTYPES, FLOAT32, FLOAT64, INT32, INT64
from loopwright.ir.errors import ParseError
from loopwright.ir.loop.expr import cast, const, expr_text, index, op, read
from loopwright.ir.loop.parser import parse_nest, parse_prim
from loopwright.ir.loop.prim import Axis, Buffer, PrimFunc, Stage
from loopwright.ir.loop.scalar import SCALAR_OPS

i, j = symbol("i"), symbol("j")

SOFTMAX = """\
prim @softmax(x: float32[40, 33]) -> out: float32[40, 33] {
  m[i]: float32[40] = max(k: 33) x[i, k]
  e[i, j]: float32[40, 33] = exp(x[i, j] - m[i])
  s[i]: float32[40] = sum(r: 33) e[i, r]
  out[i, j] = e[i, j] / s[i]
}"""

PRIMS = [
    SOFTMAX,
    """\
prim @scalars() -> a: bool[], b: float64[0], c: uint8[3] {
  a[] = not_equal_is_true[]
  b[i] = 0.1:float64
  c[i] = where(index(i) == 1, 255:uint8, 253:uint8)
}""".replace("not_equal_is_true[]", "True"),
    """\
prim @gather(x: float32[7, n + 1], at: int32[n] const) -> out: float32[n, 2] for n in 0..4096 {
  out[i, j] = x[int64(at[i]), i + 1] + x[minimum(int64(at[i]) * index((i // 2)), 6), j]
}""",
    """\
prim @window(x: float32[9]) -> out: float32[3] {
  out[i] = max(k: 3) where((0 <= index(i + k - 1)) and (index(i + k - 1) <= 8), x[i + k - 1], -inf)
}""",
    """\
prim @literals(x: float32[4]) -> out: float32[4] {
  out[i] = where(isnan(x[i]), nan, x[i] + -1e-30) * inf
}""",
    """\
prim @two(x: int64[4, 5]) -> a: int64[4], out: int64[4, 5] {
  a[i] = prod(k: 5) x[i, k]
  out[i, j] = (a[i] + index((i % 2))) << 3
}""",
]

NESTS = [
    """\
prim @mm(x: float32[4, 8], w.packed: float32[2, 8, 4] packs w[8, 7] 1, b: float32[7] const) \
-> out: float32[4, 7] {
  workspace t: float32[4, 7]
  parallel i.0*j.0 in 4:
    let i.0 = ((i.0*j.0) // 2)
    let j.0 = ((i.0*j.0) % 2)
    registers t.acc: float32[2, 4]
    stack row: float32[8]
    for k in 8:
      unroll i.1 in 2:
        vectorize j.1 in 4:
          prefetch x[2 * i.0 + i.1, k + 1]
          t.acc[i.1, j.1] += x[2 * i.0 + i.1, k] * w.packed[j.0, k, j.1]
          t.acc[i.1, j.1] max= 0.0
    if index(j.0) < 1:
      if (index(i.0) == 0) and (index(j.0) == 0):
        t[0, 0] = t.acc[0, 0]
      else:
        stream out[2 * i.0, 4 * j.0] = b[j.0]
    else:
      row[0] = sqrt(b[0])
}
""",
]


@pytest.mark.parametrize("text", PRIMS, ids=lambda t: t.split("(")[0])
def test_prim_round_trip(text):
    prim = parse_prim(text)
    assert str(prim) == text
    assert parse_prim(str(prim)) == prim


@pytest.mark.parametrize("text", NESTS)
def test_nest_round_trip(text):
    nest = parse_nest(text)
    assert str(nest) == text
    assert parse_nest(str(nest)) == nest


def test_what_is_read_is_what_was_built():
    prim = parse_prim(SOFTMAX)
    shift = prim.stage("e")
    assert shift.axes == (Axis("i", 40), Axis("j", 33))
    assert shift.buffer == Buffer("e", (40, 33), FLOAT32)
    difference = op("subtract", read("x", (i, j), FLOAT32), read("m", (i,), FLOAT32))
    assert shift.expr is op("exp", difference)
    assert prim.stage("s").combiner == "sum"


def error(text, parse=parse_prim):
    with pytest.raises(ParseError) as caught:
        parse(text)
    return str(caught.value).replace("\n  <text>", "\n<text>")


def test_errors_point_at_the_place():
    text = "prim @f(x: float32[4]) -> out: float32[4] {\n  out[i] = exp(y[i])\n}"
    assert error(text).splitlines() == [
        "line 2, column 16: no buffer 'y'",
        "<text>:2",
        "    out[i] = exp(y[i])",
        " " * 17 + "^",
    ]


HEAD = "prim @f(x: float32[4], n: int32[4]) -> out: float32[4] {"


@pytest.mark.parametrize(
    "text, message",
    [
        ("prim f", "line 1, column 6: expected '@', found 'f'"),
        ("prim @f(x: float8[4])", "line 1, column 12: no dtype 'float8'"),
        (HEAD + "}", "line 1, column 58: no stage makes the output out"),
        (HEAD + " t[i] = x[i] }", "t is not an output, so its type must follow"),
        (HEAD + " out[i, j] = x[i] }", "out has 1 dimensions, not 2"),
        (HEAD + " out[i] = x[i] + n[i] }", "scalar add on float32, int32"),
        (HEAD + " out[i] = foo(x[i]) }", "no scalar operator 'foo'"),
        (HEAD + " out[i] = exp(x[i], x[i]) }", "exp applied to 2 operands"),
        (HEAD + " out[i] = 1.5:int32 }", "1.5 is not of dtype int32"),
        (HEAD + " out[i] = 300:uint8 }", "300 is not of dtype uint8"),
        (HEAD + " out[i] = %0 }", "no value %0"),
        (HEAD + " out[i] = x[i +] }", "ends too early"),
        (HEAD + " out[i] = x[i]", "expected the name of a stage, found the end of the text"),
        (HEAD + " out[i] = x[i] } more", "expected the end, found 'more'"),
    ],
)
def test_prim_errors(text, message):
    assert message in error(text)


def nest(*lines):
    return "\n".join(["prim @f(x: float32[4]) -> out: float32[4] {", *lines, "}"])


@pytest.mark.parametrize(
    "lines, message",
    [
        (["   out[0] = x[0]"], "line 2, column 4: lines are indented by multiples of 2"),
        (["    out[0] = x[0]"], "line 2, column 5: this line is indented further"),
        (["  for i in ?:"], "line 2, column 12: size '?': unexpected '?'"),
        (["  for i in 4", "    out[i] = x[i]"], "line 2, column 13: expected ':', found the end"),
        (["  out[0] = x[0] x[1]"], "expected the end of the line, found 'x'"),
        (["  out[0] : x[0]"], "expected '=' or a combiner such as '+='"),
        (["  else:"], "'else' without an 'if' before it"),
        (["  stream out[0] += x[0]"], "only a plain store can be streamed"),
        (["  registers a: float32[2]", "  out[0] = b[0]"], "line 3, column 12: no buffer 'b'"),
    ],
)
def test_nest_errors(lines, message):
    assert message in error(nest(*lines), parse_nest)


def test_packing_must_give_the_buffer():
    text = "prim @f(w.packed: float32[2, 8, 4] packs w[8, 9] 1) -> out: float32[4] {\n}"
    assert "packed so, w becomes w.packed: float32[3, 8, 4]" in error(text, parse_nest)


# Random expressions

NUMERIC = [d for d in DTYPES.values() if not d.is_bool]


@st.composite
def expressions(draw):
    dtype = draw(st.sampled_from([FLOAT32, FLOAT64, INT32, INT64, DTYPES["uint8"]]))
    values = st.floats() if dtype.is_float else st.integers(0, 127)
    width = {"width": 32} if dtype == FLOAT32 else {}
    values = st.floats(**width) if dtype.is_float else values
    pool = [read("x", (i, 2 * j + 1), dtype), const(draw(values), dtype)]
    if dtype == INT64:
        pool.append(index(i * 3 + j // 4 - 1))
    rows = [
        r
        for r in SCALAR_OPS.values()
        if dtype.kind in r.kinds and r.name != "cast" and not (r.to_bool or r.to_bits)
    ]
    for _ in range(draw(st.integers(0, 30))):
        row = draw(st.sampled_from(rows))
        args = [draw(st.sampled_from(pool)) for _ in range(row.arity)]
        if row.name == "where":
            args[0] = op("less", args[1], args[2])
        node = op(row.name, *args)
        if draw(st.booleans()):
            other = draw(st.sampled_from(NUMERIC))
            node = cast(cast(node, other), dtype)
        if draw(st.integers(0, 4)) == 0:
            node = read("x", (i, cast(node, INT64)), dtype)
        pool.append(node)
    return pool[-1]


@given(expressions())
def test_random_expressions_round_trip(expr):
    prim = PrimFunc(
        "f",
        (Buffer("x", (8, 8), expr.dtype),),
        ("out",),
        (Stage(Buffer("out", (2, 2), expr.dtype), (Axis("i", 2), Axis("j", 2)), expr),),
    )
    again = parse_prim(str(prim))
    assert str(again) == str(prim)
    assert again == prim
    assert again.stages[0].expr is expr


def test_an_operator_named_like_a_combiner_is_one():
    """A random expression found it: the operands were taken for axes."""
    x = read("x", (i, j), FLOAT32)
    axes = (Axis("i", 2), Axis("j", 2))
    stage = Stage(Buffer("out", (2, 2), FLOAT32), axes, op("max_number", x, const(1.0, FLOAT32)))
    prim = PrimFunc("f", (Buffer("x", (8, 8), FLOAT32),), ("out",), (stage,))
    assert parse_prim(str(prim)) == prim


def test_shared_expressions_print_once():
    x = read("x", (i,), FLOAT32)
    for _ in range(200):
        x = op("add", x, op("multiply", x, x))
    text = expr_text(x)
    assert len(text) < 200 * 60
    head = "prim @f(x: float32[4]) -> out: float32[4] { out[i] = "
    assert parse_prim(f"{head}{text} }}").stages[0].expr is x


def test_casting_a_literal_wraps_as_numpy_does():
    assert cast(const(-3, DTYPES["int8"]), DTYPES["uint8"]) is const(253, DTYPES["uint8"])
    assert cast(const(300, INT64), DTYPES["uint8"]) is const(44, DTYPES["uint8"])


def test_literals_say_their_dtype():
    assert str(const(0.1, FLOAT32)) == "0.1"
    assert str(const(0.1, FLOAT64)) == "0.1:float64"
    assert str(const(3, INT64)) == "3"
    assert str(const(3, INT32)) == "3:int32"
    assert str(const(True, BOOL)) == "True"
