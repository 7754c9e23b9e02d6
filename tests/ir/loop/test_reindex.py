"""Reshape as an index map, against NumPy's reshape."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from loopwright.ir.dims import evaluate, linear, symbol
from loopwright.ir.loop.reindex import delinearise, linearise, reshape_groups, reshape_index


def factorings(total, parts):
    """Shapes of ``parts`` sizes with a given product."""
    if parts == 1:
        return [(total,)]
    return [
        (d, *rest)
        for d in range(1, total + 1)
        if total % d == 0
        for rest in factorings(total // d, parts - 1)
    ]


@st.composite
def reshapes(draw):
    total = draw(st.sampled_from([1, 6, 12, 24, 36, 60]))
    shapes = st.integers(1, 4).flatmap(lambda parts: st.sampled_from(factorings(total, parts)))
    return draw(shapes), draw(shapes)


@given(reshapes())
def test_every_element_comes_from_where_numpy_takes_it(shapes):
    old, new = shapes
    names = [f"i{axis}" for axis in range(len(new))]
    source = reshape_index([symbol(name) for name in names], new, old)
    array = np.arange(int(np.prod(old))).reshape(old)
    for at in np.ndindex(*new):
        values = dict(zip(names, at, strict=True))
        own = tuple(evaluate(i, values) for i in source)
        assert array[own] == array.reshape(new)[at]


@pytest.mark.parametrize(
    "old, new",
    [
        ((6, 4), (3, 2, 4)),
        ((24,), (2, 3, 4)),
        ((5, 1, 7), (5, 7)),
        ((5, 7), (1, 5, 1, 7, 1)),
        ((4, 6, 5), (4, 6, 5)),
        ((8, 15), (2, 4, 3, 5)),
    ],
)
def test_splitting_axes_gives_linear_indices(old, new):
    names = [symbol(f"i{axis}") for axis in range(len(new))]
    assert all(linear(i) is not None for i in reshape_index(names, new, old))


def test_merging_axes_divides_only_the_merged_one():
    i, j, k = symbol("i"), symbol("j"), symbol("k")
    source = reshape_index([i, j, k], (7, 12, 5), (7, 3, 4, 5))
    assert [str(s) for s in source] == ["i", "(j // 4)", "(j % 4)", "k"]


def test_symbolic_sizes_are_matched():
    n, m, i, j = symbol("n"), symbol("m"), symbol("i"), symbol("j")
    assert reshape_groups((n, 6, m), (n, 2, 3, m)) == [([0], [0]), ([1], [1, 2]), ([2], [3])]
    assert [str(s) for s in reshape_index([i, j], (n, m), (n * m,))] == ["i * m + j"]


def test_no_element_is_asked_of_an_empty_tensor():
    i, j = symbol("i"), symbol("j")
    assert reshape_index([i, j], (0, 5), (3, 0, 2)) == [0, 0, 0]


@given(st.lists(st.integers(1, 5), max_size=4))
def test_linearise_and_delinearise_are_inverse(shape):
    for at in np.ndindex(*shape):
        flat = linearise(list(at), shape)
        assert delinearise(flat, shape) == list(at)
