"""NumPy's ufuncs on traced arrays: rows of tables, and those made of several operators."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..ir.dtype import BOOL, FLOAT64, UINT64
from ..ir.errors import LoopwrightTypeError, LoopwrightValueError, UnsupportedError
from ..ir.loop.scalar import SCALAR_OPS, ScalarOp
from .dispatch import UFUNCS, by_element, implements
from .elementwise import full_like
from .emitting import (
    common_dtype,
    dtype_argument,
    emit,
    kind_of,
    lift,
    promoted,
    to_float,
    ufunc_dtypes,
)
from .proxy import Proxy, WeakType, is_number, run

__all__ = ["IN_PLACE"]

_ROUNDING = (np.floor, np.ceil, np.trunc)
"""Ufuncs that return integers as they are."""


def _refuse(where: Any, options: dict[str, Any]) -> None:
    if where is not True:
        raise UnsupportedError("where= is not supported", hint="np.where(mask, result, otherwise)")
    for name, value in options.items():
        if (name, value) not in (("casting", "same_kind"), ("order", "K"), ("subok", True)):
            raise UnsupportedError(f"{name}= is not supported")


def _ufunc(function: Callable[..., Any]) -> Callable[..., Any]:
    """The keyword arguments that every ufunc takes: ``dtype=`` is honoured."""

    def call(*args: Any, dtype: Any = None, where: Any = True, **options: Any) -> Any:
        _refuse(where, options)
        if dtype is None:
            return function(*args)
        return function(*(lift(a, dtype_argument(dtype)) for a in args))

    call.__name__ = function.__name__
    return by_element(call)


def _direct(ufunc: Any, name: str) -> Callable[..., Proxy]:
    def call(*args: Any) -> Proxy:
        if len(args) != ufunc.nin:
            raise LoopwrightTypeError(
                f"{ufunc.__name__} takes {ufunc.nin} operands, not {len(args)}"
            )
        return emit(name, *promoted(ufunc, *args)[0])

    call.__name__ = ufunc.__name__
    return _ufunc(call)


def _comparison(ufunc: Any, name: str) -> Callable[..., Proxy]:
    def call(x: Any, y: Any) -> Proxy:
        decided = _out_of_range(name, x, y)
        if decided is not None:
            return decided
        x, y = _strong_ints(x, y)
        kinds = ufunc_dtypes(ufunc, (kind_of(x), kind_of(y)))
        if kinds[0] != kinds[1]:
            return _compare_signs_apart(name, lift(x, kinds[0]), lift(y, kinds[1]))
        return emit(name, *promoted(ufunc, x, y)[0])

    call.__name__ = ufunc.__name__
    return _ufunc(call)


def _strong_ints(x: Any, y: Any) -> tuple[Any, Any]:
    """A traced Python int beside an array of integers, which NumPy compares by their values."""

    def wide(number: Any, array: Any) -> Any:
        if type(number) is not Proxy or number.weak is not int:
            return number
        kind = kind_of(array)
        beside = not isinstance(kind, type) and kind.kind in "iu"
        return Proxy(number.atom, number.owner) if beside else number

    return wide(x, y), wide(y, x)


def _compare_signs_apart(name: str, x: Proxy, y: Proxy) -> Proxy:
    """int64 against uint64, which have no common integer dtype: below zero, the sign decides."""
    signed, below = (
        (x, name.startswith("less")) if x.type.dtype.is_signed else (y, name.startswith("greater"))
    )
    negative = emit("less", signed, lift(0, signed.type.dtype))
    compared = emit(name, lift(x, UINT64), lift(y, UINT64))
    answer = lift(below or name == "not_equal", BOOL)
    return emit("where", negative, answer, compared)


def _out_of_range(name: str, x: Any, y: Any) -> Proxy | None:
    """An integer array against a Python int that its dtype cannot hold: the answer is known."""
    array, number = (y, x) if is_number(x) else (x, y)
    if (
        not is_number(number)
        or isinstance(number, bool | float)
        or isinstance(kind_of(array), type)
    ):
        return None
    dtype = common_dtype(array)
    if not dtype.is_integer:
        return None
    info = np.iinfo(dtype.numpy)
    if info.min <= number <= info.max:
        return None
    smaller = number > info.max  # the array's elements are smaller than the number
    if array is y:
        smaller = not smaller
    answer = name == "not_equal" or name.startswith("less" if smaller else "greater")
    return full_like(array, answer, BOOL)


def _logic(ufunc: Any, name: str) -> Callable[..., Proxy]:
    def call(*args: Any) -> Proxy:
        return emit(name, *(lift(a, BOOL) for a in args))

    call.__name__ = ufunc.__name__
    return _ufunc(call)


def _rounding(ufunc: Any, name: str) -> Callable[..., Proxy]:
    def call(x: Any) -> Proxy:
        (operand,), _ = promoted(ufunc, x)
        return emit(name, operand) if operand.type.dtype.is_float else operand

    call.__name__ = ufunc.__name__
    return _ufunc(call)


def _float_test(ufunc: Any, name: str) -> Callable[..., Proxy]:
    def call(x: Any) -> Proxy:
        operand = lift(x)
        if operand.type.dtype.is_float:
            return emit(name, operand)
        return full_like(operand, name == "isfinite", BOOL)

    call.__name__ = ufunc.__name__
    return _ufunc(call)


def _implementation(row: ScalarOp) -> Callable[..., Proxy]:
    """The implementation of the ufunc that defines a row of the scalar table."""
    if row.numpy in _ROUNDING:
        make = _rounding
    elif row.kinds == "b":
        make = _logic
    elif row.to_bool:
        make = _comparison if row.arity == 2 else _float_test
    else:
        make = _direct
    return make(row.numpy, row.name)


for _row in SCALAR_OPS.values():
    if isinstance(_row.numpy, np.ufunc):
        UFUNCS[_row.numpy] = _implementation(_row)


# Ufuncs that are made of several operators.


@implements(np.positive, np.conjugate)
@_ufunc
def _positive(x: Any) -> Proxy:
    return promoted(np.positive, x)[0][0]


@implements(np.power)
@_ufunc
def _power(x: Any, y: Any) -> Proxy:
    """Small Python exponents become multiplications, roots and reciprocals, as NumPy has them."""
    (base, exponent), _ = promoted(np.power, x, y)
    known: Any = 0 if type(y) is Proxy or isinstance(y, list | tuple) else y
    if base.type.dtype.is_integer and np.any(known < 0):
        hint = f"{float(known)}" if np.ndim(known) == 0 else "a float base"
        raise LoopwrightValueError("integers to negative integer powers are not allowed", hint=hint)
    if is_number(y) and not isinstance(y, bool):
        if y == 2:
            return emit("multiply", base, base)
        if base.type.dtype.is_float and y == 0.5:
            return emit("sqrt", base)
        if base.type.dtype.is_float and y == -1:
            return emit("divide", lift(1, base.type.dtype), base)
        if y == 1:
            return base
    return emit("power", base, exponent)


@implements(np.float_power)
@_ufunc
def _float_power(x: Any, y: Any) -> Proxy:
    return emit("power", lift(x, FLOAT64), lift(y, FLOAT64))


@implements(np.fabs)
@_ufunc
def _fabs(x: Any) -> Proxy:
    return emit("abs", to_float(x))


@implements(np.square)
@_ufunc
def _square(x: Any) -> Proxy:
    (operand,), _ = promoted(np.square, x)
    return emit("multiply", operand, operand)


@implements(np.reciprocal)
@_ufunc
def _reciprocal(x: Any) -> Proxy:
    (operand,), _ = promoted(np.reciprocal, x)
    one = lift(1, operand.type.dtype)
    return emit("divide" if operand.type.dtype.is_float else "floor_divide", one, operand)


@implements(np.hypot)
@_ufunc
def _hypot(x: Any, y: Any) -> Proxy:
    """``sqrt(x*x + y*y)`` without overflow: the greater is taken out of the root."""
    (a, b), _ = promoted(np.hypot, x, y)
    a, b = emit("abs", a), emit("abs", b)
    great, small = emit("maximum", a, b), emit("minimum", a, b)
    zero, one = lift(0, great.type.dtype), lift(1, great.type.dtype)
    infinite = emit("logical_or", emit("isinf", a), emit("isinf", b))
    ratio = emit("where", emit("equal", great, zero), zero, emit("divide", small, great))
    root = emit("sqrt", emit("add", emit("multiply", ratio, ratio), one))
    infinity = lift(math.inf, great.type.dtype)
    return emit("where", infinite, infinity, emit("multiply", great, root))


@implements(np.logaddexp)
@_ufunc
def _logaddexp(x: Any, y: Any) -> Proxy:
    """``log(exp(x) + exp(y))`` without overflow."""
    (a, b), _ = promoted(np.logaddexp, x, y)
    difference = emit("negative", emit("abs", emit("subtract", a, b)))
    raised = emit("add", emit("maximum", a, b), emit("log1p", emit("exp", difference)))
    same = emit("add", a, lift(math.log(2.0), a.type.dtype))  # also where both are infinite
    return emit("where", emit("equal", a, b), same, raised)


@implements(np.heaviside)
@_ufunc
def _heaviside(x: Any, y: Any) -> Proxy:
    (a, b), _ = promoted(np.heaviside, x, y)
    zero, one = lift(0, a.type.dtype), lift(1, a.type.dtype)
    step = emit("where", emit("less", a, zero), zero, emit("where", emit("isnan", a), a, one))
    return emit("where", emit("equal", a, zero), b, step)


@implements(np.deg2rad, np.radians)
@_ufunc
def _radians(x: Any) -> Proxy:
    operand = to_float(x)
    return emit("multiply", operand, lift(math.pi / 180.0, operand.type.dtype))


@implements(np.rad2deg, np.degrees)
@_ufunc
def _degrees(x: Any) -> Proxy:
    operand = to_float(x)
    return emit("multiply", operand, lift(180.0 / math.pi, operand.type.dtype))


@implements(np.signbit)
@_ufunc
def _signbit(x: Any) -> Proxy:
    operand = lift(x)
    dtype = operand.type.dtype
    if dtype.is_float:
        operand = emit("copysign", lift(1, dtype), operand)
    elif dtype.is_bool:
        return full_like(operand, False, BOOL)
    return emit("less", operand, lift(0, dtype))


@implements(np.divmod)
@_ufunc
def _divmod(x: Any, y: Any) -> tuple[Proxy, Proxy]:
    operands, _ = promoted(np.divmod, x, y)
    return emit("floor_divide", *operands), emit("floor_mod", *operands)


@implements(np.modf)
@_ufunc
def _modf(x: Any) -> tuple[Proxy, Proxy]:
    operand = to_float(x)
    whole = emit("trunc", operand)
    fraction = emit(
        "where",
        emit("isinf", operand),
        lift(0, operand.type.dtype),
        emit("subtract", operand, whole),
    )
    return emit("copysign", fraction, operand), whole


def _operator(ufunc: np.ufunc, *operands: Any) -> Any:
    """An operator's symbol applied: NumPy's ufunc, but Python numbers stay Python numbers."""
    if not all(
        isinstance(o, Proxy | bool | int | float | np.ndarray | np.generic) for o in operands
    ):
        if any(isinstance(o, complex | list | tuple | str) or o is None for o in operands):
            return run(ufunc.__name__, UFUNCS[ufunc], operands)
        return NotImplemented
    result = run(ufunc.__name__, UFUNCS[ufunc], operands)
    if all(is_number(o) or getattr(o, "weak", None) for o in operands):
        kind: WeakType = {"b": bool, "f": float}.get(result.type.dtype.kind, int)
        numbers = [o.atom if type(o) is Proxy else o for o in operands]
        if kind is int:
            result.owner.numbers.result(result.atom, ufunc, numbers, result.owner.here())
        return Proxy(result.atom, result.owner, kind)
    return result


_BINARY = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "truediv": np.true_divide,
    "floordiv": np.floor_divide,
    "mod": np.remainder,
    "divmod": np.divmod,
    "pow": np.power,
    "matmul": np.matmul,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "lshift": np.left_shift,
    "rshift": np.right_shift,
}
_COMPARISON = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}
_UNARY = {"neg": np.negative, "pos": np.positive, "abs": np.absolute, "invert": np.invert}


def _in_place(ufunc: np.ufunc, x: Proxy, y: Any) -> Any:
    """``x += y``: changes the array; a scalar is replaced, as in NumPy."""
    if x.is_scalar:
        memory = x.owner.memory
        memory.touch(x.storage)
        memory.changed = True
        return NotImplemented
    if not isinstance(y, Proxy | bool | int | float | np.ndarray | np.generic | list | tuple):
        return NotImplemented
    return x.__array_ufunc__(ufunc, "__call__", x, y, out=(x,))


IN_PLACE = {f"__i{name}__": ufunc for name, ufunc in _BINARY.items() if name != "divmod"}
"""The methods of ``x += y`` and its like."""


def _add_operators() -> None:
    for name, ufunc in {**_BINARY, **_COMPARISON}.items():
        setattr(Proxy, f"__{name}__", lambda x, y, ufunc=ufunc: _operator(ufunc, x, y))
    for name, ufunc in _BINARY.items():
        setattr(Proxy, f"__r{name}__", lambda x, y, ufunc=ufunc: _operator(ufunc, y, x))
    for name, ufunc in IN_PLACE.items():
        setattr(Proxy, name, lambda x, y, ufunc=ufunc: _in_place(ufunc, x, y))
    for name, ufunc in _UNARY.items():
        setattr(Proxy, f"__{name}__", lambda x, ufunc=ufunc: _operator(ufunc, x))


_add_operators()
