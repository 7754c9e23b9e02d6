"""Slices that begin where values say are read in place, by vectors."""

from __future__ import annotations

import loopwright as lw
import numpy as np


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


def test_a_slice_that_begins_anywhere_is_read_by_vectors() -> None:
    a = np.random.default_rng(0).random(300)
    compiled = lw.compile(lambda a, i: a[i : i + 256] * 2.0)
    np.testing.assert_array_equal(compiled(a, 7), a[7:263] * 2)
    text = compiled.lower(a, 7).as_text("llvm")
    assert "load <" in text
    assert text.count("load double") < 16
