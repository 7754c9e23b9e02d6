"""Uses of NumPy functions on arguments that are drawn, by NumPy and traced.

The names of arguments are those of ``rows.ARGUMENTS``.
"""

from __future__ import annotations

import ast
import functools
import re
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import loopwright as lw
import numpy as np
from loopwright.ir.graph.evaluate import evaluate

__all__ = ["Use", "arrays_of", "assert_same", "drawn", "interpreted", "letter_of", "settings_of"]

FLOATS = ("float32", "float64")
INTEGERS = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
REAL = ("bool", *INTEGERS, *FLOATS, *FLOATS)
SPECIAL = (np.nan, np.inf, -np.inf, -0.0, 0.0)

# Letters of arrays that share a shape up to broadcasting: what dtypes they have, and their values.
DTYPES = {
    **dict.fromkeys("xy", REAL),
    **dict.fromkeys("fghpquoae", FLOATS),
    **dict.fromkeys("ijn", INTEGERS),
    **dict.fromkeys("bc", ("bool",)),
}
SETTINGS = {"axis", "axes", "keep", "k", "dt"}
OTHERS = {"v", "w", "sv", "iv", "m", "mt", "s", "idx"}
_NAME = re.compile(r"([a-z])(\d?)")


@dataclass(frozen=True)
class Use:
    """A use, the names of its traced arguments and a function of them."""

    text: str
    arrays: tuple[str, ...]
    settings: tuple[str, ...]

    def function(self, settings: dict[str, Any]) -> Callable[..., Any]:
        """Returns the use as a function of its arrays, with ``settings`` fixed."""
        *before, last = _statements(self.text)
        body = "".join(f"    {line}\n" for line in (*before, f"return {last}"))
        space: dict[str, Any] = {"np": np, "lw": lw, **_modules(self.text), **settings}
        exec(f"def use({', '.join(self.arrays)}):\n{body}", space)  # a row of ours
        return space["use"]


def _modules(text: str) -> dict[str, Any]:
    if "special." not in text:
        return {}
    import scipy.special

    return {"special": scipy.special}


def _statements(text: str) -> list[str]:
    return [ast.unparse(node) for node in ast.parse(text).body]


@functools.cache
def parsed(text: str) -> Use:
    """Returns the use that ``text`` is, its arrays in the order in which they are named."""
    tree = ast.parse(text)
    names = [n for n in ast.walk(tree) if isinstance(n, ast.Name)]
    names.sort(key=lambda n: (n.lineno, n.col_offset))
    made = {n.id for n in names if isinstance(n.ctx, ast.Store)}
    made |= {n.arg for n in ast.walk(tree) if isinstance(n, ast.arg)}
    free = [n for n in dict.fromkeys(n.id for n in names) if n not in made]
    arrays = tuple(n for n in free if n in OTHERS or letter_of(n))
    return Use(text, arrays, tuple(n for n in free if n in SETTINGS))


def letter_of(name: str) -> str:
    match = _NAME.fullmatch(name)
    return match[1] if match and match[1] in DTYPES else ""


def drawn(text: str, case: int) -> tuple[Callable[..., Any], list[Any]]:
    """Returns a use as a function, and arrays for it: the ``case``-th ones."""
    use = parsed(text)
    rng = np.random.default_rng([zlib.crc32(text.encode()), case])
    arrays = arrays_of(use, rng, case)
    settings = settings_of(next(iter(arrays.values()), np.zeros(3)), rng)
    return use.function({n: settings[n] for n in use.settings}), list(arrays.values())


def settings_of(first: Any, rng: np.random.Generator) -> dict[str, Any]:
    """Returns drawn settings that fit the ``first`` argument."""
    rank = first.ndim
    axis = int(rng.integers(-rank, rank)) if rank else 0
    several = tuple(int(n) for n in rng.permutation(rank)[: rng.integers(0, rank + 1)])
    return {
        "axis": axis,
        "axes": (None, axis, several)[int(rng.integers(3))],
        "keep": bool(rng.integers(2)),
        "k": int(rng.integers(-2, 3)),
        "dt": np.dtype(str(rng.choice(("float32", "float64", "int32", "int64")))),
    }


