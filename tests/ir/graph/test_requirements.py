"""Requirements of sizes: noted where types leave a relation open, solved, checked at the call."""

from __future__ import annotations

import numpy as np
import pytest
from loopwright.ir.dims import size
from loopwright.ir.dtype import FLOAT32
from loopwright.ir.errors import LoopwrightTypeError, ParseError
from loopwright.ir.graph.evaluate import evaluate
from loopwright.ir.graph.parser import parse_module
from loopwright.ir.graph.passes.apply_requirements import apply_requirements, solve
from loopwright.ir.graph.requirements import Requirement, assuming, collecting, require
from loopwright.ir.graph.types import FuncType, TensorType, instantiate
from loopwright.ir.graph.verify import verify

SUM = """def @main[n in 1..4096](%x: Tensor[(n), float32], %y: Tensor[(m), float32]) {
  %0 = add(%x, %y);  /* model.py:3 */
  %0
}"""


def test_a_broadcast_of_two_sizes_requires_that_they_are_equal() -> None:
    module = verify(parse_module(SUM))
    (needed,) = module.main.requirements
    assert str(needed) == "n == m"
    assert needed.message.startswith("add: operands float32[n] and float32[m] do not broadcast")
    assert evaluate(module, np.ones(3, np.float32), np.ones(3, np.float32)).tolist() == [2, 2, 2]
    with pytest.raises(LoopwrightTypeError, match="n == m does not hold for n = 3, m = 4"):
        evaluate(module, np.ones(3, np.float32), np.ones(4, np.float32))


def test_text_and_parser_keep_ranges_and_requirements() -> None:
    text = str(parse_module(SUM))
    assert "def @main[n in 1..4096](" in text
    assert str(parse_module(text)) == text
    with pytest.raises(ParseError, match="a relation of two sizes"):
        parse_module("def @main(%x: Tensor[(n), float32]) { requires n; %x }")


def test_functions_are_instantiated_by_each_call() -> None:
    module = verify(
        parse_module("""
        def @main(%x: Tensor[(n), float32], %y: Tensor[(m, 3), float32]) {
          %0 = @twice(%x);
          %1 = @twice(reshape(%y, newshape=[3 * m]));
          (%0, %1)
        }
        def @twice(%x: Tensor[(k), float32]) -> Tensor[(2 * k), float32] {
          concatenate(%x, %x, axis=0)
        }""")
    )
    assert str(module.main.type.result) == "(Tensor[(2 * n), float32], Tensor[(6 * m), float32])"
    x = TensorType((size("k"),), FLOAT32)
    assert instantiate(FuncType((x, x), x), (x, TensorType((3,), FLOAT32))) is None


@pytest.mark.parametrize(
    ("requirements", "values"),
    [
        ([("n", "==", "m")], {"n": "n", "m": "n"}),
        ([("n", "==", "5")], {"n": "5"}),
        ([("n", "==", "2*m + 1")], {"n": "2 * m + 1"}),
        ([("n % 4", "==", "0")], {"n": "4 * n"}),
        ([("n % 4", "==", "3")], {"n": "4 * n + 3"}),
        ([("n", "==", "m"), ("m", "==", "k")], {"n": "n", "m": "n", "k": "n"}),
    ],
)
def test_equations_are_solved(
    requirements: list[tuple[str, str, str]], values: dict[str, str]
) -> None:
    solved, left = solve(tuple(_requirement(*r) for r in requirements))
    assert not left
    for name, value in values.items():
        assert str(solved.get(name, size(name))) == value


@pytest.mark.parametrize(
    ("relation", "bound", "expected"),
    [("<=", "64", (0, 64)), ("<", "64", (0, 63)), ("!=", "0", (1, 100)), ("!=", "7", (0, 100))],
)
def test_ranges_become_as_narrow_as_they_must(
    relation: str, bound: str, expected: tuple[int, int]
) -> None:
    solved, left = solve((Requirement(size("n", 0, 100), relation, int(bound)),))
    n = solved.get("n", size("n", 0, 100))
    assert n == size("n", *expected)
    assert bool(left) == (bound == "7")


def test_what_no_size_satisfies_is_an_error() -> None:
    with pytest.raises(LoopwrightTypeError, match="no sizes satisfy"):
        solve((_requirement("n", "==", "5"), _requirement("n", "==", "6")))


def test_what_is_not_solved_is_taken_for_granted_by_passes_and_checked_at_the_call() -> None:
    n, m = size("n"), size("m")
    product = Requirement(n * m, "==", 64)
    assert not require(64, "==", n * m)
    with assuming([product]):
        assert require(64, "==", n * m)
    with collecting() as noted:
        assert require(n * m, "==", 64) and require(64, "==", m * n)
    assert len(noted) == 1
    assert solve((product,)) == ({}, (product,))


def test_narrower_sizes_reach_every_function() -> None:
    module = apply_requirements(parse_module(SUM + "def @f(%x: Tensor[(n), int8]) { %x }"))
    verify(module)
    assert str(module.main.params[1].type) == "Tensor[(n), float32]"
    assert module.main.sizes["n"].range == (1, 4096)


def _requirement(left: str, relation: str, right: str) -> Requirement:
    text = f"def @main(%x: Tensor[(n, m, k), int8]) {{ requires {left} {relation} {right}; %x }}"
    return parse_module(text).main.requirements[0]
