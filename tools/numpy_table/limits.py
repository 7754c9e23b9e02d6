"""The types and values of NumPy's functions at the limits of all dtypes, ours against its own.

Two things are drawn: ufuncs on operands of any two dtypes, and Python numbers beside them; and the
uses in the table, whose arguments get any dtype. Values are the least and the greatest ones, those
around zero, nan and infinities. Compiled code has to give what NumPy gives, in its dtype, its shape
and its Python type; an error where NumPy raises one.

    python -m tools.numpy_table.limits --seconds 600 --seed 3
"""

from __future__ import annotations

import argparse
import time
import warnings
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import loopwright as lw
import numpy as np
from loopwright.ir.dtype import dtype_of
from loopwright.ir.errors import LoopwrightError
from loopwright.ir.tolerance import tolerance
from loopwright.tracer.core.dispatch import UFUNCS

from .page import CHAPTERS, is_there
from .uses import OTHERS, arrays_of, letter_of, parsed, settings_of

__all__ = ["Case", "differences", "difference", "of_ufuncs", "of_uses", "values"]

INTEGERS = [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]
DTYPES = [
    np.dtype(name)
    for name in ("bool", *INTEGERS, "float16", "float32", "float64", "complex64", "complex128")
]
NUMBERS = (True, 3, -2, 2.5, 200, 1 + 2j, np.float64(0.1), np.int8(-3), np.uint64(5))

ANY_VALUES = ("By element", "Order, search, sets", "Shapes, joining, splitting")
"""Chapters of functions that compute no sums, whose floats may be as large as they come."""

DATA_DECIDES = (
    *("np.digitize", "np.unravel_index"),
    *("np.ravel_multi_index", "np.histogram", "np.asarray_chkfinite", "np.vectorize", "np.average"),
)
"""Functions with errors for some values, which compiled code does not raise."""

TERMS_CANCEL = ("np.polyfit", "np.unwrap", "np.interp", "np.gradient", "np.corrcoef", "np.cov")
"""Functions whose results may be small differences of large numbers, which are tried on ordinary
numbers only."""


@dataclass(frozen=True, slots=True)
class Case:
    """A function of arrays; ``text`` says which."""

    text: str
    function: Callable[..., Any]
    arrays: tuple[Any, ...]

    def __str__(self) -> str:
        return f"{self.text} on {', '.join(f'{a.dtype}{list(a.shape)}' for a in self.arrays)}"

    def copies(self) -> list[Any]:
        return [a.copy() for a in self.arrays]


