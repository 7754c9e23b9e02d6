"""Text to graph, and the way back."""

from __future__ import annotations

import numpy as np
import pytest
from graphs import assert_same_value, random_args, structural_equal
from hypothesis import given, settings
from loopwright.ir.dims import size
from loopwright.ir.errors import LoopwrightTypeError, ParseError
from loopwright.ir.graph.evaluate import evaluate
from loopwright.ir.graph.nodes import Call, Constant, Function, If, Module
from loopwright.ir.graph.parser import parse_function, parse_module
from loopwright.ir.graph.printer import as_text, constants_of
from loopwright.ir.graph.structural import structural_hash
from loopwright.ir.graph.verify import verify
from random_graphs import random_modules


@settings(max_examples=150)
@given(random_modules())
def test_what_prints_parses_back(program: Module) -> None:
    again = parse_module(str(program), constants=constants_of(program))
    assert str(again) == str(program)
    assert structural_equal(again, program)
    assert structural_hash(again) == structural_hash(program)
    verify(again)
    args = random_args(program)
    assert_same_value(evaluate(again, *args), evaluate(program, *args), rtol=0)


EVERYTHING = """\
def @main(
  %x: Tensor[(4), float32],
  %n: Tensor[(), int32]
) -> (Tensor[(4), float32], Tensor[(), bool]) {
  %0 = less(%n, 1);
  %1 = if (%0) {
    %2 = multiply(%x, 2f);
    @half(%2)
  } else {
    %x
  };
  %f = fn (%y: Tensor[(4), float32]) -> Tensor[(4), float32] {
    %3 = add(%y, %x);
    maximum(%3, -0f)
  };
  %4 = %f(%1);
  %5 = (%4, %0);
  %6 = %5.0;
  %7 = %6;
  %8 = while (%a = %7, %k = %n) {
    less(%k, 3)
  } do {
    %9 = add(%a, %x);
    %10 = add(%k, 1);
    (%9, %10)
  };
  %11 = for (%i < 3i64; %b = %7) {
    %12 = add(%b, %x);
    (%12,)
  };
  %13 = for (%i_1 < 0i64) {
    ()
  };
  (%7, True)
}

def @half(%x: Tensor[(4), float32], primitive=True, pattern=1) -> Tensor[(4), float32] {
  multiply(%x, 0.5f)
}

def @symbolic(%x: Tensor[(n, 4 * n + 1), float32]) -> Tensor[(n), float32] {
  sum(%x, axis=[1])
}"""


def test_every_construct_round_trips() -> None:
    program = parse_module(EVERYTHING)
    assert str(program) == EVERYTHING
    verify(program)
    assert program.functions["half"].attrs == {"primitive": True, "pattern": 1}
    (symbolic,) = program.functions["symbolic"].params
    assert symbolic.type.shape == (size("n"), 4 * size("n") + 1)
    x = np.arange(-2, 2, dtype="float32")
    (value, flag) = evaluate(program, x, np.int32(0))
    np.testing.assert_array_equal(value, np.maximum(2 * x, 0))
    assert flag


def test_recursion_and_calls_in_any_order() -> None:
    text = """
    def @even(%n: int64) -> bool {
      if (equal(%n, 0i64)) { True } else { @odd(subtract(%n, 1i64)) }
    }
    def @odd(%n: int64) -> bool {
      if (equal(%n, 0i64)) { False } else { @even(subtract(%n, 1i64)) }
    }"""
    program = verify(parse_module(text))
    assert bool(evaluate(program, np.int64(2001), entry="odd"))
    assert str(parse_module(str(program))) == str(program)


def test_arguments_may_be_expressions() -> None:
    made = parse_function("fn (%x: Tensor[(4), float32]) { exp(add(%x, (1f))) }")
    same = parse_function("fn (%y: Tensor[(4), float32]) { %0 = add(%y, 1f); exp(%0) }")
    assert structural_equal(made, same)


def test_attributes_of_every_kind() -> None:
    text = (
        "fn (%x: Tensor[(2, 3), float32], a=[1, [2.5, inf]], b=-0.5, c=None, d=True, "
        'e="a \\"b\\", [c]", f=n + 1) { %x }'
    )
    made = parse_function(text)
    assert made.attrs == {
        "a": (1, (2.5, float("inf"))),
        "b": -0.5,
        "c": None,
        "d": True,
        "e": 'a "b", [c]',
        "f": size("n") + 1,
    }
    assert parse_function(str(made)).attrs == made.attrs


