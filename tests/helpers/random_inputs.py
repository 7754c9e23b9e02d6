"""Random calls: arrays of every kind and layout in random containers, and functions of them.

A ``Session`` is a function and a number of calls. A call is made from its number alone, so that it
can be made twice, on memory of its own: NumPy gets one, the compiled function the other.
"""

from __future__ import annotations

import array
import dataclasses
import itertools
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from types import MappingProxyType, SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
from random_draw import RandomDraw

__all__ = ["Call", "DLPackOnly", "Session", "described", "difference", "numbers"]

Array = np.ndarray[Any, Any]

NUMBERS = ("float32", "float64", "int32", "int64", "int8", "uint8", "int16", "uint64", "bool")
OTHERS = ("uint16", "uint32", "float16", "complex64", "complex128")
STRANGE = ("longdouble", "object", "U3", "M8[D]", "V4")
SIZES = (0, 1, 1, 2, 3, 4, 5, 8, 17)
MOST_ELEMENTS = 400


class Pair(NamedTuple):
    left: Any
    right: Any


@dataclasses.dataclass(slots=True)
class Box:
    inside: Any
    rest: Any = None


@dataclasses.dataclass(frozen=True)
class Frozen:
    inside: Any


class Plain:
    """An object without any declaration."""

    def __init__(self, first: Any, second: Any) -> None:
        self.first, self.second = first, second


class DLPackOnly:
    """An array of another library: it speaks DLPack and nothing else."""

    def __init__(self, values: Array) -> None:
        self.values = values

    def __dlpack__(self, **options: Any) -> Any:
        return self.values.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self.values.__dlpack_device__()


class Tagged(np.ndarray):
    """A subclass that nobody knows."""


def numbers(tree: Any) -> Iterator[Any]:
    """The arrays and numbers in containers, from left to right, without bools, text and None."""
    if isinstance(tree, bool | str | None):
        return
    inside = _inside(tree)
    if inside is None:
        yield tree
    for child in inside or ():
        yield from numbers(child)


def _inside(tree: Any) -> Sequence[Any] | None:
    if isinstance(tree, Mapping):
        return list(tree.values())
    if isinstance(tree, list | tuple | deque):
        return list(tree)
    if isinstance(tree, Box):
        return tree.inside, tree.rest
    if isinstance(tree, Plain | Frozen | SimpleNamespace):
        return list(vars(tree).values())
    return None


# Layouts of arrays. Each takes values, and gives an object that holds the same.


def _dense(values: Array) -> Any:
    return values


def _strided(values: Array) -> Any:
    whole = np.zeros((*values.shape[:-1], 2 * values.shape[-1] + 1), values.dtype)
    part = whole[..., 1::2]
    part[...] = values
    return part


def _reversed(values: Array) -> Any:
    return values[::-1].copy()[::-1]


def _unaligned(values: Array) -> Any:
    memory = np.zeros(values.nbytes + 1, np.uint8)
    made = np.ndarray(values.shape, values.dtype, memory.data, 1)
    made[...] = values
    return made


def _inner(values: Array) -> Any:
    whole = np.zeros([n + 2 for n in values.shape], values.dtype)
    part = whole[tuple(slice(1, 1 + n) for n in values.shape)]
    part[...] = values
    return part


def _field(values: Array) -> Any:
    whole = np.zeros(values.shape, [("flag", "i1"), ("value", values.dtype)])
    whole["value"] = values
    return whole["value"]


def _read_only(values: Array) -> Any:
    values.flags.writeable = False
    return values


def _spread(values: Array) -> Any:
    return np.broadcast_to(values[:1], values.shape)


def _swapped(values: Array) -> Any:
    return values.astype(values.dtype.newbyteorder(">"))


def _buffer(values: Array) -> Any:
    if values.dtype.char in "bBhHiIlLqQfd" and values.ndim == 1:
        return array.array(values.dtype.char, values.tolist())
    return memoryview(values)


