"""Arrays made from nothing while tracing: full, arange, eye and their relatives.

NumPy's own functions for these have no traced operand and so run at once; what they give becomes a
constant. The functions here emit operators instead, and take symbolic sizes.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ...ir.dims import Dim, IntExpr, ceildiv
from ...ir.dtype import FLOAT64, INT64, DType
from ...ir.errors import UnsupportedError
from ...ir.graph.requirements import greater
from ..core import emitting
from ..core.dispatch import METHODS, by_element, implements, views
from ..core.emitting import common, common_dtype, copied, dtype_argument, emit, lift, one_array
from ..core.proxy import Proxy, is_number, numpys_options, run
from ..core.trace import active
from .shaping import broadcast_shapes, broadcast_to, moveaxis, shape_argument, size


def while_tracing(
    function: Callable[..., Proxy | tuple[Proxy, ...]], otherwise: Callable[..., Any]
) -> Callable[..., Any]:
    """``function`` while tracing, NumPy's own everywhere else."""

    def create(*args: Any, **kwargs: Any) -> Any:
        if active() is None:
            return otherwise(*args, **kwargs)
        return run(otherwise.__name__, function, args, kwargs)

    create.__name__ = create.__qualname__ = otherwise.__name__
    create.__doc__ = function.__doc__
    return create


def _filled(shape: Any, value: Any, dtype: DType) -> Proxy:
    if isinstance(value, Proxy | np.ndarray):
        made = broadcast_to(lift(value, dtype), shape_argument(shape))
        return made if made.ndim else one_array(Proxy(made.atom, made.owner))
    if isinstance(value, np.generic):  # which are cast, where a Python number has to fit
        with np.errstate(all="ignore"):
            value = value.astype(dtype.numpy).item()
    if isinstance(value, float) and dtype.is_integer and math.isfinite(value):
        value = int(value)  # as NumPy casts it
    lift(value, dtype)  # refuses a number that does not fit
    made = emit("full", shape=shape_argument(shape), fill_value=value, dtype=str(dtype))
    return one_array(made)


def number(value: IntExpr, dtype: DType) -> Proxy:
    """Returns an int or a symbolic size as a scalar of the graph."""
    if isinstance(value, Dim):
        return emit("full", shape=(), fill_value=value, dtype=str(dtype))
    return lift(value, dtype)


def _full(shape: Any, fill_value: Any, dtype: Any = None, *, _device: Any = None) -> Proxy:
    """Returns an array of ``shape`` filled with ``fill_value``; sizes may be symbolic."""
    target = dtype_argument(_default(fill_value) if dtype is None else dtype)
    return _filled(shape, fill_value, target)


def _default(value: Any) -> Any:
    kind = emitting.kind_of(value)
    return {int: np.int64, float: np.float64, complex: np.complex128}.get(kind, kind)


def _zeros(shape: Any, dtype: Any = None, *, _device: Any = None) -> Proxy:
    """Returns an array of ``shape`` filled with zeros, float64 unless ``dtype`` is given."""
    return _filled(shape, 0, FLOAT64 if dtype is None else dtype_argument(dtype))


def _ones(shape: Any, dtype: Any = None, *, _device: Any = None) -> Proxy:
    """Returns an array of ``shape`` filled with ones, float64 unless ``dtype`` is given."""
    return _filled(shape, 1, FLOAT64 if dtype is None else dtype_argument(dtype))


def _arange(
    start: Any, /, stop: Any = None, step: Any = 1, *, dtype: Any = None, _device: Any = None
) -> Proxy:
    """``start, start + step, ...`` below ``stop``; ``n`` may be symbolic in ``arange(n)``."""
    if stop is None:
        start, stop = 0, start
    if any(isinstance(v, Dim) for v in (start, stop, step)):
        if not isinstance(step, int) or step == 0:
            raise UnsupportedError(f"arange from {start} to {stop} by {step}", hint="an int step")
        target = INT64 if dtype is None else dtype_argument(dtype)
        distance = size(stop) - size(start)
        length = greater(ceildiv(distance, step) if step > 0 else ceildiv(-distance, -step), 0)
        count = emit("iota", shape=(length,), axis=0, dtype=str(target))
        if start == 0 and step == 1:
            return count
        return emit("add", emit("multiply", count, lift(step, target)), number(start, target))
    target = dtype_argument(np.arange(start, stop, step).dtype if dtype is None else dtype)
    return emit("arange", start=start, stop=stop, step=step, dtype=str(target))


