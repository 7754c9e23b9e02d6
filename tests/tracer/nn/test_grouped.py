"""Products of rows in groups, each with a matrix of its own."""

from __future__ import annotations

import itertools

import loopwright as lw
import ml_dtypes
import numpy as np
import pytest
from loopwright import nn

ENDS = [
    [3, 3, 40, 90],
    [0, 0, 0, 0],
    [1, 2, 3, 4],
    [0, 90, 90, 90],
    [0, 17, 81, 89],
    [50, 20, 95, 60],
]
"""Groups without rows, rows without a group, few and many rows, ends in front of earlier ones and
beyond the rows."""


def products(a, b, ends):
    result, begin = np.zeros((len(a), b.shape[2])), 0
    for matrix, end in zip(b, np.maximum.accumulate(ends)):
        result[begin:end] = a[begin:end] @ matrix
        begin = min(end, len(a))
    return result


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16, np.float64])
def test_any_ends(dtype, transposed: bool) -> None:
    rng = np.random.default_rng(0)
    a = rng.standard_normal((90, 24)).astype(dtype)
    b = rng.standard_normal((4, 40, 24) if transposed else (4, 24, 40)).astype(dtype)

    def rows(a, b, ends):
        return nn.grouped_matmul(a, np.swapaxes(b, 1, 2) if transposed else b, ends)

    compiled = lw.compile(rows)
    matrices = np.swapaxes(b, 1, 2) if transposed else b
    tolerance = 4 * float(ml_dtypes.finfo(dtype).eps)
    for ends, kind in itertools.product(ENDS, (np.int32, np.int64)):
        given = np.array(ends, kind)
        expected = products(a.astype(np.float64), matrices.astype(np.float64), given)
        scale = tolerance * max(1.0, np.abs(expected).max())
        for result in (compiled(a, b, given), rows(a, b, given)):
            assert result.dtype == dtype
            np.testing.assert_allclose(result.astype(np.float64), expected, rtol=0, atol=scale)


def test_other_rows_do_not_matter() -> None:
    a, b = np.full((20, 3), np.nan), np.ones((2, 3, 4))
    a[4:9] = 1.0
    result = lw.compile(nn.grouped_matmul)(a, b, np.array([4, 9]))
    np.testing.assert_array_equal(result[4:9], 3.0)
    np.testing.assert_array_equal(result[9:], 0.0)
    sums = lw.compile(nn.grouped_matmul)(a.T, np.ones((20, 4)), np.array([4, 9]))
    np.testing.assert_array_equal(sums[1], 5.0)


def test_derivatives_and_batches() -> None:
    rng = np.random.default_rng(0)
    a, b, ends = rng.random((9, 5)), rng.random((4, 5, 3)), np.array([2, 2, 7, 8])
    lw.check_grads(lambda a, b: nn.grouped_matmul(a, b, ends), (a, b))
    lw.check_grads(lambda a, b: nn.grouped_matmul(a, np.swapaxes(b, 1, 2), ends), (a[:, :3], b))
    lw.check_grads(lambda a, b: nn.grouped_matmul(a.T, b, ends), (a, rng.random((9, 2))))
    result = lw.vmap(nn.grouped_matmul)(
        np.stack([a, 2 * a]), np.stack([b, b]), np.stack([ends, ends // 2])
    )
    np.testing.assert_allclose(result[1], products(2 * a, b, ends // 2))


def test_matrices_are_read_in_place() -> None:
    a, b, ends = np.ones((8, 32), "f"), np.ones((4, 16, 32), "f"), np.array([1, 2, 3, 8])
    for dtype in (np.float32, ml_dtypes.bfloat16):
        given = (a.astype(dtype), b.astype(dtype), ends)
        compiled = lw.compile(lambda a, b, ends: nn.grouped_matmul(a, np.swapaxes(b, 1, 2), ends))
        program = compiled.lower(*given).as_text("program")
        assert "@take" not in program
        assert "@transpose" not in program


def test_a_row_of_halves_is_not_packed_for() -> None:
    x, w = (np.ones(shape, ml_dtypes.bfloat16) for shape in ((1, 256), (512, 256)))
    assert "packed" not in lw.compile(lambda x, w: x @ w.T).lower(x, w).as_text("loops")


def test_errors() -> None:
    a, b, ends = np.ones((6, 4)), np.ones((3, 4, 5)), np.array([1, 2, 6])
    for args, message in (
        ((a, b, ends[:2]), "3 matrices for 2 groups"),
        ((a[:, :3], b, ends), "inner sizes differ, 3 and 4"),
        ((a, b, ends * 1.0), "ends of groups integers"),
        ((b, b, ends), "a is a matrix"),
    ):
        for function in (nn.grouped_matmul, lw.compile(nn.grouped_matmul)):
            with pytest.raises(lw.LoopwrightTypeError, match=message):
                function(*args)