LAYOUTS: dict[str, Callable[[Array], Any]] = {
    "dense": _dense,
    "strided": _strided,
    "reversed": _reversed,
    "transposed": lambda values: values.T.copy().T,
    "Fortran": np.asfortranarray,
    "unaligned": _unaligned,
    "inner": _inner,
    "field": _field,
    "read-only": _read_only,
    "spread": _spread,
    "swapped": _swapped,
    "buffer": _buffer,
    "DLPack": DLPackOnly,
    "Tagged": lambda values: values.view(Tagged),
    "masked": lambda values: np.ma.masked_array(values, values == 1),
}
COMMON = ("dense",) * 8 + tuple(LAYOUTS)[:11] * 2
FLAT = ("dense", "read-only", "unaligned", "swapped")
"""Layouts that an array of no axes can have."""


def _values(draw: RandomDraw, dtype: str, shape: tuple[int, ...]) -> Array:
    low = 0 if dtype.startswith("uint") else -8
    whole = np.asarray(draw.rng.integers(low, 9, shape))
    if dtype == "bool":
        return np.asarray(whole > 0)
    if dtype in STRANGE:
        return np.asarray(np.abs(whole)).astype("i8" if dtype == "M8[D]" else "U3").astype(dtype)
    if not np.issubdtype(dtype, np.inexact):
        return whole.astype(dtype)
    values = np.asarray(whole / 4, dtype)
    if values.size and draw.between(0, 9) == 0:
        values.flat[draw.between(0, values.size - 1)] = draw.pick((np.nan, np.inf, -0.0))
    return values


def _shape(draw: RandomDraw) -> tuple[int, ...]:
    shape = [draw.pick(SIZES) for _ in range(draw.pick((0, 1, 1, 1, 2, 2, 2, 3, 4)))]
    while np.prod(shape) > MOST_ELEMENTS:
        shape[int(np.argmax(shape))] = draw.pick((1, 2))
    return tuple(shape)


def _array(draw: RandomDraw, kind: tuple[str, tuple[int, ...]], earlier: list[Array]) -> Any:
    """An object with an array in it. ``earlier`` are those that other leaves may share."""
    dtype, shape = kind
    if earlier and draw.between(0, 9) == 0:
        other = draw.pick(earlier)
        return other if draw.between(0, 1) else other[1:]
    values = _values(draw, dtype, shape)
    layout = draw.pick(COMMON if draw.between(0, 9) else tuple(LAYOUTS))
    if layout in ("buffer", "DLPack", "masked") and dtype in (*STRANGE, "float16", "bool"):
        layout = "dense"
    if not shape and layout not in FLAT:
        return values[()] if draw.between(0, 1) else values
    made = LAYOUTS[layout](values)
    if type(made) is np.ndarray and made.ndim:
        earlier.append(made)
    return made


_PYTHONS = (0, 1, -3, 7, 2.5, -0.0, 1e300, 300, 2**40)
_FIXED = (None, True, False, "text")


def _tree(draw: RandomDraw, skeleton: Any, kinds: Sequence[Any], earlier: list[Array]) -> Any:
    """Containers of a shape that the session has chosen, with new leaves."""
    if isinstance(skeleton, int):
        kind = kinds[skeleton]
        if kind == "python":
            return draw.pick(_PYTHONS)
        if kind == "fixed":
            return draw.pick(_FIXED)
        return _array(draw, kind, earlier)
    name, *inner = skeleton
    return _CONTAINERS[name](*(_tree(draw, part, kinds, earlier) for part in inner))


_CONTAINERS: dict[str, Callable[..., Any]] = {
    "tuple": lambda *parts: parts,
    "list": lambda *parts: [*parts],
    "dict": lambda *parts: {f"k{n}": part for n, part in enumerate(parts)},
    "ordered": lambda *parts: OrderedDict((n, part) for n, part in enumerate(parts)),
    "default": lambda *parts: defaultdict(list, dict(enumerate(parts))),
    "deque": lambda *parts: deque(parts),
    "proxy": lambda *parts: MappingProxyType({f"k{n}": part for n, part in enumerate(parts)}),
    "pair": lambda a, b: Pair(a, b),
    "box": lambda a, b: Box(a, b),
    "frozen": lambda a, b: Frozen((a, b)),
    "plain": Plain,
    "namespace": lambda a, b: SimpleNamespace(a=a, b=b),
    "empty": lambda *parts: (parts, [], {}),
}


