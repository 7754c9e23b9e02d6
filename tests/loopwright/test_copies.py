"""Compiled functions as functions: pickles, copies, signatures, docstrings, partial."""

from __future__ import annotations

import copy
import functools
import inspect
import pickle
from typing import Any

import loopwright as lw
import numpy as np
import pytest

X = np.arange(6, dtype=np.float32).reshape(2, 3)


@lw.compile
def doubled(x: Any, scale: float = 2.0) -> Any:
    """Doubles."""
    return x * scale


def plain(x: Any, axis: int = 0) -> Any:
    return x.sum(axis)


class Model:
    def __init__(self) -> None:
        self.w = np.ones(3, np.float32)
        self.step = lw.compile(self.apply)

    def apply(self, x: Any) -> Any:
        return x * self.w

    @lw.compile
    def method(self, x: Any) -> Any:
        return x + self.w


def test_a_decorated_function_is_pickled_by_name() -> None:
    doubled(X)
    text = pickle.dumps(doubled)
    assert len(text) < 100
    assert pickle.loads(text) is doubled
    assert pickle.loads(pickle.dumps(Model.method)) is Model.method
    assert copy.copy(doubled) is doubled and copy.deepcopy(doubled) is doubled


def test_a_compiled_function_is_pickled_with_its_options() -> None:
    f = lw.compile(static_argnames="axis", threads=1)(plain)
    again = pickle.loads(pickle.dumps(f))
    assert again is not f and again.function is plain and again.threads == 1
    assert again.options() == f.options()
    assert again(X, 1).tolist() == X.sum(1).tolist()
    other = pickle.loads(pickle.dumps(doubled.with_threads(1)))
    assert other.threads == 1 and other(X).tolist() == (X * 2).tolist()


def test_what_has_no_name_is_refused() -> None:
    with pytest.raises((pickle.PicklingError, AttributeError)):
        pickle.dumps(lw.compile(lambda x: x))
    module = lw.build("def @main(%x: Tensor[(2), float32]) { add(%x, %x) }")
    with pytest.raises((pickle.PicklingError, AttributeError)):
        pickle.dumps(module)


def test_a_copied_object_has_functions_of_its_own() -> None:
    model = Model()
    model.step(X)
    other = copy.deepcopy(model)
    other.w[...] = 5
    assert other.step(X).tolist() == (X * 5).tolist()
    assert model.step(X).tolist() == X.tolist()
    assert other.method(X).tolist() == (X + 5).tolist()


def test_it_looks_like_its_function() -> None:
    assert inspect.signature(doubled) == inspect.signature(doubled.function)
    assert (doubled.__doc__, doubled.__name__, doubled.__module__) == (
        "Doubles.",
        "doubled",
        __name__,
    )
    assert inspect.unwrap(doubled) is doubled.function
    assert functools.partial(doubled, scale=3.0)(X).tolist() == (X * 3).tolist()
    f = lw.compile(functools.partial(plain, axis=1))
    assert f(X).tolist() == X.sum(1).tolist()
    assert str(inspect.signature(f)) == "(x: 'Any', *, axis: 'int' = 1) -> 'Any'"
