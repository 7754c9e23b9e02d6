"""Patterns of values: what matches, what rewrites make of it, and what moves into functions."""

from __future__ import annotations

from typing import Any

import loopwright as lw
import numpy as np
import pytest
from graphs import assert_same_value, parse, random_args
from loopwright.ir.errors import LoopwrightTypeError
from loopwright.ir.graph.builder import Builder
from loopwright.ir.graph.evaluate import evaluate
from loopwright.ir.graph.nodes import Atom, Call, Constant, Module
from loopwright.ir.graph.operator import get
from loopwright.ir.graph.parser import parse_module
from loopwright.ir.graph.patterns import (
    DataflowPattern,
    definitions,
    dominates,
    is_constant,
    is_elementwise,
    is_op,
    is_tuple,
    is_tuple_get_item,
    is_var,
    match,
    partition,
    rewrite,
    wildcard,
)
from loopwright.ir.graph.verify import verify

X, Y = wildcard("x"), wildcard("y")


def captured(pattern: DataflowPattern, body: str, kind: str = "Tensor[(4), float32]") -> Any:
    """What ``pattern`` captures of the result of a body with operands %a and %b."""
    main = parse(f"fn (%a: {kind}, %b: {kind}) {{ {body} }}").main
    return match(pattern, main.body.result, definitions(main))


def names(found: Any) -> dict[str, str]:
    return {k: getattr(v, "name", v) for k, v in found.items() if isinstance(k, str)}


def test_an_operator_matches_with_any_operands_or_with_those_of_patterns() -> None:
    assert captured(is_op("exp"), "exp(%a)") is not None
    assert captured(is_op("exp"), "log(%a)") is None
    assert names(captured(is_op("subtract")(X, Y), "subtract(%a, %b)")) == {"x": "a", "y": "b"}
    assert captured(is_op("subtract")(X), "subtract(%a, %b)") is None
    assert captured(is_op("exp", "log")(is_var("a")), "log(%a)") is not None
    assert captured(is_op("exp")(is_var()), "exp(exp(%a))") is None


def test_a_function_of_an_operators_name_is_no_operator() -> None:
    program = parse_module("""
      def @exp(%x: float32) -> float32 { log(%x) }
      def @main(%x: float32) -> float32 { @exp(%x) }""")
    main = program.main
    assert match(is_op("exp"), main.body.result, definitions(main)) is None


@pytest.mark.parametrize("body", ["add(exp(%a), log(%b))", "add(log(%b), exp(%a))"])
def test_operands_of_commutative_operators_change_places(body: str) -> None:
    pattern = is_op("add")(is_op("exp")(X), is_op("log")(Y))
    assert names(captured(pattern, body)) == {"x": "a", "y": "b"}


def test_operands_of_others_stay_where_they_are() -> None:
    pattern = is_op("subtract")(is_op("exp")(X), is_op("log")(Y))
    assert captured(pattern, "subtract(exp(%a), log(%b))") is not None
    assert captured(pattern, "subtract(log(%b), exp(%a))") is None


def test_an_inner_choice_is_taken_back_where_the_rest_does_not_match() -> None:
    # Both operands of the product could be x; the sum says which.
    pattern = is_op("add")(is_op("multiply")(X, Y), is_op("exp")(X))
    assert names(captured(pattern, "add(multiply(%a, %b), exp(%b))")) == {"x": "b", "y": "a"}


def test_a_name_twice_is_the_same_value_twice() -> None:
    assert captured(is_op("add")(X, X), "add(%a, %b)") is None
    assert captured(is_op("add")(X, X), "add(%a, %a)") is not None
    assert captured(is_op("divide")(X, X), "divide(2f, 2f)") is not None
    # A pattern that a name is given to counts, also where the name stands for something already.
    twice = is_op("subtract")(X, is_op("exp")(wildcard()).named("x"))
    assert captured(twice, "%0 = exp(%a); subtract(%0, %0)") is not None
    assert captured(twice, "subtract(%a, %a)") is None


def test_constants_match_by_their_number() -> None:
    plus = is_op("add")(wildcard(), is_constant(1))
    assert captured(plus, "add(1f, %a)") is not None
    assert captured(plus, "add(%a, broadcast_to(1f, shape=[4]))") is not None
    assert captured(plus, "add(%a, 2f)") is None
    assert captured(is_op("add")(wildcard(), is_constant()), "add(%a, 2f)") is not None
    assert captured(is_op("add")(wildcard(), is_constant()), "add(%a, %b)") is None
    assert captured(is_op("add")(wildcard(), is_constant(0)), "add(%a, -0f)") is None