def values(dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """Returns the values of a dtype at which functions go wrong."""
    if dtype.kind == "b":
        return np.array([False, True])
    if dtype.kind in "iu":
        least, most, bits = np.iinfo(dtype).min, np.iinfo(dtype).max, np.iinfo(dtype).bits
        numbers = {0, 1, 2, 3, 7, most, most - 1, most // 2, least, least + 1, bits - 1, bits}
        return np.array(sorted(numbers | ({-1, -2, -3, -7} if least else set())), dtype)
    info = np.finfo(dtype)
    if dtype.kind == "c":
        parts = [0.0, -0.0, 1, -1, 0.75, -2.5, 20, float(info.tiny) ** 0.25, 1e4]
        return np.array([complex(a, b) for a in parts for b in parts], dtype)
    most, tiny, least = float(info.max), float(info.tiny), float(info.smallest_subnormal)
    numbers = [0, 1, 0.5, 1.5, 2.5, 3, 10.25, most, most / 2, 1.01 * most**0.5, tiny, least, np.inf]
    numbers += [1 + float(info.eps), 1 - float(info.epsneg), 88.5, 104.2, 1000.5]
    return np.array([*numbers, *(-n for n in numbers), np.nan], dtype)


def of_ufuncs(rng: np.random.Generator) -> Iterator[Case]:
    """Yields each ufunc on operands of drawn dtypes, and on a Python number beside one."""
    for ufunc in UFUNCS:
        if getattr(np, ufunc.__name__, None) is not ufunc or ufunc.signature:
            continue
        first, second = (values(DTYPES[rng.integers(len(DTYPES))]) for _ in range(2))
        name = f"np.{ufunc.__name__}"
        if ufunc.nin == 1:
            yield Case(f"{name}(x)", ufunc, (first,))
            continue
        first = rng.permutation(first)[:14, None]
        yield Case(f"{name}(x, y)", ufunc, (first, rng.permutation(second)[:20]))
        number = NUMBERS[rng.integers(len(NUMBERS))]

        def beside(x: Any, ufunc: Any = ufunc, number: Any = number) -> Any:
            return ufunc(x, number)

        def behind(x: Any, ufunc: Any = ufunc, number: Any = number) -> Any:
            return ufunc(number, x)

        yield Case(f"{name}(x, {number!r})", beside, (second,))
        yield Case(f"{name}({number!r}, x)", behind, (second,))


def of_uses(rng: np.random.Generator) -> Iterator[Case]:
    """Yields each use in the table on arguments of drawn dtypes."""
    for title, rows in CHAPTERS.items():
        for row in rows:
            for name in filter(is_there, row.names):
                plain = name in TERMS_CANCEL or title not in ANY_VALUES
                for text in row.uses_of(name):
                    yield _drawn(text, rng, plain)


def _drawn(text: str, rng: np.random.Generator, plain: bool) -> Case:
    use = parsed(text)
    made = arrays_of(use, rng, 1)
    for name, array in made.items():
        if name in ("idx", "iv") or letter_of(name) in ("b", "c"):
            continue
        dtype = DTYPES[rng.integers(len(DTYPES))]
        drawn = _elements(dtype, array.shape, rng, plain or name in OTHERS)
        made[name] = np.sort(drawn) if name == "sv" else drawn
    settings = settings_of(next(iter(made.values()), np.zeros(3)), rng)
    settings["dt"] = DTYPES[rng.integers(len(DTYPES))]
    fixed = {n: settings[n] for n in use.settings}
    title = f"{text} {fixed}" if fixed else text
    return Case(title, use.function(fixed), tuple(made.values()))


def _elements(dtype: np.dtype[Any], shape: Any, rng: np.random.Generator, plain: bool) -> Any:
    if not plain:
        return np.asarray(rng.choice(values(dtype), shape).astype(dtype))
    if dtype.kind in "biu":
        low = -50 if dtype.kind == "i" else 0
        return np.asarray(rng.integers(low, 2 if dtype.kind == "b" else 100, shape)).astype(dtype)
    made = np.asarray(3 * rng.normal(size=shape))
    return np.asarray(made + 1j * rng.normal(size=shape) if dtype.kind == "c" else made, dtype)


def difference(got: Any, want: Any, terms: int = 1) -> str:
    """Returns what is different, in words; "" if nothing is. Results may be sums of ``terms``."""
    if isinstance(want, list | tuple):
        if not isinstance(got, list | tuple) or len(got) != len(want):
            return f"{type(got).__name__}, not {len(want)} results"
        return next((d for g, w in zip(got, want) if (d := difference(g, w, terms))), "")
    want = want.copy() if isinstance(want, np.flatiter) else want
    if not isinstance(want, np.ndarray) and type(got) is not type(want):
        return f"{type(got).__name__}, not {type(want).__name__}"
    left, right = np.asarray(got), np.asarray(want)
    if left.dtype != right.dtype:
        return f"dtype {left.dtype}, not {right.dtype}"
    if left.shape != right.shape:
        return f"shape {left.shape}, not {right.shape}"
    if right.dtype.kind not in "fc":
        return _first(left, right, left != right)
    whole = np.promote_types(right.dtype, np.float64)
    sizes = abs(right[np.isfinite(right)].astype(whole))
    scale = float(sizes.max(initial=1)) if terms > 1 else 0.0
    bound = tolerance(dtype_of(right.dtype), terms if terms > 1 else 0, operations=12)
    with np.errstate(all="ignore"):
        apart = abs(left.astype(whole) - right.astype(whole))
        near = apart <= bound.rtol * (abs(right.astype(whole)) + scale) + bound.atol
    same = (left == right) | (np.isnan(left) & np.isnan(right)) | _infinite(left, right)
    return _first(left, right, ~(near | same))


def _infinite(left: Any, right: Any) -> Any:
    """Complex numbers with a part that is not finite: that one counts, and its sign does not, which
    C leaves open."""
    if right.dtype.kind != "c":
        return False
    return ~np.isfinite(left) & ~np.isfinite(right) & (np.isnan(left) == np.isnan(right))


def _first(left: Any, right: Any, wrong: Any) -> str:
    if not np.any(wrong):
        return ""
    place = tuple(int(n) for n in np.argwhere(wrong)[0])
    return f"{np.sum(wrong)} of {np.size(wrong)}: {left[place]!r} at {place}, not {right[place]!r}"


def differences(cases: Sequence[Case]) -> list[str]:
    """Returns, for each case in which compiled code is not NumPy, a line that says so.
    Functions may be refused, by an error of ours."""
    wants: list[tuple[Case, Any]] = []
    lines: list[str] = []
    for case in cases:
        try:
            wants.append((case, case.function(*case.copies())))
        except Exception as error:
            line = _raises(case, error)
            lines += [line] if line else []
    for (case, want), got in zip(wants, _compiled([case for case, _ in wants]), strict=True):
        if isinstance(got, LoopwrightError):
            continue
        terms = max((a.size for a in case.arrays), default=1)
        terms = max(terms, 16 if case.text.startswith(TERMS_CANCEL) else 1)
        line = repr(got) if isinstance(got, Exception) else difference(got, want, terms)
        lines += [f"{case}: {line}"] if line else []
    return lines


def _raises(case: Case, error: Exception) -> str:
    if case.text.startswith(DATA_DECIDES):
        return ""
    try:
        lw.compile(case.function)(*case.copies())
    except LoopwrightError:
        return ""
    except type(error):  # NumPy's own, of numbers that are not traced
        return ""
    return f"{case}: NumPy raises {error!r}, and we do not"


def _compiled(cases: Sequence[Case]) -> list[Any]:
    """Returns the results of all cases in one compiled function, or of each one alone if that
    fails; the exception where it fails alone."""

    def together(groups: Any) -> Any:
        return [case.function(*arrays) for case, arrays in zip(cases, groups, strict=True)]

    try:
        return lw.compile(together)([case.copies() for case in cases])
    except Exception as error:
        if len(cases) == 1:
            return [error]
        half = len(cases) // 2
        return [*_compiled(cases[:half]), *_compiled(cases[half:])] if cases else []


def seeded(seed: int, salt: str) -> np.random.Generator:
    """Returns the generator of a seed for one kind of cases."""
    return np.random.default_rng([seed, zlib.crc32(salt.encode())])


def main() -> None:
    """Draws cases until the time is over; prints the differences and their number."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    end, seed, count, wrong = time.monotonic() + options.seconds, options.seed, 0, 0
    while time.monotonic() < end:
        for kind in (of_ufuncs, of_uses):
            cases = list(kind(seeded(seed, kind.__name__)))
            for first in range(0, len(cases), 24):
                with np.errstate(all="ignore"), warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    lines = differences(cases[first : first + 24])
                for line in lines:
                    print(f"seed {seed}: {line}", flush=True)
                count, wrong = count + len(cases[first : first + 24]), wrong + len(lines)
                if time.monotonic() > end:
                    break
        seed += 1
    print(f"{count} cases, {wrong} differences")
    raise SystemExit(bool(wrong))


if __name__ == "__main__":
    main()
