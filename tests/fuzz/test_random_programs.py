"""500 random programs of 1 to 12 operators, compiled, agree with NumPy in float64."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import hypothesis
import hypothesis.strategies as st
from random_programs import Program, check
from random_steps import draw_program

T = TypeVar("T")


class HypothesisDraw:
    """Decisions by hypothesis, which makes failing programs smaller."""

    def __init__(self, draw: st.DrawFn) -> None:
        self.draw = draw

    def pick(self, choices: Sequence[T]) -> T:
        return choices[self.draw(st.integers(0, len(choices) - 1))]

    def between(self, low: int, high: int) -> int:
        return self.draw(st.integers(low, high))


@st.composite
def programs(draw: st.DrawFn) -> Program:
    return draw_program(HypothesisDraw(draw))


@hypothesis.settings(max_examples=300, suppress_health_check=list(hypothesis.HealthCheck))
@hypothesis.given(programs())
def test_random_programs(program: Program) -> None:
    check(program)
