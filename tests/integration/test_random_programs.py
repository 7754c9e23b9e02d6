"""Random programs of 1 to 12 operators, traced and compiled, agree with NumPy in float64."""

from __future__ import annotations

import hypothesis
import loopwright as lw
import numpy as np
from random_programs import SIZES, Program, programs


def check(program: Program) -> None:
    with np.errstate(all="ignore"):
        wanted = program(*(a.astype(np.float64) for a in program.inputs))
        scale = program.scale()
        got = lw.compile(program)(*program.inputs)
    assert np.shape(got) == np.shape(wanted)
    error = np.abs(np.asarray(got, np.float64) - wanted)
    # Rounding of float32, times the operators it may have passed through and what they amplify.
    assert np.all(error <= 1e-4 * (1 + scale)), f"off by {error.max():.2e} at scale {scale:.2e}"


@hypothesis.settings(max_examples=300)
@hypothesis.given(programs())
def test_random_programs(program: Program) -> None:
    check(program)


@hypothesis.settings(max_examples=200)
@hypothesis.given(programs(sizes=(0, 1, *SIZES)))
def test_random_programs_with_nothing_in_them(program: Program) -> None:
    """Sizes 0 and 1 more often."""
    check(program)
