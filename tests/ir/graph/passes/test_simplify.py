"""Rules that hold, and laws of algebra that do not hold for floats."""

from __future__ import annotations

import numpy as np
import pytest
from graphs import assert_same_value, check_pass, module, parse, random_args, scalar, tensor
from hypothesis import given, settings
from loopwright.ir.graph.evaluate import evaluate
from loopwright.ir.graph.nodes import Constant, Module
from loopwright.ir.graph.passes.simplify import HELPERS, RULES, simplify
from loopwright.ir.graph.verify import verify
from loopwright.ir.ops import all_operators
from random_graphs import random_modules

SPECIAL = np.array([0.0, -0.0, 1.5, -2.25, np.inf, -np.inf, np.nan, 1e-45, 3.4e38], "float32")


def body(text: str, kind: str = "Tensor[(4), float32]") -> str:
    return f"fn (%x: {kind}, %y: {kind}) {{ {text} }}"


SOFTMAX = """
  %0 = max(%x, axis=[1], keepdims=True); %1 = subtract(%x, %0); %2 = exp(%1);
  %3 = sum(%2, axis=AXES, keepdims=True); %4 = divide(%2, %3); %5 = isnan(%4);
  where(%5, 0f, %4)"""


def test_rows_of_a_softmax_that_are_nan_are_found_by_their_sum() -> None:
    text = f"fn (%x: Tensor[(4, 3), float32]) {{ {SOFTMAX.replace('AXES', '[1]')} }}"
    program = parse(text)
    result = simplify(program)
    assert "isnan" not in str(result)
    x = np.array([[1, 2, 3], [-np.inf] * 3, [1, np.nan, 2], [np.inf, 0, -np.inf]], np.float32)
    with np.errstate(invalid="ignore"):
        found, expected = evaluate(result, x), evaluate(program, x)
    np.testing.assert_array_equal(found, expected)
    assert not found[1:].any()
    assert found[0].all()


def test_other_quotients_are_looked_at_one_by_one() -> None:
    program = parse(f"fn (%x: Tensor[(4, 4), float32]) {{ {SOFTMAX.replace('AXES', '[0]')} }}")
    assert "isnan" in str(simplify(program))


@pytest.mark.parametrize("last", [0.0, 1.0])
def test_a_mask_that_hides_nothing_disappears(last: float) -> None:
    mask = np.zeros((100, 100), np.float32)
    mask[-1, -1] = last

    def make(m, x):
        return m("nn.relu", m.add(x, Constant(mask)))

    assert len(simplify(module(make, tensor(100, 100))).main.body.bindings) == 1 + int(last)


def test_adding_zero_disappears_where_its_sign_is_not_seen() -> None:
    check_pass(
        simplify,
        before="fn (%x: Tensor[(4), float32]) { %0 = add(%x, 0f); nn.relu(%0) }",
        after="fn (%x: Tensor[(4), float32]) { nn.relu(%x) }",
    )