def _eye(
    n_rows: int, n_cols: int | None = None, /, *, k: int = 0, dtype: Any = None, _device: Any = None
) -> Proxy:
    """Ones on the ``k``-th diagonal of a matrix of zeros."""
    sizes = n_rows, n_rows if n_cols is None else n_cols
    if any(isinstance(s, Dim) for s in (*sizes, k)):
        rows, columns = (emit("iota", shape=sizes, axis=n, dtype="int64") for n in (0, 1))
        ones = emit("equal", emit("add", rows, number(k, INT64)), columns)
        return lift(ones, FLOAT64 if dtype is None else dtype_argument(dtype))
    return lift(np.eye(n_rows, n_cols, k, np.float64 if dtype is None else dtype))


def _identity(n: int, dtype: Any = None) -> Proxy:
    """``np.identity``: a square ``eye``."""
    return _eye(n, dtype=dtype)


def _tri(N: int, M: int | None = None, k: int = 0, dtype: Any = float) -> Proxy:
    """``np.tri``: ones at and below the ``k``-th diagonal of a matrix of zeros."""
    sizes = N, N if M is None else M
    if any(isinstance(s, Dim) for s in (*sizes, k)):
        rows, columns = (emit("iota", shape=sizes, axis=n, dtype="int64") for n in (0, 1))
        below = emit("less_equal", columns, emit("add", rows, number(k, INT64)))
        return lift(below, dtype_argument(dtype))
    return lift(np.tri(*sizes, k, dtype))


def _tril_indices(n: int, k: int = 0, m: int | None = None) -> tuple[Proxy, ...]:
    """``np.tril_indices``: the places at and below the ``k``-th diagonal."""
    return METHODS["nonzero"](_tri(n, m, k, bool))


def _triu_indices(n: int, k: int = 0, m: int | None = None) -> tuple[Proxy, ...]:
    """``np.triu_indices``: the places at and above the ``k``-th diagonal."""
    return METHODS["nonzero"](emit("logical_not", _tri(n, m, k - 1, bool)))


def _linspace(
    start: Any,
    stop: Any,
    /,
    num: int,
    *,
    dtype: Any = None,
    _device: Any = None,
    endpoint: bool = True,
) -> Proxy:
    """``num`` evenly spaced numbers from ``start`` to ``stop``."""
    if isinstance(num, Dim):
        whole = emit("iota", shape=(num,), axis=0, dtype=str(FLOAT64))
        steps = emit("divide", whole, number(greater(num - endpoint, 1), FLOAT64))
        low, high = lift(start, FLOAT64), lift(stop, FLOAT64)
        result = low + steps * (high - low)
        return result if dtype is None else lift(result, dtype_argument(dtype))
    if not isinstance(start, Proxy) and not isinstance(stop, Proxy):
        return lift(np.linspace(start, stop, num, endpoint=endpoint, dtype=dtype))
    first, last = common(
        *(v if lift(v).type.dtype.is_inexact else lift(v, FLOAT64) for v in (start, stop))
    )
    position = lift(np.linspace(0.0, 1.0, num, endpoint=endpoint), first.type.dtype)
    result = first + position * (last - first)
    return result if dtype is None else lift(result, dtype_argument(dtype))


@views
def _asarray(obj: Any, /, *, dtype: Any = None, _device: Any = None, copy: Any = None) -> Proxy:
    """``obj`` as an array; a traced array stays one."""
    array = lift(obj, None if dtype is None else dtype_argument(dtype))
    return copied(array, "K") if copy else array


full = while_tracing(_full, np.full)
zeros = while_tracing(_zeros, np.zeros)
ones = while_tracing(_ones, np.ones)
empty = while_tracing(_zeros, np.empty)
arange = while_tracing(_arange, np.arange)
eye = while_tracing(_eye, np.eye)
identity = while_tracing(_identity, np.identity)
tri = while_tracing(_tri, np.tri)
tril_indices = while_tracing(_tril_indices, np.tril_indices)
triu_indices = while_tracing(_triu_indices, np.triu_indices)
linspace = while_tracing(_linspace, np.linspace)
asarray = while_tracing(_asarray, np.asarray)


@implements(np.full_like)
@by_element
def _full_like(
    a: Any,
    fill_value: Any,
    dtype: Any = None,
    order: str = "K",
    _subok: bool = True,
    shape: Any = None,
    *,
    _device: Any = None,
) -> Proxy:
    operand = lift(a)
    if order not in ("K", "A") and operand.ndim > 1 and shape is None:
        raise UnsupportedError(f"order={order!r} is not supported", hint="np.copy(x, order=...)")
    target = operand.type.dtype if dtype is None else dtype_argument(dtype)
    return _filled(operand.shape if shape is None else shape, fill_value, target)


