"""NumPy's ufuncs on traced arrays that are one operator each, and Python's operators on them."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from ...ir.dims import Dim
from ...ir.dtype import BOOL, INT64, UINT64
from ...ir.errors import LoopwrightTypeError, LoopwrightValueError, UnsupportedError
from ...ir.loop.scalar import SCALAR_OPS, ScalarOp
from ..core import emitting
from ..core.dispatch import UFUNCS, by_element, implements
from ..core.emitting import check_cast, common_dtype, dtype_argument, emit, kind_of, lift, promoted
from ..core.proxy import Proxy, WeakType, is_number, run
from .elementwise import full_like

_KEEPING = {np.floor: "biu", np.ceil: "biu", np.trunc: "biu", np.absolute: "b"}
"""Ufuncs that return numbers of some kinds as they are."""


def _refuse(where: Any, options: dict[str, Any]) -> None:
    if where is not True:
        raise UnsupportedError("where= is not supported", hint="np.where(mask, result, otherwise)")
    for name, value in options.items():
        if name != "subok" and (name, value) not in (("casting", "same_kind"), ("order", "K")):
            raise UnsupportedError(f"{name}= is not supported")


def with_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Returns the keyword arguments that every ufunc takes: ``dtype=`` is honoured."""

    def call(*args: Any, dtype: Any = None, where: Any = True, **options: Any) -> Any:
        _refuse(where, options)
        if dtype is None:
            return function(*args)
        target = dtype_argument(dtype)
        check_cast(target, "same_kind", *args)
        result = function(*(lift(a, target) for a in args))
        if (result[0] if isinstance(result, tuple) else result).type.dtype != target:
            raise LoopwrightTypeError(f"no loop of {call.__name__} has results of {target}")
        return result

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
    return with_options(call)


def _comparison(ufunc: Any, name: str) -> Callable[..., Proxy]:
    def call(x: Any, y: Any) -> Proxy:
        decided = _out_of_range(name, x, y)
        if decided is not None:
            return decided
        x, y = _strong_ints(x, y)
        kinds = emitting.ufunc_dtypes(ufunc, (kind_of(x), kind_of(y)))
        if kinds[0] != kinds[1]:
            return _compare_signs_apart(name, lift(x, kinds[0]), lift(y, kinds[1]))
        return emit(name, *promoted(ufunc, x, y)[0])

    call.__name__ = ufunc.__name__
    return with_options(call)


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
        or isinstance(number, bool | float | complex)
        or isinstance(kind_of(array), type)
    ):
        return None
    dtype = common_dtype(array)
    if not dtype.is_integer:
        return None
    least, greatest = dtype.limits
    if least <= number <= greatest:
        return None
    smaller = number > greatest  # the array's elements are smaller than the number
    if array is y:
        smaller = not smaller
    answer = name == "not_equal" or name.startswith("less" if smaller else "greater")
    return full_like(array, answer, BOOL)


def _logic(ufunc: Any, name: str) -> Callable[..., Proxy]:
    def call(*args: Any) -> Proxy:
        return emit(name, *(lift(a, BOOL) for a in args))

    call.__name__ = ufunc.__name__
    return with_options(call)


def _keeping(ufunc: Any, name: str) -> Callable[..., Proxy]:
    def call(x: Any) -> Proxy:
        (operand,), _ = promoted(ufunc, x)
        return operand if operand.dtype.kind in _KEEPING[ufunc] else emit(name, operand)

    call.__name__ = ufunc.__name__
    return with_options(call)


def _float_test(ufunc: Any, name: str) -> Callable[..., Proxy]:
    def call(x: Any) -> Proxy:
        operand = lift(x)
        if operand.type.dtype.is_inexact:
            return emit(name, operand)
        return full_like(operand, name == "isfinite", BOOL)

    call.__name__ = ufunc.__name__
    return with_options(call)


def _implementation(row: ScalarOp) -> Callable[..., Proxy]:
    """Returns the implementation of the ufunc that defines a row of the scalar table."""
    if row.numpy in _KEEPING:
        make = _keeping
    elif row.kinds == "b":
        make = _logic
    elif row.to_bool:
        make = _comparison if row.arity == 2 else _float_test
    else:
        make = _direct
    return make(row.numpy, row.name)


for _row in SCALAR_OPS.values():
    if isinstance(_row.numpy, np.ufunc) and not _row.internal:
        UFUNCS[_row.numpy] = _implementation(_row)


_MOST_FACTORS = 100
"""Exponents from which on NumPy takes logarithms of complex numbers."""


def _is_small_int(y: Any) -> bool:
    return isinstance(y, int | float) and float(y).is_integer() and abs(y) < _MOST_FACTORS


