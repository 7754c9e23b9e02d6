"""Reads and updates at traced indices, arrays of indices and masks mean what they mean in NumPy."""

from __future__ import annotations

import loopwright as lw
import numpy as np
import pytest
from in_place_programs import I4, D, G, X, check, run

PROGRAMS = [
    "x[i[1]] = 5; return x",
    "x[i[1]] = g[i[0]]; return x[i[2]]",
    "x[i[1], i[2]] += 3",
    "x[i[1]][i[2]] = 3",
    "r = x[i[1]]; r += 1; return x",
    "r = x[i[1]]; x += 1; return r",
    "r = x[i[1]]; r[1:3] = 7; r[i[0]] = 2; return r, x",
    "x[1, i[1]] = 4; x[i[0], 1:3] = 9; x[:, i[3]] *= 2",
    "x[-1, i[1]-3] = 4",
    "t = x.T; t[i[1]] = 3; t[i[2], i[0]] = 9; t[i[0]][1:] = 2",
    "x[i[1]:i[1]+2] = 1; return x",
    "x[i[1]:i[1]+2, i[0]:i[0]+3] += g[i[1]:i[1]+2, :3]",
    "return x[i[1]*1:(i[1]+1)*1], x[i[0]:i[0]+2:2]",
    "x[i[:3]] = 5; return x",
    "x[i[:3]] += 1; x[i[:3], i[1:4]] = -1; return x",
    "x[i[:2] * 0] += 1; return x",
    "x[:, i[[1, 1, 2]]] = d[:3]; return x",
    "x[i[:3], 1:3] = g[:, :2]",
    "x[1:, i[[0, 3]]] = d[:2]",
    "x[i[[0,2]][:, None], i[[1, 3]]] = 8",
    "x[[0, 2]] = 1; x[[1, 1], [2, 3]] = d[:2]; return x",
    "np.add.at(x, i[[0,0,1]], 1); return x",
    "np.add.at(x, (i[[0,0,1]], i[[1,1,2]]), 5); np.subtract.at(x, i[1], g[0])",
    "np.multiply.at(x, i[[0,0]], 3); np.minimum.at(x, i[[1,1]], g[:2]); "
    "np.maximum.at(x, (slice(None), i[:2]), 4)",
    "np.divide.at(x, i[[0,0,1]], 3.0); np.add.at(x, x > 3, 1); np.add.at(x, 1, g[0]); "
    "np.add.at(x, ..., 1)",
    "np.put(x, [0, 5, -1], [1, 2]); x.put([3], 4); np.put(i, i[1:3], 3)",
    'np.put(x, i, [5, 6], mode="wrap"); np.put(x, i + 7, -3, mode="clip")',
    "np.put_along_axis(x, i[None, :3] * 0 + 1, g[:1, :3], 1); "
    "np.put_along_axis(x, np.array([[0],[1],[2]]), 7, axis=1)",
    "np.fill_diagonal(x, 5); y = x.T.copy(); np.fill_diagonal(y, [1, 2]); "
    "np.fill_diagonal(y, 3, wrap=True); return y",
    "return lw.at(x)[1].set(0), lw.at(x)[i[1]].add(2), lw.at(x)[i[:3], i[1:4]].max(100), x",
    "return lw.at(x)[i[[0,0]]].divide(2), lw.at(x)[i[1]].divide(4), lw.at(x)[..., "
    "i[0]].subtract(d[:3]), lw.at(x)[1:].min(2), lw.at(x)[i[1]].apply(np.exp), "
    "lw.at(x)[i[1], 1].get()",
    "x[x[:, 0] > 3, 1] = 5; x[x[:, 0] > 3, 1:3] += 2; x[0, x[0] > 1] = 7; "
    "x[:, x[0] > 1] = -2; x[..., x[0] > 1] *= 3",
    "y = x.copy(); y[i[1]] = x[i[2] - 2]; x[i[0]] = y[1]; return y",
    "y = x.reshape(-1); y[i[2]] = 100; return y",
    "y = x[None]; y[0, i[1]] = 100; y[..., i[2]] = 1; return y",
    "y = x[::-1]; y[i[1]] = 100; y[i[0]:i[0]+2, 1] = 5; return y",
    "y = x[::2, 1:]; y[i[1], i[1]] = 100; y[i[0]] = 2; y[-i[1]] += 5; return y",
    "x[i[1]:i[1]+2][i[0]] = 6; x[1:][i[1]:i[1]+1] = 3",
    "x[i[1], ...] = 3; x[i[1], None] = 4; s = x[i[1], ...]; s += 2; return s",
    "s = x[i[1], i[2]]; x += 1; return s",
    "s = x[i[1], i[2], ...]; s += 1; return s",
    "i[i[1]] = 3; i[i[:2]] += i[:2]; return i",
    "x[x[:, 0] > 3, 1:3] *= d[:2]; m = g > 0; np.add.at(x, m, 2.0); return x",
    "y = lw.xp.zeros((4, 3, 2), dtype=np.float32); y[:, i[1], :] = 2; "
    "y[i[:2], :, i[:2] // 2] = x[:2, :3]; y[:, i[[0, 2]]] += x[:2, :2]; return y",
]


