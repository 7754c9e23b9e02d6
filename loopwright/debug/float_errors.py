"""``np.errstate(divide="raise")`` in compiled functions: operations that are looked at as they run.

An operator that is traced where NumPy raises FloatingPointError is followed by a check of its
result and operands. Native code tests them, and Python is called only if one fails.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..ir.errors import UnsupportedError
from ..ir.graph.nodes import Atom, Var
from ..ir.graph.operator import OPERATORS, Pattern
from ..ir.graph.types import TensorType
from ..ir.library.checks import error_class
from ..ir.loop.scalar import SCALAR_OPS
from ..ir.span import Span
from ..tracer.control import cond
from ..tracer.core.except_clauses import refuse_handlers
from ..tracer.core.proxy import Proxy
from ..tracer.core.spans import caret_lines
from ..tracer.core.trace import Trace
from .looking import called

_TEXTS = {
    "divide": "divide by zero",
    "over": "overflow",
    "under": "underflow",
    "invalid": "invalid value",
}

_POLES: dict[Any, Callable[..., Any]] = {
    np.divide: lambda _, y: y == 0,
    np.power: lambda x, y: (x == 0) & (y < 0),
    np.log: lambda x: x == 0,
    np.log2: lambda x: x == 0,
    np.log10: lambda x: x == 0,
    np.log1p: lambda x: x == -1,
    np.arctanh: lambda x: abs(x) == 1,
}
"""Functions that divide by zero at some operands, and where."""

_PRODUCTS = {np.multiply, np.divide, np.power}
_UNDERFLOW = {*_PRODUCTS, np.exp, np.exp2}
_INT_DIVISIONS = {np.floor_divide, np.remainder, np.fmod}


def _ufunc(name: str) -> Any:
    """Returns the ufunc that an operator is; None for others, which are looked at as a whole."""
    function = SCALAR_OPS[name].numpy if name in SCALAR_OPS else None
    return function if isinstance(function, np.ufunc) else None


def look_at(trace: Trace, name: str, operands: Sequence[Atom], result: Var) -> None:
    """Emits a check of an operation in whose place NumPy would raise FloatingPointError.

    Raises UnsupportedError for errors that are to call a function, and for a setting that is in
    force around the call of the compiled function: its code serves other calls, too.
    """
    setting = np.geterr()
    if setting == trace.errstate or "call" in setting.values():
        raise UnsupportedError(
            "np.errstate(...='raise') counts for compiled code where the function itself says so",
            hint="np.errstate(...) inside of the function, np.errstate(all='warn') around its call",
        )
    kinds = tuple(kind for kind, what in setting.items() if what == "raise")
    is_whole = OPERATORS[name].pattern in (Pattern.REDUCTION, Pattern.CONTRACTION)
    if _ufunc(name) is None and not is_whole:
        return
    values = [Proxy(a, trace) for a in operands if isinstance(a.type, TensorType)]
    with np.errstate(all="ignore"):
        flags = [np.any(f) for f in _failures(name, values, Proxy(result, trace), kinds).values()]
        if not flags:
            return
        refuse_handlers(FloatingPointError, "np.errstate")
        fails = flags[0]
        for flag in flags[1:]:
            fails = fails | flag
        span = trace.span or trace.here()
        options = name, kinds, span, () if span is None else caret_lines(span)
        given = (Proxy(result, trace), *values)
        cond(fails, lambda: called(_raising, given, {}, options), lambda: None)


def _failures(name: str, xs: Sequence[Any], result: Any, kinds: Sequence[str]) -> dict[str, Any]:
    """Returns, for each kind of error that the operator may make, where it has made it: arrays of
    bools. Underflow is looked for where a result is 0, not where it is less precise."""
    ufunc = _ufunc(name)
    if result.dtype.kind not in "fc":
        zero = ufunc in _INT_DIVISIONS and result.dtype.kind in "iu" and "divide" in kinds
        return {"divide": xs[1] == 0} if zero else {}
    floats = [x for x in xs if x.dtype.kind in "fc"]
    if ufunc is None:
        floats = [np.where(np.isfinite(x).all(), 0.0, x.sum()) for x in floats]
    nan: Any = False
    infinite: Any = False
    for x in floats:
        nan, infinite = nan | np.isnan(x), infinite | np.isinf(x)
    beyond = np.isinf(result) & np.logical_not(nan | infinite)
    pole = _POLES[ufunc](*xs) if ufunc in _POLES else False
    failures = {
        "invalid": np.isnan(result) & np.logical_not(nan),
        "divide": beyond & pole,
        "over": beyond & np.logical_not(pole),
    }
    if ufunc in _UNDERFLOW:
        zero = result == 0
        for x in xs:
            zero = zero & (x != 0 if ufunc in _PRODUCTS else True)
        failures["under"] = zero & np.logical_not(infinite)
    if ufunc not in _POLES:
        del failures["divide"]
    return {kind: flags for kind, flags in failures.items() if kind in kinds}


def _raising(
    name: str, kinds: Sequence[str], span: Span | None, source: tuple[str, ...]
) -> Callable[..., None]:
    def fail(result: Any, *xs: Any) -> None:
        """Raises the error of the first element that has one."""
        with np.errstate(all="ignore"):
            failures = _failures(name, xs, result, kinds)
        kind, flags = next((k, f) for k, f in failures.items() if np.any(f))
        ufunc = _ufunc(name)
        named = name.removeprefix("nn.") if ufunc is None else ufunc.__name__
        text = f"{_TEXTS[kind]} encountered in {named}"
        index = tuple(np.argwhere(np.broadcast_to(flags, result.shape))[0])
        if ufunc is not None:
            there = [np.broadcast_to(x, result.shape)[index] for x in xs]
            text += f" of {' and '.join(map(str, there))}"
        if index:
            text += f", at index {', '.join(map(str, index))}"
        raise error_class("FloatingPointError")(text, span=span, source=source)

    return fail