@pytest.mark.parametrize(
    "text",
    [
        "add(%x, 0f)",  # -0 + 0 is 0
        "add(sum(reshape(%x, newshape=[4, 1]), axis=[1]), 0f)",  # of one element each
        "subtract(%x, %x)",  # inf - inf is nan
        "multiply(%x, 0f)",  # nan, inf, -1
        "exp(log(%x))",
        "logical_not(less(%x, %y))",  # nan
        "equal(%x, %x)",
        "divide(%x, 3f)",
        "power(%x, 0.5f)",  # of -inf
        'cast(cast(%x, dtype="int32"), dtype="float32")',
        "add(%x, %y)",
    ],
)
def test_not_a_law_for_floats(text: str) -> None:
    program = parse(body(text))
    assert simplify(program) is program


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("add(%x, -0f)", "%x"),
        ("add(-0f, %x)", "%x"),
        ("subtract(%x, 0f)", "%x"),
        ("add(exp(%x), 0f)", "exp(%x)"),
        ("add(abs(%x), 0f)", "abs(%x)"),
        ("add(add(%x, 1f), 0f)", "add(%x, 1f)"),
        ("add(sum(%x, axis=[0], keepdims=True), 0f)", "sum(%x, axis=[0], keepdims=True)"),
        ("add(%x, negative(%y))", "subtract(%x, %y)"),
        ("add(negative(%x), %y)", "subtract(%y, %x)"),
        ("negative(negative(%x))", "%x"),
        ("multiply(1f, %x)", "%x"),
        ("multiply(%x, -1f)", "negative(%x)"),
        ("divide(%x, 4f)", "multiply(%x, 0.25f)"),
        ("power(%x, 3f)", "%0 = multiply(%x, %x); multiply(%0, %x)"),
        ("power(%x, -1f)", "divide(1f, %x)"),
        (
            "power(%x, 1.5f)",
            "%0 = isinf(%x); %1 = abs(%x); %2 = sqrt(%x); %3 = multiply(%x, %2); where(%0, %1, %3)",
        ),
        ("abs(negative(abs(%x)))", "abs(%x)"),
        ("floor(floor(%x))", "floor(%x)"),
        ("nn.relu(nn.relu(%x))", "nn.relu(%x)"),
        ("maximum(%x, %x)", "%x"),
        ("logical_not(logical_not(less(%x, %y)))", "less(%x, %y)"),
        ("logical_not(equal(%x, %y))", "not_equal(%x, %y)"),
        ("where(less(%x, %y), %x, %x)", "%x"),
        ("where(logical_not(less(%x, %y)), %x, %y)", "where(less(%x, %y), %y, %x)"),
        ("not_equal(%x, %x)", "isnan(%x)"),
        ('cast(%x, dtype="float32")', "%x"),
        ('cast(cast(%x, dtype="float64"), dtype="float32")', "%x"),
        ("(%x, %y).1", "%y"),
    ],
)
def test_floats(before: str, after: str) -> None:
    check_pass(simplify, before=body(before), after=body(after))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("add(%x, 0i64)", "%x"),
        ("multiply(%x, 1i64)", "%x"),
        ("floor_divide(%x, 1i64)", "%x"),
        ("power(%x, 2i64)", "multiply(%x, %x)"),
        ("logical_not(less(%x, %y))", "greater_equal(%x, %y)"),
        ("bitwise_xor(%x, 0i64)", "%x"),
        ("negative(subtract(%x, %y))", "subtract(%y, %x)"),
        ("left_shift(%x, 0i64)", "%x"),
    ],
)
def test_integers(before: str, after: str) -> None:
    kind = "Tensor[(4), int64]"
    check_pass(simplify, before=body(before, kind), after=body(after, kind))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("logical_and(%x, True)", "%x"),
        ("logical_or(False, %x)", "%x"),
        ("logical_xor(%x, True)", "logical_not(%x)"),
        ("equal(%x, True)", "%x"),
        ('cast(cast(%x, dtype="int8"), dtype="float32")', 'cast(%x, dtype="float32")'),
    ],
)
def test_bools(before: str, after: str) -> None:
    kind = "Tensor[(4), bool]"
    check_pass(simplify, before=body(before, kind), after=body(after, kind))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("transpose(transpose(%x, axes=[1, 2, 0]), axes=[2, 0, 1])", "%x"),
        ("transpose(transpose(%x), axes=[1, 0, 2])", "transpose(%x, axes=[1, 2, 0])"),
        ("transpose(%x, axes=[0, 1, 2])", "%x"),
        ("reshape(reshape(%x, newshape=[24]), newshape=[4, 6])", "reshape(%x, newshape=[4, 6])"),
        ("reshape(reshape(%x, newshape=[24]), newshape=[2, 3, 4])", "%x"),
        ("squeeze(expand_dims(%x, axis=0), axis=[0])", "%x"),
        ("broadcast_to(%x, shape=[2, 3, 4])", "%x"),
        (
            "broadcast_to(broadcast_to(%x, shape=[5, 2, 3, 4]), shape=[6, 5, 2, 3, 4])",
            "broadcast_to(%x, shape=[6, 5, 2, 3, 4])",
        ),
        (
            "transpose(expand_dims(%x, axis=0), axes=[1, 0, 2, 3])",
            "reshape(%x, newshape=[2, 1, 3, 4])",
        ),
    ],
)
def test_index_maps(before: str, after: str) -> None:
    kind = "Tensor[(2, 3, 4), float32]"
    check_pass(simplify, before=body(before, kind), after=body(after, kind))