@pytest.mark.parametrize("text", PROGRAMS)
def test_numpy_agrees(text: str) -> None:
    check(run(text), X, G, D, I4)


def test_at_makes_new_arrays_of_traced_arrays_and_of_others() -> None:
    i = np.array([1, 1, 2])

    def updated(x, i):
        y = lw.at(x)
        return y[i].add(2), y[i].divide(2), y[0].set(7), y[x > 5].multiply(3), y[i, i].get()

    for one, other in zip(updated(X, i), lw.compile(updated)(X, i), strict=True):
        np.testing.assert_allclose(one, other)
    traced = lw.compile(lambda x, i: (x.at[i[0]].add(2), x.at[i, 0].max(9), x))(X, i)
    np.testing.assert_array_equal(traced[0], lw.at(X)[1].add(2))
    np.testing.assert_array_equal(traced[1], lw.at(X)[i, 0].max(9))
    np.testing.assert_array_equal(traced[2], X)


def test_an_update_outside_of_an_array_is_an_error_or_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def program(x, i):
        x[i] = 5
        x[:2][i] = 9
        return x[i]

    x = np.arange(4.0)
    with pytest.raises(lw.LoopwrightIndexError, match="index 4 is out of bounds for axis 0"):
        lw.compile(program)(x, np.int64(4))
    np.testing.assert_array_equal(x, np.arange(4.0))
    monkeypatch.setenv("LOOPWRIGHT_CHECK_INDEX", "0")
    assert lw.compile(program)(x, np.int64(4)) == 3
    np.testing.assert_array_equal(x, np.arange(4.0))


def test_one_element_is_written_alone() -> None:
    def program(x, i):
        y = x * 2
        y[1:][i][2] = 5
        y.T[i, 2] += 1
        return y

    kernels = lw.compile(program).lower(np.zeros((50, 40)), np.int64(3)).as_text("kernels")
    assert kernels.count("begins as") == 2
    assert "strided_set" not in kernels


def test_a_slice_behind_others_is_written_alone() -> None:
    """Where it begins is a size: the rest of the array is neither read nor written."""

    def step(cache, before, new):
        start = before.shape[0]
        cache[:, start : start + new.shape[1]] = new * 2
        return cache[:, : start + new.shape[1]].sum()

    sizes = {"before": {0: lw.Dim("n", max=56)}, "new": {1: lw.Dim("m", min=1, max=8)}}
    compiled = lw.compile(step, dynamic=sizes)
    rng = np.random.default_rng(0)
    for start, count in ((0, 8), (5, 3), (56, 8), (9, 1)):
        cache = rng.random((2, 64, 4)).astype("f")
        expected, args = cache.copy(), (np.zeros(start), rng.random((2, count, 4)).astype("f"))
        np.testing.assert_allclose(compiled(cache, *args), step(expected, *args), rtol=1e-5)
        np.testing.assert_array_equal(cache, expected)
    kernels = compiled.lower(cache, *args).as_text("kernels")
    assert "index_update" in kernels and "strided_set" not in kernels


def test_a_cache_that_is_written_through_views_is_changed_in_place() -> None:
    def step(cache, i, new):
        total = np.float32(0)
        for layer in range(3):
            part = cache[layer]
            part[:, i : i + 1] = new + total
            total = total + part[0].sum()
        return total

    cache, expected = np.zeros((3, 2, 64, 4), np.float32), np.zeros((3, 2, 64, 4), np.float32)
    new, i = np.arange(8, dtype=np.float32).reshape(2, 1, 4), np.int64(5)
    compiled = lw.compile(step)
    np.testing.assert_allclose(compiled(cache, i, new), step(expected, i, new))
    np.testing.assert_array_equal(cache, expected)
    program = compiled.lower(cache, i, new).as_text("program")
    assert program.count("copy @in %cache") == 1  # to itself, which is left out
    assert "update %cache with %out.1 in place" in program
