"""float64 functions against mpmath, on samples with and without FMA."""

from __future__ import annotations

import numpy as np
import pytest
from loopwright.codegen.elementary import error_bound
from loopwright.codegen.target import ISA_LEVELS, Target

from tools.elementary.sweep import compile_function, worst_of

HOST = Target.host()
RUNNABLE = [n for n in ISA_LEVELS if ISA_LEVELS[n].cpu_flags <= HOST.level.cpu_flags]
RANGES = {
    "exp": (-746.0, 710.0),
    "exp2": (-1080.0, 1025.0),
    "expm1": (-40.0, 710.0),
    "log": (0.5, 2.0),
    "log1p": (-1.0, 1.0),
    "log2": (0.5, 2.0),
    "log10": (0.5, 2.0),
    "sin": (-100.0, 100.0),
    "cos": (-100.0, 100.0),
    "tan": (-100.0, 100.0),
    "asin": (-1.0, 1.0),
    "acos": (-1.0, 1.0),
    "atan": (-4.0, 4.0),
    "sinh": (-711.0, 711.0),
    "cosh": (-711.0, 711.0),
    "tanh": (-20.0, 20.0),
    "asinh": (-5.0, 5.0),
    "acosh": (1.0, 5.0),
    "atanh": (-1.0, 1.0),
    "erf": (-6.0, 6.0),
    "sigmoid": (-750.0, 40.0),
    "cbrt": (-10.0, 10.0),
}
SPECIAL = np.array(
    [0.0, 1.0, 0.5, 2.0, np.inf, np.nan, 5e-324, 1e-310, 2.2250738585072014e-308, 1e16]
    + [1.7976931348623157e308, 709.782712893384, 745.13, 710.4758, 91.106186954104]
    + [6381956970095103 * 2.0**797],
)


def samples(low: float, high: float) -> np.ndarray:
    rng = np.random.default_rng(7)
    wild = rng.integers(0, 2**64, 60, np.uint64).view(np.float64)
    with np.errstate(over="ignore"):
        neighbours = [np.nextafter(SPECIAL, 0), np.nextafter(SPECIAL, np.inf)]
    near = np.concatenate([SPECIAL, *neighbours])
    uniform = [rng.uniform(low, high, 150), rng.uniform(-2, 2, 100)]
    small = np.exp(rng.uniform(-40, 40, 60))
    return np.concatenate([near, -near, wild, *uniform, small])


@pytest.mark.parametrize("isa", RUNNABLE)
@pytest.mark.parametrize("name", RANGES)
def test_error_is_within_the_bound(name: str, isa: str) -> None:
    code = compile_function(name, "float64", HOST.with_isa(isa))
    worst = worst_of(code, name, samples(*RANGES[name]))
    assert worst.error <= error_bound(name, "float64"), str(worst)
