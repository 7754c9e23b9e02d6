"""Choices that keep what their own condition waits for are jumps."""

from __future__ import annotations

import loopwright as lw
import numpy as np
import pytest
from loopwright.codegen.kernel import compile_kernel
from loopwright.codegen.target import Target
from loopwright.ir.loop.parser import parse_prim
from loopwright.ir.schedule.steps import Schedule

HOST = Target.host()


@pytest.mark.parametrize(
    ("choice", "is_jump"),
    [
        ("where(((x[] * x[]) * (x[] * (x[] * x[]))) < v[], v[], x[])", True),
        ("where(exp(x[]) < v[], x[], v[] + x[])", True),
        ("where(exp(v[]) < x[], v[] + v[], x[])", False),  # what is late does not depend on it
        ("where(exp(x[]) < v[], v[], v[] * v[])", False),  # it is not kept
        ("where(x[] < v[], x[], v[])", False),
        ("where((x[] * x[]) < v[], v[], x[])", False),
    ],
)
def test_only_late_choices_are_jumps(choice: str, is_jump: bool) -> None:
    head = "prim @f(x: float64[], v: float64[]) -> y: float64[]"
    kernel = compile_kernel(parse_prim(f"{head} {{ y[] = {choice} }}"), Schedule(), HOST)
    selects = [line for line in kernel.code.text.splitlines() if " select i1" in line]
    assert sum("branch_weights" in select for select in selects) == is_jump


def test_vectors_choose_without_jumps() -> None:
    f = lw.compile(lambda x: np.where(np.exp(x) * np.exp(-x * x) < 0.7, x * 2, x))
    assert "branch_weights" not in f.lower(lw.f32[4096]).as_text("llvm")


def test_bisection() -> None:
    def roots(count):
        total = 0.0
        for k in range(count):
            low, high = 0.0, 1.0 + k
            while high - low > 1e-9:
                middle = 0.5 * (low + high)
                if middle * middle * middle + middle < k:
                    low = middle
                else:
                    high = middle
            total += low
        return total

    compiled = lw.compile(roots)
    assert "branch_weights" in compiled.lower(9).as_text("llvm")
    assert compiled(300) == roots(300)
