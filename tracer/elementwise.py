"""NumPy's ufuncs and other elementwise functions on traced arrays."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..ir.dtype import BOOL, FLOAT64, DType
from ..ir.errors import LoopwrightTypeError, LoopwrightValueError, UnsupportedError
from .dispatch import UFUNCS, implements, method
from .promotion import common, common_dtype, dtype_argument, kind_of, promoted, to_float
from .proxy import Proxy, emit, lift

__all__ = ["cast", "where"]

_DIRECT = {
    np.add: "add",
    np.subtract: "subtract",
    np.multiply: "multiply",
    np.divide: "divide",
    np.floor_divide: "floor_divide",
    np.remainder: "floor_mod",
    np.fmod: "truncate_mod",
    np.negative: "negative",
    np.absolute: "abs",
    np.sign: "sign",
    np.maximum: "maximum",
    np.minimum: "minimum",
    np.fmax: "fmax",
    np.fmin: "fmin",
    np.sqrt: "sqrt",
    np.cbrt: "cbrt",
    np.rint: "round",
    np.copysign: "copysign",
    np.exp: "exp",
    np.exp2: "exp2",
    np.expm1: "expm1",
    np.log: "log",
    np.log1p: "log1p",
    np.log2: "log2",
    np.log10: "log10",
    np.sin: "sin",
    np.cos: "cos",
    np.tan: "tan",
    np.arcsin: "asin",
    np.arccos: "acos",
    np.arctan: "atan",
    np.arctan2: "atan2",
    np.sinh: "sinh",
    np.cosh: "cosh",
    np.tanh: "tanh",
    np.arcsinh: "asinh",
    np.arccosh: "acosh",
    np.arctanh: "atanh",
    np.bitwise_and: "bitwise_and",
    np.bitwise_or: "bitwise_or",
    np.bitwise_xor: "bitwise_xor",
    np.invert: "bitwise_not",
    np.left_shift: "left_shift",
    np.right_shift: "right_shift",
}
_COMPARISONS = {
    np.equal: "equal",
    np.not_equal: "not_equal",
    np.less: "less",
    np.less_equal: "less_equal",
    np.greater: "greater",
    np.greater_equal: "greater_equal",
}
_LOGIC = {
    np.logical_and: "logical_and",
    np.logical_or: "logical_or",
    np.logical_xor: "logical_xor",
    np.logical_not: "logical_not",
}
_ROUNDING = {np.floor: "floor", np.ceil: "ceil", np.trunc: "trunc"}
_FLOAT_TESTS = {np.isnan: "isnan", np.isinf: "isinf", np.isfinite: "isfinite"}


def cast(x: Any, dtype: Any) -> Proxy:
    """``x`` with elements of ``dtype``."""
    return lift(x, dtype_argument(dtype))


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
    return call


def _direct(ufunc: np.ufunc, name: str) -> Callable[..., Proxy]:
    def call(*args: Any) -> Proxy:
        if len(args) != ufunc.nin:
            raise LoopwrightTypeError(
                f"{ufunc.__name__} takes {ufunc.nin} operands, not {len(args)}"
            )
        return emit(name, *promoted(ufunc, *args)[0])

    call.__name__ = ufunc.__name__
    return _ufunc(call)


def _comparison(ufunc: np.ufunc, name: str) -> Callable[..., Proxy]:
    def call(x: Any, y: Any) -> Proxy:
        decided = _out_of_range(name, x, y)
        return decided if decided is not None else emit(name, *promoted(ufunc, x, y)[0])

    call.__name__ = ufunc.__name__
    return _ufunc(call)


def _out_of_range(name: str, x: Any, y: Any) -> Proxy | None:
    """An integer array against a Python int that its dtype cannot hold: the answer is known."""
    array, number = (y, x) if isinstance(x, int) else (x, y)
    if not isinstance(number, int) or isinstance(number, bool) or isinstance(kind_of(array), type):
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


def full_like(x: Any, value: Any, dtype: DType) -> Proxy:
    shape = lift(x).shape
    return emit("full", shape=shape, fill_value=value, dtype=str(dtype))


def _logic(ufunc: np.ufunc, name: str) -> Callable[..., Proxy]:
    def call(*args: Any) -> Proxy:
        return emit(name, *(lift(a, BOOL) for a in args))

    call.__name__ = ufunc.__name__
    return _ufunc(call)


def _rounding(ufunc: np.ufunc, name: str) -> Callable[..., Proxy]:
    def call(x: Any) -> Proxy:
        (operand,), _ = promoted(ufunc, x)
        return emit(name, operand) if operand.type.dtype.is_float else operand

    call.__name__ = ufunc.__name__
    return _ufunc(call)


def _float_test(ufunc: np.ufunc, name: str) -> Callable[..., Proxy]:
    def call(x: Any) -> Proxy:
        operand = lift(x)
        if operand.type.dtype.is_float:
            return emit(name, operand)
        return full_like(operand, name == "isfinite", BOOL)

    call.__name__ = ufunc.__name__
    return _ufunc(call)


for _makers, _table in (
    (_direct, _DIRECT),
    (_comparison, _COMPARISONS),
    (_logic, _LOGIC),
    (_rounding, _ROUNDING),
    (_float_test, _FLOAT_TESTS),
):
    UFUNCS.update({_key: _makers(_key, _name) for _key, _name in _table.items()})


# Ufuncs that are made of several operators.


@implements(np.positive, np.conjugate)
@_ufunc
def positive(x: Any) -> Proxy:
    return promoted(np.positive, x)[0][0]


@implements(np.power)
@_ufunc
def power(x: Any, y: Any) -> Proxy:
    """Small Python exponents become multiplications, roots and reciprocals, as NumPy has them."""
    (base, exponent), _ = promoted(np.power, x, y)
    if isinstance(y, int | float) and not isinstance(y, bool):
        if base.type.dtype.is_integer and y < 0:
            raise LoopwrightValueError(
                "integers to negative integer powers are not allowed", hint=f"{float(y)}"
            )
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
def float_power(x: Any, y: Any) -> Proxy:
    return emit("power", lift(x, FLOAT64), lift(y, FLOAT64))


@implements(np.fabs)
@_ufunc
def fabs(x: Any) -> Proxy:
    return emit("abs", to_float(x))


@implements(np.square)
@_ufunc
def square(x: Any) -> Proxy:
    (operand,), _ = promoted(np.square, x)
    return emit("multiply", operand, operand)


@implements(np.reciprocal)
@_ufunc
def reciprocal(x: Any) -> Proxy:
    (operand,), _ = promoted(np.reciprocal, x)
    one = lift(1, operand.type.dtype)
    return emit("divide" if operand.type.dtype.is_float else "floor_divide", one, operand)


@implements(np.hypot)
@_ufunc
def hypot(x: Any, y: Any) -> Proxy:
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
def logaddexp(x: Any, y: Any) -> Proxy:
    """``log(exp(x) + exp(y))`` without overflow."""
    (a, b), _ = promoted(np.logaddexp, x, y)
    difference = emit("negative", emit("abs", emit("subtract", a, b)))
    raised = emit("add", emit("maximum", a, b), emit("log1p", emit("exp", difference)))
    same = emit("add", a, lift(math.log(2.0), a.type.dtype))  # also where both are infinite
    return emit("where", emit("equal", a, b), same, raised)


@implements(np.heaviside)
@_ufunc
def heaviside(x: Any, y: Any) -> Proxy:
    (a, b), _ = promoted(np.heaviside, x, y)
    zero, one = lift(0, a.type.dtype), lift(1, a.type.dtype)
    step = emit("where", emit("less", a, zero), zero, emit("where", emit("isnan", a), a, one))
    return emit("where", emit("equal", a, zero), b, step)


@implements(np.deg2rad, np.radians)
@_ufunc
def radians(x: Any) -> Proxy:
    operand = to_float(x)
    return emit("multiply", operand, lift(math.pi / 180.0, operand.type.dtype))


@implements(np.rad2deg, np.degrees)
@_ufunc
def degrees(x: Any) -> Proxy:
    operand = to_float(x)
    return emit("multiply", operand, lift(180.0 / math.pi, operand.type.dtype))


@implements(np.signbit)
@_ufunc
def signbit(x: Any) -> Proxy:
    operand = lift(x)
    dtype = operand.type.dtype
    if dtype.is_float:
        operand = emit("copysign", lift(1, dtype), operand)
    elif dtype.is_bool:
        return full_like(operand, False, BOOL)
    return emit("less", operand, lift(0, dtype))


@implements(np.divmod)
@_ufunc
def divmod_(x: Any, y: Any) -> tuple[Proxy, Proxy]:
    operands, _ = promoted(np.divmod, x, y)
    return emit("floor_divide", *operands), emit("floor_mod", *operands)


@implements(np.modf)
@_ufunc
def modf(x: Any) -> tuple[Proxy, Proxy]:
    operand = to_float(x)
    whole = emit("trunc", operand)
    fraction = emit(
        "where",
        emit("isinf", operand),
        lift(0, operand.type.dtype),
        emit("subtract", operand, whole),
    )
    return emit("copysign", fraction, operand), whole


# Elementwise functions that are no ufuncs.


@implements(np.where)
def where(condition: Any, x: Any = None, y: Any = None) -> Proxy:
    if x is None or y is None:
        raise LoopwrightTypeError(
            "np.where(condition) gives a shape that depends on values",
            hint="np.where(condition, a, b)",
        )
    return emit("where", lift(condition, BOOL), *common(x, y))


@implements(np.clip)
@method("clip")
def clip(
    a: Any,
    a_min: Any = None,
    a_max: Any = None,
    *,
    min: Any = None,
    max: Any = None,
    dtype: Any = None,
) -> Proxy:
    low = a_min if min is None else min
    high = a_max if max is None else max
    bounds = [b for b in (low, high) if b is not None]
    target = common_dtype(a, *bounds) if dtype is None else dtype_argument(dtype)
    x = lift(a, target)
    if all(isinstance(b, int | float) for b in bounds):
        for bound in bounds:
            lift(bound, target)  # refuses an int that does not fit
        return emit("clip", x, a_min=low, a_max=high)
    if low is not None:
        x = emit("maximum", x, lift(low, target))
    return x if high is None else emit("minimum", x, lift(high, target))


@implements(np.round, np.around)
@method("round")
def round_(a: Any, decimals: int = 0) -> Proxy:
    x = lift(a)
    dtype = x.type.dtype
    if not dtype.is_float:
        if decimals >= 0:
            return x
        raise UnsupportedError("rounding integers to tens is not supported")
    if decimals == 0:
        return emit("round", x)
    scale = lift(10.0 ** abs(decimals), dtype)
    down, up = ("multiply", "divide") if decimals > 0 else ("divide", "multiply")
    return emit(up, emit("round", emit(down, x, scale)), scale)


@implements(np.fix)
def fix(x: Any) -> Proxy:
    operand = lift(x)
    return emit("trunc", operand) if operand.type.dtype.is_float else operand


@implements(np.nan_to_num)
def nan_to_num(
    x: Any, copy: bool = True, nan: Any = 0.0, posinf: Any = None, neginf: Any = None
) -> Proxy:
    operand = lift(x)
    dtype = operand.type.dtype
    if not dtype.is_float:
        return operand
    info = np.finfo(dtype.numpy)
    high = lift(float(info.max) if posinf is None else posinf, dtype)
    low = lift(float(info.min) if neginf is None else neginf, dtype)
    finite = emit("where", emit("isnan", operand), lift(nan, dtype), operand)
    above = emit("where", emit("equal", finite, lift(math.inf, dtype)), high, finite)
    return emit("where", emit("equal", above, lift(-math.inf, dtype)), low, above)


@implements(np.isclose)
def isclose(
    a: Any, b: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
) -> Proxy:
    x, y = common(to_float(a), to_float(b))
    dtype = x.type.dtype
    bound = emit("add", lift(atol, dtype), emit("multiply", lift(rtol, dtype), emit("abs", y)))
    near = emit("less_equal", emit("abs", emit("subtract", x, y)), bound)
    finite = emit("logical_and", emit("isfinite", x), emit("isfinite", y))
    close = emit("logical_or", emit("logical_and", near, finite), emit("equal", x, y))
    if equal_nan:
        close = emit("logical_or", close, emit("logical_and", emit("isnan", x), emit("isnan", y)))
    return close


@implements(np.isposinf)
def isposinf(x: Any) -> Proxy:
    operand = to_float(x)
    return emit("equal", operand, lift(math.inf, operand.type.dtype))


@implements(np.isneginf)
def isneginf(x: Any) -> Proxy:
    operand = to_float(x)
    return emit("equal", operand, lift(-math.inf, operand.type.dtype))


@implements(np.sinc)
def sinc(x: Any) -> Proxy:
    operand = to_float(x)
    dtype = operand.type.dtype
    angle = emit("multiply", operand, lift(math.pi, dtype))
    zero = emit("equal", operand, lift(0, dtype))
    safe = emit("where", zero, lift(1, dtype), angle)
    return emit("where", zero, lift(1, dtype), emit("divide", emit("sin", safe), safe))


@implements(np.select)
def select(condlist: Any, choicelist: Any, default: Any = 0) -> Proxy:
    if len(condlist) != len(choicelist):
        raise LoopwrightValueError(
            f"np.select: {len(condlist)} conditions, but {len(choicelist)} choices"
        )
    *choices, result = common(*choicelist, default)
    for condition, choice in zip(reversed(condlist), reversed(choices), strict=True):
        result = emit("where", lift(condition, BOOL), choice, result)
    return result


@method("astype")
@implements(*([np.astype] if hasattr(np, "astype") else []))
def astype(
    x: Any,
    dtype: Any,
    /,
    order: str = "K",
    casting: str = "unsafe",
    subok: bool = True,
    copy: bool = True,
    device: Any = None,
) -> Proxy:
    return cast(x, dtype)


@implements(np.copy)
@method("copy", "conj", "conjugate", "__copy__")
def copy(a: Any, order: str = "K", subok: bool = False) -> Proxy:
    return lift(a)


@implements(np.real)
def real(val: Any) -> Proxy:
    return lift(val)


@implements(np.iscomplexobj)
def iscomplexobj(x: Any) -> bool:
    return False


@implements(np.isrealobj)
def isrealobj(x: Any) -> bool:
    return True


@implements(np.result_type)
def result_type(*values: Any) -> np.dtype[Any]:
    lifted = [v.dtype if isinstance(v, Proxy) and v.weak is None else v for v in values]
    numbers = {int: 0, float: 0.0, bool: False}
    return np.result_type(*(numbers[v.weak] if isinstance(v, Proxy) else v for v in lifted))
