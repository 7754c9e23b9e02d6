"""A traced array is an np.ndarray to ``isinstance``, a traced Python number an int or a float."""

from __future__ import annotations

import functools
import numbers
from collections.abc import Callable
from typing import Any

import loopwright as lw
import numpy as np
import pytest

X = np.arange(6, dtype=np.float32).reshape(2, 3)


def by_isinstance(x: Any) -> Any:
    if isinstance(x, np.ndarray):
        return x + 1
    return x + 100


def by_match(x: Any) -> Any:
    match x:
        case np.ndarray():
            return x * 2
        case _:
            return x * 200


@functools.singledispatch
def dispatched(x: Any) -> Any:
    return x - 100


@dispatched.register
def _(x: np.ndarray) -> Any:
    return x - 1


def by_class(x: Any) -> Any:
    return x if issubclass(x.__class__, np.ndarray) else x * 0


def of_a_result(x: Any) -> Any:
    return by_isinstance(x.T @ x)


def of_a_list(x: Any) -> Any:
    return sum(y for y in [x, 1, x * 2] if isinstance(y, np.ndarray))


@pytest.mark.parametrize(
    "function", [by_isinstance, by_match, dispatched, by_class, of_a_result, of_a_list]
)
def test_the_branch_is_the_one_that_numpy_takes(function: Callable[[Any], Any]) -> None:
    np.testing.assert_allclose(lw.compile(function)(X), function(X), rtol=1e-6)


def kind_of_number(x: Any, scale: Any) -> Any:
    if isinstance(scale, bool):
        return x
    if isinstance(scale, int):
        return x * scale
    if isinstance(scale, float):
        return x + scale
    return x - 1


@pytest.mark.parametrize("scale", [3, 2.5, True, np.float32(2), np.ones(3, np.float32)])
def test_a_number_is_of_pythons_class(scale: Any) -> None:
    found = lw.compile(kind_of_number)(X, scale)
    np.testing.assert_allclose(found, kind_of_number(X, scale))


def test_numbers_that_are_traced_stay_traced_everywhere() -> None:
    """Our own functions look at numbers, too, and may not take a traced one for a known one."""
    uses: dict[str, Callable[[Any, Any], Any]] = {
        "clip": lambda x, n: np.clip(x, n, n + 3),
        "power": lambda x, n: x**n,
        "power of it": lambda x, n: n**x,
        "compare": lambda x, n: x.astype(np.int8) < n,
        "compare on the right": lambda x, n: n >= x.astype(np.uint8),
        "index": lambda x, n: x[:, n],
        "indices": lambda x, n: x[n, [0, n]],
        "where": lambda x, n: np.where(x > n, n, x),
        "full": lambda x, n: np.full_like(x, n),
        "maximum": lambda x, n: np.maximum(n, x),
        "of itself": lambda x, n: x * (n * 2 + n**2 - abs(-n)),
        "take": lambda x, n: np.take(x, n, axis=1),
        "stack": lambda x, n: np.stack([x, x * n]),
        "linspace": lambda x, n: lw.xp.linspace(0.0, n, 3),
        "divmod": lambda x, n: divmod(x, n)[1],
        "isinstance of numbers": lambda x, n: x * isinstance(n, numbers.Number),
    }
    for name, use in uses.items():
        np.testing.assert_allclose(lw.compile(use)(X, 1), use(X, 1), err_msg=name)


def test_what_needs_the_value_of_a_number_has_it_unless_it_is_an_array() -> None:
    uses: list[Callable[[Any, Any], Any]] = [
        lambda x, n: x.reshape(n, -1),
        lambda x, n: x.sum(axis=n),
        lambda x, n: np.repeat(x, n),
        lambda x, n: np.pad(x, n),
        lambda x, n: np.roll(x, n, axis=1),
        lambda x, n: lw.nn.softmax(x, axis=n),
        lambda x, n: np.tensordot(x, x.T, n),
        lambda x, n: np.linalg.norm(x, n, axis=1),
        lambda x, n: np.round(x, n),
        lambda x, n: np.split(x, n),
        lambda x, n: lw.xp.arange(n),
        lambda x, n: lw.xp.eye(n),
        lambda x, n: np.tri(n),
        lambda x, n: x[0] if n else x[1],
    ]
    for use in uses:
        np.testing.assert_allclose(lw.compile(use)(X, 1), use(X, 1), rtol=1e-6)
        with pytest.raises(lw.LoopwrightError) as caught:
            lw.compile(use, capture=False)(X, np.array(1))
        assert not isinstance(caught.value, lw.InternalError)
        assert caught.value.span is not None
        assert caught.value.span.file.endswith("test_proxy_class.py")


def test_a_traced_array_in_a_dataclass_reaches_an_inner_function() -> None:
    from dataclasses import dataclass

    @dataclass
    class Box:
        value: Any

    inner = lw.compile(lambda box: box.value * 2)
    np.testing.assert_array_equal(lw.compile(lambda x: inner(Box(x)))(X), X * 2)
    scalar = lw.compile(lambda x: inner(Box(x.sum())) + lw.compile(np.sqrt)(x.max()))
    np.testing.assert_allclose(scalar(X), X.sum() * 2 + np.sqrt(X.max()), rtol=1e-6)


def test_a_result_without_axes_is_a_scalar_as_in_numpy() -> None:
    seen: list[tuple[bool, ...]] = []

    @lw.compile
    def f(x: Any) -> Any:
        for value in (x, x.sum(), x[0, 0], x.sum(axis=1), x.astype(np.float64).mean()):
            seen.append(
                tuple(isinstance(value, c) for c in (np.ndarray, np.generic, np.float32, float))
            )
        return x

    f.trace(X)
    f.function(X)
    assert seen[:5] == seen[5:]
