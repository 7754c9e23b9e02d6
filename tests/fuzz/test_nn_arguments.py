"""Odd arguments of every function of ``lw.nn``: a result, or Loopwright's error at the user's line.

``python tests/fuzz/test_nn_arguments.py 20000`` draws as many calls; the test a few hundred.
"""

from __future__ import annotations

import inspect
import sys
from functools import partial
from typing import Any

import loopwright as lw
import numpy as np
import pytest

X = np.linspace(-1, 1, 48, dtype=np.float32).reshape(2, 3, 4, 2)
TRACED = object()
W = np.linspace(-1, 1, 27, dtype=np.float32).reshape(1, 3, 3, 3)
ODD: tuple[Any, ...] = (
    None, True, 0, -1, 3, 10**12, 10**18, 2**70, 1.5, float("nan"), "same", "NCHW", "", b"x", (),
    [], (1,), (1, 2), (0, 0), (1, 2, 3), (-1, -2), (1.0, 2.0), ("a", "b"), ((1, 1), (2, 2)), {},
    {"a": 1},
    [None], np.int64(1), np.float32(2), np.float64, "float32", "complex64", object, len, slice(1),
    Ellipsis, 1j, X, W, X[0], X[0, 0], X.astype(np.int32), X > 0, X[:0], np.array(2.0),
    np.array("a"), np.array([None]), np.ma.masked_array(X, X > 0), [X, X], object(), TRACED,
)  # fmt: skip
FUNCTIONS = [getattr(lw.nn, name) for name in lw.nn.__all__]


def draw(function: Any, rng: np.random.Generator) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Mostly arrays where there is no default and nothing where there is, odd things between."""
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    for name, parameter in inspect.signature(function).parameters.items():
        odd = ODD[rng.integers(len(ODD))]
        if parameter.default is not parameter.empty:
            if rng.random() < 0.35:
                kwargs[name] = odd
        else:
            usual = (X, W, X[0, 0], 2)[rng.integers(4)] if args else X
            args.append(odd if rng.random() < 0.3 else usual)
    if rng.random() < 0.05:
        kwargs["nonsense"] = 1
    return tuple(args), kwargs


def outcome(call: Any) -> str:
    """What is wrong about a call's outcome, or nothing."""
    try:
        call()
    except lw.InternalError as error:
        return f"InternalError: {error}"
    except lw.LoopwrightError as error:
        if error.span is None or "test_nn_arguments" not in error.span.file:
            return f"no line of the user's: {error}"
    except MemoryError:
        return ""  # as NumPy says for an array of terabytes
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""


def traced(x: Any, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A call with the traced array for the marker, and for the first argument."""
    rest = [x if a is TRACED else a for a in args[1:]]
    return function(x, *rest, **{k: x if v is TRACED else v for k, v in kwargs.items()})


def mistakes(count: int, seed: int) -> list[str]:
    """The calls among ``count`` whose outcome is wrong, traced and on plain arrays."""
    rng = np.random.default_rng(seed)
    found: list[str] = []
    for _ in range(count):
        function = FUNCTIONS[rng.integers(len(FUNCTIONS))]
        args, kwargs = draw(function, rng)
        within = lw.compile(partial(traced, function=function, args=args, kwargs=kwargs))
        ways = {"traced": partial(within.trace, X), "plain": partial(function, *args, **kwargs)}
        shown = ", ".join([*map(_text, args), *(f"{k}={_text(v)}" for k, v in kwargs.items())])
        for way, call in ways.items():
            if wrong := outcome(call):
                found.append(f"{way} {function.__name__}({shown}): {wrong}")
    return found


def _text(value: Any) -> str:
    return (
        f"{value.dtype}{list(value.shape)}" if isinstance(value, np.ndarray) else repr(value)[:60]
    )


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_odd_arguments() -> None:
    assert mistakes(300, seed=1) == []


if __name__ == "__main__":
    np.seterr(all="ignore")
    wrong = mistakes(int(sys.argv[1]), seed=np.random.SeedSequence().entropy % 2**32)
    sys.stdout.write("\n".join([*wrong, f"{len(wrong)} mistakes"]) + "\n")
