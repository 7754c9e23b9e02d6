"""The polynomials in the sources are those that derive.py describes, and as good."""

from __future__ import annotations

import importlib

import mpmath
import pytest

from tools.elementary.derive import POLYNOMIALS, fit, horner

MODULES = [
    importlib.import_module(f"loopwright.codegen.elementary.{name}")
    for name in (
        "erf",
        "exp",
        "hyperbolic",
        "inverse_trig",
        "log",
        "log_table",
        "power",
        "root",
        "trig",
    )
]
COARSE = {"INVERSE_ROOT": -8.3, "EXP2_SHORT": -40.0}


def constant(name: str) -> tuple[float, ...]:
    (found,) = {getattr(m, name) for m in MODULES if hasattr(m, name)}
    return found


@pytest.mark.parametrize("name", POLYNOMIALS)
def test_error_of_the_constants(name: str) -> None:
    problem = POLYNOMIALS[name]
    coefficients = constant(name)
    assert len(coefficients) == problem.degree + 1
    low, high = mpmath.mpf(problem.low), mpmath.mpf(problem.high)
    worst = mpmath.mpf(0)
    for i in range(25):
        x = low + (high - low) * (i + mpmath.mpf(0.3)) / 25
        difference = horner(coefficients, x) - problem.f(x)
        worst = max(worst, abs(problem.weight(x) * difference))
    expected = COARSE.get(name, -25.5 if problem.precision == 24 else -54.0)
    assert mpmath.log(worst, 2) <= expected


@pytest.mark.parametrize("name", ["SIN32", "EXPM1_TWICE32"])
def test_derivation_is_reproducible(name: str) -> None:
    coefficients, _ = fit(POLYNOMIALS[name])
    assert tuple(coefficients) == constant(name)
