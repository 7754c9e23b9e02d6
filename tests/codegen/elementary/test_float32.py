"""Every float32 function against float64, on all ISA levels this machine can run."""

from __future__ import annotations

import numpy as np
import pytest
from loopwright.codegen.elementary import BINARY, FUNCTIONS, error_bound
from loopwright.codegen.target import ISA_LEVELS, Target

from tools.elementary.sweep import bit_patterns, compile_function, worst_of

HOST = Target.host()
RUNNABLE = [n for n in ISA_LEVELS if ISA_LEVELS[n].cpu_flags <= HOST.level.cpu_flags]
UNARY = [n for n in FUNCTIONS if n not in BINARY]


def special_points() -> np.ndarray:
    """Zeros, infinities, NaN, exponent boundaries, thresholds, each with its neighbours."""
    powers = np.ldexp(1.0, np.arange(-149, 128)).astype(np.float32)
    others = np.array([1.5, 3.0, 88.72284, 103.97208, 9.02, 0.875, 3.95, 1e5, 0.1], np.float32)
    points = np.concatenate([[0.0, np.inf, np.finfo(np.float32).max], powers, others])
    bits = points.astype(np.float32).view(np.int32)
    near = np.clip(bits[:, None] + np.arange(-40, 41), 0, 0x7F800000 + 5).ravel()
    positive = near.astype(np.int32).view(np.float32)
    return np.concatenate([positive, -positive])


SPECIAL = special_points()


@pytest.mark.parametrize("isa", RUNNABLE)
@pytest.mark.parametrize("name", UNARY)
def test_error_is_within_the_bound(name: str, isa: str) -> None:
    code = compile_function(name, "float32", HOST.with_isa(isa))
    (sweep,) = bit_patterns(65537)
    worst = worst_of(code, name, np.concatenate([sweep, SPECIAL]))
    assert worst.error <= error_bound(name, "float32"), str(worst)


@pytest.mark.parametrize("isa", RUNNABLE)
def test_exponentials_of_rounded_differences(isa: str) -> None:
    """Within what the rounding of the operand allows, as ``exp_weight`` says."""
    code = compile_function("exp_weight", "float32", HOST.with_isa(isa))
    for low in (0.0, 1.0, 20.0, 87.0):
        x = -np.linspace(low, low + min(low + 1, 20), 4099, dtype=np.float32)
        worst = worst_of(code, "exp_weight", x)
        assert worst.error <= 1.2 + np.abs(x).max() / 20, str(worst)
    assert worst_of(code, "exp_weight", SPECIAL[~(SPECIAL > 0)]).error <= 6
