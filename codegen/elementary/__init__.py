"""Vector code for the elementary functions: own implementations, as LLVM text to be inlined.

    f = function("exp", "float32", 16, Target.host())
    text = "\\n".join(f.declarations) + f.text      # define internal <16 x float> @f.symbol(...)

- ``emitter``       the small language the functions are written in
- ``exp log trig inverse_trig hyperbolic erf root power remainder``   one family each
- ``tools.elementary``   derives the polynomials and measures the errors

Nothing calls a mathematical library; the code holds its bounds with FMA and without. Bounds (tested
over the whole float32 range in steps, with all special points): float32 within 1 ulp for exp, log,
tanh, erf and 2 ulp for the rest; float64 within 2 ulp. Special values are NumPy's.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

from ...ir.dtype import DTYPES, Kind
from ...ir.errors import UnsupportedError
from ...ir.loop.scalar import SCALAR_OPS
from ..target import Target
from .emitter import ElementaryFunction, Emitter, Value
from .erf import erf32, erf64
from .exp import exp, exp2, exp_weight, expm1, sigmoid
from .hyperbolic import acosh, asinh, atanh, cosh, sinh, tanh32, tanh64
from .inverse_trig import acos, asin, atan, atan2
from .log import log, log1p, log2, log10
from .power import power, signed_power, unsigned_power
from .remainder import floor_divide, floor_mod, truncate_mod
from .root import cbrt
from .trig import cos, sin, tan

Body = Callable[..., Value]

_FLOATS = ("float32", "float64")  # for which there is code

_GENERIC: dict[str, Body] = {
    "exp": exp,
    "exp2": exp2,
    "expm1": expm1,
    "log": log,
    "log1p": log1p,
    "log2": log2,
    "log10": log10,
    "sin": sin,
    "cos": cos,
    "tan": tan,
    "asin": asin,
    "acos": acos,
    "atan": atan,
    "atan2": atan2,
    "sinh": sinh,
    "cosh": cosh,
    "asinh": asinh,
    "acosh": acosh,
    "atanh": atanh,
    "sigmoid": sigmoid,
    "cbrt": cbrt,
    "truncate_mod": truncate_mod,
    "floor_mod": floor_mod,
    "floor_divide": floor_divide,
}
_BY_DTYPE: dict[str, dict[str, Body]] = {
    "tanh": {"float32": tanh32, "float64": tanh64},
    "erf": {"float32": erf32, "float64": erf64},
    "power": {
        **dict.fromkeys(_FLOATS, power),
        **{d.name: unsigned_power for d in DTYPES.values() if d.kind is Kind.UINT},
        **{d.name: signed_power for d in DTYPES.values() if d.kind is Kind.INT},
    },
}
INTERNAL: dict[str, Body] = {"exp_weight": exp_weight}
"""Functions that users' programs do not have; their bounds stand in their docstrings."""
FUNCTIONS: tuple[str, ...] = tuple(sorted((*_GENERIC, *_BY_DTYPE)))
BINARY = frozenset(name for name in FUNCTIONS if SCALAR_OPS[name].arity == 2)


_ONE_ULP = frozenset(("exp", "log", "tanh", "erf"))
_EXACT = frozenset(("truncate_mod", "floor_mod", "floor_divide"))


def error_bound(name: str, dtype: str) -> float:
    """The stated bound in units in the last place; 0 where the result is NumPy's bit for bit."""
    if name in _EXACT or dtype not in _FLOATS:
        return 0.0
    return 1.0 if name in _ONE_ULP and dtype == "float32" else 2.0


@functools.lru_cache(maxsize=4096)
def function(name: str, dtype: str, lanes: int, target: Target) -> ElementaryFunction:
    """Returns the LLVM text of ``name`` on ``lanes`` elements of ``dtype``.

    ``name`` is one of ``FUNCTIONS`` or ``INTERNAL``. The text defines
    ``internal <lanes x T> @symbol(<lanes x T> %x[, <lanes x T> %y])``, with scalars instead of
    vectors for one lane; the result has the operands' type. The symbol contains name, dtype and
    lanes, so one module needs each text once. Raises UnsupportedError for other dtypes.
    """
    table = _BY_DTYPE.get(name)
    if table is None and dtype not in _FLOATS:
        raise UnsupportedError(f"there is no machine code for {name} of {dtype}")
    body = {**_GENERIC, **INTERNAL}[name] if table is None else table[dtype]
    e = Emitter(f"lw.{name}.{dtype}.x{lanes}", dtype, lanes, target)
    operands = e.parameters("x", "y") if name in BINARY else e.parameters("x")
    return e.finish(body(e, *operands))
