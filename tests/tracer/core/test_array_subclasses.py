"""Subclasses of np.ndarray mean something else by the same operators: none may lose its meaning."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import loopwright as lw
import numpy as np
import pytest

X = np.arange(6, dtype=np.float32).reshape(2, 3)


class Tagged(np.ndarray):
    """A subclass that nobody knows."""


MASKED = np.ma.masked_array(X, X > 2)
MATRIX = X.view(np.matrix)
SUBCLASSES = {
    "masked array": MASKED,
    "np.matrix": MATRIX,
    "Tagged": X.view(Tagged),
    "recarray": X.view(np.recarray),
}
USES: dict[str, Callable[[Any], Any]] = {
    "argument": lambda a: lw.compile(lambda x: x + 1)(a),
    "argument in a list": lambda a: lw.compile(lambda x: x[0] + 1)([a]),
    "second call": lambda a: _second_call(a),
    "trace": lambda a: lw.compile(lambda x: x + 1).trace(a),
    "keyword": lambda a: lw.compile(lambda x, y: x + y)(X, y=a),
    "captured": lambda a: lw.compile(lambda x: x + a)(X),
    "captured, on the left": lambda a: lw.compile(lambda x: a * x)(X),
    "captured by a function": lambda a: lw.compile(lambda x: np.maximum(x, a))(X),
    "captured in a list": lambda a: lw.compile(lambda x: np.concatenate([x, a]))(X),
    "captured in a literal": lambda a: lw.compile(lambda x: x + [a, a])(X),
    "as an index": lambda a: lw.compile(lambda x: x[a.astype(int) * 0])(X),
    "as a taken index": lambda a: lw.compile(lambda x: x.take(a.astype(int) * 0))(X),
    "result": lambda a: lw.compile(lambda x: (x, a))(X),
    "xp": lambda a: lw.compile(lambda x: x + lw.xp.asarray(a))(X),
    "nn, traced": lambda a: lw.compile(lambda x: x + lw.nn.softmax(a))(X),
    "nn, not traced": lambda a: lw.nn.softmax(a),
    "nn, second operand": lambda a: lw.compile(lambda x: lw.nn.dense(x, a))(X),
}


def _second_call(array: Any) -> Any:
    f = lw.compile(lambda x: x + 1)
    f(X)
    f(X)
    return f(array)


@pytest.mark.filterwarnings("ignore::PendingDeprecationWarning")  # np.matrix's own
@pytest.mark.parametrize("kind", SUBCLASSES)
@pytest.mark.parametrize("use", USES)
def test_a_subclass_is_refused(use: str, kind: str) -> None:
    with pytest.raises(lw.LoopwrightTypeError) as caught:
        USES[use](SUBCLASSES[kind])
    assert caught.value.span is not None and "test_array_subclasses" in caught.value.span.file


def test_the_message_names_the_argument_and_a_way_out() -> None:
    f = lw.compile(lambda x: x["a"] + 1)
    with pytest.raises(lw.LoopwrightTypeError) as caught:
        f({"a": MASKED})
    assert caught.value.message == (
        "<lambda>: argument x['a'] is a numpy.ma.MaskedArray, whose mask compiled code would ignore"
    )
    assert caught.value.hint == "x['a'].filled(value), or its .data and .mask as two arguments"
    with pytest.raises(lw.LoopwrightTypeError, match=r"np\.asarray\(x\)"):
        lw.compile(lambda x: x @ x)(MATRIX)


def test_a_file_in_memory_is_an_array(tmp_path: Path) -> None:
    stored = np.memmap(tmp_path / "x", np.float32, "w+", shape=X.shape)
    stored[:] = X
    np.testing.assert_array_equal(lw.compile(lambda x: x + stored)(stored), 2 * X)


@pytest.mark.parametrize(
    "dtype", ["f4,i4", [("a", "f8"), ("b", "i1")], object, "U3", "M8[s]", "V4"]
)
def test_a_dtype_of_other_things_is_refused(dtype: Any) -> None:
    array = np.zeros(3, dtype)
    for call in (
        lambda: lw.compile(lambda x: x)(array),
        lambda: lw.compile(lambda x: (x, array))(X),
    ):
        with pytest.raises(lw.LoopwrightTypeError):
            call()