def test_attributes_are_values_or_names_of_them() -> None:
    body = "sum(%a, axis=[1], keepdims=True)"
    kind = "Tensor[(2, 3), float32]"
    total = is_op("sum")(X)
    assert captured(total.has_attr({"axis": (1,), "keepdims": True}), body, kind) is not None
    assert captured(total.has_attr({"axis": (0,)}), body, kind) is None
    assert captured(total.has_attr({"keepdims": 1}), body, kind) is None
    assert captured(total.has_attr({"no_such": 1}), body, kind) is None
    assert captured(total.has_attr({"axis": wildcard("a")}), body, kind)["a"] == (1,)
    same = is_op("add")(
        is_op("sum")(X).has_attr({"axis": wildcard("a")}),
        is_op("max")(X).has_attr({"axis": wildcard("a")}),
    )
    assert captured(same, "add(sum(%a, axis=[1]), max(%a, axis=[1]))", kind) is not None
    assert (
        captured(same, "add(sum(%a, axis=[1]), max(%a, axis=[0]))", "Tensor[(3, 3), float32]")
        is None
    )


def test_dtypes_shapes_and_types() -> None:
    kind = "Tensor[(2, 3), float32]"
    exp = is_op("exp")
    assert captured(exp(X).has_dtype("float32"), "exp(%a)", kind) is not None
    assert captured(exp(X).has_dtype("float64"), "exp(%a)", kind) is None
    assert captured(exp(X.has_shape((2, None))), "exp(%a)", kind) is not None
    assert captured(exp(X.has_shape((2, 4))), "exp(%a)", kind) is None
    assert captured(exp(X.has_shape((2,))), "exp(%a)", kind) is None
    of_a = parse(f"fn (%a: {kind}) {{ %a }}").main.params[0].type
    assert captured(exp(X).has_type(of_a), "exp(%a)", kind) is not None
    assert captured(exp(X).has_type(of_a), "exp(%a)") is None
    assert captured(wildcard().has_dtype("float32"), "(%a, %b)") is None


def test_alternatives_and_what_is_optional() -> None:
    either = is_op("exp")(X) | is_op("log")(X)
    assert names(captured(either, "log(%b)")) == {"x": "b"}
    biased = is_op("nn.relu")(X).optional(lambda relu: is_op("add")(relu, is_constant().named("c")))
    assert "c" in captured(biased, "add(nn.relu(%a), 1f)")
    assert "c" not in captured(biased, "nn.relu(%a)")
    assert captured(biased, "add(exp(%a), 1f)") is None


def test_tuples_and_their_fields() -> None:
    assert names(captured(is_tuple([X, Y]), "(%a, %b)")) == {"x": "a", "y": "b"}
    assert captured(is_tuple(), "(%a, %b)") is not None
    assert captured(is_tuple([X]), "(%a, %b)") is None
    first = is_tuple_get_item(is_tuple([is_op("exp")(X), wildcard()]), 0)
    assert names(captured(first, "%0 = (exp(%a), %b); %0.0")) == {"x": "a"}
    assert captured(first, "%0 = (exp(%a), %b); %0.1") is None


DIAMOND = "%0 = sin(%a); %1 = exp(%0); %2 = nn.relu({}); %3 = negative(%2); multiply(%1, %3)"


def test_a_dominator_is_found_through_all_branches() -> None:
    pattern = dominates(is_op("sin")(X), is_elementwise(), is_op("multiply"))
    assert names(captured(pattern, DIAMOND.format("%0"))) == {"x": "a"}
    assert names(captured(pattern, DIAMOND.format("add(%0, 1f)"))) == {"x": "a"}


@pytest.mark.parametrize("around", ["%b", "%a", "sin(%b)", "sum(%0, axis=[0], keepdims=True)"])
def test_a_branch_around_the_parent_breaks_the_diamond(around: str) -> None:
    path = is_op("exp", "nn.relu", "negative")
    pattern = dominates(is_op("sin")(wildcard()), path, is_op("multiply"))
    assert captured(pattern, DIAMOND.format("%0")) is not None
    assert captured(pattern, DIAMOND.format(around)) is None


def test_paths_to_a_dominator_may_be_long() -> None:
    chain = "%0 = sin(%a); " + " ".join(f"%{n + 1} = exp(%{n});" for n in range(1500))
    pattern = dominates(is_op("sin")(X), is_op("exp"), is_op("exp"))
    assert names(captured(pattern, f"{chain} %1500")) == {"x": "a"}


def test_a_rewrite_terminates_and_sees_what_it_emitted() -> None:
    def exchanged(builder: Builder, x: Atom, y: Atom) -> Atom:
        return builder.emit(get("add"), (y, x))

    program = parse("fn (%a: Tensor[(4), float32], %b: Tensor[(4), float32]) { add(%a, %b) }")
    once = rewrite(program, is_op("add")(X, Y), exchanged)
    call = once.main.body.bindings[-1].value
    assert isinstance(call, Call)
    assert call.args == program.main.params[::-1]

    def halved(builder: Builder, x: Atom) -> Atom:
        return builder.emit(get("negative"), (x,))

    # negative(negative(x)) appears only once exp(exp(x)) has become negative(...).
    text = "fn (%a: Tensor[(4), float32]) { %0 = negative(%a); exp(exp(%0)) }"
    made = rewrite(parse(text), is_op("exp")(is_op("exp", "negative")(X)), halved)
    assert str(made).count("negative") == 3