def test_number_with_more_axes_still_widens() -> None:
    ones = Constant(np.ones((2, 1), "float32"), "ones")
    program = module(lambda m, x: m.multiply(x, ones), tensor(4))
    result = verify(simplify(program))
    assert str(result.main.body.bindings[0].value.op) == "Operator(broadcast_to)"
    args = random_args(program)
    assert_same_value(evaluate(result, *args), evaluate(program, *args))


def test_integer_times_zero_is_zero_of_the_same_shape() -> None:
    program = module(lambda m, x: m.multiply(x, scalar(0, "int32")), tensor(3, dtype="int32"))
    result = verify(simplify(program))
    assert_same_value(evaluate(result, np.arange(3, dtype="int32")), np.zeros(3, "int32"))


def test_a_matrix_and_a_vector_change_places_for_a_transpose() -> None:
    text = "fn (%x: Tensor[(4, 3), float32], %v: Tensor[(4), float32], %w: Tensor[(3), float32]) {{ %0 = transpose(%x, axes=[1, 0]); nn.matmul({}) }}"  # noqa: E501
    after = text.replace("%0 = transpose(%x, axes=[1, 0]); ", "")
    check_pass(simplify, before=text.format("%0, %v"), after=after.format("%v, %x"))
    check_pass(simplify, before=text.format("%w, %0"), after=after.format("%x, %w"))


def test_wide_integers_do_not_fit_floats() -> None:
    text = 'fn (%x: Tensor[(4), int64]) { cast(cast(%x, dtype="float64"), dtype="int64") }'
    program = parse(text)
    assert simplify(program) is program
    small = text.replace("(4), int64", "(4), int16")
    check_pass(
        simplify, before=small, after='fn (%x: Tensor[(4), int16]) { cast(%x, dtype="int64") }'
    )


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("add(1f, tanh(%x))", "%0 = multiply(%x, 2f); %1 = sigmoid(%0); multiply(%1, 2f)"),
        ("add(tanh(%x), 1f)", "%0 = multiply(%x, 2f); %1 = sigmoid(%0); multiply(%1, 2f)"),
        (
            "multiply(multiply(0.5f, %x), add(1f, tanh(multiply(0.75f, %y))))",
            "%0 = multiply(%y, 1.5f); %1 = sigmoid(%0); multiply(%x, %1)",
        ),
        (
            "multiply(0.5f, multiply(add(tanh(%y), 1f), %x))",
            "%0 = multiply(%y, 2f); %1 = sigmoid(%0); multiply(%x, %1)",
        ),
        ("multiply(add(tanh(%x), 1f), 0.5f)", "%0 = multiply(%x, 2f); sigmoid(%0)"),
        ("multiply(2f, multiply(%x, 3f))", "multiply(%x, 6f)"),
        ("multiply(multiply(3f, %x), 2f)", "multiply(%x, 6f)"),
    ],
)
def test_one_plus_tanh_is_twice_a_sigmoid(before: str, after: str) -> None:
    check_pass(simplify, before=body(before), after=body(after))


def test_one_plus_tanh_keeps_special_values() -> None:
    program = parse(f"fn (%x: Tensor[({SPECIAL.size}), float32]) {{ add(tanh(%x), 1f) }}")
    found, expected = evaluate(simplify(program), SPECIAL), evaluate(program, SPECIAL)
    np.testing.assert_allclose(found, expected, rtol=0, atol=2.0**-23)


@pytest.mark.parametrize("number", ["3e38f", "1e-40f", "inff", "nanf"])
def test_numbers_that_do_not_double_exactly_stay(number: str) -> None:
    program = parse(body(f"multiply(multiply(%x, {number}), 2f)"))
    assert simplify(program) is program


def rule_samples() -> list[str]:
    return sorted({rule.text for rules in RULES.values() for rule in rules})


