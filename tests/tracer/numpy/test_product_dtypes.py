"""Products of every dtype: NumPy's dtype, and its values where integers wrap."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import loopwright as lw
import numpy as np
import pytest

DTYPES = ("bool", "int8", "uint8", "int16", "uint32", "int64", "float32", "float64")
PRODUCTS: dict[str, Callable[[Any, Any], Any]] = {
    "vecdot": lambda a, b: np.vecdot(a, b),
    "linalg.vecdot": lambda a, b: np.linalg.vecdot(a, b),
    "matmul": lambda a, b: a @ b.T,
    "dot": lambda a, b: np.dot(a, b.T),
    "inner": lambda a, b: np.inner(a, b),
    "outer": lambda a, b: np.outer(a, b),
    "vdot": lambda a, b: np.vdot(a, b),
    "tensordot": lambda a, b: np.tensordot(a, b),
    "einsum": lambda a, b: np.einsum("ij,ij->i", a, b),
    "kron": lambda a, b: np.kron(a, b),
    "trace": lambda a, b: np.trace(a * b),
    "x.trace": lambda a, b: (a * b).trace(),
}
if hasattr(np, "matvec"):  # NumPy 2.2
    PRODUCTS["matvec"] = lambda a, b: np.matvec(a, b[0])
    PRODUCTS["vecmat"] = lambda a, b: np.vecmat(a[:, 0], b)


@pytest.mark.parametrize("name", PRODUCTS)
def test_a_product_has_numpys_dtype_and_values(name: str) -> None:
    rng = np.random.default_rng(0)
    product = PRODUCTS[name]
    f = lw.compile(product)
    for left in DTYPES:
        for right in (left, "int16"):
            a = rng.integers(0, 120, (3, 5)).astype(left)
            b = rng.integers(0, 120, (3, 5)).astype(right)
            wanted, found = np.asarray(product(a, b)), f(a, b)
            assert found.dtype == wanted.dtype, (name, left, right)
            np.testing.assert_allclose(found, wanted, rtol=1e-5)
