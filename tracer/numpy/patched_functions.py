"""``np.zeros(n)`` in a traced function, whose array is to take traced values; ``np.asarray(x)``.

NumPy's functions that make arrays have no traced operand, so what they give is an array of NumPy's:
a constant, which is right as long as it is only read. A function that writes traced values into
such an array, or at traced indices, is traced again within ``replaced``: then these functions give
traced arrays, where the traced function itself calls them as ``np.zeros``. So is one that hands
traced arrays to functions that want their values.

As in ``numpy_receivers``, what is changed is global: other threads, and the code of libraries, get
NumPy's own arrays as ever.

NumPy hands most functions over to traced arrays, but not ``np.asarray``, ``np.array``, ``np.r_``
and a few more: these want values. ``CONVERTERS`` are ours for them.
"""

from __future__ import annotations

import builtins
import functools
import math
import sys
import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from ...ir import errors as errors
from ...ir.dims import Dim, product
from ...ir.dtype import FLOAT64, INT64, DType
from ...ir.errors import LoopwrightError, LoopwrightTypeError, UnsupportedError
from ..core.dispatch import FUNCTIONS, implementation_of, views
from ..core.emitting import common, copied, dtype_argument, lift, one_array
from ..core.proxy import Proxy, run
from ..core.symbolic_sizes import Size, has_sizes
from ..core.trace import active
from . import creation
from .creation import arange, empty, eye, full, identity, linspace, ones, tri, tril_indices, zeros
from .padding import as_strided
from .shaping import broadcast_shapes, broadcast_to, flattened, reshape


def has_traced(values: Any) -> bool:
    """True if there is a traced array or size among ``values``, or in lists, tuples and dicts of
    them."""
    if isinstance(values, dict):
        values = values.values()
    return any(
        type(v) in (Proxy, Size) or (isinstance(v, tuple | list | dict) and has_traced(v))
        for v in values
    )


_OF_WEAK: dict[Any, DType] = {int: INT64, float: FLOAT64}
"""The dtype of an array that NumPy makes of a Python number."""


@views
def _array(
    object: Any,
    dtype: Any = None,
    *,
    copy: bool | None = True,
    order: str | None = "K",
    _subok: bool = False,
    ndmin: int = 0,
) -> Proxy:
    """``np.array``: arrays are copied, nested sequences stacked."""
    nested = isinstance(object, list | tuple)
    x = lift(object, None if dtype is None else dtype_argument(dtype))
    if x.weak is not None:
        x = lift(x, _OF_WEAK.get(x.weak, x.type.dtype))
    if x.is_scalar:
        x = one_array(Proxy(x.atom, x.owner))
    elif getattr(copy, "value", copy) in (True, 1) and not nested:  # _CopyMode.ALWAYS
        x = copied(x, order or "K")
    return x if x.ndim >= ndmin else reshape(x, (1,) * (ndmin - x.ndim) + x.shape)


def _asarray(order: str | None, least: int = 0) -> Callable[..., Proxy]:
    @views
    def convert(
        a: Any,
        dtype: Any = None,
        order: str | None = order,
        *,
        _device: Any = None,
        copy: bool | None = None,
    ) -> Proxy:
        x = _array(a, dtype, copy=copy, order=order, ndmin=least)
        wanted = {"C": x.shape, "F": x.shape[::-1]}.get(order or "K")
        if wanted is None or x.ndim < 2:
            return x
        given = x.strides if order == "C" or x.strides is None else x.strides[::-1]
        contiguous = tuple(product(wanted[n + 1 :]) for n in range(x.ndim))
        return x if given == contiguous else copied(x, order or "K")

    return convert


@views
def _require(a: Any, dtype: Any = None, requirements: Any = None) -> Proxy:
    forced = {str(r)[:1].upper() for r in np.atleast_1d(requirements or [])} & {"C", "F"}
    return _asarray(min(forced, default="K"))(a, dtype)


def _full(shape: Any, fill_value: Any, dtype: Any = None, order: str | None = "C") -> Proxy:
    made = full(shape, fill_value, dtype)
    return copied(made, order) if order == "F" else made


def _isscalar(element: Any) -> bool:
    return isinstance(element, Proxy) and element.is_scalar


def _iterable(y: Any) -> bool:
    return lift(y).ndim > 0


CONVERTERS: dict[str, Callable[..., Any]] = {
    "array": _array,
    "asarray": _asarray("K"),
    "asanyarray": _asarray("K"),
    "ascontiguousarray": _asarray("C", 1),
    "asfortranarray": _asarray("F", 1),
    "asarray_chkfinite": _asarray("K"),
    "require": _require,
    "full": _full,
    "isscalar": _isscalar,
    "iterable": _iterable,
}
"""Ours for NumPy's functions of these names, if one of their arguments is traced."""


