"""NumPy's functions that move elements without computing: reshape, transpose, broadcast, flip."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...ir.dims import Atom, Dim, IntExpr, floordiv, product
from ...ir.dims_parser import parse_dim
from ...ir.errors import LoopwrightTypeError, LoopwrightValueError, UnsupportedError
from ...ir.graph.requirements import require
from ..core.dispatch import implement, implements, in_c_order, method, views
from ..core.emitting import copied, emit, lift, one_array, read_only_view
from ..core.proxy import Proxy
from ..memory.storage import dense
from .reductions import axes_of, normalise_axis


def size(value: Any) -> IntExpr:
    """One size given by the user: an int, a symbolic expression, or its text."""
    if isinstance(value, Dim):
        return value
    if isinstance(value, str):
        return parse_dim(value)
    try:
        return int(value.__index__())
    except (AttributeError, TypeError):
        raise LoopwrightTypeError(f"a size must be an int, not {value!r}") from None


def shape_argument(shape: Any) -> tuple[IntExpr, ...]:
    """Returns a shape given by the user: one size, or a sequence of them."""
    given = shape if isinstance(shape, tuple | list) else (shape,)
    return tuple(size(s) for s in given)


def _in_order(x: Proxy, order: Any) -> tuple[Proxy, bool]:
    """Returns ``x``, and True, with its axes reversed if ``order`` begins with the first axis:
    "F", and "A" or "K" of an array that has them so in memory."""
    if order in ("A", "K") and x.ndim > 1:
        x.owner.memory.by_layout = x.owner.memory.changed = True
        reverse = x.strides and x.strides[::-1]
        order = "F" if dense(x.shape[::-1], reverse) and not dense(x.shape, x.strides) else order
        if order == "K" and not dense(x.shape, x.strides):
            raise UnsupportedError("order='K' of an array with gaps", hint="order='C', or 'F'")
    if order not in (None, "C", "F", "A", "K"):
        raise LoopwrightValueError(f"order must be one of 'C', 'F', 'A', or 'K' (got {order!r})")
    return (transpose(x, tuple(range(x.ndim))[::-1]), True) if order == "F" else (x, False)


def reshape(x: Proxy, shape: tuple[IntExpr, ...]) -> Proxy:
    """``x`` with ``shape``, in which one size may be -1."""
    unknown = [i for i, s in enumerate(shape) if isinstance(s, int) and s == -1]
    if len(unknown) > 1:
        raise LoopwrightValueError(f"reshape to {_text(shape)}: only one size can be -1")
    if unknown:
        rest = product(s for i, s in enumerate(shape) if i != unknown[0])
        fits = not (isinstance(rest, int) and rest == 0)
        whole: IntExpr = _quotient(x.size, rest) if fits else 0
        if not fits or (whole * rest != x.size and not isinstance(whole * rest - x.size, Dim)):
            raise LoopwrightValueError(
                f"reshape: {x.type.short} has {x.size} elements, "
                f"which do not divide into {_text(shape)}"
            )
        shape = tuple(whole if i == unknown[0] else s for i, s in enumerate(shape))
    return x if shape == x.shape else emit("reshape", x, newshape=shape)


def _quotient(total: IntExpr, part: IntExpr) -> IntExpr:
    """Returns ``total // part``, where the factors of ``part`` cancel if ``total`` has them."""
    if not isinstance(part, Dim) or not isinstance(total, Dim) or len(part.terms) != 1:
        return floordiv(total, part)
    ((factors, scale),) = part.terms
    terms: dict[tuple[Atom, ...], int] = {}
    for monomial, coefficient in total.terms:
        rest = [*monomial]
        for factor in factors:
            if factor not in rest:
                return floordiv(total, part)
            rest.remove(factor)
        terms[tuple(rest)] = coefficient
    if () in terms:
        return floordiv(terms[()], scale) if len(terms) == 1 else floordiv(total, part)
    return floordiv(Dim(tuple(terms.items())), scale)


def _text(shape: Sequence[IntExpr]) -> str:
    return f"({', '.join(map(str, shape))}{',' if len(shape) == 1 else ''})"


@implements(np.reshape)
@views
def _reshape_function(
    a: Any, /, shape: Any = None, order: str = "C", *, newshape: Any = None, copy: Any = None
) -> Proxy:
    return _reshaped(lift(a), shape_argument(newshape if shape is None else shape), copy, order)


@method("reshape")
@views
def _reshape_method(x: Any, *shape: Any, order: str = "C", copy: Any = None) -> Proxy:
    given = shape[0] if len(shape) == 1 and isinstance(shape[0], tuple | list) else shape
    return _reshaped(lift(x), shape_argument(given), copy, order)