def _constant_like(value: int) -> Callable[..., Proxy]:
    def like(a: Any, *args: Any, **options: Any) -> Proxy:
        return _full_like(a, value, *args, **numpys_options(_full_like, options))

    return by_element(like)


implements(np.zeros_like)(_constant_like(0))
implements(np.ones_like)(_constant_like(1))


@implements(np.empty_like)
@by_element
def _empty_like(prototype: Any, *args: Any, **options: Any) -> Proxy:
    return _full_like(prototype, 0, *args, **numpys_options(_full_like, options))


def _inexact(value: Any) -> Any:
    if is_number(value):
        return value * 1.0
    return value if lift(value).type.dtype.is_inexact else lift(value, FLOAT64)


@implements(np.linspace)
def _linspace_function(
    start: Any,
    stop: Any,
    num: int = 50,
    endpoint: bool = True,
    retstep: bool = False,
    dtype: Any = None,
    axis: int = 0,
) -> Any:
    """``np.linspace`` from or to traced numbers."""
    ends = [_inexact(v) for v in (start, stop)]
    first, last = common(*ends)
    rank = len(broadcast_shapes(first.shape, last.shape))
    gaps = num - 1 if endpoint else num
    steps = np.arange(num, dtype=first.dtype).reshape(-1, *[1] * rank)
    step = (last - first) / gaps if gaps else first * math.nan
    along = steps * (last - first)
    if gaps:  # the step may be rounded to zero, and the whole is not
        along = emit("where", step == 0, along / gaps, steps * step)
    made = first + along
    if endpoint and num > 1:
        made = np.where(steps == num - 1, last, made)
    if dtype is not None:
        target = dtype_argument(dtype)
        made = lift(np.floor(made) if target.is_integer else made, target)
    made = moveaxis(made, 0, axis)
    return (made, step) if retstep else made


@implements(np.logspace)
def _logspace(
    start: Any,
    stop: Any,
    num: int = 50,
    endpoint: bool = True,
    base: Any = 10.0,
    dtype: Any = None,
    axis: int = 0,
) -> Any:
    powers = np.power(base, _linspace_function(start, stop, num, endpoint, axis=axis))
    return powers if dtype is None else lift(powers, dtype_argument(dtype))


@implements(np.geomspace)
def _geomspace(
    start: Any, stop: Any, num: int = 50, endpoint: bool = True, dtype: Any = None, axis: int = 0
) -> Any:
    """``np.geomspace`` between traced numbers: powers of the quotient, in the direction of the
    first number."""
    wide = common_dtype(start, stop, np.float64())
    first, last = lift(start, wide), lift(stop, wide)
    from ..core.runtime_checks import check  # few functions have any

    for end in (first, last):
        check(end == lift(0, wide), ValueError, "Geometric sequence cannot include zero")
    direction: Any = np.sign(first)
    first, last = first / direction, last / direction
    made = _logspace(np.log10(first), np.log10(last), num, endpoint)
    place = np.arange(num).reshape(-1, *[1] * (made.ndim - 1))
    made = np.where(place == 0, first, made)
    made = np.where(place == num - 1, last, made) if endpoint and num > 1 else made
    made = moveaxis(lift(made * direction), 0, axis)
    return made if dtype is None else lift(made, dtype_argument(dtype))


@views
@implements(np.meshgrid)
def _meshgrid(
    *xi: Any, copy: bool = True, sparse: bool = False, indexing: str = "xy"
) -> tuple[Proxy, ...]:
    arrays = [lift(x) for x in xi]
    rank = len(arrays)
    places = list(range(rank))
    if indexing == "xy" and rank > 1:
        places[0], places[1] = 1, 0
    lengths = [a.size for a in arrays]
    shape = tuple(lengths[places.index(i)] for i in range(rank))
    made: list[Proxy] = []
    for array, place in zip(arrays, places, strict=True):
        slim = tuple(array.size if i == place else 1 for i in range(rank))
        grid = emit("reshape", array, newshape=slim)
        made.append(grid if sparse else broadcast_to(grid, shape))
    if not copy:
        return tuple(emitting.read_only_view(g, lambda g=g: g) for g in made)
    return tuple(map(copied, made))
