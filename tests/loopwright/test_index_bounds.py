"""Indices out of range: NumPy's IndexError, or clipped where checks are switched off."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import loopwright as lw
import loopwright.debug
import numpy as np
import pytest

TABLE = np.arange(28, dtype=np.float32).reshape(7, 4)
USES: dict[str, Callable[[Any, Any], Any]] = {
    "x[i]": lambda x, i: x[i],
    "x[:, i]": lambda x, i: x[:, i],
    "x[i, j]": lambda x, i: x[i, i % 4],
    "take": lambda x, i: np.take(x, i, axis=0),
    "take of all": lambda x, i: x.take(i),
    "take_along_axis": lambda x, i: np.take_along_axis(x[:3], i[:, None], axis=1),
    "a table": lambda x, i: TABLE[i] + x[0],
    "computed": lambda x, i: x[i * 2 - 1],
    "several": lambda x, i: (x[i], {"y": x.sum()}, x.T[i // 2]),
    "then written": lambda x, i: written(x, i),
}


def written(x: Any, i: Any) -> Any:
    picked = x[i]
    x[0] = 0
    return picked


def outcome(call: Callable[[], Any]) -> Any:
    try:
        result = call()
    except IndexError as error:
        if isinstance(error, lw.LoopwrightError):
            assert error.span is not None and "test_index_bounds" in error.span.file
            assert error.source and "^" in error.source[-1]
        return "IndexError"
    leaves = result if isinstance(result, tuple) else (result,)
    return [np.asarray(v["y"] if isinstance(v, dict) else v).tolist() for v in leaves]


@pytest.mark.parametrize("use", USES)
def test_checked_code_raises_where_numpy_does(use: str) -> None:
    function, rng = USES[use], np.random.default_rng(0)
    f = lw.compile(function)
    lowered = f.lower(TABLE, np.zeros(3, np.int64)).compile()
    for _ in range(12):
        i = rng.integers(-9, 9, 3)
        wanted = outcome(lambda i=i: function(TABLE.copy(), i))
        assert outcome(lambda i=i: f(TABLE.copy(), i)) == wanted, i
        assert outcome(lambda i=i: lowered(TABLE.copy(), i)) == wanted, i


def test_the_message_names_the_index_and_the_size() -> None:
    f = lw.compile(lambda x, i: x.T[1, i])
    for value in (7, -8):
        with pytest.raises(lw.LoopwrightIndexError) as caught:
            f(TABLE, np.array([0, value, 1]))
        assert caught.value.message == f"index {value} is out of bounds for axis 0 with size 7"


def test_nothing_is_written_by_a_call_that_fails() -> None:
    x = TABLE.copy()
    with pytest.raises(lw.LoopwrightIndexError):
        lw.compile(written)(x, np.array([9]))
    np.testing.assert_array_equal(x, TABLE)


@pytest.mark.parametrize("dtype", ["int8", "int32", "int64", "uint8", "uint64"])
def test_the_farthest_index_of_every_dtype_is_looked_at(dtype: str) -> None:
    f = lw.compile(lambda x, i: x[i])
    limits = np.iinfo(dtype)
    for value in (0, 6, 7, -7, -8, limits.min, limits.max):
        if value < limits.min:
            continue
        i = np.array([1, value, 0], dtype)
        inside = -7 <= value < 7
        assert (outcome(lambda i=i: f(TABLE, i)) != "IndexError") == inside, value
        assert (outcome(lambda i=i: f(TABLE, i[1])) != "IndexError") == inside, value


def counted(x: Any, i: Any, most: int = 7) -> Any:
    def step(state: Any) -> Any:
        return state[0] + 1, state[1] + x[state[0]]

    return lw.while_loop(lambda state: state[0] < most, step, (0, x[0]))[1]


def searched(x: Any, i: Any) -> Any:
    def halve(ends: Any) -> Any:
        middle = (ends[0] + ends[1]) // 2
        right = x[middle, 0] < i[1]
        return np.where(right, middle + 1, ends[0]), np.where(right, ends[1], middle)

    return lw.while_loop(lambda ends: ends[0] < ends[1], halve, (0, 7))[0]


def in_a_branch(x: Any, i: Any) -> Any:
    return lw.cond((i[0] >= 0) & (i[0] < 7), lambda: x[i[0]], lambda: x[0])


Y = np.random.default_rng(0).standard_normal((5, 7))
PROVED: dict[str, Callable[[Any, Any], Any]] = {
    "% n": lambda x, i: x[i % x.shape[0]],
    "clip": lambda x, i: x[np.clip(i, -7, 6)],
    "minimum": lambda x, i: x[np.minimum(np.maximum(i, 0), 6)],
    "where": lambda x, i: x[np.where((i >= 0) & (i < 7), i, 0)],
    "where not": lambda x, i: x[np.where((i < 0) | (i > 6), 0, i)],
    "argmax": lambda x, i: x[np.argmax(Y * x[0, 0], axis=1)],
    "argsort": lambda x, i: x[np.argsort(x[:, 0])[::-1][:3]],
    "take_along_axis": lambda x, i: np.take_along_axis(x, np.argsort(x, axis=1), axis=1),
    "arange": lambda x, i: x[np.arange(i.size) + 2],
    "sum of two": lambda x, i: x[(i % 3)[:, None] + i % 5],
    "bits": lambda x, i: x[i & 3],
    "a comparison": lambda x, i: x[(i > 3).astype(int)],
    "nonzero": lambda x, i: x[np.nonzero(x[:, 0] > 2)[0]],
    "a loop": lambda x, i: lw.fori_loop(1, 6, lambda k, c: c + x[k - 1] + x[k + 1], x[0]),
    "a counter": counted,
    "binary search": searched,
    "a branch": in_a_branch,
}
OPEN: dict[str, Callable[[Any, Any], Any]] = {
    "% more": lambda x, i: x[i % 8],
    "clip": lambda x, i: x[np.clip(i, -8, 6)],
    "minimum": lambda x, i: x[np.minimum(i, 6)],
    "where": lambda x, i: x[np.where(i < 7, i, 0)],
    "difference": lambda x, i: x[(i % 15)[:, None] - i % 15],
    "reversed": lambda x, i: x[(i % 9) - (i % 9)[::-1]],
    "wraps": lambda x, i: x[(i % 7).astype(np.int8) * np.int8(100)],
    "unsigned": lambda x, i: x[(i % 7).astype(np.uint32) - np.uint32(1)],
    "a loop": lambda x, i: lw.fori_loop(0, 7, lambda k, c: c + x[k + 1], x[0]),
    "a counter": lambda x, i: counted(x, i, 8),
}


@pytest.mark.parametrize("name", PROVED)
def test_an_index_that_is_certain_costs_no_check(name: str) -> None:
    compiled, i = lw.compile(PROVED[name]), np.array([3, 25, -30])
    assert "raise_failed" not in compiled.lower(TABLE, i).as_text("program")
    np.testing.assert_array_equal(compiled(TABLE, i), PROVED[name](TABLE, i))


@pytest.mark.parametrize("name", OPEN)
def test_an_index_that_is_not_certain_is_checked(name: str) -> None:
    compiled = lw.compile(OPEN[name])
    for i in np.array([[0, 0, 0], [7, 14, 7], [3, 25, -30], [-9, 8, 7], [-8, -1, 1]]):
        assert outcome(lambda i=i: compiled(TABLE, i)) == outcome(lambda i=i: OPEN[name](TABLE, i))


@pytest.mark.parametrize("mode", ["clip", "wrap"])
def test_modes_that_allow_any_index_are_not_checked(mode: str) -> None:
    i = np.array([-20, 3, 20])
    f = lw.compile(lambda x, i: np.take(x, i, axis=0, mode=mode))
    np.testing.assert_array_equal(f(TABLE, i), np.take(TABLE, i, axis=0, mode=mode))


def test_an_index_is_clipped_where_checks_are_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOOPWRIGHT_CHECK_INDEX", "0")
    f = lw.compile(lambda x, i: x[i])
    np.testing.assert_array_equal(f(TABLE, np.array([20, -20, -1])), TABLE[[6, 0, -1]])


def test_the_debugger_always_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOOPWRIGHT_CHECK_INDEX", "0")
    f = lw.compile(lambda x, i: np.exp(x[i]).sum(axis=0))
    assert not lw.debug.compare(f, TABLE, np.array([1, -7, 6])).differs
    with pytest.raises(lw.LoopwrightIndexError, match="index 7 is out of bounds for axis 0"):
        lw.debug.compare(f, TABLE, np.array([1, 7]))


def test_an_index_that_is_known_once_a_loop_is_unrolled() -> None:
    def program(n: Any) -> Any:
        last = lw.fori_loop(0, 3, lambda i, c: i, n)
        return lw.xp.ones(2)[last]

    with pytest.raises(IndexError, match="index 2 is out of bounds"):
        lw.compile(program)(np.int64(1))
