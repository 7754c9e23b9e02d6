"""power and atan2 of floats, special pairs included."""

from __future__ import annotations

import numpy as np
import pytest
from loopwright.codegen.target import ISA_LEVELS, Target

from tools.elementary.sweep import compile_function, worst_of

HOST = Target.host()
RUNNABLE = [n for n in ISA_LEVELS if ISA_LEVELS[n].cpu_flags <= HOST.level.cpu_flags]


def operands(dtype: str) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(3)
    size = 20000 if dtype == "float32" else 150
    bits = np.dtype(dtype).itemsize * 8
    info = np.finfo(dtype)
    special = np.array(
        [0, 1, 0.5, 2, 3, 2.5, np.inf, np.nan, info.smallest_subnormal, info.max, 8388607, 1e16],
        dtype,
    )
    special = np.concatenate([special, -special])
    a, b = np.meshgrid(special, special)
    wild = rng.integers(0, 2**bits, (2, size), np.uint64).astype(f"u{bits // 8}").view(dtype)
    parts = [
        [a.ravel(), b.ravel()],
        wild,
        rng.uniform(-3, 3, (2, size)),
        [rng.uniform(0.9, 1.1, size), rng.uniform(-900, 900, size)],
        [np.exp(rng.uniform(-50, 50, size)), rng.uniform(-10, 10, size)],
        np.trunc(rng.uniform(-20, 20, (2, size))),
    ]
    with np.errstate(all="ignore"):
        x, y = np.concatenate(parts, axis=1)
        return x.astype(dtype), y.astype(dtype)


@pytest.mark.parametrize("isa", RUNNABLE)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", ["power", "atan2"])
def test_error_is_within_two_ulps(name: str, dtype: str, isa: str) -> None:
    code = compile_function(name, dtype, HOST.with_isa(isa))
    worst = worst_of(code, name, *operands(dtype))
    assert worst.error <= 2.0, str(worst)


@pytest.mark.parametrize("isa", RUNNABLE)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_power_of_scalars_is_within_two_ulps(dtype: str, isa: str) -> None:
    code = compile_function("power", dtype, HOST.with_isa(isa), lanes=1)
    worst = worst_of(code, "power", *operands(dtype))
    assert worst.error <= 2.0, str(worst)
