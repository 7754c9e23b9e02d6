"""Errors of calls: arguments that do not fit, values that leak, tracebacks."""

from __future__ import annotations

import importlib.util
import os
import re
import traceback
import types
from collections.abc import Callable
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import loopwright as lw
import numpy as np
import pytest
from loopwright.codegen.runtime import executable

X = np.ones((2, 3), np.float32)


def message(call: Callable[[], Any]) -> str:
    """What ``call`` raises; ``#`` for the numbers of lines."""
    with pytest.raises(lw.LoopwrightError) as caught:
        call()
    text = re.sub(r"[\w/.]*?(test_\w+\.py):\d+", r"\1:#", str(caught.value))
    return re.sub(r"(?m)^ +\d+ \|", "    # |", re.sub(r"(?m)^ +\|", "      |", text))


def text(*lines: str) -> str:
    return "\n".join(lines)


def layer(x: Any, w: Any) -> Any:
    return x @ w


compiled = lw.compile(layer)


def test_missing_argument() -> None:
    assert message(lambda: compiled(X)) == text(
        "layer: missing a required argument: 'w'",
        "  test_call_errors.py:#, in <lambda>",
        "    # |     assert message(lambda: compiled(X)) == text(",
        "      |                            ^^^^^^^^^^^",
        "  def layer(x: 'Any', w: 'Any') -> 'Any'",
    )


def test_too_many_arguments() -> None:
    assert message(lambda: compiled(X, X, X)) == text(
        "layer: too many positional arguments",
        "  test_call_errors.py:#, in <lambda>",
        "    # |     assert message(lambda: compiled(X, X, X)) == text(",
        "      |                            ^^^^^^^^^^^^^^^^^",
        "  def layer(x: 'Any', w: 'Any') -> 'Any'",
    )


def test_an_argument_that_cannot_be_traced() -> None:
    assert message(lambda: compiled(X, {1, 2})) == text(
        "layer: argument w is a set, which cannot be traced",
        "  test_call_errors.py:#, in <lambda>",
        "    # |     assert message(lambda: compiled(X, {1, 2})) == text(",
        "      |                            ^^^^^^^^^^^^^^^^^^^",
        "  try: a dataclass of arrays, or static_argnames=('w',)",
    )


def test_an_argument_inside_of_a_structure_that_cannot_be_traced() -> None:
    call = lambda: compiled(X, {"w": [X, {3}]})  # noqa: E731
    assert message(call).splitlines()[0] == (
        "layer: argument w['w'][1] is a set, which cannot be traced"
    )


def test_a_dtype_that_is_not_supported() -> None:
    long = X.astype(np.longdouble)
    assert message(lambda: compiled(long, X)) == text(
        f"layer: argument x has dtype {long.dtype}, which is not supported",
        "  test_call_errors.py:#, in <lambda>",
        "    # |     assert message(lambda: compiled(long, X)) == text(",
        "      |                            ^^^^^^^^^^^^^^^^^",
        "  try: x.astype(np.float32)",
    )


def test_a_static_argument_without_a_hash() -> None:
    f = lw.compile(lambda x, axes: x.sum(axes), static_argnames="axes")
    assert message(lambda: f(X, [0, 1])) == text(
        "<lambda>: the static argument axes is a list, which has no hash",
        "  test_call_errors.py:#, in <lambda>",
        "    # |     assert message(lambda: f(X, [0, 1])) == text(",
        "      |                            ^^^^^^^^^^^^",
        "  try: a tuple instead of a list, or leave it out of static_argnames",
    )


def test_a_spec_has_no_values() -> None:
    f = lw.compile(lambda x: x + 1)
    assert message(lambda: f(lw.f32[2])) == text(
        "the spec f32[2] has no values",
        "  test_call_errors.py:#, in <lambda>",
        "    # |     assert message(lambda: f(lw.f32[2])) == text(",
        "      |                            ^^^^^^^^^^^^",
        "  try: an array, or f.lower(...) for a spec",
    )


def test_a_dtype_unlike_the_spec() -> None:
    code = compiled.lower(lw.f32[2, 3], lw.f32[3, 4]).compile()
    w = np.ones((3, 4), np.float64)
    assert message(lambda: code(X, w)) == text(
        "argument w of layer is float64[3, 4], but this code was compiled for float32[3, 4]",
        "  test_call_errors.py:#, in <lambda>",
        "    # |     assert message(lambda: code(X, w)) == text(",
        "      |                            ^^^^^^^^^^",
        "  try: w.astype(np.float32)",
    )


def test_a_shape_unlike_the_spec() -> None:
    code = compiled.lower(lw.f32[2, 3], lw.f32[3, 4]).compile()
    assert message(lambda: code(X, X)) == text(
        "argument w of layer is float32[2, 3], but this code was compiled for float32[3, 4]",
        "  test_call_errors.py:#, in <lambda>",
        "    # |     assert message(lambda: code(X, X)) == text(",
        "      |                            ^^^^^^^^^^",
        "  try: a symbolic size there: lw.f32['n', 3], or shapes= or dynamic_shapes= of a model",
    )


def test_a_structure_unlike_the_specs() -> None:
    code = compiled.lower(lw.f32[2, 3], lw.f32[3, 4]).compile()
    assert message(lambda: code(X, (X, X))) == text(
        "layer was compiled for other arguments",
        "  test_call_errors.py:#, in <lambda>",
        "    # |     assert message(lambda: code(X, (X, X))) == text(",
        "      |                            ^^^^^^^^^^^^^^^",
        "  compiled for x: float32[2, 3], w: float32[3, 4]",
        "  called with  x: float32[2, 3], w[0]: float32[2, 3], w[1]: float32[2, 3]",
    )


