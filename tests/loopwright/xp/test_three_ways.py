"""``lw.xp``: the same function on plain arrays, compiled, and written with NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import loopwright as lw
import numpy as np
import pytest
from loopwright import xp

X = np.arange(6, dtype=np.float32).reshape(2, 3)

CASES: dict[str, Callable[[Any, Any], Any]] = {
    "zeros": lambda m, x: x + m.zeros((2, 3), dtype=np.float32),
    "ones": lambda m, x: x * m.ones((3,)),
    "full": lambda m, x: x + m.full((2, 1), 7),
    "full of a bool": lambda m, x: m.where(m.full((2, 3), True), x, 0),
    "full of a scalar": lambda m, x: m.full((2,), 2.5) + x[:, 0],
    "empty": lambda m, x: m.empty((4, 2)).shape,
    "arange": lambda m, x: m.arange(3) * x,
    "arange step": lambda m, x: m.arange(1, 7, 2) * x,
    "arange float": lambda m, x: m.arange(0.0, 1.5, 0.5) + x,
    "arange dtype": lambda m, x: m.arange(3, dtype=np.int8) + x.astype(np.int8),
    "eye": lambda m, x: x @ m.eye(3),
    "eye of two sizes": lambda m, x: x @ m.eye(3, 4, k=1, dtype=np.float32),
    "linspace": lambda m, x: m.linspace(0, 1, 3) + x,
    "asarray": lambda m, x: m.asarray([1.0, 2.0, 3.0]) + x,
    "take": lambda m, x: m.take(x, np.array([2, 0]), axis=1),
    "permute_dims": lambda m, x: m.permute_dims(x, (1, 0)),
    "concat": lambda m, x: m.concat([x, x], axis=1),
    "pow": lambda m, x: m.pow(x, 2),
    "atan2": lambda m, x: m.atan2(x, x + 1),
    "vecdot": lambda m, x: m.vecdot(x, x),
    "linalg": lambda m, x: m.linalg.vector_norm(x, axis=0),
}


@pytest.mark.parametrize("name", CASES)
def test_three_ways(name: str) -> None:
    function = CASES[name]
    expected = function(np, X)
    assert np.asarray(function(xp, X)).dtype == np.asarray(expected).dtype
    compiled = lw.compile(lambda x: function(xp, x))(X)
    assert np.asarray(compiled).dtype == np.asarray(expected).dtype
    np.testing.assert_allclose(compiled, expected, rtol=1e-6)


def test_linspace_between_traced_ends() -> None:
    compiled = lw.compile(lambda a, b: xp.linspace(a, b, 5))
    result = compiled(np.float32(1), np.float32(3))
    assert result.dtype == np.linspace(np.float32(1), np.float32(3), 5).dtype
    np.testing.assert_allclose(result, np.linspace(1, 3, 5))
    assert compiled(np.int32(1), np.int32(3)).dtype == np.float64


def test_arange_of_a_symbolic_size() -> None:
    def f(x: Any) -> Any:
        return xp.arange(1, x.shape[0], 2)

    text = lw.compile(f).trace(lw.f32["n"]).as_text(spans=False)
    assert "iota(shape=[(n // 2)]" in text
