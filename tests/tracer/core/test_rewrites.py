"""Every rewrite that a message names was run: it gives what NumPy's own function gives."""

from __future__ import annotations

from typing import Any

import loopwright as lw
import numpy as np
import pytest
from loopwright.tracer.core.dispatch import FUNCTIONS, METHODS
from loopwright.tracer.core.misuse import FUNCTION_REWRITES, METHOD_REWRITES, misspelt

X = np.array([[3, 1, 4, 1, 5, 9], [2, 6, 5, 3, 5, 8], [9, 7, 9, 3, 2, 3], [8, 4, 6, 2, 6, 4]])
ARRAYS: dict[str, Any] = {
    "x": X.astype(np.float32),
    "y": X[::-1].astype(np.float32) + 1,
    "u": np.array([2.0, 7, 1, 8], np.float32),
    "v": np.array([1.0, 2, 4, 7], np.float32),
    "i": np.array([0, 1, 1, 0]),
    "condition": X > 4,
    "mask": X > 4,
    "a": X,
    "b": -X,
}
OTHERS: dict[str, Any] = {
    "np": np, "lw": lw, "values": [1.0, 5.0], "bins": np.array([2.0, 4.0, 6.0], np.float32),
    "value": 5.0, "f": np.exp,
}  # fmt: skip
OUTSIDE = "do this outside of the compiled function, or pass its result as an argument"
ROWS = {
    **{f"np.{name}": row for name, row in FUNCTION_REWRITES.items()},
    **{f"x.{name}": row for name, row in METHOD_REWRITES.items()},
}


@pytest.mark.parametrize("name", ROWS)
def test_a_rewrite_gives_the_same(name: str) -> None:
    use, text = ROWS[name]
    code = text.partition(";")[0]
    found = lw.compile(lambda a: eval(code, {**OTHERS, **a}))(ARRAYS)
    if use:
        wanted = eval(use, {**OTHERS, **ARRAYS})
        np.testing.assert_allclose(found, wanted, rtol=1e-4)


@pytest.mark.parametrize("name", FUNCTION_REWRITES)
def test_a_rewritten_function_is_one_that_numpy_has_and_we_do_not(name: str) -> None:
    function: Any = np
    for part in name.split("."):
        function = getattr(function, part)
    assert function not in FUNCTIONS


def test_a_rewritten_method_is_one_that_we_do_not_have() -> None:
    assert not set(METHOD_REWRITES) & set(METHODS)


@pytest.mark.parametrize(
    ("use", "hint"),
    [
        ("np.save('x.npy', x)", "x, save what the compiled function returns"),
        (
            "np.roots(x)",
            "do this outside of the compiled function, or pass its result as an argument",
        ),
        ("x.reshpae(6, 4)", "x.reshape"),
        ("x.permute(1, 0)", "x.transpose(1, 0)"),
        ("x.median()", None),
    ],
)
def test_a_hint_is_a_way_that_was_run_or_there_is_none(use: str, hint: str | None) -> None:
    with pytest.raises(lw.LoopwrightError) as caught:
        lw.compile(lambda x: eval(use, {"np": np, "x": x}))(ARRAYS["x"])
    assert caught.value.hint == hint


def test_likeness_is_no_reason_for_a_hint() -> None:
    for name in dir(np):
        for known in METHODS:
            if misspelt(name, known):
                assert abs(len(name) - len(known)) <= 1
    assert not misspelt("isin", "isinf"[:4]) and not misspelt("median", "mean")
