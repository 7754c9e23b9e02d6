"""``out=`` and ``donate_argnames``: results in memory that the caller gives."""

from __future__ import annotations

import tracemalloc
from typing import Any

import loopwright as lw
import numpy as np
import pytest
from loopwright.codegen.runtime.buffers import idle_bytes


def _oscillator(state, dt):
    p, v = state["p"], state["v"]
    return {"p": p + dt * v, "v": v - dt * p}


def _start(n: int = 5000) -> dict[str, Any]:
    return {"p": np.linspace(0, 1, n), "v": np.ones(n)}


def test_a_loop_over_a_donated_state_allocates_nothing() -> None:
    step = lw.compile(_oscillator, donate_argnames="state")
    state, wanted = _start(), _start()
    arrays = list(state.values())
    state, wanted = step(state, 0.1), _oscillator(wanted, 0.1)
    idle = idle_bytes()
    tracemalloc.start()
    for _ in range(200):
        state, wanted = step(state, 0.1), None
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 5000  # objects of Python, no array
    assert idle_bytes() == idle
    assert [a is b for a, b in zip(state.values(), arrays, strict=True)] == [True, True]


def test_donated_results_are_right() -> None:
    step = lw.compile(_oscillator, donate_argnames=("state",))
    state, wanted = _start(), _start()
    for _ in range(3):
        state, wanted = step(state, 0.1), _oscillator(wanted, 0.1)
    for name, value in wanted.items():
        np.testing.assert_allclose(state[name], value)


def test_results_that_are_donated_arguments_keep_their_values() -> None:
    f = lw.compile(lambda x, y: (x * 2, x, y[::-1], 5), donate_argnames=("x", "y"))
    x, y = np.arange(3.0), np.arange(3.0) + 7
    a, b, c, d = f(x, y)
    np.testing.assert_array_equal(np.stack([a, b, c]), [[0, 2, 4], [0, 1, 2], [9, 8, 7]])
    assert d == 5 and b is not a is not c
    assert lw.compile(lambda x: x, donate_argnames="x")(x) is not None


def test_another_type_takes_memory_of_its_own() -> None:
    f = lw.compile(lambda x: (x.sum(), x.astype(np.float32)), donate_argnames="x")
    x = np.arange(4.0)
    total, narrow = f(x)
    assert total == 6 and narrow.dtype == np.float32
    np.testing.assert_array_equal(x, np.arange(4.0))


def test_a_result_is_written_into_given_arrays() -> None:
    f = lw.compile(lambda x, y: (x @ y, {"sum": x.sum()}))
    x, y = np.arange(6.0).reshape(2, 3), np.ones((3, 4))
    out = np.empty((2, 4)), {"sum": np.empty(())}
    for _ in range(2):
        result = f(x, y, out=out)
        assert result[0] is out[0] and result[1]["sum"] is out[1]["sum"]
        np.testing.assert_allclose(out[0], x @ y)
        assert out[1]["sum"] == 15
    strided = np.zeros((2, 8))
    f(x, y, out=(strided[:, ::2], out[1]), threads=1)
    np.testing.assert_allclose(strided[:, ::2], x @ y)


def test_an_argument_may_be_out() -> None:
    f = lw.compile(lambda x: np.cumsum(x)[::-1] * x)
    x = np.arange(4.0)
    wanted = np.cumsum(x)[::-1] * x
    assert f(x, out=x) is x
    np.testing.assert_array_equal(x, wanted)


def test_out_while_another_function_is_traced() -> None:
    inner = lw.compile(lambda x: x + 1)

    @lw.compile
    def outer(x):
        y = np.zeros_like(x)
        inner(x, out=y)
        return y * 2

    np.testing.assert_array_equal(outer(np.arange(3.0)), [2, 4, 6])


def test_a_parameter_called_out_is_one() -> None:
    f = lw.compile(lambda x, out: x + out)
    assert f(np.ones(1), out=np.ones(1)) == 2


READ_ONLY = np.zeros(4)
READ_ONLY.flags.writeable = False


@pytest.mark.parametrize(
    ("out", "message"),
    [
        (np.empty(3), r"out is float64\[3\], and the result is float64\[4\]"),
        (np.empty(4, np.float32), r"out is float32\[4\], and the result is float64\[4\]"),
        ((np.empty(4),), "other containers than the result"),
        (np.float64(3), "has to be an array"),
        (READ_ONLY, "read-only"),
    ],
)
def test_arrays_that_cannot_take_the_result(out: Any, message: str) -> None:
    with pytest.raises(lw.LoopwrightError, match=message):
        lw.compile(lambda x: x + 1)(np.ones(4), out=out)


def test_memory_that_another_argument_has_part_of() -> None:
    x = np.ones(5)
    with pytest.raises(lw.LoopwrightValueError, match="out is changed, and x shares memory"):
        lw.compile(lambda x: x + 1)(x[:4], out=x[1:])
    with pytest.raises(lw.LoopwrightValueError, match="x is changed, and y shares memory"):
        lw.compile(lambda x, y: x + y, donate_argnames="x")(x[:4], x[1:])
    with pytest.raises(lw.LoopwrightValueError, match="read-only"):
        lw.compile(lambda x: x + 1, donate_argnames="x")(READ_ONLY)
    with pytest.raises(lw.LoopwrightValueError, match="no argument 'z'"):
        lw.compile(lambda x: x + 1, donate_argnames="z")
