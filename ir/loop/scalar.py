"""The scalar operators: one row each. The graph's elementwise operators have the same names.

A row says how many operands there are, what NumPy function defines the meaning, how the result's
dtype follows, and roughly what one application costs in arithmetic instructions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..dtype import BOOL, DType
from ..errors import InternalError

__all__ = ["COMBINERS", "SCALAR_OPS", "Combiner", "ScalarOp"]


@dataclass(frozen=True, slots=True)
class ScalarOp:
    """``kinds`` are the dtype kinds the operands may have (NumPy's letters)."""

    name: str
    arity: int
    numpy: Callable[..., Any]
    kinds: str
    cost: float = 1.0
    symbol: str = ""
    to_bool: bool = False

    def result(self, dtypes: Sequence[DType]) -> DType:
        values = dtypes[1:] if self.name == "where" else dtypes
        if any(d != values[0] for d in values) or values[0].kind not in self.kinds:
            raise InternalError(f"scalar {self.name} on {', '.join(map(str, dtypes))}")
        return BOOL if self.to_bool else values[0]


def _erf(x: Any) -> Any:
    """erf by math.erf, element by element (NumPy has none)."""
    x = np.asarray(x)
    return np.vectorize(math.erf, otypes=[x.dtype])(x) if x.size else x


def _sigmoid(x: Any) -> Any:
    x = np.asarray(x)
    with np.errstate(over="ignore"):
        return (1.0 / (1.0 + np.exp(-x.astype(np.float64)))).astype(x.dtype)


def _rsqrt(x: Any) -> Any:
    x = np.asarray(x)
    return (1.0 / np.sqrt(x.astype(np.float64))).astype(x.dtype)


_ALL, _NUM, _INT, _FLT, _BITS = "biuf", "iuf", "iu", "f", "biu"


def _rows() -> list[ScalarOp]:
    r = ScalarOp
    return [
        r("add", 2, np.add, _ALL, symbol="+"),
        r("subtract", 2, np.subtract, _NUM, symbol="-"),
        r("multiply", 2, np.multiply, _ALL, symbol="*"),
        r("divide", 2, np.divide, _FLT, 4, symbol="/"),
        r("floor_divide", 2, np.floor_divide, _NUM, 6, symbol="//"),
        r("floor_mod", 2, np.mod, _NUM, 6, symbol="%"),
        r("truncate_mod", 2, np.fmod, _NUM, 6),
        r("negative", 1, np.negative, _NUM),
        r("abs", 1, np.abs, _NUM),
        r("sign", 1, np.sign, _NUM, 2),
        r("maximum", 2, np.maximum, _ALL),
        r("minimum", 2, np.minimum, _ALL),
        r("fmax", 2, np.fmax, _ALL),
        r("fmin", 2, np.fmin, _ALL),
        r("power", 2, np.power, _NUM, 40, symbol="**"),
        r("sqrt", 1, np.sqrt, _FLT, 4),
        r("rsqrt", 1, _rsqrt, _FLT, 6),
        r("cbrt", 1, np.cbrt, _FLT, 20),
        r("ceil", 1, np.ceil, _FLT),
        r("floor", 1, np.floor, _FLT),
        r("trunc", 1, np.trunc, _FLT),
        r("round", 1, np.rint, _FLT),
        r("copysign", 2, np.copysign, _FLT),
        r("exp", 1, np.exp, _FLT, 12),
        r("exp2", 1, np.exp2, _FLT, 12),
        r("expm1", 1, np.expm1, _FLT, 20),
        r("log", 1, np.log, _FLT, 16),
        r("log1p", 1, np.log1p, _FLT, 20),
        r("log2", 1, np.log2, _FLT, 16),
        r("log10", 1, np.log10, _FLT, 16),
        r("sin", 1, np.sin, _FLT, 25),
        r("cos", 1, np.cos, _FLT, 25),
        r("tan", 1, np.tan, _FLT, 35),
        r("asin", 1, np.arcsin, _FLT, 20),
        r("acos", 1, np.arccos, _FLT, 20),
        r("atan", 1, np.arctan, _FLT, 20),
        r("atan2", 2, np.arctan2, _FLT, 30),
        r("sinh", 1, np.sinh, _FLT, 25),
        r("cosh", 1, np.cosh, _FLT, 25),
        r("tanh", 1, np.tanh, _FLT, 18),
        r("asinh", 1, np.arcsinh, _FLT, 25),
        r("acosh", 1, np.arccosh, _FLT, 25),
        r("atanh", 1, np.arctanh, _FLT, 25),
        r("erf", 1, _erf, _FLT, 20),
        r("sigmoid", 1, _sigmoid, _FLT, 18),
        r("equal", 2, np.equal, _ALL, symbol="==", to_bool=True),
        r("not_equal", 2, np.not_equal, _ALL, symbol="!=", to_bool=True),
        r("less", 2, np.less, _ALL, symbol="<", to_bool=True),
        r("less_equal", 2, np.less_equal, _ALL, symbol="<=", to_bool=True),
        r("greater", 2, np.greater, _ALL, symbol=">", to_bool=True),
        r("greater_equal", 2, np.greater_equal, _ALL, symbol=">=", to_bool=True),
        r("isnan", 1, np.isnan, _FLT, to_bool=True),
        r("isinf", 1, np.isinf, _FLT, to_bool=True),
        r("isfinite", 1, np.isfinite, _FLT, to_bool=True),
        r("logical_and", 2, np.logical_and, "b", symbol="and"),
        r("logical_or", 2, np.logical_or, "b", symbol="or"),
        r("logical_xor", 2, np.logical_xor, "b", symbol="xor"),
        r("logical_not", 1, np.logical_not, "b"),
        r("bitwise_and", 2, np.bitwise_and, _BITS, symbol="&"),
        r("bitwise_or", 2, np.bitwise_or, _BITS, symbol="|"),
        r("bitwise_xor", 2, np.bitwise_xor, _BITS, symbol="^"),
        r("bitwise_not", 1, np.invert, _BITS),
        r("left_shift", 2, np.left_shift, _INT, symbol="<<"),
        r("right_shift", 2, np.right_shift, _INT, symbol=">>"),
        r("where", 3, np.where, _ALL),
        r("cast", 1, lambda x: x, _ALL),
    ]


SCALAR_OPS: dict[str, ScalarOp] = {row.name: row for row in _rows()}


@dataclass(frozen=True, slots=True)
class Combiner:
    """How a reduction joins two values: the scalar op, and NumPy's reduction of a whole axis."""

    name: str
    op: str
    numpy: Any

    def identity(self, dtype: DType) -> bool | int | float:
        """The value that changes nothing."""
        if self.name == "sum":
            return dtype.numpy.type(0).item()
        if self.name == "prod":
            return dtype.numpy.type(1).item()
        if self.name in ("any", "all"):
            return self.name == "all"
        if dtype.is_bool:
            return self.name == "min"
        if dtype.is_float:
            return float("-inf") if self.name == "max" else float("inf")
        info = np.iinfo(dtype.numpy)
        return int(info.min if self.name == "max" else info.max)


COMBINERS: dict[str, Combiner] = {
    c.name: c
    for c in (
        Combiner("sum", "add", np.add),
        Combiner("prod", "multiply", np.multiply),
        Combiner("max", "maximum", np.maximum),
        Combiner("min", "minimum", np.minimum),
        Combiner("any", "logical_or", np.logical_or),
        Combiner("all", "logical_and", np.logical_and),
    )
}
