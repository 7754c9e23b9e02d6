"""Every attribute of NumPy's arrays, on traced ones: of the same kind, or an error at the line."""

from __future__ import annotations

from typing import Any

import loopwright as lw
import numpy as np
import pytest
from loopwright.tracer import Proxy

ARRAY = np.arange(12, dtype=np.float32).reshape(3, 4)


@pytest.mark.parametrize("name", [n for n in dir(np.ndarray) if not n.startswith("__")])
def test_an_attribute_is_of_the_kind_that_numpy_has(name: str) -> None:
    seen: list[bool] = []

    @lw.compile
    def f(x: Any) -> Any:
        seen.append(callable(getattr(x, name)))
        return x

    try:
        f.trace(ARRAY)
    except lw.LoopwrightError as error:
        assert isinstance(error, AttributeError)
        assert error.span is not None and "test_proxy_attributes.py" in error.span.file
        return
    assert seen[0] == callable(getattr(ARRAY, name))


def test_a_proxy_has_no_name_of_its_own_where_numpy_has_one() -> None:
    assert not set(Proxy.__slots__) & set(dir(np.ndarray))


@pytest.mark.parametrize("offset", [-1, 0, 2])
def test_the_trace_of_a_matrix(offset: int) -> None:
    f = lw.compile(lambda x: x.trace(offset))
    np.testing.assert_allclose(f(ARRAY), ARRAY.trace(offset))


@pytest.mark.parametrize(
    "function",
    [lambda x: f"{x[0]}", lambda x: str(x), "{}".format, lambda x: repr([x]) + "!"],
)
def test_text_of_a_traced_array_is_refused(function: Any) -> None:
    with pytest.raises(lw.LoopwrightTypeError, match="format"):
        lw.compile(lambda x: (x, len(function(x))))(np.ones(2))


@pytest.mark.parametrize(
    "array",
    [np.ones((3, 4)), np.ones((4, 3), np.float32).T, np.ones((6, 8))[::2, ::2], np.ones(5)[::-1]],
)
def test_strides_are_bytes_of_the_array_as_placed(array: Any) -> None:
    assert lw.compile(lambda x: x + x.strides[-1])(array)[0].tolist() == (
        (array + array.strides[-1])[0].tolist()
    )


def test_windows_by_strides() -> None:
    def windows(x: Any) -> Any:
        return np.lib.stride_tricks.as_strided(x, (x.size - 2, 3), (x.strides[0],) * 2) * 2

    x = np.arange(8.0)
    assert lw.compile(windows)(x).tolist() == windows(x).tolist()
    matrix = np.arange(6.0).reshape(2, 3)
    with pytest.raises(lw.LoopwrightError, match="C order"):
        lw.compile(lambda x: np.lib.stride_tricks.as_strided(x.T, (3, 2), (8, 8)) * 2)(matrix)


def test_errors_of_floats_are_raised_where_the_function_asks_for_them() -> None:
    def quotient(x: Any) -> Any:
        with np.errstate(all="raise"):
            return 1 / x

    with pytest.raises(FloatingPointError, match=r"divide by zero.*\n.*in quotient"):
        lw.compile(quotient)(np.zeros(2))
    with np.errstate(divide="raise"), pytest.raises(lw.LoopwrightError, match="errstate"):
        lw.compile(lambda x: 1 / x)(np.zeros(3))
    with np.errstate(divide="ignore"):
        assert lw.compile(lambda x: 1 / x)(np.zeros(2)).tolist() == [np.inf, np.inf]


@pytest.mark.parametrize("dtype", ["int8", "int64"])
def test_integers_to_negative_powers_raise(dtype: str) -> None:
    f = lw.compile(lambda x, y: x**y)
    x = np.arange(1, 5).astype(dtype)
    assert f(x, x).tolist() == (x**x).tolist()
    with pytest.raises(ValueError, match="negative integer powers"):
        f(x, x - 3)
    with pytest.raises(ValueError, match="cannot include zero"):
        lw.compile(lambda x: np.geomspace(x, 8, 4))(x - 1)
