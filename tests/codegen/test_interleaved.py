"""Calls of elementary functions that stand next to each other are interleaved."""

from __future__ import annotations

import re

import loopwright as lw
import numpy as np
import pytest
from loopwright.codegen.elementary import function
from loopwright.codegen.interleaved import MOST_ADDED, VECTORS_AT_ONCE, interleaved
from loopwright.codegen.target import ISA_LEVELS, Target

HOST = Target.host()
RUNNABLE = [n for n in ISA_LEVELS if ISA_LEVELS[n].cpu_flags <= HOST.level.cpu_flags]
V3 = Target(isa="x86-64-v3")
SQUARE = """define internal <8 x float> @lw.f.float32.x8(<8 x float> %x) alwaysinline nounwind {
entry:
  %v0 = fmul <8 x float> %x, %x
  %v1 = fsub <8 x float> %v0, %x
  ret <8 x float> %v1
}
"""
CALL = "  %{} = call <8 x float> @lw.f.float32.x8(<8 x float> {})"


def test_two_calls_become_their_interleaved_instructions() -> None:
    text = "\n".join([CALL.format("a", "%p"), CALL.format("b", "splat (float 2.0)"), "  ret void"])
    assert interleaved(text, {"lw.f.float32.x8": SQUARE}).split("\n") == [
        "  %a.v0 = fmul <8 x float> %p, %p",
        "  %b.v0 = fmul <8 x float> splat (float 2.0), splat (float 2.0)",
        "  %a = fsub <8 x float> %a.v0, %p",
        "  %b = fsub <8 x float> %b.v0, splat (float 2.0)",
        "  ret void",
    ]


def test_calls_that_are_alone_or_apart_or_branch_stay() -> None:
    apart = "\n".join([CALL.format("a", "%p"), "  %c = add i64 %i, 1", CALL.format("b", "%q")])
    assert interleaved(apart, {"lw.f.float32.x8": SQUARE}) == apart
    both = "\n".join([CALL.format("a", "%p"), CALL.format("b", "%q")])
    assert interleaved(both, {}) == both
    sine = function("sin", "float32", 8, V3)
    calls = both.replace("lw.f.float32.x8", sine.symbol)
    assert interleaved(calls, {sine.symbol: sine.text}) == calls


def test_so_many_at_a_time() -> None:
    n = VECTORS_AT_ONCE
    calls = "\n".join(CALL.format(f"r{i}", f"%p{i}") for i in range(n + 2))
    lines = interleaved(calls, {"lw.f.float32.x8": SQUARE}).split("\n")
    order = [int(re.findall(r"%r(\d)", line)[0]) for line in lines]
    assert order == [*range(n), *range(n), n, n + 1, n, n + 1]


def test_a_function_that_would_grow_much_stays() -> None:
    calls = "\n".join(CALL.format(f"r{n}", "%p") for n in range(4 * MOST_ADDED // len(CALL)))
    assert interleaved(calls, {"lw.f.float32.x8": SQUARE}) == calls


@pytest.mark.parametrize("isa", RUNNABLE)
def test_results_are_those_of_one_vector_after_the_other(isa: str) -> None:
    def gate(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        return np.tanh(x) * lw.nn.sigmoid(y)

    x = np.linspace(-6, 6, 997, dtype=np.float32)
    y = x[::-1] * 3
    compiled = lw.compile(gate, target=HOST.with_isa(isa))
    exact = np.tanh(x.astype(np.float64)) / (1 + np.exp(-y.astype(np.float64)))
    np.testing.assert_allclose(compiled(x, y), exact, rtol=1e-6)
    assert re.search(r"%v\d+\.v\d+ = ", compiled.lower(x, y).as_text("llvm"))


@pytest.mark.parametrize("level", ISA_LEVELS)
def test_a_call_that_waits_for_another_stays_behind_it(level, monkeypatch):
    """As a function of a function does: two vectors, each with calls one after the other."""
    monkeypatch.setenv("LOOPWRIGHT_VERIFY", "2")
    x = np.linspace(-3, 3, 40, dtype=np.float64)
    for f in (np.tanh, np.exp, lw.nn.gelu, lw.nn.sigmoid):
        twice = lw.compile(lambda x, f=f: f(f(x)), target=Target(isa=level))
        lowered = twice.lower(x)
        assert lowered.as_text("llvm")
    compiled = lw.compile(lambda x: np.tanh(np.tanh(np.tanh(x))))
    np.testing.assert_allclose(compiled(x), np.tanh(np.tanh(np.tanh(x))), rtol=1e-14)