def _skeleton(draw: RandomDraw, depth: int, count: list[int]) -> Any:
    if depth == 0 or draw.between(0, 2) == 0:
        count[0] += 1
        return count[0] - 1
    name = draw.pick(tuple(_CONTAINERS))
    return name, *(_skeleton(draw, depth - 1, count) for _ in range(2))


# Steps of functions. Each takes the numbers it has and returns others.


def _map(function: Callable[[Any], Any], leaves: list[Any]) -> list[Any]:
    return [function(v) for v in leaves]


def _is_bool(v: Any) -> bool:
    return np.result_type(v) == np.bool


def _pairs(function: Callable[[Any, Any], Any], leaves: list[Any]) -> list[Any]:
    made: list[Any] = []
    for a, b in itertools.pairwise(leaves):
        try:
            np.broadcast_shapes(np.shape(a), np.shape(b))
        except ValueError:
            continue
        made.append(function(a, b))
    return made or leaves


def _write(function: Callable[[Any], None], leaves: list[Any]) -> list[Any]:
    for v in leaves[:2]:
        if np.ndim(v) and not isinstance(v, memoryview | array.array):
            function(v)
    return leaves


def _set(v: Any) -> None:
    v[...] = v[::-1]


def _set_first(v: Any) -> None:
    v[:1] = 3


def _add_in_place(v: Any) -> None:
    v += v[:1]


def _number(v: Any) -> Any:
    """``v`` in a form that NumPy's operators take, as a traced one does."""
    if isinstance(v, DLPackOnly):
        return np.from_dlpack(v)
    return v if isinstance(v, int | float) or hasattr(v, "__array_ufunc__") else np.asarray(v)


STEPS: dict[str, Callable[[list[Any]], list[Any]]] = {
    "double": partial(_map, lambda v: v * 2),
    "half": partial(_map, lambda v: v * 0.5),
    "plus one": partial(_map, lambda v: v + 1),
    "plus float32": partial(_map, lambda v: v + np.float32(1)),
    "times int8": partial(_map, lambda v: v * np.int8(2)),
    "negative": partial(_map, lambda v: v if _is_bool(v) else -v),
    "maximum": partial(_map, lambda v: np.maximum(v, 1)),
    "compare": partial(_map, lambda v: v > 1),
    "where": partial(_map, lambda v: np.where(np.greater(v, 0), v, 1)),
    "sum": partial(_map, np.sum),
    "rows": partial(_map, lambda v: v[:2] if np.ndim(v) else v),
    "reverse": partial(_map, lambda v: v[::-1] if np.ndim(v) else v),
    "transpose": partial(_map, np.transpose),
    "flat": partial(_map, lambda v: np.reshape(v, -1)),
    "add": partial(_pairs, lambda a, b: a + b),
    "multiply": partial(_pairs, lambda a, b: a * b),
    "less": partial(_pairs, lambda a, b: a < b),
    "divide": partial(_pairs, lambda a, b: np.divide(a, np.abs(b) + 1.0)),
    "keep": lambda leaves: leaves,
    "write all": partial(_write, _set),
    "write first": partial(_write, _set_first),
    "write in place": partial(_write, _add_in_place),
}


@dataclasses.dataclass(frozen=True)
class Call:
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


