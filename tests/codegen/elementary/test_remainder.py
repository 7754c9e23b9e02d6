"""Remainders are exact: equal to NumPy's bit for bit."""

from __future__ import annotations

import numpy as np
import pytest
from loopwright.codegen.target import ISA_LEVELS, Target

from tools.elementary.sweep import compile_function

HOST = Target.host()
RUNNABLE = [n for n in ISA_LEVELS if ISA_LEVELS[n].cpu_flags <= HOST.level.cpu_flags]
NUMPY = {"truncate_mod": np.fmod, "floor_mod": np.mod, "floor_divide": np.floor_divide}


def operands(dtype: str) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(11)
    info = np.finfo(dtype)
    special = np.array(
        [0, 1, 2, 3, 0.1, 0.5, 7.25, np.inf, np.nan, info.max, info.tiny, info.smallest_subnormal],
        dtype,
    )
    special = np.concatenate([special, -special])
    a, b = np.meshgrid(special, special)
    size, bits = 4000, np.dtype(dtype).itemsize * 8
    wild = rng.integers(0, 2**bits, (2, size), np.uint64).astype(f"u{bits // 8}").view(dtype)
    tame = rng.uniform(-100, 100, (2, size)).astype(dtype)
    whole = np.trunc(rng.uniform(-50, 50, (2, size))).astype(dtype)
    together = np.concatenate([[a.ravel(), b.ravel()], wild, tame, whole], axis=1)
    return together[0].astype(dtype), together[1].astype(dtype)


@pytest.mark.parametrize("isa", RUNNABLE)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", NUMPY)
def test_equals_numpy(name: str, dtype: str, isa: str) -> None:
    x, y = operands(dtype)
    got = compile_function(name, dtype, HOST.with_isa(isa))(x, y)
    with np.errstate(all="ignore"):
        expected = NUMPY[name](x, y)
    same = (got == expected) & (np.signbit(got) == np.signbit(expected))
    same |= np.isnan(got) & np.isnan(expected)
    wrong = np.flatnonzero(~same)
    shown = [(x[i], y[i], got[i], expected[i]) for i in wrong[:5]]
    assert not wrong.size, shown