def _reshaped(x: Proxy, shape: tuple[IntExpr, ...], copy: bool | None, order: Any) -> Proxy:
    x, backwards = _in_order(x, order)
    made = reshape(x, shape[::-1] if backwards else shape)
    made = transpose(made, tuple(range(made.ndim))[::-1]) if backwards else made
    if copy:
        return copied(made)
    if copy is False and made is not x and (made.alias is None or not made.alias.certain):
        raise LoopwrightValueError("Unable to avoid creating a copy while reshaping.")
    return made


@method("flatten")
@in_c_order
def _flatten(a: Any, order: str = "C") -> Proxy:
    return flattened(a, order)


@method("flat")
@views
def _flat(a: Any) -> Proxy:
    return read_only_view(a, lambda: flattened(a), hint="x.reshape(-1)")


@implements(np.ravel)
@method("ravel")
@views
def flattened(a: Any, order: str = "C") -> Proxy:
    """All elements along one axis: a view of an array in C order without gaps, else a copy."""
    x, _ = _in_order(lift(a), order)
    flat = reshape(x, (-1,)) if x.shape else reshape(x, (1,))
    x.owner.memory.by_layout = True
    return flat if x.strides is None or dense(x.shape, x.strides) else copied(flat)


def transpose(x: Proxy, axes: tuple[int, ...]) -> Proxy:
    """``x`` with its axes in the order of ``axes``."""
    if axes == tuple(range(x.ndim)):
        return x
    return emit("transpose", x, axes=axes)


@implements(np.transpose, np.permute_dims)
@views
def _transpose_function(a: Any, axes: Any = None) -> Proxy:
    x = lift(a)
    order = tuple(reversed(range(x.ndim))) if axes is None else tuple(axes)
    order = tuple(normalise_axis(i, x.ndim) for i in order)
    if sorted(order) != list(range(x.ndim)):
        raise LoopwrightValueError(f"transpose: axes {_text(order)} do not permute {x.ndim} axes")
    return transpose(x, order)


@method("transpose")
@views
def _transpose_method(x: Any, *axes: Any) -> Proxy:
    if len(axes) == 1 and (axes[0] is None or isinstance(axes[0], Sequence)):
        return _transpose_function(x, axes[0])
    return _transpose_function(x, axes or None)


@implements(np.matrix_transpose, np.linalg.matrix_transpose)
@method("matrix_transpose")
@views
def _matrix_transpose(x: Any, /) -> Proxy:
    operand = lift(x)
    if operand.ndim < 2:
        raise LoopwrightTypeError(f"a matrix has two axes at least, this is {operand.type.short}")
    return _swapaxes(operand, -1, -2)


@implements(np.swapaxes)
@method("swapaxes")
@views
def _swapaxes(a: Any, axis1: int, axis2: int) -> Proxy:
    x = lift(a)
    first, second = normalise_axis(axis1, x.ndim), normalise_axis(axis2, x.ndim)
    order = list(range(x.ndim))
    order[first], order[second] = order[second], order[first]
    return transpose(x, tuple(order))


@implements(np.moveaxis)
@views
def moveaxis(a: Any, source: Any, destination: Any) -> Proxy:
    """Axes moved from ``source`` to ``destination``."""
    x = lift(a)
    sources = [normalise_axis(i, x.ndim) for i in listed(source)]
    targets = [normalise_axis(i, x.ndim) for i in listed(destination)]
    if len(sources) != len(targets):
        raise LoopwrightValueError("moveaxis: source and destination differ in length")
    order = [i for i in range(x.ndim) if i not in sources]
    for target, source_axis in sorted(zip(targets, sources, strict=True)):
        order.insert(target, source_axis)
    return transpose(x, tuple(order))


def listed(value: Any) -> list[Any]:
    """Returns a sequence as a list; anything else as a list of one."""
    return list(value) if isinstance(value, tuple | list) else [value]


@implements(np.expand_dims)
@views
def _expand_dims(a: Any, axis: Any) -> Proxy:
    x = lift(a)
    positions = listed(axis)
    rank = x.ndim + len(positions)
    places = {normalise_axis(i, rank) for i in positions}
    sizes = iter(x.shape)
    return reshape(x, tuple(1 if i in places else next(sizes) for i in range(rank)))


@implements(np.squeeze)
@method("squeeze")
@views
def _squeeze(a: Any, axis: Any = None) -> Proxy:
    x = lift(a)
    axes = axes_of(axis, x.ndim)
    if axes is None:
        message = f"squeeze: {x.type.short} loses the axes of size 1"
        axes = tuple(i for i, s in enumerate(x.shape) if not require(s, "!=", 1, message))
    return emit("squeeze", x, axis=axes) if axes else x


