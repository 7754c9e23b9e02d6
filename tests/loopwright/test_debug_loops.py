"""Debugging tools on programs with branches, loops and functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import loopwright as lw
import numpy as np
import pytest
from loopwright.debug import wide
from loopwright.debug.minimise import anonymous, minimised
from loopwright.debug.wide import TooLongError, flat, result_of, values_of
from loopwright.ir.graph.evaluate import evaluate
from loopwright.ir.graph.nodes import Call, Module

SECRET = np.linspace(0, 1, 8, dtype=np.float32)

PROGRAM = lw.parse(
    """
def @main(%x: Tensor[(8), float32], %n: Tensor[(), int64]) -> Tensor[(8), float32] {
  %0 = for (%i < %n; %a = %x, %b = 0f) {
    %1 = tanh(%a);
    %2 = sum(%1);
    %3 = add(%b, %2);
    %4 = greater(%3, 1f);
    %5 = if (%4) { exp(%1) } else { @mine(%1) };
    (%5, %3)
  };
  %6 = while (%w = %0.0, %s = %0.1) { less(%s, 100f) } do {
    %7 = multiply(%s, 3f);
    %8 = add(%7, 1f);
    (%w, %8)
  };
  add(%6.0, %6.1)
}
def @mine(%y: Tensor[(8), float32]) -> Tensor[(8), float32] { multiply(%y, meta[SECRET]) }
""",
    constants={"SECRET": SECRET},
)

X = np.linspace(-1, 1, 8, dtype=np.float32)


def results(module: Module, *args: Any, wide: bool) -> list[Any]:
    given = [np.asarray(a) for a in args]
    return flat(result_of(module.main, values_of(module.main, given, module, wide=wide), wide=wide))


@pytest.mark.parametrize("count", [0, 1, 5])
def test_loops_are_evaluated_in_both_precisions(count: int) -> None:
    (narrow,) = results(PROGRAM, X, np.int64(count), wide=False)
    (exact,) = results(PROGRAM, X, np.int64(count), wide=True)
    wanted = evaluate(PROGRAM, X, np.int64(count))
    assert narrow.dtype == np.float32 and exact.dtype == np.float64
    np.testing.assert_array_equal(narrow, wanted)
    np.testing.assert_allclose(exact, wanted, rtol=1e-6)


def test_an_evaluation_gives_up_in_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    endless = lw.parse(
        "def @main(%x: Tensor[(), bool]) { %0 = while (%a = %x) { %a } do { (%a,) }; %0.0 }"
    )
    monkeypatch.setattr(wide, "MOST_EVALUATED", 1000)
    with pytest.raises(TooLongError, match="more than 1000 operations"):
        results(endless, np.True_, wide=True)
    assert results(endless, np.False_, wide=True) == [np.False_]
    recursive = lw.parse(
        "def @main(%x: Tensor[(2), float32]) { @f(%x) } "
        "def @f(%x: Tensor[(2), float32]) -> Tensor[(2), float32] { %0 = exp(%x); @f(%0) }"
    )
    monkeypatch.setattr(wide, "MOST_EVALUATED", 1_000_000)
    with pytest.raises(TooLongError, match="too deep"):
        results(recursive, X[:2], wide=True)


def mentions(operator: str) -> Callable[[Module], bool]:
    return lambda module: f"{operator}(" in str(module)


@pytest.mark.parametrize("operator", ["exp", "tanh", "multiply", "greater"])
def test_a_failure_inside_of_loops_becomes_a_straight_line(operator: str) -> None:
    small = minimised(PROGRAM, mentions(operator), 20.0)
    bindings = small.main.body.bindings
    assert list(small.functions) == ["main"]
    assert all(isinstance(b.value, Call) for b in bindings) and len(bindings) <= 3, str(small)


def test_a_failure_of_the_loop_itself_keeps_the_loop() -> None:
    small = minimised(PROGRAM, lambda m: "for (" in str(m) and "tanh(" in str(m), 20.0)
    assert "while" not in str(small) and "if" not in str(small)
    assert str(small).count(";") <= 4, str(small)


def test_fewer_iterations() -> None:
    loop = lw.parse(
        "def @main(%x: Tensor[(4), float32]) "
        "{ %0 = for (%i < 100i64; %a = %x) { %1 = exp(%a); (%1,) }; %0.0 }"
    )
    small = minimised(loop, lambda m: "for (" in str(m) and "< 0i64" not in str(m), 20.0)
    assert "< 1i64" in str(small), str(small)


def test_no_name_of_the_users_is_left_in_loops_and_functions() -> None:
    text = str(anonymous(PROGRAM))
    assert "mine" not in text and "SECRET" not in text and "%w" not in text
    lines = str(PROGRAM).count("\n")
    assert text.count("\n") == lines
