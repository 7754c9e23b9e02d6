"""Gathers and scatters of ``lw.nn`` in compiled functions and at once."""

import loopwright as lw
import numpy as np
import pytest
from loopwright import nn

RNG = np.random.default_rng(3)


def test_a_scatter_into_zeros_is_one_kernel():
    """The gradient of an embedding: rows added at their words, some of them several times."""
    words, rows = RNG.integers(0, 50, 30), RNG.standard_normal((30, 24)).astype(np.float32)

    def gradient(words, rows):
        return nn.scatter_nd(np.zeros((50, 24), np.float32), words[:, None], rows, "add")

    f = lw.compile(gradient)
    expected = np.zeros((50, 24), np.float32)
    np.add.at(expected, words, rows)
    np.testing.assert_allclose(f(words, rows), expected, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(gradient(words, rows), expected, rtol=1e-5, atol=1e-5)
    assert len(f.lower(words, rows).built.kernels) == 1


@pytest.mark.parametrize("reduction", ["none", "add", "mul", "min", "max"])
def test_indices_out_of_range_write_nothing(reduction):
    x = RNG.standard_normal((6, 5)).astype(np.float32)
    indices = np.array([[-7, 6, 2**62, -(2**63), 0], [5, -1, -6, 2, 2]])
    updates = RNG.standard_normal((2, 5)).astype(np.float32)
    f = lw.compile(lambda x, i, u: nn.scatter_elements(x, i, u, reduction=reduction))
    expected = nn.scatter_elements(x, indices, updates, reduction=reduction)
    np.testing.assert_array_equal(f(x, indices, updates), expected)
    assert (expected != x).sum() <= 6


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@pytest.mark.parametrize(
    ("index", "checked"),
    [
        (lambda i: np.clip(i, 0, 6), False),
        (lambda i: np.clip(i, -7, 5) + 1, False),
        (lambda i: np.clip(i, 9, 6), False),  # the upper end counts
        (lambda i: np.clip(i, 0, 7), True),
        (lambda i: np.clip(i, None, 6), True),
        (lambda i: np.clip(i, -7, None), True),
    ],
)
def test_clipped_indices_are_in_range(index, checked, dtype):
    x, i = np.arange(7.0), np.array([3, 5, -2, 0], dtype)
    f = lw.compile(lambda x, i: x[index(i)])
    np.testing.assert_array_equal(f(x, i), x[index(i)])
    assert ("raise_failed" in f.lower(x, i).as_text("kernels")) == checked
    if checked:
        far = np.array([99, -99], dtype)
        with pytest.raises(IndexError):
            f(x, far)


def test_gathers_of_slices():
    x = RNG.standard_normal((4, 5, 6)).astype(np.float32)
    indices = RNG.integers(0, 4, (3, 7, 2))
    f = lw.compile(lambda x, i: nn.gather_nd(x * 2, i) + 1)
    np.testing.assert_allclose(f(x, indices), 2 * x[indices[..., 0], indices[..., 1]] + 1)
    batched = RNG.integers(0, 5, (4, 3, 1))
    f = lw.compile(lambda x, i: nn.gather_nd(x, i, batch_dims=1))
    expected = np.take_along_axis(x, np.broadcast_to(batched, (4, 3, 6)), 1)
    np.testing.assert_array_equal(f(x, batched), expected)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: nn.scatter_nd(x, np.zeros((2, 1)), x[:2]), "indices are integers"),
        (lambda x: nn.scatter_nd(x, np.zeros((2, 1), int), x[:1]), "do not fit the places"),
        (lambda x: nn.scatter_elements(x, np.zeros((2, 9), int), x[:2]), "do not fit"),
        (lambda x: nn.gather_nd(x, np.zeros((2, 3), int)), "not a place in"),
    ],
)
def test_operands_that_do_not_fit_are_refused(call, message):
    with pytest.raises(lw.LoopwrightError, match=message):
        lw.compile(call)(np.ones((4, 5), np.float32))


def test_boxes_that_overlap_better_ones_are_left_out():
    first = RNG.uniform(0, 4, (2, 60, 2)).astype(np.float32)
    boxes = np.concatenate([first, first + RNG.uniform(1.5, 3, first.shape)], -1).astype(np.float32)
    scores = RNG.uniform(-1, 1, (2, 60)).astype(np.float32)
    f = lw.compile(lambda b, s: nn.non_max_suppression(b, s, 40, 0.3, 0.0))
    result = f(boxes, scores)
    np.testing.assert_array_equal(result, nn.non_max_suppression(boxes, scores, 40, 0.3, 0.0))
    for row in range(2):
        kept = result[row][result[row] >= 0]
        assert 1 < len(kept) < 40
        assert (result[row][len(kept) :] == -1).all()
        assert (np.diff(scores[row][kept]) <= 0).all()
        assert scores[row][kept[0]] == scores[row].max()
        assert (scores[row][kept] > 0).all()


def test_sorts_of_lw_nn():
    x = RNG.integers(0, 9, (5, 70)).astype(np.float32)
    f = lw.compile(lambda x: (nn.sort(x, descending=True), nn.argsort(x, descending=True)))
    values, places = f(x)
    np.testing.assert_array_equal(values, -np.sort(-x))
    np.testing.assert_array_equal(places, np.argsort(-x, axis=1, kind="stable"))
    row = np.sort(x[0])
    found = lw.compile(lambda r, v: nn.searchsorted(r, v, right=True))(row, x)
    np.testing.assert_array_equal(found, np.searchsorted(row, x, "right"))
    few = lw.compile(lambda x: nn.top_k_indices(x, 3))(x)
    np.testing.assert_array_equal(few, places[:, :3])


def test_floats_and_their_bits():
    x = RNG.standard_normal(20)
    bits = lw.compile(lambda x: nn.bits(x))(x)
    np.testing.assert_array_equal(bits, x.view(np.uint64))
    np.testing.assert_array_equal(lw.compile(lambda b: nn.from_bits(b))(bits), x)
