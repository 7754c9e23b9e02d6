"""Derivatives of random functions: forward mode by differences, reverse mode by forward mode."""

from __future__ import annotations

import pytest
from python_against_compiled import BAD
from random_gradients import program, run

SEEDS = range(25)
"""Five functions of each generator."""


@pytest.mark.parametrize("seed", SEEDS)
def test_derivatives_of_random_functions(seed: int) -> None:
    source, args = program(seed)
    outcome = run(seed, source, args)
    assert outcome.kind not in BAD, f"{outcome}\n{source}"
