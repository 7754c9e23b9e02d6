"""From values to the graph: values become proxies of NumPy 2's dtypes, and operators emit calls.

The graph's operators want operands of one dtype, so NumPy's promotion is inserted as casts. Python
numbers are weak: they take the dtype of the arrays they meet.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from ...ir.dims import Dim
from ...ir.dtype import INT64, DType, dtype_of, promote
from ...ir.errors import LoopwrightOverflowError, LoopwrightTypeError
from ...ir.graph.nodes import Atom, Constant
from ...ir.graph.requirements import require
from ...ir.graph.types import TupleType
from ..memory import storage
from ..memory.regions import Region, read_region
from . import misuse
from .dispatch import FUNCTIONS, method
from .misuse import unsupported_dtype
from .proxy import Proxy, fail_leaked
from .trace import Trace, active


def lift(value: Any, dtype: DType | None = None) -> Proxy:
    """``value`` as a proxy of the running trace, cast to ``dtype`` if one is given.

    Arrays become constants named after their variables; Python numbers become scalars. Raises
    LoopwrightTypeError for anything else, and for proxies of another trace.
    """
    trace = active()
    if trace is None:
        fail_leaked((value,))
    if isinstance(value, Proxy):
        if value.owner is not trace:
            fail_leaked((value,))
        if dtype is None or value.type.dtype == dtype:
            return value
        if value.weak is int and dtype.is_integer:
            trace.numbers.require(value.atom, dtype, trace.span)
        return Proxy(trace.cast(value.atom, dtype), trace)
    if isinstance(value, np.ndarray):
        misuse.refuse_subclass(value)
        _check_dtype(value)
        captured = Proxy(_maybe_cast(trace, trace.capture(value), dtype), trace)
        captured.storage.kind = storage.Kind.CAPTURED
        return captured
    if isinstance(value, np.generic):
        _check_dtype(value)
        return Proxy(Constant(np.asarray(value, None if dtype is None else dtype.numpy)), trace)
    if isinstance(value, bool | int | float | complex):
        return Proxy(_number(value, dtype), trace, None if dtype else type(value))
    if isinstance(value, Dim):
        return _size_number(value, dtype)
    if isinstance(value, list | tuple):
        if dtype is not None and dtype.is_integer:
            _check_fits(value, dtype)
        return lift(_array_of(value, dtype), dtype)
    raise LoopwrightTypeError(f"an array or a number is needed, not {_described(value)}")


def _size_number(size: Dim, dtype: DType | None) -> Proxy:
    """Returns the value of a symbolic size: a Python int, unless a ``dtype`` is given."""
    trace = active()
    assert trace is not None
    if dtype is not None and dtype.is_integer:
        least, greatest = dtype.limits
        message = f"the size {size} as {dtype}"
        if not (require(least, "<=", size, message) and require(size, "<=", greatest, message)):
            raise LoopwrightOverflowError(f"the size {size} does not fit {dtype}")
    attrs = {"shape": (), "fill_value": size, "dtype": str(INT64)}
    value = trace.emit("full", (), attrs)
    return Proxy(_maybe_cast(trace, value, dtype), trace, None if dtype else int)


method("size.number")(lift)


def _maybe_cast(trace: Trace, atom: Atom, dtype: DType | None) -> Atom:
    return atom if dtype is None else trace.cast(atom, dtype)


def _check_dtype(value: Any) -> None:
    try:
        dtype_of(value.dtype)
    except TypeError as error:
        raise misuse.unsupported_dtype(error) from None


def _number(value: complex, dtype: DType | None) -> Constant:
    target = dtype.numpy if dtype is not None else None
    if isinstance(value, complex) and dtype is not None and not dtype.is_complex:
        raise LoopwrightTypeError(f"a complex number does not fit {dtype}", hint="its .real")
    if dtype is not None and dtype.is_integer and isinstance(value, int):
        least, greatest = dtype.limits
        if not least <= value <= greatest:
            raise LoopwrightOverflowError(f"the Python int {value} does not fit {dtype}")
    try:
        array = np.asarray(value, target)
        _check_dtype(array)
    except OverflowError:
        raise LoopwrightOverflowError(f"the Python int {value} does not fit int64") from None
    return Constant(array)


def _check_fits(values: Any, dtype: DType) -> None:
    """Checks that the Python ints of a literal fit ``dtype``, as one alone has to."""
    for value in values:
        if isinstance(value, list | tuple):
            _check_fits(value, dtype)
        elif type(value) is int or (type(value) is Proxy and value.weak is int):
            lift(value, dtype)


def _array_of(values: list[Any] | tuple[Any, ...], dtype: DType | None = None) -> Any:
    """Returns a nested list as one array: of numbers at once, of traced parts by stacking."""
    if any(isinstance(v, Proxy | Dim) for v in values):
        return FUNCTIONS[np.stack]([lift(v) for v in values])
    if any(isinstance(v, list | tuple) for v in values):
        return FUNCTIONS[np.stack]([_array_of(v, dtype) for v in values])
    misuse.refuse_subclass(values)
    try:
        return np.asarray(values, None if dtype is None else dtype.numpy)
    except OverflowError as error:  # NumPy's integers, which np.asarray does not just cast
        raise LoopwrightOverflowError(str(error)) from None


def _described(value: object) -> str:
    return f"{value!r}" if value is None or isinstance(value, str) else f"a {type(value).__name__}"


def emit(name: str, *operands: Any, **attrs: Any) -> Proxy:
    """Applies the graph operator ``name`` to proxies (or what ``lift`` takes).

    An operator that only chooses and orders elements gives a view of its operand.
    """
    proxies = [lift(o) for o in operands]
    trace = active()
    assert trace is not None
    if name not in storage.VIEW_OPERATORS:
        return Proxy(trace.emit(name, [p.atom for p in proxies], attrs), trace)
    (parent,) = proxies
    if name == "strided_slice":
        atom = read_region(trace, parent.atom, Region.of_slice(attrs), attrs)
    else:
        atom = trace.emit(name, [parent.atom], attrs)
    return Proxy(atom, trace, alias=storage.view_by(parent, name, attrs))


def is_same(value: Any, wanted: bool | None) -> Any:
    """``value is True``, which a traced condition of Python's may be and one of NumPy's is not."""
    if type(value) is not Proxy or value.weak is not bool or wanted is None:
        return value is wanted
    if wanted:
        return value
    opposite = emit("logical_not", value)
    return Proxy(opposite.atom, opposite.owner, bool)


def one_array(x: Proxy) -> Proxy:
    """Returns a new result as an array even if it has rank 0; by default it is a scalar then."""
    x = x if x.alias is None else Proxy(x.atom, x.owner)
    x.storage.kind = storage.Kind.FRESH
    return x


def copied(x: Proxy, order: str = "C", like: Proxy | None = None) -> Proxy:
    """Returns a copy of ``x``, laid out in ``order`` (or as ``like``); of a scalar, the scalar."""
    source = x if like is None else like
    made = Proxy(x.atom, x.owner, x.weak)
    if not source.is_scalar:
        made.storage.kind = storage.Kind.FRESH
    if x.ndim > 1:
        if like is not None:
            made.storage.strides = like.strides
        elif order == "F":
            made.storage.strides = (storage.dense_strides(x.shape[::-1]) or ())[::-1] or None
        elif order in ("K", "A"):
            made.storage.strides = storage.elementwise_strides(x.shape, [(x.shape, x.strides)])
    return made


def read_only_view(
    parent: Proxy,
    read: Callable[[], Proxy],
    hint: str = storage.NEW_ARRAY,
    strides: storage.Strides = None,
) -> Proxy:
    """Returns ``read()`` as a view of ``parent`` that cannot be written through; ``hint`` says what
    to write to instead."""
    made = read()
    if strides is None and made.storage is parent.storage:
        strides = made.strides
    alias = storage.View(parent, "", {}, replay=read, readonly=hint, strides=strides)
    return Proxy(made.atom, parent.owner, alias=alias)


def emit_many(name: str, *operands: Any, **attrs: Any) -> list[Proxy]:
    """Applies an operator whose result is a tuple; returns the fields."""
    trace = active()
    assert trace is not None
    result = trace.emit(name, [lift(o).atom for o in operands], attrs)
    assert isinstance(result.type, TupleType)
    count = len(result.type.fields)
    return [Proxy(trace.builder.get_item(result, i, span=trace.span), trace) for i in range(count)]


def call_library(function: str, *operands: Any, **options: Any) -> list[Proxy]:
    """Emits the call of a library function; returns its results."""
    trace = active()
    assert trace is not None
    attrs = {"function": function, "options": tuple(options.items())}
    result = trace.emit("call_library", [lift(o).atom for o in operands], attrs)
    if not isinstance(result.type, TupleType):
        return [Proxy(result, trace)]
    count = len(result.type.fields)
    return [Proxy(trace.builder.get_item(result, i, span=trace.span), trace) for i in range(count)]


Promotable: TypeAlias = Any  # a NumPy dtype, or int, float or complex for a Python number


def kind_of(value: Any) -> Promotable:
    """Returns the dtype or number type with which ``value`` takes part in promotion."""
    if isinstance(value, Proxy):
        if value.weak is None:
            return value.dtype
        return np.dtype(bool) if value.weak is bool else value.weak
    if isinstance(value, np.ndarray | np.generic):
        return value.dtype
    if isinstance(value, bool):
        return np.dtype(bool)
    if isinstance(value, int | Dim):
        return int
    if isinstance(value, float):
        return float
    if isinstance(value, complex):
        return complex
    return lift(value).dtype


@functools.lru_cache(maxsize=4096)
def ufunc_dtypes(ufunc: np.ufunc, kinds: tuple[Promotable, ...]) -> tuple[DType, ...]:
    """The dtypes of a ufunc's inputs and outputs. LoopwrightTypeError if it has no such loop.

    >>> [str(d) for d in ufunc_dtypes(np.add, (np.dtype("float32"), int))]
    ['float32', 'float32', 'float32']
    """
    if all(isinstance(k, type) for k in kinds):  # Python numbers alone: as NumPy's defaults
        kinds = tuple(np.dtype(k) for k in kinds)
    try:
        dtypes = ufunc.resolve_dtypes((*kinds, *(None,) * ufunc.nout))
    except TypeError:
        names = " and ".join(k.__name__ if isinstance(k, type) else k.name for k in kinds)
        raise LoopwrightTypeError(f"{ufunc.__name__} is not defined for {names}") from None
    return tuple(dtype_of(d) for d in dtypes)


def common_dtype(*values: Any) -> DType:
    """Returns the dtype in which the values meet, as ``np.result_type`` has it."""
    return _common(tuple(kind_of(v) for v in values))


@functools.lru_cache(maxsize=4096)
def _common(kinds: tuple[Promotable, ...]) -> DType:
    weak = {int: 0, float: 0.0, complex: 0j}
    return dtype_of(np.result_type(*(weak.get(k, k) for k in kinds)))


def common(*values: Any) -> list[Proxy]:
    """Returns all of the values as proxies of their common dtype."""
    dtype = common_dtype(*values)
    return [_strong(lift(v, dtype)) for v in values]


def choose(condition: Any, x: Any, y: Any) -> Proxy:
    """``np.where`` as a part of a ufunc: of scalars it is a scalar."""
    return emit("where", condition, *common(x, y))


def _strong(x: Proxy) -> Proxy:
    """``x`` as an operand whose dtype is decided: no longer a Python number."""
    return x if x.weak is None else Proxy(x.atom, x.owner)


def common_strong(*values: Any, dtype: Any = None, casting: str = "unsafe") -> list[Proxy]:
    """As ``common``, for functions to which a Python number is an int64 or float64 array.

    ``dtype`` is the user's argument of that name, None for the common dtype; LoopwrightTypeError
    unless ``casting`` allows it.
    """
    if dtype is None:
        target = promote(*(lift(v).type.dtype for v in values))
    else:
        target = dtype_argument(dtype)
        check_cast(target, casting, *map(lift, values))
    return [lift(v, target) for v in values]


def check_cast(target: DType, casting: str, *values: Any) -> None:
    """Raises LoopwrightTypeError unless NumPy's rule ``casting`` allows the values in a dtype. Of
    a Python number only the kind counts."""
    dtype = target.numpy
    for kind in map(kind_of, values):
        weak = isinstance(kind, type) and np.result_type(kind(), dtype) == dtype
        if not weak and not np.can_cast(kind, dtype, casting):  # type: ignore[arg-type]
            raise LoopwrightTypeError(
                f"Cannot cast array data from {np.dtype(kind)!r} to {dtype!r} according to the "
                f"rule '{casting}'"
            )


def promoted(ufunc: np.ufunc, *values: Any) -> tuple[list[Proxy], tuple[DType, ...]]:
    """The operands of a ufunc, cast to one dtype it computes in, and the dtypes of its results."""
    dtypes = ufunc_dtypes(ufunc, tuple(kind_of(v) for v in values))
    inputs = dtypes[: len(values)]
    if any(d != inputs[0] for d in inputs):  # mixed loops, such as int64 < uint64
        inputs = (_common(tuple(d.numpy for d in inputs)),) * len(values)
    operands = [_strong(lift(v, d)) for v, d in zip(values, inputs, strict=True)]
    return operands, dtypes[len(values) :]


def dtype_argument(dtype: Any) -> DType:
    """A ``dtype=`` argument. Raises LoopwrightTypeError for a dtype the language does not have."""
    if dtype in (int, float, bool, complex):
        dtype = np.dtype(dtype)
    try:
        if isinstance(dtype, np.ndarray | np.generic | Proxy):
            raise TypeError(f"a dtype is needed, not an array of {dtype.dtype}")
        return dtype_of(dtype)
    except TypeError as error:
        raise unsupported_dtype(error) from None
