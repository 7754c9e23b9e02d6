"""Symbolic sizes as traced functions see them: integers without a value.

``x.shape[0]`` of an axis with a symbolic size is a ``Size``. Arithmetic on sizes and ints gives
sizes, which may be used in shapes, slices and indices; together with arrays and other numbers a
size is a traced number. A comparison is decided from the ranges of the sizes. What these leave open
is decided by the sizes of the call that asked for the code, and becomes a requirement of the
function: a guard. Where Python needs an int (``range(n)``), tracing needs the value.

Our own functions never see a ``Size``: ``proxy.run`` gives them the expressions.
"""

from __future__ import annotations

import math
import operator
import sys
from collections.abc import Callable, Iterable
from types import FrameType
from typing import Any

import numpy as np

from ...ir import dims
from ...ir.dims import size_symbols
from ...ir.dtype import INT64
from ...ir.errors import LoopwrightError, LoopwrightTypeError
from ...ir.graph.requirements import Requirement, require
from ...ir.graph.requirements import locate as locate_required
from ...ir.graph.types import TensorType
from .dispatch import METHODS
from .error_context import locate
from .misuse import is_range, is_text
from .spans import caret_lines
from .trace import Trace, active

GUARD = "a comparison of sizes in the function"
"""Message of the requirements that are guards: the function was traced for one of its branches."""


class Size:
    """An integer expression over symbolic sizes, in the place of a Python int; a ``strong`` one is
    in the place of NumPy's int64, which has a dtype where it meets arrays."""

    __slots__ = ("expr", "owner", "strong")

    def __init__(self, expr: dims.Dim, owner: Trace, strong: bool = False) -> None:
        self.expr = expr
        self.owner = owner
        self.strong = strong

    @property
    def __class__(self) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Returns the class that ``isinstance`` sees: a size stands for an int."""
        return np.int64 if self.strong else int

    def __str__(self) -> str:
        return self._text(sys._getframe(1))

    __repr__ = __str__

    def _text(self, caller: FrameType) -> str:
        """Returns the name, to be printed. In another text it would stand for the value."""
        if active() is self.owner and is_text(caller):
            self.__index__()
        return str(self.expr)

    def __format__(self, spec: str) -> str:
        return format(
            self._text(sys._getframe(1)), spec if not spec or spec[-1] in "s<>^=0123456789" else ""
        )

    def __copy__(self) -> Size:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Size:
        return self

    @property
    def dtype(self) -> np.dtype[Any]:
        """That of NumPy's int64, which a strong size stands for; Python's ints have none."""
        if not self.strong:
            raise AttributeError("dtype")
        return np.dtype(np.int64)

    # Where Python needs the value.

    def __index__(self) -> int:
        trace = self.owner
        if active() is trace:
            trace.indexed_sizes = True
            if is_range():
                trace.want_captured()
            if dims.size_symbols(self.expr).keys() <= trace.sizes.keys():
                trace.needs.sizes |= {*dims.size_symbols(self.expr)}
        raise located(_needs_value(self.expr), trace)

    __int__ = __trunc__ = __index__

    def __float__(self) -> float:
        return float(self.__index__())

    def __complex__(self) -> complex:
        return complex(self.__index__())

    def __hash__(self) -> int:
        return hash(self.__index__())

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or not hasattr(int, name):
            raise AttributeError(name)
        return getattr(self.__index__(), name)

    # Comparisons.

    def __bool__(self) -> bool:
        return decided(self.expr, "!=", 0)

    def __eq__(self, other: object) -> bool:
        return _compared(self, "==", other)

    def __ne__(self, other: object) -> bool:
        return _compared(self, "!=", other)

    def __lt__(self, other: object) -> bool:
        return _compared(self, "<", other)

    def __le__(self, other: object) -> bool:
        return _compared(self, "<=", other)

    def __gt__(self, other: object) -> bool:
        return _compared(self, ">", other)

    def __ge__(self, other: object) -> bool:
        return _compared(self, ">=", other)

    # Together with arrays and numbers.

    def number(self) -> Any:
        """Returns the size as a traced number."""
        return _number(self.expr, self.strong)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        exact = [_exact(value) for value in inputs]
        if ufunc in _EXACT and method == "__call__" and not options and None not in exact:
            return of_expr(_EXACT[ufunc](*exact), self.owner, strong=True)
        numbers = [value.number() if type(value) is Size else value for value in inputs]
        first = next(n for n, value in zip(numbers, inputs) if type(value) is Size)
        return type(first).__array_ufunc__(first, ufunc, method, *numbers, **options)

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return np.asarray(self.__index__(), dtype)

    # Arithmetic; the rest of it is set below.

    def __neg__(self) -> Any:
        return of_expr(-self.expr, self.owner, self.strong)

    def __pos__(self) -> Size:
        return self

    __floor__ = __ceil__ = __pos__

    def __round__(self, ndigits: int | None = None) -> Any:
        return self if ndigits is None or ndigits >= 0 else round(self.__index__(), ndigits)

    def __abs__(self) -> Any:
        return self if decided(0, "<=", self.expr) else -self

    def __invert__(self) -> Any:
        return of_expr(-1 - self.expr, self.owner, self.strong)

    def __divmod__(self, other: Any) -> Any:
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> Any:
        return other // self, other % self

    def __pow__(self, other: Any, modulo: Any = None) -> Any:
        if type(other) is int and 0 <= other <= 8 and modulo is None:
            return of_expr(math.prod([self.expr] * other), self.owner, self.strong)
        return pow(self.number(), other) if modulo is None else pow(self.__index__(), other, modulo)

    def __rpow__(self, other: Any) -> Any:
        return pow(other, self.number())


_EXACT: dict[np.ufunc, Callable[..., dims.IntExpr]] = {
    np.add: operator.add,
    np.maximum: dims.int_max,
    np.minimum: dims.int_min,
    np.multiply: operator.mul,
    np.subtract: operator.sub,
}


def _number(expr: dims.IntExpr, strong: bool) -> Any:
    trace = active()
    if trace is not None:  # functions of NumPy's in C compute with sizes before they ask for values
        trace.indexed_sizes = True
    return METHODS["size.number"](expr, INT64 if strong else None)


def of_expr(expr: dims.IntExpr, owner: Trace, strong: bool = False) -> Any:
    """Returns an expression as the user's code sees it."""
    if isinstance(expr, dims.Dim):
        return Size(expr, owner, strong)
    return np.int64(expr) if strong else expr


