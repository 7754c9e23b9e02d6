"""Python ints and NumPy's scalars beside arrays: NumPy's values, or its errors, at their line."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import loopwright as lw
import numpy as np
import pytest

DTYPES = ("int8", "uint8", "int16", "uint32", "int64", "uint64", "float32", "bool")
NUMBERS = (0, 1, -1, 2, 127, 128, -129, 255, 256, 300, 2**31, -(2**31) - 1, 2**32, 2**63 - 1)
USES: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda x, n: x + n,
    "subtract from": lambda x, n: n - x,
    "multiply": lambda x, n: np.multiply(x, n),
    "maximum": lambda x, n: np.maximum(x, n),
    "floor_divide": lambda x, n: x // n,
    "bitwise_and": lambda x, n: x & n,
    "less": lambda x, n: x < n,
    "greater_equal, on the right": lambda x, n: n >= x,
    "equal": lambda x, n: x == n,
    "not_equal": lambda x, n: np.not_equal(n, x),
    "clip above": lambda x, n: np.clip(x, None, n),
    "clip below": lambda x, n: x.clip(n, None),
    "clip both": lambda x, n: np.clip(x, n, n + 3),
    "where": lambda x, n: np.where(x > 1, x, n),
    "select": lambda x, n: np.select([x > 1], [x], n),
    "full_like": lambda x, n: np.full_like(x, n),
    "full": lambda x, n: x + lw.xp.full((3,), n, dtype=x.dtype),
    "dtype=": lambda x, n: np.add(x, n, dtype=x.dtype),
    "computed": lambda x, n: x + (n * 2 - 1),
    "computed far": lambda x, n: x + (n * n * n // 7),
    "negated": lambda x, n: x + -n,
    "in place": lambda x, n: _added(x.copy(), n),
    "assigned": lambda x, n: _assigned(x.copy(), n),
    "masked": lambda x, n: _masked(x.copy(), n),
    "filled": lambda x, n: _filled(x.copy(), n),
    "stacked": lambda x, n: np.stack([x[0], n]),
    "in a row": lambda x, n: np.hstack([x, n]),
    "power": lambda x, n: x ** (n // 2**62),
    "a list": lambda x, n: np.maximum(x, [n, n, n]),
    "a literal": lambda x, n: x + lw.xp.asarray([n, 1, n], dtype=x.dtype),
}


def _added(x: Any, n: Any) -> Any:
    x += n
    return x


def _assigned(x: Any, n: Any) -> Any:
    x[1:] = n
    return x


def _masked(x: Any, n: Any) -> Any:
    x[x > 0] = n
    return x


def _filled(x: Any, n: Any) -> Any:
    x.fill(n)
    return x


def outcome(call: Callable[[], Any]) -> tuple[str, Any]:
    try:
        with np.errstate(all="ignore"):
            result = np.asarray(call())
    except OverflowError as error:
        ours = isinstance(error, lw.LoopwrightError)
        if ours and (error.span is None or "test_integers" not in error.span.file):
            return "an error without the line", str(error)
        return "OverflowError", None
    except (TypeError, ValueError, ZeroDivisionError):
        return "another error", None
    return str(result.dtype), result.tolist()


def differences(count: int, seed: int) -> list[str]:
    """Uses among ``count`` that are not what NumPy does, with the number known and traced."""
    rng = np.random.default_rng(seed)
    found: list[str] = []
    for _ in range(count):
        name = list(USES)[rng.integers(len(USES))]
        dtype, n = DTYPES[rng.integers(len(DTYPES))], NUMBERS[rng.integers(len(NUMBERS))]
        x, use = np.array([0, 1, 3]).astype(dtype), USES[name]
        wanted = outcome(lambda x=x, n=n, use=use: use(x, n))
        calls = {"known": lambda x=x, n=n, use=use: lw.compile(lambda x: use(x, n))(x)}
        # Errors where Python's ints leave int64 or, as a bound of uint64, are below zero.
        strict = name.startswith("clip") and dtype == "uint64"
        if name != "a list" and not strict and not (n > 2**62 and dtype == "float32"):
            calls["traced"] = lambda x=x, n=n, use=use: lw.compile(use)(x, n)
        for how, call in calls.items():
            if wanted[0] != "another error" and (got := outcome(call)) != wanted:
                found.append(f"{name}({dtype}, {n}) {how}: {got}, NumPy: {wanted}")
    return found


def test_it_is_what_numpy_does() -> None:
    assert differences(80, seed=3) == []


SCALARS = (np.int8, np.uint8, np.int16, np.uint32, np.int64, np.uint64, np.float32, np.float64)


def scalar_differences(count: int, seed: int) -> list[str]:
    """The same for NumPy's scalars, which have a dtype: they promote, and are cast or refused."""
    rng = np.random.default_rng(seed)
    found: list[str] = []
    for _ in range(count):
        name = list(USES)[rng.integers(len(USES))]
        dtype, n = DTYPES[rng.integers(len(DTYPES))], NUMBERS[rng.integers(len(NUMBERS))]
        kind = SCALARS[rng.integers(len(SCALARS))]
        if not np.issubdtype(kind, np.floating):
            info = np.iinfo(kind)
            n = max(info.min, min(info.max, n))
        s, x, use = kind(n), np.array([0, 1, 3]).astype(dtype), USES[name]
        if dtype[0] == "u" and np.issubdtype(kind, np.floating) and n < 0:
            continue  # what such a cast gives depends on the processor
        wanted = outcome(lambda x=x, s=s, use=use: use(x, s))
        if wanted[0] == "another error":
            continue
        calls = {"known": lambda x=x, s=s, use=use: lw.compile(lambda x: use(x, s))(x)}
        if name in ("assigned", "filled", "masked", "add") and np.issubdtype(kind, np.integer):
            calls["traced"] = lambda x=x, s=s, use=use: lw.compile(use)(x, s)
        for how, call in calls.items():
            if str(got := outcome(call)) != str(wanted):  # nan is nan
                found.append(f"{name}({dtype}, {s!r}) {how}: {got}, NumPy: {wanted}")
    return found


