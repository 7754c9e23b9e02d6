"""Slices that begin where values say are read in place, by vectors."""

from __future__ import annotations

import loopwright as lw
import numpy as np
import pytest


def products(a, i):
    """A row and a column product, of slices."""
    return a[i, :i] @ a[2, :i], a[:, 3] @ a[:, i : i + 20]


def test_a_product_reads_slices_in_place() -> None:
    a = np.random.default_rng(0).random((40, 60))
    compiled = lw.compile(products)
    for i in (5, 17):
        for found, expected in zip(compiled(a, i), products(a, i), strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-12)
    program = compiled.lower(a, 5).as_text("program")
    assert "@dynamic_slice" not in program
    assert "@strided_slice" not in program


def triangular(a, b):
    for i in range(b.shape[0]):
        for j in range(b.shape[1]):
            b[i, j] += np.dot(a[i + 1 :, i], b[i + 1 :, j])
    return b


@pytest.mark.parametrize("shape", [(0, 3), (1, 1), (7, 0), (33, 5), (40, 17)])
def test_rows_below_are_read_in_place(shape: tuple[int, int]) -> None:
    rng = np.random.default_rng(0)
    a, b = rng.random((shape[0], shape[0])), rng.random(shape)
    compiled = lw.compile(triangular)
    np.testing.assert_allclose(compiled(a, b.copy()), triangular(a, b.copy()), rtol=1e-12)
    both, same = a.copy(), a.copy()  # one array is read, and its rows are written
    np.testing.assert_allclose(compiled(both, both), triangular(same, same), rtol=1e-12)
    if shape[0] > 32:
        assert "@dynamic_slice(" not in compiled.lower(a, b).as_text("program")


def test_a_slice_that_begins_anywhere_is_read_by_vectors() -> None:
    a = np.random.default_rng(0).random(300)
    compiled = lw.compile(lambda a, i: a[i : i + 256] * 2.0)
    np.testing.assert_array_equal(compiled(a, 7), a[7:263] * 2)
    text = compiled.lower(a, 7).as_text("llvm")
    assert "load <" in text
    assert text.count("load double") < 16