def _joined(key: Any, axis: int, ndmin: int, trans1d: int) -> Proxy:
    """``np.r_[key]``: slices as ranges, numbers and arrays, joined along an axis."""
    items = list(key) if isinstance(key, tuple) else [key]
    if isinstance(items[0], str):
        try:
            given = [int(part) for part in items.pop(0).split(",")]
        except ValueError:
            raise UnsupportedError("np.r_ that makes a matrix", hint="np.concatenate") from None
        axis, ndmin, trans1d = (*given, *(axis, ndmin, trans1d)[len(given) :])
    parts: list[Proxy] = []
    for x in common(*(_ranged(item) for item in items)):
        new = max(ndmin - x.ndim, 0)
        front = min(trans1d if trans1d >= 0 else trans1d + new + 1, new)
        parts.append(reshape(x, (1,) * front + x.shape + (1,) * (new - front)))
    return FUNCTIONS[np.concatenate](parts, axis)


def _ranged(item: Any) -> Any:
    if not isinstance(item, slice):
        return item
    if has_traced((item.start, item.stop, item.step)):
        raise LoopwrightTypeError(
            "how many numbers a slice of np.r_ has depends on traced values",
            hint="start + np.arange(n)",
        )
    return np.r_[item]


SUBSCRIPTED = {"r_": (0, 1, -1), "c_": (-1, 2, 0)}
"""Objects of NumPy's that join what they are indexed by: axis, least rank, place of new axes."""


def joined_by(name: str) -> Callable[[Any], Proxy]:
    """Returns what indexing ``np.r_`` or ``np.c_`` does where something is traced."""
    return lambda key: _joined(key, *SUBSCRIPTED[name])


def vectorized(owner: Any, args: Sequence[Any], kwargs: Any) -> Any:
    """``np.vectorize(f)(*args)``: ``f`` of the elements, one after the other, in a loop."""
    from ..control.loops import map as map_rows

    if owner.signature is not None or owner.excluded or kwargs:
        raise UnsupportedError(
            "np.vectorize with signature=, excluded= or keywords is not supported",
            hint="lw.map over the rows of an array",
        )
    arrays = [lift(a) for a in args]
    shape = broadcast_shapes(*(a.shape for a in arrays))
    if not shape:
        return owner.pyfunc(*arrays)
    if 0 in shape and not owner.otypes:
        raise errors.LoopwrightValueError(
            "np.vectorize of arrays without elements", hint='np.vectorize(f, otypes=["float64"])'
        )
    rows = tuple(flattened(broadcast_to(a, shape)) for a in arrays)
    results = map_rows(lambda row: owner.pyfunc(*row), rows)
    types = [np.dtype(t) for t in owner.otypes] if owner.otypes else None
    several = isinstance(results, tuple)
    made: list[Proxy] = []
    for n, result in enumerate(results if several else (results,)):
        result = lift(result, dtype_argument(types[n]) if types else None)
        made.append(reshape(result, shape + result.shape[1:]))
    return tuple(made) if several else made[0]


_lock = threading.Lock()
_depth = 0


@contextmanager
def replaced() -> Generator[None, None, None]:
    """Within it the functions of NumPy that convert to arrays take traced ones, for the thread that
    traces, and those that make arrays make traced ones if that is ``asked``. Threads that trace at
    the same time share one change."""
    global _depth
    entered = False
    try:
        with _lock:
            _depth += 1
            entered = True
            if _depth == 1:
                _replace(_ours())
        yield
    finally:
        if entered:
            with _lock:
                _depth -= 1
                if not _depth:
                    _replace({**_NUMPYS, "__call__": _VECTORIZED, "len": _LEN})


def _replace(functions: dict[str, Any]) -> None:
    for name, function in functions.items():
        setattr(_OWNERS.get(name, np), name, function)


_FILLED: dict[str, Any] = {"zeros": 0, "ones": 1, "empty": 0}
_LIKE: dict[str, Any] = {"zeros_like": 0, "ones_like": 1, "empty_like": 0}
_COPIES = ("arange", "array", "copy", "eye", "full", "full_like", "identity", "linspace")
_SIZED = (
    *("broadcast_to", "indices", "prod", "repeat", "reshape", "resize", "roll", "tile", "tri"),
    *("tril_indices", "triu_indices"),
)
"""Functions that take sizes, and may be called without any traced array."""
_OF_LISTS = (
    *("all", "any", "amax", "amin", "argmax", "argmin", "argsort", "average", "clip", "cumprod"),
    *("cumsum", "diff", "max", "mean", "median", "min", "prod", "ptp", "round", "sort", "std"),
    *("sum", "transpose", "var"),
)
"""Functions of an array that may be a list of arrays, in which NumPy does not look for traced
ones."""
_CONVERTERS = {**CONVERTERS, "as_strided": as_strided}
_OWNERS: dict[str, Any] = {
    "__call__": np.vectorize,
    "as_strided": np.lib.stride_tricks,
    "len": builtins,
}
_NUMPYS = {
    name: vars(_OWNERS.get(name, np))[name]
    for name in (*_FILLED, *_LIKE, *_COPIES, *_SIZED, *_OF_LISTS, *_CONVERTERS, *SUBSCRIPTED)
}
_NAMES = {f: name for name, f in _NUMPYS.items() if callable(f)}
_LEN = len
_VECTORIZED = np.vectorize.__call__


