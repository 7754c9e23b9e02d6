"""Which reductions two axes may be exchanged in."""

import pytest
from loopwright.ir.loop.symmetry import symmetric_axes
from prims import parse_prim


def axes_of(expression, target="t[i, j]", combiner="sum", dtype="float32"):
    prim = parse_prim(f"""
        prim @p(x: {dtype}[9, 9], y: {dtype}[9, 9], b: {dtype}[4, 9, 9]) -> t: {dtype}[9, 9] {{
          {target} = {combiner}(k: 9) {expression}
        }}""")
    return symmetric_axes(prim.stages[0])


@pytest.mark.parametrize(
    "expression",
    [
        "x[k, i] * x[k, j]",
        "x[i, k] * x[j, k]",
        "(x[i, k] + y[i, k]) * (y[j, k] + x[j, k])",
        "(x[i, k] - x[j, k]) * (x[i, k] - x[j, k])",
        "(x[i, k] - x[j, k]) * (x[j, k] - x[i, k])",
        "(x[i, k] - x[j, k]) * (y[i, k] - y[j, k])",
        "abs(x[i, k] - x[j, k])",
        "exp(x[i, k] + x[j, k])",
        "x[i, j] + x[j, i]",
    ],
)
def test_symmetric(expression):
    assert axes_of(expression) == ("i", "j")


@pytest.mark.parametrize(
    "expression",
    [
        "x[k, i] * y[k, j]",
        "x[i, k] * x[k, j]",
        "(x[k, i] * x[k, j]) * x[k, i]",
        "(x[k, i] * x[k, j]) + x[k, i]",
        "x[i, k] * (x[j, k] * y[k, k])",
        "x[k, i] - x[k, j]",
        "(x[i, k] - x[j, k]) * y[k, k]",
        "exp(x[i, k] - x[j, k])",
        "x[i, k] / x[j, k]",
        "maximum(x[i, k], x[j, k])",
        "x[k, k]",
        "x[k, i]",
    ],
)
def test_not_symmetric(expression):
    assert axes_of(expression) is None


def test_axes_of_other_extents_are_not_exchanged():
    prim = parse_prim("""
        prim @p(x: float32[4, 9]) -> t: float32[4, 3] {
          t[i, j] = sum(k: 9) x[i, k] * x[j, k]
        }""")
    assert symmetric_axes(prim.stages[0]) is None


def test_a_batch_is_left_alone():
    prim = parse_prim("""
        prim @p(x: float32[9, 9, 9]) -> t: float32[9, 9, 9] {
          t[b, i, j] = sum(k: 9) x[b, i, k] * x[b, j, k]
        }""")
    assert symmetric_axes(prim.stages[0]) == ("i", "j")


def test_a_maximum_does_not_forget_the_sign_of_zero():
    unlike = "(x[i, k] - x[j, k]) * (y[i, k] - y[j, k])"
    assert axes_of(unlike, combiner="max") is None
    assert axes_of(unlike, combiner="max", dtype="int32") == ("i", "j")
    square = "(x[i, k] - x[j, k]) * (x[i, k] - x[j, k])"
    assert axes_of(square, combiner="max") == ("i", "j")


def test_the_absolute_value_of_an_unsigned_difference_depends_on_its_order():
    assert axes_of("abs(x[i, k] - x[j, k])", dtype="uint8") is None
    assert axes_of("abs(x[i, k] - x[j, k])", dtype="int8") == ("i", "j")


def test_a_map_is_not_mirrored():
    prim = parse_prim("""
        prim @p(x: float32[9]) -> t: float32[9, 9] {
          t[i, j] = x[i] * x[j]
        }""")
    assert symmetric_axes(prim.stages[0]) is None