@pytest.mark.parametrize("text", rule_samples())
def test_every_rule_names_known_operators_and_helpers(text: str) -> None:
    import ast

    known = all_operators().keys() | HELPERS.keys()
    equation, _, condition = text.partition(" if ")
    left, _, right = equation.partition(" = ")
    for part in (left, right, condition):
        if part.strip():
            for node in ast.walk(ast.parse(part.strip(), mode="eval")):
                if isinstance(node, ast.Call):
                    assert set(ast.unparse(node.func).split(" | ")) <= known


UNARY_LAWS = [
    "subtract(%x, 0f)",
    "add(%x, -0f)",
    "negative(negative(%x))",
    "multiply(%x, 1f)",
    "multiply(%x, -1f)",
    "divide(%x, 8f)",
    "power(%x, 2f)",
    "power(%x, 1f)",
    "power(%x, 0f)",
    "abs(abs(%x))",
    "abs(negative(%x))",
    "round(round(%x))",
    "sign(sign(%x))",
    "maximum(%x, %x)",
    "less(%x, %x)",
    "not_equal(%x, %x)",
    "equal(add(%x, 0f), 0f)",
]


@pytest.mark.parametrize("text", UNARY_LAWS)
def test_special_values_to_the_bit(text: str) -> None:
    program = parse(f"fn (%x: Tensor[({SPECIAL.size}), float32]) {{ {text} }}")
    result = simplify(program)
    assert result is not program
    found, expected = evaluate(result, SPECIAL), evaluate(program, SPECIAL)
    np.testing.assert_array_equal(found, expected)
    if expected.dtype.kind == "f":
        number = ~np.isnan(expected)
        np.testing.assert_array_equal(np.signbit(found[number]), np.signbit(expected[number]))


@settings(max_examples=150)
@given(random_modules())
def test_meaning_is_kept_and_a_second_run_finds_nothing(program: Module) -> None:
    result = verify(simplify(program))
    assert simplify(result) is result
    args = random_args(program)
    assert_same_value(evaluate(result, *args), evaluate(program, *args))


def test_long_chain_of_rules() -> None:
    def make(m, x):
        for _ in range(20_000):
            x = m.negative(x)
        return x

    assert len(simplify(module(make, tensor(4))).main.body.bindings) == 0


@pytest.mark.parametrize("offset", [-1, 0, 2])
def test_a_mask_of_what_lies_above_a_diagonal_becomes_a_lower_triangle(offset: int) -> None:
    lower = np.tri(4, 5, offset, dtype=bool)
    head = "fn (%x: Tensor[(2, 4, 5), float32], %y: Tensor[(2, 4, 5), float32])"
    check_pass(
        simplify,
        before=f"{head} {{ where(meta[upper], %x, %y) }}",
        after=f"{head} {{ where(meta[lower], %y, %x) }}",
        constants={"upper": ~lower, "lower": lower},
    )


def test_other_masks_stay() -> None:
    text = body("where(meta[m], %x, %y)", "Tensor[(3, 3), float32]")
    lower, band = np.tri(3, dtype=bool), np.tri(3, k=1, dtype=bool) & ~np.tri(3, k=-1, dtype=bool)
    for mask in (lower, ~band, lower[::-1]):
        program = parse(text, {"m": mask})
        assert simplify(program) is program


def test_an_element_that_becomes_itself_and_more_has_one_index() -> None:
    params = "%x: Tensor[(4), float32], %v: Tensor[(), float32], %i: Tensor[(), int64]"
    check_pass(
        simplify,
        before=f"""
          fn ({params}) {{
            index_update(%x, add(%v, take(%x, %i, axis=0)), %i, axes=[0])
          }}
        """,
        after=f"""
          fn ({params}) {{
            index_update(%x, %v, %i, axes=[0], reduction="add")
          }}
        """,
    )


def test_elements_at_equal_indices_are_replaced_one_after_the_other() -> None:
    params = "%x: Tensor[(4), float32], %v: Tensor[(3), float32], %i: Tensor[(3), int64]"
    text = "index_update(%x, add(take(%x, %i, axis=0), %v), %i, axes=[0])"
    program = parse(f"fn ({params}) {{ {text} }}")
    assert simplify(program) is program
