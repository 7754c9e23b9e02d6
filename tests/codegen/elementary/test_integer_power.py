"""Integer powers wrap as NumPy's; negative exponents have their documented meaning."""

from __future__ import annotations

import numpy as np
import pytest
from loopwright.codegen.target import ISA_LEVELS, Target

from tools.elementary.sweep import compile_function

HOST = Target.host()
RUNNABLE = [n for n in ISA_LEVELS if ISA_LEVELS[n].cpu_flags <= HOST.level.cpu_flags]
INTEGERS = ["int8", "int16", "int32", "int64", "uint8"]


@pytest.mark.parametrize("isa", RUNNABLE)
@pytest.mark.parametrize("dtype", INTEGERS)
def test_equals_numpy(dtype: str, isa: str) -> None:
    rng = np.random.default_rng(5)
    info = np.iinfo(dtype)
    x = np.concatenate(
        [rng.integers(-12 if info.min else 0, 12, 500), rng.integers(info.min, info.max, 500)]
    ).astype(dtype)
    y = np.concatenate([rng.integers(0, 20, 700), rng.integers(0, info.max, 300)]).astype(dtype)
    got = compile_function("power", dtype, HOST.with_isa(isa))(x, y)
    np.testing.assert_array_equal(got, np.power(x, y))


@pytest.mark.parametrize("dtype", INTEGERS[:-1])
def test_negative_exponents_truncate_the_reciprocal(dtype: str) -> None:
    x = np.array([1, -1, -1, 2, -3, 0], dtype)
    y = np.array([-5, -3, -4, -1, -2, -1], dtype)
    got = compile_function("power", dtype, HOST)(x, y)
    np.testing.assert_array_equal(got, np.array([1, -1, 1, 0, 0, 0], dtype))