def _product_of_equals(base: Proxy, count: int) -> Proxy:
    """``base ** count`` by repeated squaring."""
    one = lift(1, base.type.dtype)
    if count < 0:
        return emit("divide", one, _product_of_equals(base, -count))
    result: Proxy | None = None
    while count:
        if count % 2:
            result = base if result is None else emit("multiply", result, base)
        count //= 2
        if count:
            base = emit("multiply", base, base)
    return full_like(base, 1, base.type.dtype) if result is None else result


@implements(np.power)
@with_options
def _power(x: Any, y: Any) -> Proxy:
    """Small Python exponents become multiplications, roots and reciprocals, as NumPy has them."""
    (base, exponent), _ = promoted(np.power, x, y)
    number: Any = 0 if type(y) is Proxy or isinstance(y, list | tuple) else y
    if base.type.dtype.is_integer and np.any(np.asarray(number) < 0):
        hint = f"{float(number)}" if np.ndim(number) == 0 else "a float base"
        raise LoopwrightValueError("integers to negative integer powers are not allowed", hint=hint)
    if is_number(y) and not isinstance(y, bool):
        if y == 2:
            return emit("multiply", base, base)
        inexact = not base.type.dtype.is_integer
        if inexact and y == 0.5:
            return emit("sqrt", base)
        if inexact and y == -1:
            return emit("divide", lift(1, base.type.dtype), base)
        if y == 1:
            return base
        if base.type.dtype.is_complex and _is_small_int(y):
            return _product_of_equals(base, int(y))  # type: ignore[call-overload]
    if base.type.dtype.is_signed and base.type.dtype.is_integer and type(y) is Proxy:
        from ..core.runtime_checks import check  # few functions have any

        message = "Integers to negative integer powers are not allowed."
        check(emit("less", exponent, lift(0, exponent.type.dtype)), ValueError, message)
    return emit("power", base, exponent)


@implements(np.signbit)
@with_options
def _signbit(x: Any) -> Proxy:
    (operand,), _ = promoted(np.signbit, x)
    dtype = operand.type.dtype
    return emit("less", emit("copysign", lift(1, dtype), operand), lift(0, dtype))


_WEAK_KINDS: dict[str, WeakType] = {"b": bool, "f": float, "c": complex}


def _operator(ufunc: np.ufunc, *operands: Any) -> Any:
    """An operator's symbol applied: NumPy's ufunc, but Python numbers stay Python numbers."""
    if not all(
        isinstance(o, Proxy | Dim | bool | int | float | complex | np.ndarray | np.generic)
        for o in operands
    ):
        if any(isinstance(o, list | tuple | str) or o is None for o in operands):
            return run(ufunc.__name__, UFUNCS[ufunc], operands)
        return NotImplemented
    of_numbers = all(is_number(o) or getattr(o, "weak", None) for o in operands)
    if ufunc is np.power and not of_numbers and _is_square(*operands):
        ufunc, operands = np.square, operands[:1]
    if of_numbers and ufunc not in _OF_BOOLS:
        operands = tuple(map(_int_of_bool, operands))
    result = run(ufunc.__name__, UFUNCS[ufunc], operands)
    if not of_numbers:
        return result
    numbers = [o.atom if type(o) is Proxy else o for o in operands]

    def python_number(made: Proxy) -> Proxy:
        kind: WeakType = _WEAK_KINDS.get(made.type.dtype.kind, int)
        if kind is int:
            made.owner.numbers.result(made.atom, ufunc, numbers, made.owner.here())
        return Proxy(made.atom, made.owner, kind)

    return tuple(map(python_number, result)) if isinstance(result, tuple) else python_number(result)


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
_OF_BOOLS = {np.bitwise_and, np.bitwise_or, np.bitwise_xor, *_COMPARISON.values()}
"""Those that give a bool if their operands are Python's bools; others take these as ints."""


def _is_square(base: Any, exponent: Any) -> bool:
    """True for ``b ** 2`` of an array of bool, for which NumPy takes another ufunc (int8)."""
    if type(base) is not Proxy or not base.type.dtype.is_bool or base.is_scalar:
        return False
    if type(exponent) is Proxy and exponent.weak is int:
        exponent = operator.index(exponent)  # known when it is traced again
    return type(exponent) is int and exponent == 2


def _int_of_bool(value: Any) -> Any:
    if type(value) is bool:
        return int(value)
    if type(value) is Proxy and value.weak is bool:
        return Proxy(lift(value, INT64).atom, value.owner, int)
    return value


def _in_place(ufunc: np.ufunc, x: Proxy, y: Any) -> Any:
    """``x += y``: changes the array; a scalar is replaced, as in NumPy."""
    if x.is_scalar:
        memory = x.owner.memory
        memory.touch(x.storage)
        memory.changed = True
        return NotImplemented
    if not isinstance(
        y, Proxy | bool | int | float | complex | np.ndarray | np.generic | list | tuple
    ):
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
