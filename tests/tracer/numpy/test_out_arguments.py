"""``out=`` of every function that has it: by name and by place, into arrays of every origin."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from operator import attrgetter
from typing import Any

import loopwright as lw
import numpy as np
import pytest
from loopwright.tracer.core.dispatch import FUNCTIONS, implementation_of

X = np.linspace(-2, 2, 24).reshape(4, 6)
M = X[:, :4] + 5 * np.eye(4)
ROW = np.array([1, -1, 2, 0, 3, 1])

CALLS: dict[str, tuple[Any, ...]] = {
    **dict.fromkeys(("all", "any", "amax", "amin", "max", "min", "ptp"), (X, 0)),
    **dict.fromkeys(("argmax", "argmin", "nanargmax", "nanargmin"), (X, 1)),
    **dict.fromkeys(("median", "nanmax", "nanmedian", "nanmin"), (X, 0)),
    **dict.fromkeys(("cumprod", "cumsum", "nancumprod", "nancumsum"), (X, 1, None)),
    **dict.fromkeys(("mean", "nanmean", "nanprod", "nanstd", "nansum"), (X, 0, None)),
    **dict.fromkeys(("nanvar", "prod", "std", "sum", "var"), (X, 0, None)),
    **dict.fromkeys(("percentile", "nanpercentile"), (X, 40, 0)),
    **dict.fromkeys(("quantile", "nanquantile"), (X, 0.3, 1)),
    **dict.fromkeys(("round", "around"), (X, 1)),
    **dict.fromkeys(("fix", "isneginf", "isposinf"), (X,)),
    **dict.fromkeys(("concat", "concatenate", "stack"), ((X, X + 1), 0)),
    **dict.fromkeys((f"fft.{f}fft" for f in ("", "i", "r", "ir", "h", "ih")), (X, None, 1, None)),
    **dict.fromkeys((f"fft.{f}fftn" for f in ("", "i", "r", "ir")), (X, None, None, None)),
    **dict.fromkeys((f"fft.{f}fft2" for f in ("", "i", "r", "ir")), (X, None, (0, 1), None)),
    "choose": (ROW % 2, (X[0], X[1])),
    "clip": (X, -1, 1),
    "dot": (M, X),
    "outer": (X[0], X[1]),
    "take": (X, ROW, 1),
    "trace": (M, 0, 0, 1, None),
}
"""Arguments of functions, up to ``out``."""

BY_NAME: dict[str, tuple[Any, ...]] = {
    "cumulative_prod": (X[0],),
    "cumulative_sum": (X[0],),
    "einsum": ("ij,kj->ik", X, X),
    "linalg.multi_dot": ((M, X, X.T),),
}
"""Of functions whose ``out`` has no place."""

SIZED_BY_VALUES = {np.compress}
"""Functions whose results have a size that no ``out`` is known to have."""

METHODS = [name for name in CALLS if hasattr(np.ndarray, name) and name != "choose"]


def with_out(function: Callable[..., Any]) -> bool:
    """Returns whether NumPy's ``function`` has a parameter ``out``."""
    try:
        return "out" in inspect.signature(function).parameters
    except ValueError:
        return False


def function_of(name: str) -> Callable[..., Any]:
    return attrgetter(name)(np)


def test_every_function_with_out_is_tried() -> None:
    for late in (np.linalg.norm, np.fft.fft):  # modules of the tracer that are loaded for them
        implementation_of(late)
    named = {function for function in FUNCTIONS if with_out(function)}
    tried = {function_of(name) for name in (*CALLS, *BY_NAME)}
    assert {f.__name__ for f in named - tried - SIZED_BY_VALUES} == set()


def check(call: Callable[..., Any], args: tuple[Any, ...]) -> None:
    """The result lies in ``out``: an array of the function's own, one of the caller's, a view."""
    expected = np.asarray(call(*args))

    def made(args: Any, into: Any) -> Any:
        out = np.full(expected.shape, 7, expected.dtype)
        result = call(*args, out)
        wide = np.zeros((2, *expected.shape), expected.dtype)
        call(*args, wide[1, ...])
        call(*args, into)
        return out, result, wide

    into = np.empty_like(expected)
    for array in (*lw.compile(made)(args, into)[:2], into):
        np.testing.assert_allclose(array, expected, rtol=1e-12)
        assert array.dtype == expected.dtype
    wide = lw.compile(made)(args, into)[2]
    np.testing.assert_allclose(wide, [np.zeros_like(expected), expected], rtol=1e-12)


@pytest.mark.parametrize("name", CALLS)
def test_out_by_place(name: str) -> None:
    check(function_of(name), CALLS[name])


@pytest.mark.parametrize("name", [*CALLS, *BY_NAME])
def test_out_by_name(name: str) -> None:
    function = function_of(name)
    args = {**CALLS, **BY_NAME}[name]

    def by_name(*given: Any) -> Any:
        return function(*given) if len(given) == len(args) else function(*given[:-1], out=given[-1])

    check(by_name, args)


@pytest.mark.parametrize("name", METHODS)
def test_out_of_methods_by_place(name: str) -> None:
    check(lambda x, *rest: getattr(x, name)(*rest), CALLS[name])


@pytest.mark.parametrize("name", ["sum", "std", "cumsum", "clip", "round", "dot"])
def test_out_of_an_array_of_numpys_that_takes_traced_arguments(name: str) -> None:
    args = {"clip": (0, 1), "round": (1,), "dot": (M,)}.get(name, (0,))

    def into_traced(x: Any, ids: Any) -> Any:
        taken, out = M.take(ids), x * 0 + 7
        into = out[0] if name in ("sum", "std") else out
        returned = getattr(M, name)(*args, out=into)
        return out, returned, taken

    ids = np.array([3, 0])
    for actual, wanted in zip(lw.compile(into_traced)(M, ids), into_traced(M, ids), strict=True):
        np.testing.assert_allclose(actual, wanted, rtol=1e-12)


def test_choices_of_the_method_may_be_many_arguments_of_which_none_is_out() -> None:
    def chosen(places: Any, x: Any) -> Any:
        return places.choose(x[0], x[1]), places.choose((x[0], x[1])), x

    for actual, wanted in zip(lw.compile(chosen)(ROW % 2, X), chosen(ROW % 2, X), strict=True):
        np.testing.assert_array_equal(actual, wanted)
