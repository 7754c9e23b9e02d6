"""``dynamic=`` of ``lw.compile``: one trace for all sizes of an axis; sizes that do not fit."""

from __future__ import annotations

from typing import Any

import loopwright as lw
import numpy as np
import pytest


def ones(*shape: int) -> Any:
    return np.ones(shape, np.float32)


def message(error: pytest.ExceptionInfo[BaseException]) -> str:
    """The message without the user's line, which is that of the test."""
    lines = str(error.value).splitlines()
    return "\n".join(line for line in lines if ".py:" not in line and "|" not in line)


def double(x: Any) -> Any:
    return x + x


@pytest.mark.parametrize(
    "dynamic",
    [
        {"x": {0: "n"}},
        {"x": {-2: "n"}},
        {"x": ("n", None)},
        {"x": "n"},
        {"x": {0: lw.Dim("n")}},
        {"x": lw.f32["n", 4]},
        {0: {0: "n"}},
        {-1: {0: "n"}},
    ],
)
def test_ways_to_name_an_axis(dynamic: Any) -> None:
    traced = lw.compile(double, dynamic=dynamic).trace(ones(3, 4))
    assert str(traced.request) == "x: float32[n, 4]"


def test_sizes_of_one_name_are_one_size() -> None:
    f = lw.compile(lambda x, y: x + y[1:], dynamic={"x": {0: "n"}, "y": ("n + 1",)})
    assert str(f.trace(ones(3), ones(4)).request) == "x: float32[n], y: float32[n + 1]"
    with pytest.raises(lw.LoopwrightTypeError) as error:
        f.trace(ones(3), ones(5))
    assert message(error) == (
        "axis 0 of argument y of <lambda> is 5, and n + 1 is 4\n  n = 3: axis 0 of argument x"
    )


def test_arguments_in_containers() -> None:
    def f(batch: Any) -> Any:
        return batch["a"] + batch["b"][0]

    given = {"a": ones(2, 3), "b": [ones(2, 3)]}
    whole = lw.compile(f, dynamic={"batch": {0: "n"}})
    assert str(whole.trace(given).request) == (
        "batch['a']: float32[n, 3], batch['b'][0]: float32[n, 3]"
    )
    one = lw.compile(lambda batch: batch["a"] * 2, dynamic={"batch['a']": {1: "m"}})
    assert str(one.trace(given).request) == (
        "batch['a']: float32[2, m], batch['b'][0]: float32[2, 3]"
    )


def test_the_range_of_one_argument_holds_for_all() -> None:
    n = lw.Dim("n", min=1, max=64, multiple_of=8)
    traced = lw.compile(lambda x, y: (x, y)).trace(lw.f32[n], lw.f32["n", 2])
    assert str(traced.request) == "x: float32[8 * n.8], y: float32[8 * n.8, 2]"


LIMITED = lw.compile(double, dynamic={"x": {0: lw.Dim("n", min=2, max=64)}})
EIGHTS = lw.compile(double, dynamic={"x": {0: lw.Dim("n", max=64, multiple_of=8)}})


@pytest.mark.parametrize(
    ("f", "size", "text"),
    [
        (
            LIMITED,
            65,
            "axis 0 of argument x of double is 65, and n is at most 64\n"
            '  try: lw.Dim("n", max=65), or a size from 2 to 64',
        ),
        (
            LIMITED,
            1,
            "axis 0 of argument x of double is 1, and n is at least 2\n"
            '  try: lw.Dim("n", min=1), or a size from 2 to 64',
        ),
        (
            EIGHTS,
            13,
            "axis 0 of argument x of double is 13, and n is a multiple of 8\n"
            "  try: 16, padded (np.pad), or a Dim of another multiple",
        ),
        (
            EIGHTS,
            72,
            "axis 0 of argument x of double is 72, and n is at most 64\n"
            '  try: lw.Dim("n", max=72), or a size from 0 to 64',
        ),
    ],
)
def test_sizes_out_of_their_range_are_refused(f: Any, size: int, text: str) -> None:
    with pytest.raises(lw.LoopwrightValueError) as error:
        f(ones(size))
    assert message(error) == text


def test_sizes_at_their_limits_are_taken() -> None:
    for f, sizes in ((LIMITED, (2, 64)), (EIGHTS, (0, 8, 64))):
        for size in sizes:
            assert f(ones(size)).tolist() == [2] * size
        assert f.cache_info().currsize == 1


@pytest.mark.parametrize(
    ("dynamic", "text"),
    [
        (
            "sometimes",
            "dynamic is \"auto\", True, False or a dict of axes, not 'sometimes'\n"
            '  try: dynamic={"x": {0: "n"}}',
        ),
        ({"y": {0: "n"}}, "dynamic: double has no parameter 'y' (it has: x)"),
        (
            {"x": 3},
            "dynamic: the sizes of x are a dict from axes to names, or a tuple of them, not 3\n"
            "  try: {'x': {0: \"n\"}}",
        ),
    ],
)
def test_options_without_meaning_are_refused(dynamic: Any, text: str) -> None:
    with pytest.raises((TypeError, ValueError)) as error:
        lw.compile(double, dynamic=dynamic)
    assert message(error) == text


@pytest.mark.parametrize(
    ("dynamic", "text"),
    [
        ({"x": {2: "n"}}, "dynamic: x of double has no axis 2: it has 2"),
        ({"x['w']": {0: "n"}}, "dynamic: double has no argument x['w'] in this call (it has: x)"),
        (
            {"x": {0: "n * m"}},
            "double: no axis says what the size m is: it only stands in m * n\n"
            '  try: an argument with an axis "m", or another name for the whole',
        ),
        (
            {"x": (lw.Dim("n", max=4), lw.Dim("n", min=8))},
            "double: the ranges of the size n in different arguments do not meet",
        ),
    ],
)
def test_options_that_do_not_fit_a_call_are_refused(dynamic: Any, text: str) -> None:
    with pytest.raises((TypeError, ValueError)) as error:
        lw.compile(double, dynamic=dynamic)(ones(3, 4))
    assert message(error) == text


@pytest.mark.parametrize(
    "limits", [{"min": 3, "max": 2}, {"min": -1}, {"multiple_of": 0}, {"max": 2**31}]
)
def test_dims_without_values_are_refused(limits: Any) -> None:
    with pytest.raises(lw.LoopwrightValueError, match="the size n has no values"):
        lw.Dim("n", **limits)


def test_a_size_with_a_multiple_is_named_as_the_user_names_it() -> None:
    rows = lw.Dim("rows", multiple_of=8)
    f = lw.compile(lambda x, y: x + y, dynamic={"x": {0: rows}, "y": {0: rows}})
    with pytest.raises(lw.LoopwrightTypeError) as caught:
        f(np.ones((16, 3)), np.ones((8, 3)))
    assert caught.value.message.endswith("is 8, and rows is 16")
    assert "rows = 16: axis 0 of argument x" in str(caught.value)
