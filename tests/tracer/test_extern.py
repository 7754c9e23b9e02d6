"""``lw.extern``: functions that compiled ones call as they are."""

from __future__ import annotations

import ctypes
import traceback

import loopwright as lw
import numpy as np
import pytest
from loopwright.ir.errors import LoopwrightTypeError, LoopwrightValueError

X = np.arange(6.0)


@lw.extern(results=lambda x: x)
def reversed_copy(x):
    x[:] = x[::-1]  # what it gets is its own
    return x


@lw.extern(results=lambda x, k: (lw.f64[k], lw.i64[()]), into=True)
def first(x, head, count, *, k):
    head[...] = x[:k]
    count[...] = k


def test_it_is_called_on_what_was_computed():
    f = lw.compile(lambda x: reversed_copy(x * 2) + 1)
    np.testing.assert_array_equal(f(X), X[::-1] * 2 + 1)
    np.testing.assert_array_equal(X, np.arange(6.0))
    assert "call_library(" in f.lower(X).as_text("graph")


def test_it_writes_into_its_results_and_takes_options():
    def g(x):
        head, count = first(x * 2, k=3)
        return head + count

    np.testing.assert_array_equal(lw.compile(g)(X), g(X))
    np.testing.assert_array_equal(g(X), [3, 5, 7])


def test_loops_and_branches_call_it():
    @lw.compile
    def f(x, n):
        return lw.fori_loop(0, n, lambda i, v: reversed_copy(v) + i, x)

    wanted = X.copy()
    for i in range(3):
        wanted = wanted[::-1] + i
    np.testing.assert_array_equal(f(X, np.int64(3)), wanted)


def test_its_exceptions_are_those_of_the_call():
    error = KeyError("mine")

    @lw.extern(results=lambda x: x)
    def fails(x):
        raise error

    with pytest.raises(KeyError) as raised:
        lw.compile(lambda x: fails(x) * 2)(X)
    assert raised.value is error
    assert "test_extern.py" in error.__notes__[0] and "fails(x)" in error.__notes__[0]
    assert traceback.extract_tb(error.__traceback__)[-1].name == "fails"


def test_what_it_returns_is_held_against_its_results():
    @lw.extern(results=lambda x: x, name="shorter")
    def shorter(x):
        return x[1:]

    with pytest.raises(LoopwrightTypeError) as raised:
        lw.compile(lambda x: shorter(x) * 2)(X)
    assert raised.value.message == ("shorter returned float64[5], but its results= say float64[6]")


def test_a_function_that_keeps_what_it_got_is_an_error():
    kept = []

    @lw.extern(results=lambda x: x, into=True)
    def keeps(x, out):
        out[...] = x
        kept.append(out[1:])

    with pytest.raises(RuntimeError, match="keeps an array that it was called with"):
        lw.compile(lambda x: keeps(x * 2) * 2)(X)


def test_a_native_function_gets_addresses():
    squares = lw.extern(ctypes.CDLL(None).memcpy, results=lambda x, nbytes: x, name="memcpy")

    @lw.compile
    def f(x):
        # memcpy writes its first operand, so a result is read first here.
        return squares(x * 2, nbytes=0) * 0 + x

    np.testing.assert_array_equal(f(X), X)


def test_options_are_static():
    with pytest.raises(LoopwrightTypeError, match="k is an option, a number"):
        lw.compile(lambda x: first(x, k=x.sum()))(X)


def test_a_saved_program_finds_it_by_its_name(tmp_path):
    twice = lw.extern(lambda x: x * 2, results=lambda x: x, name="tests.twice")
    lw.compile(lambda x: twice(x) + 1).lower(X).save(tmp_path / "f.lw")
    np.testing.assert_array_equal(lw.load(tmp_path / "f.lw")(X), X * 2 + 1)
    text = (tmp_path / "f.lw").read_bytes()
    assert b"tests.twice" in text
    from loopwright.ir.library.registry import TABLE

    del TABLE["tests.twice"]
    with pytest.raises(LoopwrightValueError, match=r"no library function 'tests\.twice'"):
        lw.load(tmp_path / "f.lw")


@lw.extern(results=lambda x, **_: x)
def on_device(x, device="cpu", subok=False):
    return x * 2 if (device, subok) == ("gpu", True) else x


def test_its_options_may_have_names_of_options_of_numpys():
    f = lw.compile(lambda x: on_device(x, device="gpu", subok=True))
    np.testing.assert_array_equal(f(X), X * 2)