def of_shape(shape: tuple[dims.IntExpr, ...], owner: Trace) -> tuple[Any, ...]:
    """Returns a shape as the user's code sees it."""
    return tuple(of_expr(s, owner) for s in shape)


def has_sizes(values: Any) -> bool:
    """True if there is a size among ``values``, or in lists, tuples, dicts and slices there."""
    return any(type(v) is Size or has_sizes(_inside(v)) for v in values)


def _inside(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return value
    if type(value) is slice:
        return value.start, value.stop, value.step
    return value.values() if isinstance(value, dict) else ()


def expressions(value: Any, as_operands: bool = False) -> Any:
    """Returns arguments with the expressions of the sizes among them. As operands, strong ones are
    numbers."""
    if type(value) is Size:
        return value.number() if as_operands and value.strong else value.expr
    if type(value) is slice:
        return slice(*(expressions(v) for v in (value.start, value.stop, value.step)))
    if type(value) is dict:
        return {key: expressions(inside, as_operands) for key, inside in value.items()}
    if type(value) in (list, tuple):
        return type(value)(expressions(inside, as_operands) for inside in value)
    return value


def _exact(value: Any) -> dims.IntExpr | None:
    """Returns a size or integer as an expression; None for anything else."""
    if type(value) is Size:
        return value.expr
    return int(value) if issubclass(type(value), int | np.integer) else None


def _compared(left: Size, relation: str, other: Any) -> Any:
    right = _exact(other)
    if right is None and type(other) is float:
        if not math.isfinite(other):
            return dims.RELATIONS[relation](0, other)
        if relation in ("==", "!=") and not other.is_integer():
            return relation == "!="
        # For integers, n < 2.5 and n >= 2.5 are n < 3 and n >= 3.
        right = math.ceil(other) if relation in ("<", ">=") else math.floor(other)
    if right is None:
        return NotImplemented
    return decided(left.expr, relation, right)


def decided(left: dims.IntExpr, relation: str, right: dims.IntExpr) -> bool:
    """Returns the truth of a comparison in the user's code; see the top of the file."""
    proved = _proved(left, relation, right)
    if proved is not None:
        return proved
    trace = active()
    names = dims.size_symbols(left, right)
    if trace is None or not names.keys() <= trace.sizes.keys():
        if trace is not None:
            trace.indexed_sizes = True  # NumPy's own functions compare as well
        raise located(_undecided(left, relation, right), trace)
    values = trace.sizes
    truth = dims.RELATIONS[relation](dims.evaluate(left, values), dims.evaluate(right, values))
    _guard(left, relation if truth else dims.NEGATED[relation], right, trace)
    return truth


def _ordered(
    left: dims.IntExpr, relation: str, right: dims.IntExpr
) -> tuple[dims.IntExpr, str, dims.IntExpr]:
    """Returns the same relation as requirements write it: the lesser side first."""
    return (
        (right, dims.SWAPPED[relation], left)
        if relation in (">", ">=")
        else (left, relation, right)
    )


def _proved(left: dims.IntExpr, relation: str, right: dims.IntExpr) -> bool | None:
    return Requirement(*_ordered(left, relation, right)).decided


def _guard(left: dims.IntExpr, relation: str, right: dims.IntExpr, trace: Trace) -> None:
    span = trace.here()
    require(*_ordered(left, relation, right), GUARD, span)
    locate_required(span, "")


def located(error: LoopwrightError, trace: Trace | None) -> LoopwrightError:
    """Returns ``error`` with the user's line."""
    if trace is not None and active() is trace:
        locate(error, trace, ours=True)
    return error


def _undecided(left: dims.IntExpr, relation: str, right: dims.IntExpr) -> LoopwrightError:
    return LoopwrightTypeError(
        f"{left} {relation} {right} depends on a size that is known only when the code runs",
        hint="lw.cond, lw.while_loop or np.where on traced numbers: np.sum(mask) instead of a size",
    )


def _needs_value(expr: dims.Dim) -> LoopwrightError:
    return LoopwrightTypeError(
        f"Python needs an int here, and the size {expr} is symbolic",
        hint="a number for this axis (leave it out of dynamic=), or lw.fori_loop for a loop",
    )


def _arithmetic(function: Callable[..., Any], compute: Callable[..., Any], swapped: bool) -> Any:
    def method(self: Size, other: Any) -> Any:
        right = _exact(other)
        if right is None:
            if not isinstance(other, float | complex | np.generic | np.ndarray):
                return NotImplemented  # a traced array, which takes a size itself
            return function(other, self.number()) if swapped else function(self.number(), other)
        pair = (right, self.expr) if swapped else (self.expr, right)
        strong = self.strong or isinstance(other, np.integer)  # as a strong size is
        result = compute(*pair)
        return (
            function(*(_number(part, strong) for part in pair))
            if result is None
            else of_expr(result, self.owner, strong)
        )

    return method


def _quotient(left: dims.IntExpr, right: dims.IntExpr) -> dims.IntExpr:
    _refuse_zero(right)
    return dims.floordiv(left, right)


def _remainder(left: dims.IntExpr, right: dims.IntExpr) -> dims.IntExpr:
    _refuse_zero(right)
    return dims.mod(left, right)


def _refuse_zero(divisor: dims.IntExpr) -> None:
    if decided(divisor, "==", 0):
        raise ZeroDivisionError("division by zero")


def _shifted(left: dims.IntExpr, right: dims.IntExpr, back: bool) -> dims.IntExpr | None:
    if not isinstance(right, int) or right < 0:
        return None
    return dims.floordiv(left, 2**right) if back else left * 2**right


_OPERATORS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "add": (operator.add, operator.add),
    "sub": (operator.sub, operator.sub),
    "mul": (operator.mul, operator.mul),
    "floordiv": (operator.floordiv, _quotient),
    "mod": (operator.mod, _remainder),
    "truediv": (operator.truediv, lambda _left, _right: None),
    "lshift": (operator.lshift, lambda left, right: _shifted(left, right, False)),
    "rshift": (operator.rshift, lambda left, right: _shifted(left, right, True)),
    "and": (operator.and_, lambda _left, _right: None),
    "or": (operator.or_, lambda _left, _right: None),
    "xor": (operator.xor, lambda _left, _right: None),
}
for _name, (_function, _compute) in _OPERATORS.items():
    setattr(Size, f"__{_name}__", _arithmetic(_function, _compute, swapped=False))
    setattr(Size, f"__r{_name}__", _arithmetic(_function, _compute, swapped=True))


def data_sizes_of(trace: Trace, types: Iterable[TensorType]) -> list[str]:
    """Returns the names of the sizes of results of these types that data decides."""
    names = size_symbols(*(size for type in types for size in type.shape))
    return [name for name in names if name in trace.data_sizes]


def check_data_sizes(trace: Trace, required: Iterable[Requirement]) -> None:
    """Refuses requirements of sizes that are known only when the function runs."""
    for needed in required:
        if names := [name for name in needed.names if name in trace.data_sizes]:
            trace.needs.compare([trace.data_sizes[name] for name in names])
            raise LoopwrightTypeError(
                f"{needed.message or 'sizes'}: that {needed} is not known before the function "
                "runs, as data decides these sizes",
                span=needed.span,
                source=caret_lines(needed.span) if needed.span is not None else (),
            )
