"""Axes that become symbolic by themselves, and cases of comparisons: what is compiled, and why."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import loopwright as lw
import numpy as np
import pytest


def ones(*shape: int) -> Any:
    return np.ones(shape, np.float32)


def lines(error: pytest.ExceptionInfo[BaseException]) -> list[str]:
    return str(error.value).splitlines()


def test_the_third_size_of_an_axis_is_compiled_for_all(capfd: pytest.CaptureFixture[str]) -> None:
    @lw.compile
    def f(x: Any) -> Any:
        return x * 2 + 1

    for size in (5, 7, 9, 11, 200, 5):
        np.testing.assert_array_equal(f(ones(size, 4)), np.full((size, 4), 3, np.float32))
    info = f.cache_info()
    assert info.signatures == ("x: float32[5, 4]", "x: float32[7, 4]", "x: float32[x_0, 4]")
    assert info.reasons[2] == "x: float32[7, 4] became float32[x_0, 4], for all sizes"
    said = "loopwright: f: x: float32[7, 4] became float32[x_0, 4], for all sizes"
    assert capfd.readouterr().err.splitlines() == [said]
    for size in (5, 7, 9, 11):
        f(ones(size, 4).astype(np.float64))
    assert "float64[x_0, 4]" in f.cache_info().signatures[-1]
    assert not capfd.readouterr().err  # once for a function


def test_sizes_0_and_1_stay_what_they_are() -> None:
    f = lw.compile(lambda x, y: x + y)
    for size in (5, 7, 9):
        f(ones(size), ones(size))
    assert f(ones(6), ones(1)).tolist() == [2] * 6
    assert f(ones(0), ones(0)).shape == (0,)
    assert f(ones(1), ones(1)).tolist() == [2]
    assert f(ones(8), ones(8)).tolist() == [2] * 8
    assert f.cache_info().signatures == (
        "x: float32[5], y: float32[5]",
        "x: float32[7], y: float32[7]",
        "x: float32[x_0], y: float32[y_0]",
        "x: float32[x_0], y: float32[1]",
        "x: float32[0], y: float32[0]",
        "x: float32[1], y: float32[1]",
    )


def test_what_is_wrong_is_said_of_the_sizes_of_the_call() -> None:
    f = lw.compile(lambda x, y: x + y)
    for size in (5, 7, 9):
        f(ones(size), ones(size))
    with pytest.raises(lw.LoopwrightTypeError) as error:
        f(ones(3), ones(4))
    assert lines(error)[0] == (
        "add: operands float32[3] and float32[4] do not broadcast, sizes 3 and 4 differ"
    )


def test_false_turns_it_off() -> None:
    f = lw.compile(lambda x: x + 1, dynamic=False)
    for size in (5, 7, 9):
        f(ones(size))
    assert f.cache_info().currsize == 3
    assert f.options()["dynamic"] is False


def test_true_does_it_at_the_first_call() -> None:
    f = lw.compile(lambda x: x + 1, dynamic=True)
    for shape in ((5, 1), (6, 1)):
        assert f(ones(*shape)).shape == shape
    assert f.cache_info().signatures == ("x: float32[x_0, 1]",)


@pytest.mark.parametrize(
    "body", [lambda x: sum(x[i] for i in range(x.shape[0])), lambda x: x * int(x.shape[0])]
)
def test_a_size_that_python_needs_stays_as_it_is(body: Any) -> None:
    f = lw.compile(body)
    for size in (3, 4, 5, 6):
        np.testing.assert_array_equal(f(ones(size, size)), body(ones(size, size)))
    assert f.cache_info().signatures[2:] == ("x: float32[5, x_1]", "x: float32[6, x_1]")


def test_errors_of_the_function_do_not_turn_it_off() -> None:
    @lw.compile
    def f(x: Any) -> Any:
        if x.shape[0] % 2 == 0:
            raise RuntimeError("even")
        return x + 1

    for size in (3, 5, 4, 7, 9):
        if size == 4:
            with pytest.raises(RuntimeError, match="even"):
                f(ones(size))
        else:
            f(ones(size))
    assert f.cache_info().signatures[-1] == "x: float32[x_0]"


def test_each_branch_is_compiled_once() -> None:
    @lw.compile(dynamic={"x": {0: "n"}})
    def f(x: Any) -> Any:
        return x + 1 if x.shape[0] > 8 else x - 1

    for size in (3, 9, 5, 10, 0, 8):
        np.testing.assert_array_equal(f(ones(size)), np.full(size, 2.0 if size > 8 else 0.0))
    info = f.cache_info()
    assert info.signatures == ("x: float32[n]", "x: float32[n]")
    assert info.reasons == ("first call", "n = 9: comparisons of sizes come out in another way")


def test_a_size_that_is_not_as_required_is_refused() -> None:
    def f(x: Any, y: Any) -> Any:
        return x + y

    added = lw.compile(f, dynamic={"x": {0: "n"}, "y": {0: "m"}})
    assert added(ones(4), ones(4)).tolist() == [2] * 4
    with pytest.raises(lw.LoopwrightValueError) as error:
        added(ones(4), ones(5))
    said = lines(error)
    assert said[0] == (
        "add: operands float32[n] and float32[m] do not broadcast, sizes n and m differ: "
        "n == m is needed, and n = 4, m = 5"
    )
    assert "test_automatic_sizes.py:" in said[1] and said[1].endswith(", in f")
    assert said[-2:] == [
        "  n : axis 0 of argument x, float32[n]",
        "  m : axis 0 of argument y, float32[m]",
    ]


def test_a_file_keeps_what_sizes_have_to_be(tmp_path: Path) -> None:
    def f(x: Any) -> Any:
        return (x + 1 if x.shape[0] > 2 else x), x.shape[0]

    n = lw.Dim("n", min=1, max=64)
    lw.compile(f).lower(lw.f32[n, 4]).save(tmp_path / "f.lw")
    loaded = lw.load(tmp_path / "f.lw")
    result, size = loaded(ones(64, 4))
    assert result.shape == (64, 4) and type(size) is int and size == 64
    assert loaded.run({"x": ones(5, 4)})["0"].shape == (5, 4)
    for given, line in (
        (2, "f was traced for other sizes: 2 < n decided a branch, and n = 2"),
        (65, "axis 0 of argument x of f is 65, and n is at most 64"),
    ):
        for call in (loaded, lambda x: loaded.run({"x": x})):
            with pytest.raises(lw.LoopwrightValueError) as error:
                call(ones(given, 4))
            assert lines(error)[0] == line


def test_code_for_one_branch_refuses_sizes_for_the_other() -> None:
    def f(x: Any) -> Any:
        return x + 1 if x.shape[0] > 8 else x - 1

    code = lw.compile(f, dynamic={"x": {0: "n"}}).lower(ones(3))
    assert code(ones(8)).tolist() == [0] * 8
    with pytest.raises(lw.LoopwrightValueError) as error:
        code(ones(40))
    said = lines(error)
    assert said[0] == "f was traced for other sizes: n <= 8 decided a branch, and n = 40"
    assert said[2].endswith("return x + 1 if x.shape[0] > 8 else x - 1")
    assert said[-2:] == [
        "  n : axis 0 of argument x, float32[n]",
        "  try: call the function itself, which compiles for either branch",
    ]
