"""Elementary functions, one at a time: ``python -m bench.elementary`` measures all of them."""

from __future__ import annotations

from typing import Any

from ..workload import Input, Workload
from .kind import Draw, Kind, Params, workload

__all__ = ["FUNCTIONS", "KINDS"]

_WIDE, _UNIT, _POSITIVE, _SMALL = (-5.0, 5.0), (-0.99, 0.99), (1e-3, 1e3), (0.1, 4.0)

# What the operands of each are drawn from, evenly.
FUNCTIONS: dict[str, tuple[tuple[float, float], ...]] = {
    **dict.fromkeys(
        ("exp", "exp2", "expm1", "sin", "cos", "tan", "atan", "sinh", "cosh"), (_WIDE,)
    ),
    **dict.fromkeys(("tanh", "asinh", "cbrt", "sigmoid", "gelu", "floor", "rint"), (_WIDE,)),
    **dict.fromkeys(("log", "log2", "log10", "log1p", "sqrt", "rsqrt"), (_POSITIVE,)),
    **dict.fromkeys(("asin", "acos", "atanh"), (_UNIT,)),
    "acosh": ((1.0, 20.0),),
    "power": (_SMALL, _WIDE),
    **dict.fromkeys(("power_1.5", "power_0.25", "power_-2", "power_2.4"), (_SMALL,)),
    **dict.fromkeys(("atan2", "hypot", "logaddexp"), (_WIDE, _WIDE)),
    **dict.fromkeys(("fmod", "remainder", "floor_divide"), (_WIDE, (0.1, 3.0))),
}


def _function(op: str, n: int, dtype: str = "float32") -> Workload:
    def body(F: Any, *operands: Any) -> Any:
        name, _, exponent = op.partition("_")
        if name == "power" and exponent:
            return F.function("power", operands[0], float(exponent))
        return F.function(op, *operands)

    spans = FUNCTIONS[op]
    inputs = {name: Input((n,), dtype, span=span) for name, span in zip("xy", spans)}
    name = f"{op}_{dtype}_{n}"
    return workload(name, "elementwise", body, inputs, (n,), dtype=dtype, reduction=8)


def _draw(draw: Draw) -> Params:
    op, dtype = draw.choice(*FUNCTIONS), draw.choice("float32", "float64")
    return {"op": op, "n": draw.size(1 << 12, 1 << 20), "dtype": dtype}


KINDS = (
    Kind(
        "function",
        _function,
        (
            {"op": "tan", "n": 1 << 16},
            {"op": "cbrt", "n": 1 << 16},
            {"op": "power", "n": 1 << 15, "dtype": "float64"},
            {"op": "log", "n": 1 << 15, "dtype": "float64"},
        ),
        _draw,
        {"op": "power_2.4", "n": 20},
    ),
)