class Session:
    """A function of a few steps, and calls of it whose arguments differ in what a seed decides."""

    def __init__(self, seed: int) -> None:
        draw = RandomDraw(seed)
        self.seed = seed
        self.steps = tuple(draw.pick(tuple(STEPS)) for _ in range(draw.between(1, 3)))
        self.result = draw.pick(("list", "tree", "first", "mixed"))
        self.manner = draw.pick(("one", "one", "two", "star", "keywords", "named"))
        count = [0]
        self.skeletons = [_skeleton(draw, draw.pick((0, 0, 1, 2, 3)), count) for _ in range(2)]
        self.variants = [self._kinds(draw, count[0]) for _ in range(draw.pick((1, 2, 3)))]
        self.calls = draw.between(4, 9)

    def _kinds(self, draw: RandomDraw, count: int) -> list[Any]:
        """What each leaf is: an array of a dtype and shape, a Python number, or a fixed value."""
        kinds: list[Any] = []
        shared = _shape(draw)
        for _ in range(count):
            chance = draw.between(0, 99)
            table = NUMBERS if chance > 15 else OTHERS if chance else STRANGE
            shape = shared if draw.between(0, 1) else _shape(draw)
            kinds.append((draw.pick(table), shape))
            if chance > 96:
                kinds[-1] = "fixed"
            elif chance > 88:
                kinds[-1] = "python"
        return kinds

    def function(self) -> Callable[..., Any]:
        """Returns the function. Each call gives a new one, to be compiled anew."""

        def run(*args: Any, **kwargs: Any) -> Any:
            leaves = [_number(v) for v in numbers((args, kwargs))]
            for step in self.steps:
                leaves = STEPS[step](leaves)
            if self.result == "tree":
                return leaves, args[0] if args else None
            if self.result == "first" and leaves:
                return leaves[0]
            return {"all": leaves, "fixed": (1, "text", None)} if self.result == "mixed" else leaves

        def one(tree: Any) -> Any:
            return run(tree)

        def two(tree: Any, other: Any) -> Any:
            return run(tree, other)

        def star(*trees: Any) -> Any:
            return run(*trees)

        def keywords(tree: Any, **more: Any) -> Any:
            return run(tree, **more)

        return {"one": one, "two": two, "star": star, "keywords": keywords, "named": two}[
            self.manner
        ]

    def call(self, number: int) -> Call:
        """Returns the arguments of a call, on memory that nobody else has."""
        draw = RandomDraw(1000 * self.seed + number)
        kinds = self.variants[number % len(self.variants)]
        earlier: list[Array] = []
        trees = [_tree(draw, s, kinds, earlier) for s in self.skeletons]
        if self.manner == "one":
            return Call((trees[0],), {})
        if self.manner == "keywords":
            return Call((trees[0],), {"other": trees[1]})
        if self.manner == "named":
            return Call((), {"tree": trees[0], "other": trees[1]})
        return Call(tuple(trees), {})

    def __str__(self) -> str:
        return f"seed {self.seed}: {', '.join(self.steps)}; returns {self.result}"


def described(value: Any) -> str:
    """The types, layouts and small values in a tree, on one line."""
    inside = _inside(value)
    if inside is not None:
        return f"{type(value).__name__}({', '.join(described(v) for v in inside)})"
    if isinstance(value, np.ndarray):
        flags = "" if value.flags.writeable else " read-only"
        flags += "" if value.flags.aligned else " unaligned"
        kind = "" if type(value) is np.ndarray else f" {type(value).__name__}"
        return f"{value.dtype.str}{list(value.shape)} strides {list(value.strides)}{flags}{kind}"
    if isinstance(value, memoryview | DLPackOnly):
        return f"{type(value).__name__} of {described(_plain(value))}"
    return f"{type(value).__name__} {value!r}"[:60]


def difference(ours: Any, theirs: Any, where: str = "result") -> str:
    """Says where two results differ; empty if they are the same values, dtypes and containers."""
    mine, wanted = _inside(ours), _inside(theirs)
    if wanted is not None:
        if type(ours) is not type(theirs) or mine is None or len(mine) != len(wanted):
            return f"{where} is {described(ours)}, not {described(theirs)}"
        if isinstance(theirs, Mapping) and [*ours] != [*theirs]:
            return f"{where} has keys {[*ours]}, not {[*theirs]}"
        parts = (difference(a, b, f"{where}.{n}") for n, (a, b) in enumerate(zip(mine, wanted)))
        return next((text for text in parts if text), "")
    if theirs is None or isinstance(theirs, str):
        return "" if ours == theirs else f"{where} is {ours!r}, not {theirs!r}"
    a, b = _plain(ours), _plain(theirs)
    if a.shape != b.shape or a.dtype.newbyteorder("=") != b.dtype.newbyteorder("="):
        return f"{where} is {described(a)}, not {described(b)}"
    tolerance = {"e": 5e-3, "f": 1e-5, "F": 1e-5}.get(a.dtype.char, 1e-12)
    same = a == b
    if a.dtype.kind in "fc":
        with np.errstate(all="ignore"):
            same = np.isclose(a, b, tolerance, tolerance, equal_nan=True)
    return "" if np.all(same) else f"{where} is {a!r}, not {b!r}"


def _plain(value: Any) -> Array:
    return value.values if isinstance(value, DLPackOnly) else np.asarray(value)
