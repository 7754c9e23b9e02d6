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

from ...ir.dtype import DTYPES
from ...ir.errors import UnsupportedError
from ...ir.loop.scalar import SCALAR_OPS
from ..target import Target
from .emitter import ElementaryFunction, Emitter, Value
from .erf import erf
from .exp import exp, exp2, exp_weight, expm1, sigmoid
from .hyperbolic import acosh, asinh, atanh, cosh, sinh, tanh
from .inverse_trig import acos, asin, atan, atan2
from .log import log, log1p, log2, log10
from .power import power, signed_power, unsigned_power
from .remainder import floor_divide, floor_mod, truncate_mod
from .root import cbrt
from .trig import cos, sin, tan

Body = Callable[..., Value]

_FLOATS = ("float32", "float64")  # for which there is code

INTERNAL: dict[str, Body] = {"exp_weight": exp_weight}
"""Functions that users' programs do not have; their bounds stand in their docstrings."""
_REMAINDERS = (truncate_mod, floor_mod, floor_divide)
"""Their results are NumPy's bit for bit."""
# fmt: off
_BODIES: dict[str, Body] = {
    body.__name__: body
    for body in (
        exp, exp2, expm1, log, log1p, log2, log10, sin, cos, tan, asin, acos, atan, atan2, sinh,
        cosh, tanh, asinh, acosh, atanh, erf, sigmoid, cbrt, power, *_REMAINDERS,
    )
}
# fmt: on
FUNCTIONS: tuple[str, ...] = tuple(sorted(_BODIES))
BINARY = frozenset(name for name in FUNCTIONS if SCALAR_OPS[name].arity == 2)
_ONE_ULP = (exp, log, tanh, erf)


def error_bound(name: str, dtype: str) -> float:
    """The stated bound in units in the last place; 0 where the result is NumPy's bit for bit."""
    body = _BODIES[name]
    if body in _REMAINDERS or dtype not in _FLOATS:
        return 0.0
    return 1.0 if body in _ONE_ULP and dtype == "float32" else 2.0


@functools.lru_cache(maxsize=4096)
def function(name: str, dtype: str, lanes: int, target: Target) -> ElementaryFunction:
    """Returns the LLVM text of ``name`` on ``lanes`` elements of ``dtype``.

    ``name`` is one of ``FUNCTIONS`` or ``INTERNAL``. The text defines
    ``internal <lanes x T> @symbol(<lanes x T> %x[, <lanes x T> %y])``, with scalars instead of
    vectors for one lane; the result has the operands' type. The symbol contains name, dtype and
    lanes, so one module needs each text once. Raises UnsupportedError for other dtypes.
    """
    body = INTERNAL.get(name) or _BODIES[name]
    if dtype not in _FLOATS:
        if body is not power or not DTYPES[dtype].is_integer:
            raise UnsupportedError(f"there is no machine code for {name} of {dtype}")
        body = signed_power if DTYPES[dtype].is_signed else unsigned_power
    e = Emitter.function(f"lw.{name}.{dtype}.x{lanes}", dtype, lanes, target)
    operands = e.parameters("x", "y") if name in BINARY else e.parameters("x")
    return e.finish(body(e, *operands))
