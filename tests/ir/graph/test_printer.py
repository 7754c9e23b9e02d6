"""The text of the graph IR."""

from __future__ import annotations

import numpy as np
import pytest
from graphs import function, module, scalar, tensor
from loopwright.ir.dims import symbol
from loopwright.ir.graph.builder import Builder
from loopwright.ir.graph.nodes import Constant, Function, Module
from loopwright.ir.graph.printer import as_text, constants_of, scalar_text
from loopwright.ir.ops import get
from loopwright.ir.span import Span


def test_layer_as_in_the_walkthrough() -> None:
    builder = Builder()
    x = builder.param("x", tensor(1000, 512))
    w = Constant(np.zeros((512, 384), "float32"), "W")
    b = Constant(np.zeros(384, "float32"), "b")
    span = Span("layer.py", 3)
    product = builder.emit(get("nn.matmul"), (x, w), span=span)
    total = builder.emit(get("add"), (product, b), span=span)
    result = builder.emit(get("maximum"), (total, scalar(0)), span=span)
    assert str(Module({"main": builder.function(result)})) == (
        "def @main(%x: Tensor[(1000, 512), float32]) -> Tensor[(1000, 384), float32] {\n"
        "  %0 = nn.matmul(%x, meta[W]);                   /* layer.py:3 */\n"
        "  %1 = add(%0, meta[b]);                         /* layer.py:3 */\n"
        "  maximum(%1, 0f)                                /* layer.py:3 */\n"
        "}"
    )


def test_span_shows_the_code_when_the_file_can_be_read(tmp_path) -> None:
    path = tmp_path / "model.py"
    path.write_text("import numpy as np\ny = x @ W  # */\n")
    builder = Builder(span=Span(str(path), 2, 4, 2, 9))
    x = builder.param("x", tensor(4))
    text = str(builder.function(builder.emit(get("exp"), (x,))))
    assert f"/* {path}:2  x @ W */" in text
    assert "*/" not in as_text(function(lambda m, x: m.exp(x), tensor(4)), spans=False)


def test_symbolic_sizes() -> None:
    n = symbol("n")
    text = str(function(lambda m, x: m.reshape(x, newshape=(4 * n,)), tensor(n, 4)))
    assert text == (
        "fn (%x0: Tensor[(n, 4), float32]) -> Tensor[(4 * n), float32] {\n"
        "  reshape(%x0, newshape=[4 * n])\n"
        "}"
    )


def test_long_heads_have_a_line_for_each_parameter() -> None:
    text = str(function(lambda m, *xs: xs[0], *[tensor(128, 128)] * 3))
    assert text.splitlines() == [
        "fn (",
        "  %x0: Tensor[(128, 128), float32],",
        "  %x1: Tensor[(128, 128), float32],",
        "  %x2: Tensor[(128, 128), float32]",
        ") -> Tensor[(128, 128), float32] {",
        "  %x0",
        "}",
    ]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (np.float32(0), "0f"),
        (np.float32(-0.0), "-0f"),
        (np.float32(0.1), "0.1f"),
        (np.float32(1e-5), "1e-05f"),
        (np.float64(0.1), "0.1f64"),
        (np.float32("inf"), "inff"),
        (np.float64("-inf"), "-inff64"),
        (np.float32("nan"), "nanf"),
        (np.int32(-3), "-3"),
        (np.int64(1), "1i64"),
        (np.uint8(255), "255u8"),
        (np.bool_(True), "True"),
    ],
)
def test_scalars(value, text: str) -> None:
    assert scalar_text(np.asarray(value)) == text


def test_names_are_unique_and_constants_named_once() -> None:
    same = np.ones(3, "float32")

    def make(m, x):
        y = m.builder.emit(get("add"), (x, Constant(same, "w")), name="x0")
        z = m.builder.emit(get("add"), (y, Constant(np.zeros(3, "float32"), "w")), name="x0")
        return m.add(z, Constant(same, "other name"))

    made = function(make, tensor(3))
    assert as_text(made).splitlines()[1:-1] == [
        "  %x0_1 = add(%x0, meta[w]);",
        "  %x0_2 = add(%x0_1, meta[w_1]);",
        "  add(%x0_2, meta[w])",
    ]
    assert constants_of(made).keys() == {"w", "w_1"}


def test_two_functions_share_constants_but_not_variables() -> None:
    w = Constant(np.ones(3, "float32"), "w")
    one = function(lambda m, x: m.add(x, w), tensor(3))
    both = Module({"f": one, "g": function(lambda m, x: m.add(x, w), tensor(3))})
    assert str(both).count("add(%x0, meta[w])") == 2


def test_everything_else() -> None:
    def make(m, x, p):
        other = Builder()
        then = other.block(other.emit(get("exp"), (x,)))
        pair = m.builder.make_tuple((x, m.builder.cond(p, then, Builder().block(x))))
        inner = function(lambda n, y: n.sum(y, axis=(0,), keepdims=True), tensor(4))
        called = m.builder.bind(inner, inner.type, name="f")
        result = m.builder.emit(called, (m.builder.get_item(pair, 1),))
        return m.builder.make_tuple((result,))

    made = function(make, tensor(4), tensor(dtype="bool"))
    assert isinstance(made, Function)
    assert str(made).splitlines() == [
        "fn (%x0: Tensor[(4), float32], %x1: Tensor[(), bool]) -> (Tensor[(1), float32],) {",
        "  %0 = if (%x1) {",
        "    exp(%x0)",
        "  } else {",
        "    %x0",
        "  };",
        "  %1 = (%x0, %0);",
        "  %f = fn (%x0_1: Tensor[(4), float32]) -> Tensor[(1), float32] {",
        "    sum(%x0_1, axis=[0], keepdims=True)",
        "  };",
        "  %2 = %1.1;",
        "  %3 = %f(%2);",
        "  (%3,)",
        "}",
    ]


def test_marks_point_at_a_line() -> None:
    made = function(lambda m, x: m.exp(m.sin(x)), tensor(4))
    text = as_text(made, marks={made.body.bindings[0].var: "this one"})
    assert "%0 = sin(%x0);                                 /* <-- this one */" in text


def test_hundred_thousand_bindings() -> None:
    def make(m, x):
        for _ in range(100_000):
            x = m.sin(x)
        return x

    assert str(module(make, tensor(4))).count("\n") == 100_001
