"""Indices out of range: clipped in compiled code, NumPy's IndexError where they are checked."""

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
def test_checked_code_raises_where_numpy_does(use: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOOPWRIGHT_CHECK_INDEX", "1")
    function, rng = USES[use], np.random.default_rng(0)
    f = lw.compile(function)
    lowered = f.lower(TABLE, np.zeros(3, np.int64)).compile()
    for _ in range(12):
        i = rng.integers(-9, 9, 3)
        wanted = outcome(lambda i=i: function(TABLE.copy(), i))
        assert outcome(lambda i=i: f(TABLE.copy(), i)) == wanted, i
        assert outcome(lambda i=i: lowered(TABLE.copy(), i)) == wanted, i


def test_the_message_names_the_index_and_the_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOOPWRIGHT_CHECK_INDEX", "1")
    f = lw.compile(lambda x, i: x.T[1, i])
    for value in (7, -8):
        with pytest.raises(lw.LoopwrightIndexError) as caught:
            f(TABLE, np.array([0, value, 1]))
        assert caught.value.message == f"index {value} is out of bounds for axis 0 with size 7"


def test_nothing_is_written_by_a_call_that_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOOPWRIGHT_CHECK_INDEX", "1")
    x = TABLE.copy()
    with pytest.raises(lw.LoopwrightIndexError):
        lw.compile(written)(x, np.array([9]))
    np.testing.assert_array_equal(x, TABLE)


@pytest.mark.parametrize("mode", ["clip", "wrap"])
def test_modes_that_allow_any_index_are_not_checked(
    mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOOPWRIGHT_CHECK_INDEX", "1")
    i = np.array([-20, 3, 20])
    f = lw.compile(lambda x, i: np.take(x, i, axis=0, mode=mode))
    np.testing.assert_array_equal(f(TABLE, i), np.take(TABLE, i, axis=0, mode=mode))


def test_without_the_setting_an_index_is_clipped() -> None:
    f = lw.compile(lambda x, i: x[i])
    np.testing.assert_array_equal(f(TABLE, np.array([20, -20, -1])), TABLE[[6, 0, -1]])


def test_the_debugger_always_checks() -> None:
    f = lw.compile(lambda x, i: np.exp(x[i]).sum(axis=0))
    assert not lw.debug.compare(f, TABLE, np.array([1, -7, 6])).differs
    with pytest.raises(lw.LoopwrightIndexError, match="index 7 is out of bounds for axis 0"):
        lw.debug.compare(f, TABLE, np.array([1, 7]))