def arrays_of(use: Use, rng: np.random.Generator, case: int) -> dict[str, Any]:
    ranks = [
        int(m[2]) for n in use.arrays if n not in OTHERS and (m := _NAME.fullmatch(n)) and m[2]
    ]
    least = max(ranks, default=0)
    rank = least + int(rng.integers(0, max(4 - least, 1)))
    sizes = (1, 2, 3, 5, 7) if case % 4 else (0, 1, 3)
    shape = tuple(int(s) for s in rng.choice(sizes, rank))
    length, inner = int(rng.choice((1, 2, 5, 8))), int(rng.choice((1, 2, 4)))
    dtype = str(rng.choice(FLOATS))
    made: dict[str, Any] = {}
    for name in use.arrays:
        letter = "" if name in OTHERS else letter_of(name)
        if letter:
            ours = shape if not made or (len(name) > 1) else _broadcasting(shape, rng)
            made[name] = _values(letter, ours, rng)
        elif name in ("v", "w"):
            made[name] = rng.normal(size=length).astype(dtype)
        elif name == "sv":
            made[name] = np.cumsum(rng.uniform(0.3, 1, size=length)).astype(dtype)
        elif name == "iv":
            made[name] = rng.integers(0, 6, size=length).astype(str(rng.choice(INTEGERS)))
        elif name == "m":
            made[name] = rng.normal(size=(length, inner)).astype(dtype)
        elif name == "mt":
            made[name] = rng.normal(size=(inner, 3)).astype(dtype)
        elif name == "s":
            made[name] = rng.normal(size=(inner, inner)).astype(dtype)
        elif name == "idx":
            (first,) = list(made.values())[:1]
            bound = first.shape[-1] if first.ndim else 1
            shape = (*first.shape[:-1], 3) if first.ndim else (1,)
            made[name] = rng.integers(-bound, max(bound, 1), size=shape if bound else 0)
    return made


def _broadcasting(shape: tuple[int, ...], rng: np.random.Generator) -> tuple[int, ...]:
    kept = shape[int(rng.integers(0, len(shape) + 1)) :] if rng.random() < 0.5 else shape
    return tuple(s if rng.random() < 0.8 else 1 for s in kept)


def _values(letter: str, shape: tuple[int, ...], rng: np.random.Generator) -> Any:
    dtype = np.dtype(str(rng.choice(DTYPES[letter])))
    if letter == "n":
        return rng.integers(1, 7, shape).astype(dtype)
    if dtype.kind in "biu":
        low = 0 if dtype.kind in "bu" else -9
        return rng.integers(low, 2 if dtype.kind == "b" else 10, shape).astype(dtype)
    values = {
        "p": lambda: rng.uniform(0.5, 3, shape),
        "q": lambda: rng.uniform(0.5, 3, shape),
        "u": lambda: rng.uniform(-0.95, 0.95, shape),
        "o": lambda: rng.uniform(1.1, 5, shape),
        "a": lambda: np.where(rng.random(shape) < 0.4, np.nan, rng.normal(size=shape)),
        "e": lambda: np.where(
            rng.random(shape) < 0.6, rng.choice(SPECIAL, shape), rng.normal(size=shape)
        ),
    }.get(letter, lambda: 2 * rng.normal(size=shape))()
    return np.asarray(values).astype(dtype)


def interpreted(function: Callable[..., Any], arrays: list[Any]) -> Any:
    """Returns what the graph interpreter makes of the traced function."""
    traced = lw.compile(function).trace(*arrays)
    operands = [np.array(arrays[p]) for p in traced.parameters]
    with np.errstate(all="ignore"):
        results = evaluate(traced.module, *operands)
    return traced.result(list(results) if isinstance(results, tuple) else [results], operands)


def assert_same(got: Any, want: Any) -> None:
    """The same containers, dtypes, shapes and values, up to the rounding of the dtype."""
    if isinstance(want, list | tuple):
        assert type(got) is type(want) or isinstance(got, tuple), (type(got), type(want))
        assert len(got) == len(want)
        for one, other in zip(got, want, strict=True):
            assert_same(one, other)
        return
    want, got = np.asarray(want), np.asarray(got)
    assert got.shape == want.shape, f"shape {got.shape}, not {want.shape}"
    assert got.dtype == want.dtype, f"dtype {got.dtype}, not {want.dtype}"
    loose = 0.0
    if got.dtype.kind in "fc":
        loose = {"float16": 3e-3, "float64": 1e-9}.get(got.real.dtype.name, 3e-5)
    np.testing.assert_allclose(got, want, rtol=loose, atol=loose)