def test_comments_become_spans_again() -> None:
    text = """\
fn (%x: Tensor[(4), float32]) -> Tensor[(4), float32] {
  %0 = exp(%x);                                  /* net/model.py:12 */
  %1 = sin(%0);
  cos(%1)                                        /* net/model.py:14 */
}"""
    made = parse_function(text)
    assert str(made) == text
    first, second, third = made.body.bindings
    assert str(first.var.span) == "net/model.py:12"
    assert second.var.span is None
    assert isinstance(third.value, Call) and third.value.span is not None
    assert third.value.span.line == 14


def test_constants_by_name() -> None:
    w = np.ones((2, 2), "float32")
    made = parse_function("fn () { (meta[a.w], meta[a.w]) }", constants={"a.w": w})
    first, second = made.body.bindings[0].value.fields
    assert isinstance(first, Constant) and first is second and first.value is w


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("fn (%x: float32) { %y }", "line 1, column 20: %y is not bound here"),
        ("fn (%x: float32) {\n  expp(%x)\n}", "line 2, column 3: there is no operator expp"),
        ("fn (%x: float32) { exp(%x }", "line 1, column 27: expected ',', found '}'"),
        ("fn (%x: float33) { %x }", "line 1, column 9: there is no type float33; float32?"),
        (
            "fn (%x: Tensor[(4 +), float32]) { %x }",
            "line 1, column 17: size '4 +': ends too early",
        ),
        (
            "fn (%x: float32) { 1.5 }",
            "line 1, column 20: a fraction is float32 (1.5f) or float64 (1.5f64)",
        ),
        ("fn (%x: float32) { 300u8 }", "line 1, column 20: 300 does not fit uint8"),
        ("fn (%x: float32) { meta[w] }", "line 1, column 20: no array was given for meta[w]"),
        ("fn (%x: float32) { @f(%x) }", "line 1, column 20: there is no function @f"),
        (
            "fn (%x: float32) { %0 = exp(%x); %0 = sin(%x); %0 }",
            "line 1, column 34: %0 is bound twice",
        ),
        ("fn (%x: float32) { exp(%x) %x }", "line 1, column 28: expected '}' after the value of"),
        (
            "fn (%x: float32) -> float64 { %x }",
            "line 1, column 29: the body is Tensor[(), float32], not Tensor[(), float64]",
        ),
        ("fn (%x: float32) { %x } more", "line 1, column 25: expected the end, found 'more'"),
        ("fn (%x: float32) {", "line 1, column 19: expected an expression, found the end of"),
        (
            "fn (%n: int64) { for (%i < %n; %i = 1f) { (%i,) } }",
            "line 1, column 32: %i is bound twice",
        ),
        (
            "fn (%n: int64) { while (%k = %n) { %t = less(%k, 9i64); %t } do { (%t,) } }",
            "line 1, column 68: %t is not bound here",
        ),
        (
            "fn (%n: int64) { while (%k = %n) { less(%k, 9i64) } { (%k,) } }",
            "line 1, column 53: expected 'do', found '{'",
        ),
    ],
)
def test_errors_say_where(text: str, message: str) -> None:
    with pytest.raises(ParseError) as caught:
        parse_function(text)
    assert caught.value.message.startswith(message)


def test_errors_show_the_line() -> None:
    with pytest.raises(ParseError) as caught:
        parse_module("def @main(%x: float32) {\n  exp(%x, )\n  %z\n}", file="net.txt")
    assert str(caught.value) == (
        "line 3, column 3: expected '}' after the value of the block, found '%z'\n"
        "  net.txt:3\n"
        "    %z\n"
        "    ^"
    )


def test_operands_that_do_not_fit_name_the_line_of_the_text() -> None:
    with pytest.raises(LoopwrightTypeError) as caught:
        parse_function("fn (%x: Tensor[(4), float32]) {\n  %0 = add(%x, 1i64);\n  %0\n}")
    assert caught.value.span is not None
    assert caught.value.span.line == 2


def test_carried_values_that_change_their_type() -> None:
    with pytest.raises(LoopwrightTypeError) as caught:
        parse_function("fn (%n: int64) {\n  for (%i < %n; %k = 0f) { (%i,) }\n}")
    assert caught.value.message == (
        "a loop carries (Tensor[(), float32],), and these become (Tensor[(), int64],)"
    )
    assert caught.value.span is not None and caught.value.span.line == 2


def test_kernels_and_their_schedules_stand_among_functions() -> None:
    text = """prim @k(x: float32[4]) -> y: float32[4] {
  y[i] = x[i]
}
schedule @k {
  vectorize('i')
}"""
    assert str(parse_module(text)).rstrip() == text


def test_branches_see_the_variables_around_them() -> None:
    made = parse_function("fn (%p: bool, %x: float32) { if (%p) { exp(%x) } else { %x } }")
    assert isinstance(made, Function)
    assert isinstance(made.body.bindings[0].value, If)
    assert as_text(parse_function(str(made))) == str(made)