def test_a_value_that_leaked_out_of_its_trace() -> None:
    hidden = SimpleQueue[Any]()  # lists are emptied of traced values

    def leaky(x: Any) -> Any:
        hidden.put(x)
        raise KeyError

    with pytest.raises(KeyError):
        lw.compile(leaky)(X)
    kept = [hidden.get()]
    assert message(lambda: kept[0] + 1) == text(
        "x is a traced value of leaky, which is not being traced here",
        "  test_call_errors.py:#, in <lambda>",
        "    # |     assert message(lambda: kept[0] + 1) == text(",
        "      |                            ^^^^^^^^^^^",
        "  try: return it from leaky, or pass it as an argument",
    )


def test_a_value_that_leaked_into_another_trace() -> None:
    hidden = SimpleQueue[Any]()

    def leaky(x: Any) -> Any:
        hidden.put(x * 2)
        raise KeyError

    def user(x: Any) -> Any:
        return x + kept[0]

    with pytest.raises(KeyError):
        lw.compile(leaky)(X)
    kept = [hidden.get()]
    assert message(lambda: lw.compile(user)(X)) == text(
        "this is a traced value of leaky, which is not being traced here",
        "  test_call_errors.py:#, in user",
        "    # |         return x + kept[0]",
        "      |                ^^^^^^^^^^^",
        "  x       : float32[2, 3]   argument x of user",
        "  kept[0] : float32[2, 3]   from test_call_errors.py:#",
        "  try: return it from leaky, or pass it as an argument",
    )


def _frames(call: Callable[[], Any]) -> list[str]:
    try:
        call()
    except Exception as error:
        return [frame.filename for frame in traceback.extract_tb(error.__traceback__)]
    raise AssertionError("nothing was raised")


def _own(frames: list[str]) -> list[str]:
    return [f for f in frames if "/tests/" not in f]


def test_our_frames_are_cut_from_tracebacks() -> None:
    own = _own(_frames(lambda: compiled(X, X)))
    assert [f.rpartition("/")[2] for f in own] == ["compiled_function.py"]  # the call itself


def test_our_frames_are_shown_when_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOOPWRIGHT_FULL_TRACEBACK", "1")
    assert len(_own(_frames(lambda: compiled(X, X)))) > 3


def test_errors_of_the_users_own_code_pass_through() -> None:
    def broken(x: Any) -> Any:
        return {}["missing"] + x

    frames = _frames(lambda: lw.compile(broken)(X))
    assert len(_own(frames)) == 1
    with pytest.raises(KeyError, match="missing"):
        lw.compile(broken)(X)


def test_what_the_system_refuses_to_a_call_is_said_in_a_sentence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(*args: Any) -> Any:
        raise MemoryError("no 24 bytes")

    doubled = lw.compile(lambda x: x * 2)
    refuse = types.FunctionType(refuse.__code__, vars(os))  # a function of the standard library's
    monkeypatch.setattr(executable, "_Frame", refuse)  # the memory of one call
    with pytest.raises(lw.LoopwrightMemoryError, match="there is not enough memory: no 24 bytes"):
        doubled(X)
    monkeypatch.undo()
    np.testing.assert_array_equal(doubled(X), X * 2)


def test_what_the_system_refuses_to_the_users_own_code_passes_through() -> None:
    def f(x: Any) -> Any:
        raise OSError(5, "the user's own")

    with pytest.raises(OSError, match="the user's own") as caught:
        lw.compile(f)(X)
    assert type(caught.value) is OSError


def test_a_failed_trace_leaves_nothing_behind() -> None:
    f = lw.compile(lambda x: x @ x)
    for _ in range(2):
        with pytest.raises(lw.LoopwrightTypeError):
            f(X)
    assert f.cache_info().currsize == 0
    assert f(np.eye(3)).tolist() == np.eye(3).tolist()


class Sparse:
    """A matrix of another library, whose elements are not in one array."""

    shape, dtype = (3, 3), np.dtype(np.float64)


class Guarded:
    """An array that does not give its values."""

    shape, dtype = (3,), np.dtype(np.float64)

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        raise RuntimeError("ask somebody else")


def test_arrays_of_other_libraries_that_give_no_values() -> None:
    f = lw.compile(lambda x: x * 2)
    with pytest.raises(lw.LoopwrightTypeError, match="Sparse is not a dense array") as caught:
        f(Sparse())
    assert caught.value.hint == "its .toarray(), or arrays of its parts"
    with pytest.raises(lw.LoopwrightTypeError, match="gives no NumPy array: ask somebody else"):
        f(Guarded())


def test_errors_within_installed_code_show_the_users_line(tmp_path: Path) -> None:
    package = tmp_path / "site-packages" / "others.py"
    package.parent.mkdir()
    package.write_text("def joined(x, y):\n    return x @ y\n")
    spec = importlib.util.spec_from_file_location("others", package)
    others = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(others)

    def f(x):
        return others.joined(x, x[:2])

    with pytest.raises(lw.LoopwrightError) as caught:
        lw.compile(f)(np.zeros(3))
    assert "return others.joined(x, x[:2])" in str(caught.value)
    with pytest.raises(lw.LoopwrightError) as caught:
        lw.compile(others.joined)(np.zeros(3), np.zeros(2))
    assert "return x @ y" in str(caught.value)  # nothing of the user's lies in between
