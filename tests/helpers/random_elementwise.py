"""Elementwise steps of random programs: tables of functions, and casts and choices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from random_draw import Draw, any_value, partner, random_array
from random_programs import Array, Step, plain

__all__ = ["binary", "cast", "constant", "unary", "where"]

EXACT: dict[str, Callable[[Any], Any]] = {
    "-{}": np.negative,
    "abs({})": np.abs,
    "sign({})": np.sign,
    "floor({})": np.floor,
    "ceil({})": np.ceil,
    "rint({})": np.rint,
    "trunc({})": np.trunc,
    "isfinite({})": np.isfinite,
    "signbit({} - 1)": lambda x: np.signbit(x - 1),
    "clip({}, -1, 2)": lambda x: np.clip(x, -1, 2),
    "clip({}, None, 1)": lambda x: np.clip(x, None, 1),
}
ROUNDING: dict[str, Callable[[Any], Any]] = {
    "tanh({})": np.tanh,
    "exp(-abs({}))": lambda x: np.exp(-np.abs(x)),
    "exp2(clip({}, -5, 5))": lambda x: np.exp2(np.clip(x, -5, 5)),
    "expm1(tanh({}))": lambda x: np.expm1(np.tanh(x)),
    "log(abs({}) + 0.5)": lambda x: np.log(np.abs(x) + 0.5),
    "log1p(abs({}))": lambda x: np.log1p(np.abs(x)),
    "log2(abs({}) + 0.3)": lambda x: np.log2(np.abs(x) + 0.3),
    "sqrt(abs({}))": lambda x: np.sqrt(np.abs(x)),
    "cbrt({})": np.cbrt,
    "sin({})": np.sin,
    "cos({})": np.cos,
    "arctan({})": np.arctan,
    "arcsinh({})": np.arcsinh,
    "arcsin(0.9 * tanh({}))": lambda x: np.arcsin(0.9 * np.tanh(x)),
    "sinh(clip({}, -3, 3))": lambda x: np.sinh(np.clip(x, -3, 3)),
    "{} ** 2": lambda x: x**2,
    "{} ** 3": lambda x: x**3,
    "abs({}) ** 1.5": lambda x: np.abs(x) ** 1.5,
    "1 / (1 + {0} * {0})": lambda x: 1 / (1 + x * x),
    "{} * 0.5 + 1": lambda x: x * 0.5 + 1,
    "3 - {}": lambda x: 3 - x,
    "{} / 3": lambda x: x / 3,
}
EXACT_OF_INT: dict[str, Callable[[Any], Any]] = {
    "-{}": np.negative,
    "abs({})": np.abs,
    "sign({})": np.sign,
    "~{}": np.invert,
    "{} + 1": lambda x: x + 1,
    "5 - {}": lambda x: 5 - x,
    "{} * 3": lambda x: x * 3,
    "{} // 3": lambda x: x // 3,
    "{} % 5": lambda x: x % 5,
    "{} & 6": lambda x: x & 6,
    "{} << 1": lambda x: x << 1,
    "{} >> 1": lambda x: x >> 1,
    "{} ** 2": lambda x: x**2,
    "clip({}, 1, 5)": lambda x: np.clip(x, 1, 5),
    "{} > 2": lambda x: x > 2,
    "{} == 1": lambda x: x == 1,
}
OF_BOOL: dict[str, Callable[[Any], Any]] = {
    "~{}": np.invert,
    "logical_not({})": np.logical_not,
    "{} + 1": lambda x: x + 1,
    "{} * 2.5": lambda x: x * 2.5,
}
NETWORK = ("relu", "sigmoid", "silu", "gelu", "erf")


def unary(draw: Draw, values: Sequence[Array]) -> Step | None:
    i = any_value(draw, values)
    kind = values[i].dtype.kind
    if kind == "b":
        text = draw.pick(sorted(OF_BOOL))
        return Step(text, (i,), plain(OF_BOOL[text]))
    if kind in "iu" and draw.between(0, 2):
        text = draw.pick(sorted(EXACT_OF_INT))
        return Step(text, (i,), plain(EXACT_OF_INT[text]), "no")
    if kind == "f" and draw.between(0, 4) == 0:
        name = draw.pick(NETWORK)
        return Step(f"nn.{name}({{}})", (i,), lambda m, x: getattr(m.nn, name)(x), "inside")
    table, rounds = (EXACT, "no") if draw.between(0, 2) == 0 else (ROUNDING, "inside")
    text = draw.pick(sorted(table))
    return Step(text, (i,), plain(table[text]), rounds)


PAIRS: dict[str, tuple[str, Callable[[Any, Any], Any], str]] = {
    "{} + {}": ("fiub", lambda x, y: x + y, "result"),
    "{} - {}": ("fiu", lambda x, y: x - y, "result"),
    "{} * {}": ("fiub", lambda x, y: x * y, "result"),
    "{} / (1 + abs({}))": ("fiu", lambda x, y: x / (1 + np.abs(y)), "result"),
    "maximum({}, {})": ("fiub", np.maximum, "no"),
    "minimum({}, {})": ("fiub", np.minimum, "no"),
    "{} // ({} | 1)": ("iu", lambda x, y: x // (y | 1), "no"),
    "{} % ({} | 1)": ("iu", lambda x, y: x % (y | 1), "no"),
    "{} // (1 + abs({}))": ("f", lambda x, y: x // (1 + np.abs(y)), "no"),
    "{} % (1 + abs({}))": ("f", lambda x, y: x % (1 + np.abs(y)), "result"),
    "{} & {}": ("iub", lambda x, y: x & y, "no"),
    "{} | {}": ("iub", lambda x, y: x | y, "no"),
    "{} ^ {}": ("iub", lambda x, y: x ^ y, "no"),
    "{} < {}": ("fiub", lambda x, y: x < y, "no"),
    "{} <= {}": ("fiub", lambda x, y: x <= y, "no"),
    "{} > {}": ("fiub", lambda x, y: x > y, "no"),
    "{} == {}": ("fiub", lambda x, y: x == y, "no"),
    "{} != {}": ("fiub", lambda x, y: x != y, "no"),
    "logical_and({}, {})": ("fiub", np.logical_and, "no"),
    "logical_xor({}, {})": ("fiub", np.logical_xor, "no"),
    "arctan2({}, {})": ("f", np.arctan2, "result"),
    "hypot({}, {})": ("f", np.hypot, "inside"),
    "copysign({}, {})": ("f", np.copysign, "no"),
    "where({0} > 0, {0}, {1})": ("fiu", lambda x, y: np.where(x > 0, x, y), "no"),
    "logaddexp({}, {})": ("f", np.logaddexp, "inside"),
}


def binary(draw: Draw, values: Sequence[Array]) -> Step | None:
    text = draw.pick(sorted(PAIRS))
    kinds, function, rounds = PAIRS[text]
    i = any_value(draw, values, kinds)
    j = None if i is None else partner(draw, values, i, kinds)
    if i is None or j is None:
        return None
    operands = (i, j) if draw.between(0, 1) else (j, i)
    return Step(text, operands, plain(function), rounds)


def constant(draw: Draw, values: Sequence[Array]) -> Step | None:
    """An array from outside of the program."""
    i = any_value(draw, values)
    x = values[i]
    shape = tuple(1 if draw.between(0, 2) == 0 else s for s in x.shape[draw.between(0, x.ndim) :])
    dtype = np.dtype("bool") if x.dtype.kind == "b" else draw.pick((x.dtype, np.dtype("float32")))
    array = random_array(np.random.default_rng(draw.between(0, 99)), shape, dtype)
    text = draw.pick(("{} + ", "{} * ", "maximum({}) ")) + f"array {array.dtype}{list(shape)}"
    function = np.maximum if text[0] == "m" else np.add if "+" in text else np.multiply
    return Step(text, (i,), lambda m, x: function(x, m.constant(array)))


def where(draw: Draw, values: Sequence[Array]) -> Step | None:
    mask = any_value(draw, values, "b")
    if mask is None:
        return None
    i = partner(draw, values, mask, "fiu")
    if i is None:
        return None
    j = partner(draw, values, i, "fiu")
    if draw.between(0, 1):
        return Step("where({}, {}, 0)", (mask, i), plain(lambda c, x: np.where(c, x, 0)), "no")
    return Step("where({}, {}, {})", (mask, i, j), plain(np.where), "no")


def cast(draw: Draw, values: Sequence[Array]) -> Step | None:
    i = any_value(draw, values)
    name = draw.pick(("float32", "float32", "float64", "int32", "int64", "int8", "uint8", "bool"))
    x = values[i]
    if x.dtype.kind == "f" and name.startswith(("int", "uint")) and x.size:
        info = np.iinfo(name)
        if not (info.min <= x.min() and x.max() <= info.max):
            return None  # what comes out is not defined
    if name == "float32":
        return Step("{}.astype(float32)", (i,), lambda m, x: x.astype(m.float))
    return Step(f"{{}}.astype({name})", (i,), plain(lambda x: x.astype(name)), "no")