@functools.cache
def _ours() -> dict[str, Any]:
    made: dict[str, Any] = {
        name: _Subscripted(name, value) if name in SUBSCRIPTED else _creator(name, value)
        for name, value in _NUMPYS.items()
    }
    return {**made, "__call__": _vectorize, "len": _len}


_CREATION = {
    f.__name__: f
    for f in (
        *(arange, empty, eye, full, identity, linspace, ones, tri, tril_indices),
        *(creation.triu_indices, zeros),
    )
}


def _creator(name: str, otherwise: Callable[..., Any]) -> Callable[..., Any]:
    converter, makes = _CONVERTERS.get(name), name in (*_FILLED, *_LIKE, *_COPIES)
    sized = _CREATION.get(name) or implementation_of(otherwise)

    @functools.wraps(otherwise)
    def create(*args: Any, **kwargs: Any) -> Any:
        trace = active()
        caller = sys._getframe(1).f_globals.get("__name__", "")
        if trace is None or (_is_library(caller) and caller not in _FOR_USERS):
            return otherwise(*args, **kwargs)
        if name == "prod" and len(args) == 1 and not kwargs and has_sizes(args):
            return math.prod(args[0]) * np.int64(1)
        if converter is None and sized is not None and has_sizes((args, kwargs)):
            return run(name, sized, args, kwargs)
        if name in _OF_LISTS and args and isinstance(args[0], list | tuple) and has_traced(args[0]):
            args = (run("array", CONVERTERS["array"], args[:1], {}), *args[1:])
        if has_traced((*args, *kwargs.values())):
            return run(name, converter, args, kwargs) if converter else otherwise(*args, **kwargs)
        if not (makes and "creating" in trace.asked):
            return otherwise(*args, **kwargs)
        return run(name, _made, (name, otherwise, args, kwargs))

    return create


_FOR_USERS = (__name__, "loopwright.tracer.capture.python_functions")
"""Modules of ours that call the functions as the user's code does."""


class _Subscripted:
    """``np.r_`` or ``np.c_``, which may be indexed by traced arrays."""

    def __init__(self, name: str, otherwise: Any) -> None:
        self.name, self.otherwise = name, otherwise

    def __getitem__(self, key: Any) -> Any:
        if active() is None or not has_traced((key,)):
            return self.otherwise[key]
        return run(f"np.{self.name}", joined_by(self.name), (key,))


def _vectorize(self: Any, *args: Any, **kwargs: Any) -> Any:
    if active() is None or not has_traced((args, kwargs)):
        return _VECTORIZED(self, *args, **kwargs)
    return vectorized(self, args, kwargs)


def _len(x: Any) -> Any:
    of_many = type(x) is Proxy and active() is x.owner and isinstance(x.type.shape[0], Dim)
    return x.shape[0] if of_many else _LEN(x)


def created_by(function: Any) -> Any:
    """Returns ours for a function of NumPy's that makes arrays, or converts to them, by whatever
    name it is called; None for others."""
    if function is np.ndarray:
        return _new
    try:
        name = _NAMES.get(function)
    except TypeError:  # it has no hash
        return None
    return _ours()[name] if name is not None else None


def _new(*args: Any, **kwargs: Any) -> Any:
    """``np.ndarray(shape, dtype)``."""
    if len(args) > 2 or kwargs.keys() - {"shape", "dtype"}:
        return np.ndarray(*args, **kwargs)
    return _ours()["empty"](*args, **kwargs)


def _is_library(module: str) -> bool:
    return module.partition(".")[0] in ("loopwright", "numpy")


def _made(
    name: str, otherwise: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """Returns a traced array that holds what NumPy's function gives."""
    value: Any = _FILLED.get(name, _LIKE.get(name))
    if value is None:
        return _traced(otherwise(*args, **kwargs))
    try:
        # No memory is touched for it, however large it is.
        like = _NUMPYS["empty_like" if name in _LIKE else "empty"](*args, **kwargs)
        made = full(like.shape, value, like.dtype)
        return copied(made, "F") if like.flags.fnc else made
    except (LoopwrightError, TypeError):
        return otherwise(*args, **kwargs)


def _traced(array: Any) -> Any:
    """Returns a copy of ``array`` that may be written to; what cannot be traced as it is."""
    if not isinstance(array, np.ndarray):
        return array
    try:
        return one_array(copied(lift(array)))
    except LoopwrightError:
        return array