def test_a_rewrite_that_does_not_match_gives_the_same_module() -> None:
    program = parse("fn (%a: Tensor[(4), float32]) { exp(%a) }")
    assert rewrite(program, is_op("log")(X), lambda _builder, x: x) is program
    assert rewrite(program, is_op("exp")(X), lambda _builder, x: None) is program


def test_a_callback_that_declines_one_way_is_offered_the_other() -> None:
    def constant_last(builder: Builder, x: Atom, y: Atom) -> Atom | None:
        whole = builder.emit(get("subtract"), (x, y))
        return whole if isinstance(y, Constant) else None

    program = parse("fn (%a: Tensor[(4), float32]) { add(1f, %a) }")
    made = rewrite(program, is_op("add")(X, Y), constant_last)
    assert str(made).count("subtract(%a, 1f)") == 1
    assert str(made).count("subtract") == 1


def test_a_value_of_another_type_is_refused() -> None:
    program = parse("fn (%a: Tensor[(4), float32]) { sum(%a, axis=[0]) }")
    with pytest.raises(LoopwrightTypeError, match="and what replaces it a"):
        rewrite(program, is_op("sum")(X), lambda _builder, x: x)


def parts(module: Module) -> list[str]:
    verify(module)
    again = parse_module(str(module))
    made = [n for n, f in again.functions.items() if f.attrs.get("composite") == "part"]
    args = random_args(module)
    assert_same_value(evaluate(module, *args), evaluate(again, *args))
    return made


def divided(pattern: DataflowPattern, body: str, count: int) -> Module:
    program = parse(f"fn (%a: Tensor[(4), float32], %b: Tensor[(4), float32]) {{ {body} }}")
    made = partition(program, pattern, "part")
    assert parts(made) == [f"part_{n}" for n in range(count)]
    assert (made is program) == (count == 0)
    args = random_args(program)
    assert_same_value(evaluate(made, *args), evaluate(program, *args))
    assert partition(made, is_op("no_such"), "part") is made
    return made


RELU_OF_SUM = is_op("nn.relu")(is_op("add")(wildcard(), wildcard()))


def test_one_operator_becomes_a_function() -> None:
    made = divided(is_op("exp")(wildcard()), "negative(exp(%a))", 1)
    assert [b.value.op.name for b in made.main.body.bindings] == ["part_0", "negative"]  # type: ignore[union-attr]


def test_a_chain_becomes_a_function_with_its_constants() -> None:
    made = divided(RELU_OF_SUM, "negative(nn.relu(add(%a, 1f)))", 1)
    part = made.functions["part_0"]
    assert len(made.main.body.bindings) == 2
    assert len(part.params) == 1
    assert "1f" in str(part)


@pytest.mark.parametrize(
    "body",
    [
        "%0 = add(%a, %b); (nn.relu(%0), exp(%0))",
        "%0 = add(%a, %b); (nn.relu(%0), %0)",
        "%0 = add(%a, %b); %c = less(sum(%b, axis=[0]), 0f); if (%c) { nn.relu(%0) } else { %b }",
    ],
)
def test_an_inner_value_with_a_user_outside_stays(body: str) -> None:
    divided(RELU_OF_SUM, body, 0)


def test_each_match_is_a_function_and_later_ones_go_first() -> None:
    twice = "nn.relu(add(nn.relu(add(%a, %b)), %b))"
    divided(RELU_OF_SUM, twice, 2)
    made = divided(is_op("exp")(is_op("exp")(wildcard())), "exp(exp(exp(%a)))", 1)
    assert [b.value.op.name for b in made.main.body.bindings] == ["exp", "part_0"]  # type: ignore[union-attr]


def test_a_tuple_is_a_result_like_others() -> None:
    pattern = is_tuple([is_op("exp")(X), is_op("log")(X)])
    made = divided(pattern, "%0 = (exp(%a), log(%a)); add(%0.0, %0.1)", 1)
    assert len(made.main.body.bindings) == 4


def test_matches_in_branches_are_calls_in_branches() -> None:
    body = "%c = less(sum(%a, axis=[0]), 0f); if (%c) { nn.relu(add(%a, %b)) } else { %a }"
    made = divided(RELU_OF_SUM, body, 1)
    f = lw.build(made)
    x = np.float32([-1, -2, -3, 4])
    np.testing.assert_array_equal(f(x, x + 3), np.maximum(2 * x + 3, 0))