def broadcast_shapes(*shapes: Sequence[IntExpr]) -> tuple[IntExpr, ...]:
    """Returns the shape to which all of ``shapes`` broadcast."""
    rank = max((len(s) for s in shapes), default=0)
    result: list[IntExpr] = [1] * rank
    for shape in shapes:
        for i, each in enumerate(shape, rank - len(shape)):
            if result[i] == 1:
                result[i] = each
            elif each not in (1, result[i]):
                texts = " and ".join(_text(s) for s in shapes)
                raise LoopwrightTypeError(f"shapes {texts} do not broadcast")
    return tuple(result)


def broadcast_to(x: Proxy, shape: tuple[IntExpr, ...]) -> Proxy:
    """``x`` repeated to fill ``shape``."""
    return x if x.shape == shape else emit("broadcast_to", x, shape=shape)


@implements(np.broadcast_to)
@views
def _broadcast_to_function(array: Any, shape: Any, _subok: bool = False) -> Proxy:
    x, wide = lift(array), shape_argument(shape)
    x = one_array(Proxy(x.atom, x.owner)) if x.is_scalar else x
    return read_only_view(x, lambda: broadcast_to(x, wide))


@implements(np.broadcast_arrays)
@views
def _broadcast_arrays(*args: Any, _subok: bool = False) -> tuple[Proxy, ...]:
    arrays = [lift(a) for a in args]
    shape = broadcast_shapes(*(a.shape for a in arrays))
    return tuple(broadcast_to(a, shape) for a in arrays)


@implements(np.atleast_1d)
@views
def atleast_1d(*arys: Any) -> Any:
    """Arrays with one axis at least."""
    made = [reshape(x, x.shape or (1,)) for x in map(lift, arys)]
    return made[0] if len(made) == 1 else tuple(made)


@implements(np.atleast_2d)
@views
def atleast_2d(*arys: Any) -> Any:
    """Arrays with two axes at least; new ones come first."""
    made = [reshape(x, (1,) * (2 - x.ndim) + x.shape) for x in map(lift, arys)]
    return made[0] if len(made) == 1 else tuple(made)


@implements(np.atleast_3d)
@views
def atleast_3d(*arys: Any) -> Any:
    """Arrays with three axes at least, as NumPy places them."""
    shapes = {0: lambda _s: (1, 1, 1), 1: lambda s: (1, *s, 1), 2: lambda s: (*s, 1)}
    made = [reshape(x, shapes[x.ndim](x.shape)) if x.ndim < 3 else x for x in map(lift, arys)]
    return made[0] if len(made) == 1 else tuple(made)


@implements(np.flip)
@views
def _flip(m: Any, axis: Any = None) -> Proxy:
    x = lift(m)
    axes = axes_of(axis, x.ndim)
    if not x.ndim:
        return Proxy(x.atom, x.owner, x.weak)  # NumPy takes the only element, a scalar
    axes = tuple(range(x.ndim)) if axes is None else axes
    return emit("reverse", x, axis=axes) if axes else x


implement({np.flipud: lambda m: _flip(m, 0), np.fliplr: lambda m: _flip(m, 1)}, views)


@implements(np.rot90)
@views
def _rot90(m: Any, k: int = 1, axes: tuple[int, int] = (0, 1)) -> Proxy:
    x = lift(m)
    first, second = (normalise_axis(a, x.ndim) for a in axes)
    k %= 4
    if k == 0:
        return x
    if k == 2:
        return _flip(x, (first, second))
    if k == 1:
        return _swapaxes(_flip(x, second), first, second)
    return _flip(_swapaxes(x, first, second), second)


def _square(x: Proxy) -> Proxy:
    """A vector as the matrix with it in every row, as NumPy's ``tril`` and ``triu`` have it."""
    return broadcast_to(x, (x.shape[0], x.shape[0])) if x.ndim == 1 else x


@implements(np.size)
def _size_function(a: Any, axis: Any = None) -> IntExpr:
    x = lift(a)
    axes = axes_of(axis, x.ndim)
    return x.size if axes is None else product(x.shape[i] for i in axes)


implement(
    {
        np.ndim: lambda a: lift(a).ndim,
        np.shape: lambda a: lift(a).shape,
        np.tril: lambda m, k=0: emit("tril", _square(lift(m)), k=int(k)),
        np.triu: lambda m, k=0: emit("triu", _square(lift(m)), k=int(k)),
    }
)
