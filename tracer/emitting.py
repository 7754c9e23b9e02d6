"""From values to the graph: what a traced function works with becomes proxies, and operators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..ir.dtype import DType, dtype_of
from ..ir.errors import LoopwrightOverflowError, LoopwrightTypeError
from ..ir.graph.nodes import Atom, Constant
from ..ir.graph.types import TupleType
from . import misuse
from .dispatch import FUNCTIONS
from .layout import Strides, dense_strides, elementwise_strides
from .proxy import Proxy, fail_leaked
from .slices import Region, read_region
from .storage import NEW_ARRAY, VIEW_OPERATORS, Kind, View, view_by
from .trace import Trace, active

__all__ = ["copied", "emit", "emit_many", "lift", "one_array", "read_only_view"]


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
        captured.storage.kind = Kind.CAPTURED
        return captured
    if isinstance(value, np.generic):
        _check_dtype(value)
        return Proxy(Constant(np.asarray(value, None if dtype is None else dtype.numpy)), trace)
    if isinstance(value, bool | int | float):
        return Proxy(_number(value, dtype), trace, None if dtype else type(value))
    if isinstance(value, list | tuple):
        if dtype is not None and dtype.is_integer:
            _check_fits(value, dtype)
        return lift(_array_of(value, dtype), dtype)
    raise LoopwrightTypeError(f"an array or a number is needed, not {_described(value)}")


def _maybe_cast(trace: Trace, atom: Atom, dtype: DType | None) -> Atom:
    return atom if dtype is None else trace.cast(atom, dtype)


def _check_dtype(value: Any) -> None:
    try:
        dtype_of(value.dtype)
    except TypeError as error:
        raise misuse.unsupported_dtype(error) from None


def _number(value: bool | int | float, dtype: DType | None) -> Constant:
    target = dtype.numpy if dtype is not None else None
    if dtype is not None and dtype.is_integer and isinstance(value, int):
        info = np.iinfo(dtype.numpy)
        if not info.min <= value <= info.max:
            raise LoopwrightOverflowError(f"the Python int {value} does not fit {dtype}")
    try:
        array = np.asarray(value, target)
        _check_dtype(array)
    except OverflowError:
        raise LoopwrightOverflowError(f"the Python int {value} does not fit int64") from None
    return Constant(array)


def _check_fits(values: Any, dtype: DType) -> None:
    """The Python ints of a literal have to fit ``dtype``, as one alone has to."""
    for value in values:
        if isinstance(value, list | tuple):
            _check_fits(value, dtype)
        elif type(value) is int or (type(value) is Proxy and value.weak is int):
            lift(value, dtype)


def _array_of(values: list[Any] | tuple[Any, ...], dtype: DType | None = None) -> Any:
    """A nested list as one array: of numbers at once, of traced parts by stacking."""
    if any(isinstance(v, Proxy) for v in values):
        return FUNCTIONS[np.stack](values)
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
    """Apply the graph operator ``name`` to proxies (or what ``lift`` takes).

    An operator that only chooses and orders elements gives a view of its operand.
    """
    proxies = [lift(o) for o in operands]
    trace = active()
    assert trace is not None
    if name not in VIEW_OPERATORS:
        return Proxy(trace.emit(name, [p.atom for p in proxies], attrs), trace)
    (parent,) = proxies
    if name == "strided_slice":
        atom = read_region(trace, parent.atom, Region.of_slice(attrs), attrs)
    else:
        atom = trace.emit(name, [parent.atom], attrs)
    return Proxy(atom, trace, alias=view_by(parent, name, attrs))


def one_array(x: Proxy) -> Proxy:
    """A new result, which NumPy makes an array even if it has rank 0, and no scalar."""
    x.storage.kind = Kind.FRESH
    return x


def copied(x: Proxy, order: str = "C", like: Proxy | None = None) -> Proxy:
    """A copy of ``x``, laid out in ``order`` (or as ``like``); of a scalar, the scalar."""
    source = x if like is None else like
    made = Proxy(x.atom, x.owner, x.weak)
    if not source.is_scalar:
        made.storage.kind = Kind.FRESH
    if x.ndim > 1:
        if like is not None:
            made.storage.strides = like.strides
        elif order == "F":
            made.storage.strides = (dense_strides(x.shape[::-1]) or ())[::-1] or None
        elif order in ("K", "A"):
            made.storage.strides = elementwise_strides(x.shape, [(x.shape, x.strides)])
    return made


def read_only_view(
    parent: Proxy,
    read: Callable[[], Proxy],
    hint: str = NEW_ARRAY,
    strides: Strides = None,
) -> Proxy:
    """What ``read()`` makes of ``parent``, as a view of it that cannot be written through; what to
    write to instead is the ``hint``."""
    made = read()
    if strides is None and made.storage is parent.storage:
        strides = made.strides
    alias = View(parent, "", {}, replay=read, readonly=hint, strides=strides)
    return Proxy(made.atom, parent.owner, alias=alias)


def emit_many(name: str, *operands: Any, **attrs: Any) -> list[Proxy]:
    """Apply an operator whose result is a tuple; its fields."""
    trace = active()
    assert trace is not None
    result = trace.emit(name, [lift(o).atom for o in operands], attrs)
    assert isinstance(result.type, TupleType)
    count = len(result.type.fields)
    return [Proxy(trace.builder.get_item(result, i, span=trace.span), trace) for i in range(count)]