def test_numpys_scalars_are_what_they_are_in_numpy() -> None:
    assert scalar_differences(50, seed=5) == []


def test_numpys_floats_are_no_python_floats() -> None:
    """np.float64 is a subclass of float; beside Python numbers it has a dtype all the same."""
    x = np.ones(2, np.float32)
    for f in (lambda x, n: x * (np.float64(2) * n), lambda x, n: np.stack([x[0], n])):
        assert lw.compile(f)(x, 3).dtype == f(x, 3).dtype == np.float64


def test_the_number_is_looked_at_in_every_call() -> None:
    f = lw.compile(lambda x, n: x + n)
    x = np.ones(3, np.uint8)
    for n in (3, 254, 1, 2):
        assert f(x, n).tolist() == [n + 1] * 3
    for _ in range(3):
        with pytest.raises(lw.LoopwrightOverflowError) as caught:
            f(x, 300)
        assert caught.value.message == "the Python int 300 does not fit uint8"
        assert f(x, 4).tolist() == [5, 5, 5]
    with pytest.raises(OverflowError):
        f.lower(x, 1).compile()(x, -1)
    with pytest.raises(ValueError):
        f(x, n=256)


def test_a_number_that_leaves_int64_is_an_error() -> None:
    f = lw.compile(lambda x, n: x * (n * n * n))
    assert f(np.ones(2, np.float32), 1000).tolist() == [1e9, 1e9]
    with pytest.raises(lw.LoopwrightOverflowError, match="does not fit int64"):
        f(np.ones(2, np.float32), 3_000_000)


def test_calls_with_ints_take_the_direct_path_and_its_errors_name_the_line() -> None:
    def squares(n, x):
        out = []
        for i in range(n):
            out.append(i * i)
        return np.array(out), out[x], n + 1

    f = lw.compile(squares)
    for n in (5, 7, np.int64(6), 6):
        for _ in range(3):
            found, last, more = f(n, -1)
            assert found.tolist() == [i * i for i in range(n)]
            assert last == (n - 1) ** 2 and more == n + 1
    assert f._last.direct(5, 2) is not None
    assert f._last.direct(np.arange(3), 2) is None
    for wrong, error in ((2**63 - 1, OverflowError), (2**70, OverflowError), (1, IndexError)):
        with pytest.raises(error) as caught:
            f(wrong, 1)
        assert "squares" in str(caught.value)
        assert not any("calls_by_memory" in str(entry.path) for entry in caught.traceback)
        assert f(4, 1)[1] == 1


if __name__ == "__main__":
    wrong = differences(int(sys.argv[1]), seed=int(sys.argv[2]))
    wrong += scalar_differences(int(sys.argv[1]), seed=int(sys.argv[2]))
    sys.stdout.write("\n".join([*sorted(set(wrong)), f"{len(wrong)} differ"]) + "\n")
