"""NumPy's functions that move elements without computing: reshape, transpose, join, split, pad."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..ir.dims import Dim, IntExpr, as_int, floordiv, int_max, parse_dim, product
from ..ir.errors import LoopwrightTypeError, LoopwrightValueError, UnsupportedError
from .dispatch import implements, method
from .promotion import common, dtype_argument
from .proxy import Proxy, emit, emit_many, lift
from .reductions import axes_of, normalise_axis

__all__ = ["broadcast_shapes", "broadcast_to", "reshape", "shape_argument", "size", "transpose"]


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
    given = shape if isinstance(shape, tuple | list) else (shape,)
    return tuple(size(s) for s in given)


def _only_c(order: Any) -> None:
    if order not in (None, "C", "K", "A"):
        raise UnsupportedError(
            f"order={order!r} is not supported: traced arrays are in C order",
            hint="x.T.reshape(...) reads an array in Fortran order",
        )


def reshape(x: Proxy, shape: tuple[IntExpr, ...]) -> Proxy:
    """``x`` with ``shape``, in which one size may be -1."""
    unknown = [i for i, s in enumerate(shape) if isinstance(s, int) and s == -1]
    if len(unknown) > 1:
        raise LoopwrightValueError(f"reshape to {_text(shape)}: only one size can be -1")
    if unknown:
        rest = product(s for i, s in enumerate(shape) if i != unknown[0])
        fits = not (isinstance(rest, int) and rest == 0)
        whole: IntExpr = floordiv(x.size, rest) if fits else 0
        if not fits or (whole * rest != x.size and not isinstance(whole * rest - x.size, Dim)):
            raise LoopwrightValueError(
                f"reshape: {x.type.short} has {x.size} elements, "
                f"which do not divide into {_text(shape)}"
            )
        shape = tuple(whole if i == unknown[0] else s for i, s in enumerate(shape))
    return x if shape == x.shape else emit("reshape", x, newshape=shape)


def _text(shape: Sequence[IntExpr]) -> str:
    return f"({', '.join(map(str, shape))}{',' if len(shape) == 1 else ''})"


@implements(np.reshape)
def reshape_function(
    a: Any, /, shape: Any = None, order: str = "C", *, newshape: Any = None, copy: Any = None
) -> Proxy:
    _only_c(order)
    return reshape(lift(a), shape_argument(newshape if shape is None else shape))


@method("reshape")
def reshape_method(x: Any, *shape: Any, order: str = "C", copy: Any = None) -> Proxy:
    _only_c(order)
    given = shape[0] if len(shape) == 1 and isinstance(shape[0], tuple | list) else shape
    return reshape(lift(x), shape_argument(given))


@implements(np.ravel)
@method("ravel", "flatten")
def ravel(a: Any, order: str = "C") -> Proxy:
    _only_c(order)
    return reshape(lift(a), (-1,)) if lift(a).shape else reshape(lift(a), (1,))


def transpose(x: Proxy, axes: tuple[int, ...]) -> Proxy:
    if axes == tuple(range(x.ndim)):
        return x
    return emit("transpose", x, axes=axes)


@implements(np.transpose, *([np.permute_dims] if hasattr(np, "permute_dims") else []))
def transpose_function(a: Any, axes: Any = None) -> Proxy:
    x = lift(a)
    order = tuple(reversed(range(x.ndim))) if axes is None else tuple(axes)
    order = tuple(normalise_axis(i, x.ndim) for i in order)
    if sorted(order) != list(range(x.ndim)):
        raise LoopwrightValueError(f"transpose: axes {_text(order)} do not permute {x.ndim} axes")
    return transpose(x, order)


@method("transpose")
def transpose_method(x: Any, *axes: Any) -> Proxy:
    if len(axes) == 1 and (axes[0] is None or isinstance(axes[0], tuple | list)):
        return transpose_function(x, axes[0])
    return transpose_function(x, axes or None)


@implements(np.matrix_transpose, np.linalg.matrix_transpose)
@method("matrix_transpose")
def matrix_transpose(x: Any, /) -> Proxy:
    operand = lift(x)
    if operand.ndim < 2:
        raise LoopwrightTypeError(f"a matrix has two axes at least, this is {operand.type.short}")
    return swapaxes(operand, -1, -2)


@implements(np.swapaxes)
@method("swapaxes")
def swapaxes(a: Any, axis1: int, axis2: int) -> Proxy:
    x = lift(a)
    first, second = normalise_axis(axis1, x.ndim), normalise_axis(axis2, x.ndim)
    order = list(range(x.ndim))
    order[first], order[second] = order[second], order[first]
    return transpose(x, tuple(order))


@implements(np.moveaxis)
def moveaxis(a: Any, source: Any, destination: Any) -> Proxy:
    x = lift(a)
    sources = [normalise_axis(i, x.ndim) for i in _listed(source)]
    targets = [normalise_axis(i, x.ndim) for i in _listed(destination)]
    if len(sources) != len(targets):
        raise LoopwrightValueError("moveaxis: source and destination differ in length")
    order = [i for i in range(x.ndim) if i not in sources]
    for target, source_axis in sorted(zip(targets, sources, strict=True)):
        order.insert(target, source_axis)
    return transpose(x, tuple(order))


def _listed(value: Any) -> list[Any]:
    return list(value) if isinstance(value, tuple | list) else [value]


@implements(np.expand_dims)
def expand_dims(a: Any, axis: Any) -> Proxy:
    x = lift(a)
    positions = _listed(axis)
    rank = x.ndim + len(positions)
    places = {normalise_axis(i, rank) for i in positions}
    sizes = iter(x.shape)
    return reshape(x, tuple(1 if i in places else next(sizes) for i in range(rank)))


@implements(np.squeeze)
@method("squeeze")
def squeeze(a: Any, axis: Any = None) -> Proxy:
    x = lift(a)
    axes = axes_of(axis, x.ndim)
    if axes is None:
        axes = tuple(i for i, s in enumerate(x.shape) if isinstance(s, int) and s == 1)
    return emit("squeeze", x, axis=axes) if axes else x


def broadcast_shapes(*shapes: Sequence[IntExpr]) -> tuple[IntExpr, ...]:
    """The shape to which all of ``shapes`` broadcast."""
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
    return x if x.shape == shape else emit("broadcast_to", x, shape=shape)


@implements(np.broadcast_to)
def broadcast_to_function(array: Any, shape: Any, subok: bool = False) -> Proxy:
    return broadcast_to(lift(array), shape_argument(shape))


@implements(np.broadcast_arrays)
def broadcast_arrays(*args: Any, subok: bool = False) -> tuple[Proxy, ...]:
    arrays = [lift(a) for a in args]
    shape = broadcast_shapes(*(a.shape for a in arrays))
    return tuple(broadcast_to(a, shape) for a in arrays)


@implements(np.concatenate, *([np.concat] if np.concat is not np.concatenate else []))
def concatenate(
    arrays: Any,
    /,
    axis: int | None = 0,
    out: Any = None,
    *,
    dtype: Any = None,
    casting: str = "same_kind",
) -> Proxy:
    parts = _parts(arrays, "concatenate")
    parts = common(*parts) if dtype is None else [lift(p, dtype_argument(dtype)) for p in parts]
    if axis is None:
        parts, axis = [ravel(p) for p in parts], 0
    if len(parts) == 1:
        return parts[0]
    return emit("concatenate", *parts, axis=normalise_axis(axis, parts[0].ndim))


def _parts(arrays: Any, name: str) -> list[Any]:
    parts = list(arrays)
    if not parts:
        raise LoopwrightValueError(f"np.{name} needs at least one array")
    return parts


@implements(np.stack)
def stack(
    arrays: Any, axis: int = 0, out: Any = None, *, dtype: Any = None, casting: str = "same_kind"
) -> Proxy:
    parts = _parts(arrays, "stack")
    parts = common(*parts) if dtype is None else [lift(p, dtype_argument(dtype)) for p in parts]
    return emit("stack", *parts, axis=normalise_axis(axis, parts[0].ndim + 1))


@implements(np.atleast_1d)
def atleast_1d(*arys: Any) -> Any:
    made = [reshape(x, x.shape or (1,)) for x in map(lift, arys)]
    return made[0] if len(made) == 1 else tuple(made)


@implements(np.atleast_2d)
def atleast_2d(*arys: Any) -> Any:
    made = [reshape(x, (1,) * (2 - x.ndim) + x.shape) for x in map(lift, arys)]
    return made[0] if len(made) == 1 else tuple(made)


@implements(np.atleast_3d)
def atleast_3d(*arys: Any) -> Any:
    shapes = {0: lambda s: (1, 1, 1), 1: lambda s: (1, *s, 1), 2: lambda s: (*s, 1)}
    made = [reshape(x, shapes[x.ndim](x.shape)) if x.ndim < 3 else x for x in map(lift, arys)]
    return made[0] if len(made) == 1 else tuple(made)


@implements(np.vstack)
def vstack(tup: Any, *, dtype: Any = None, casting: str = "same_kind") -> Proxy:
    return concatenate([atleast_2d(a) for a in tup], 0, dtype=dtype)


@implements(np.hstack)
def hstack(tup: Any, *, dtype: Any = None, casting: str = "same_kind") -> Proxy:
    parts = [atleast_1d(a) for a in tup]
    return concatenate(parts, 0 if parts and parts[0].ndim == 1 else 1, dtype=dtype)


@implements(np.dstack)
def dstack(tup: Any) -> Proxy:
    return concatenate([atleast_3d(a) for a in tup], 2)


@implements(np.column_stack)
def column_stack(tup: Any) -> Proxy:
    parts = [lift(a) for a in tup]
    return concatenate([reshape(p, (p.size, 1)) if p.ndim < 2 else p for p in parts], 1)


@implements(np.split)
def split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[Proxy]:
    x = lift(ary)
    axis = normalise_axis(axis, x.ndim)
    if isinstance(indices_or_sections, int | np.integer):
        count = int(indices_or_sections)
        if count <= 0 or (isinstance(x.shape[axis], int) and as_int(x.shape[axis]) % count):
            raise LoopwrightValueError(
                f"split: axis {axis} of {x.type.short} does not divide into {count} equal parts",
                hint=f"np.array_split(x, {count}, axis={axis})" if count > 0 else None,
            )
        return emit_many("split", x, indices_or_sections=count, axis=axis)
    length = as_int(x.shape[axis])
    points = [
        min(p if p >= 0 else max(p + length, 0), length) for p in map(int, indices_or_sections)
    ]
    if points == sorted(points):
        return emit_many("split", x, indices_or_sections=tuple(points), axis=axis)
    raise LoopwrightValueError(f"split: the indices {tuple(points)} do not ascend")


@implements(np.array_split)
def array_split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[Proxy]:
    x = lift(ary)
    if not isinstance(indices_or_sections, int | np.integer):
        return split(x, indices_or_sections, axis)
    count = int(indices_or_sections)
    if count <= 0:
        raise LoopwrightValueError(f"array_split: into {count} parts")
    length = as_int(x.shape[normalise_axis(axis, x.ndim)])
    each, more = divmod(length, count)
    points = [i * each + min(i, more) for i in range(1, count)]
    return split(x, points, axis)


@implements(np.vsplit)
def vsplit(ary: Any, indices_or_sections: Any) -> list[Proxy]:
    return split(ary, indices_or_sections, 0)


@implements(np.hsplit)
def hsplit(ary: Any, indices_or_sections: Any) -> list[Proxy]:
    return split(ary, indices_or_sections, 0 if lift(ary).ndim == 1 else 1)


@implements(*([np.unstack] if hasattr(np, "unstack") else []))
def unstack(x: Any, /, *, axis: int = 0) -> tuple[Proxy, ...]:
    operand = lift(x)
    axis = normalise_axis(axis, operand.ndim)
    parts = split(operand, as_int(operand.shape[axis]), axis)
    return tuple(emit("squeeze", part, axis=(axis,)) for part in parts)


@implements(np.flip)
def flip(m: Any, axis: Any = None) -> Proxy:
    x = lift(m)
    axes = axes_of(axis, x.ndim)
    axes = tuple(range(x.ndim)) if axes is None else axes
    return emit("reverse", x, axis=axes) if axes else x


@implements(np.flipud)
def flipud(m: Any) -> Proxy:
    return flip(m, 0)


@implements(np.fliplr)
def fliplr(m: Any) -> Proxy:
    return flip(m, 1)


@implements(np.rot90)
def rot90(m: Any, k: int = 1, axes: tuple[int, int] = (0, 1)) -> Proxy:
    x = lift(m)
    first, second = (normalise_axis(a, x.ndim) for a in axes)
    k %= 4
    if k == 0:
        return x
    if k == 2:
        return flip(x, (first, second))
    if k == 1:
        return swapaxes(flip(x, second), first, second)
    return flip(swapaxes(x, first, second), second)


@implements(np.roll)
def roll(a: Any, shift: Any, axis: Any = None) -> Proxy:
    x = lift(a)
    if axis is None:
        return reshape(roll(ravel(x), shift, 0), x.shape)
    shifts, axes = _listed(shift), _listed(axis)
    count = max(len(shifts), len(axes))
    shifts, axes = shifts * (count // len(shifts)), axes * (count // len(axes))
    for step, each in zip(shifts, axes, strict=True):
        position = normalise_axis(each, x.ndim)
        length = as_int(x.shape[position])
        by = int(step) % length if length else 0
        if by:
            head, tail = split(x, [length - by], position)
            x = concatenate([tail, head], position)
    return x


@implements(np.tile)
def tile(A: Any, reps: Any) -> Proxy:
    x = lift(A)
    counts = [size(r) for r in _listed(reps)]
    rank = max(x.ndim, len(counts))
    counts = [1] * (rank - len(counts)) + counts
    shape = (1,) * (rank - x.ndim) + x.shape
    paired = tuple(s for each in shape for s in (1, each))
    wide = tuple(s for count, each in zip(counts, shape, strict=True) for s in (count, each))
    result = tuple(count * each for count, each in zip(counts, shape, strict=True))
    return reshape(broadcast_to(reshape(x, paired), wide), result)


@implements(np.repeat)
@method("repeat")
def repeat(a: Any, repeats: Any, axis: int | None = None) -> Proxy:
    x = lift(a)
    if axis is None:
        x, axis = ravel(x), 0
    axis = normalise_axis(axis, x.ndim)
    if not isinstance(repeats, int | np.integer | Dim):
        raise UnsupportedError(
            "np.repeat with several counts is not supported",
            hint="np.take(x, np.repeat(np.arange(n), counts), axis)",
        )
    before, after = x.shape[:axis], x.shape[axis + 1 :]
    column = reshape(x, (*before, x.shape[axis], 1, *after))
    wide = broadcast_to(column, (*before, x.shape[axis], size(repeats), *after))
    return reshape(wide, (*before, x.shape[axis] * size(repeats), *after))


@implements(np.pad)
def pad(array: Any, pad_width: Any, mode: str = "constant", **options: Any) -> Proxy:
    x = lift(array)
    if mode not in ("constant", "edge", "reflect"):
        raise UnsupportedError(
            f"np.pad: mode {mode!r} is not supported", hint='"constant", "edge" or "reflect"'
        )
    value = options.pop("constant_values", 0)
    if options.pop("reflect_type", "even") != "even" or options:
        raise UnsupportedError(f"np.pad: {', '.join(options) or 'reflect_type'} is not supported")
    if not isinstance(value, bool | int | float | np.generic):
        raise UnsupportedError("np.pad: constant_values must be one number")
    lift(value if not isinstance(value, np.generic) else value.item(), x.type.dtype)
    return emit("nn.pad", x, pad_width=_pad_pairs(pad_width, x.ndim), pad_value=value, mode=mode)


def _pad_pairs(pad_width: Any, rank: int) -> tuple[tuple[int, int], ...]:
    if isinstance(pad_width, dict):
        pairs = [(0, 0)] * rank
        for axis, width in pad_width.items():
            both = (width, width) if isinstance(width, int) else width
            pairs[normalise_axis(axis, rank)] = (int(both[0]), int(both[1]))
        return tuple(pairs)
    try:
        wide = np.broadcast_to(np.asarray(pad_width), (rank, 2))
    except ValueError:
        raise LoopwrightValueError(
            f"np.pad: {pad_width!r} is not a pair (before, after) for each of {rank} axes"
        ) from None
    if (wide < 0).any():
        raise LoopwrightValueError(f"np.pad: the widths must not be negative: {pad_width!r}")
    return tuple((int(a), int(b)) for a, b in wide)


@implements(np.tril)
def tril(m: Any, k: int = 0) -> Proxy:
    return emit("tril", lift(m), k=int(k))


@implements(np.triu)
def triu(m: Any, k: int = 0) -> Proxy:
    return emit("triu", lift(m), k=int(k))


@implements(np.diff)
def diff(a: Any, n: int = 1, axis: int = -1, prepend: Any = None, append: Any = None) -> Proxy:
    x = lift(a)
    axis = normalise_axis(axis, x.ndim)
    edges = [e for e in (prepend, append) if e is not None and e is not np._NoValue]
    if edges:
        parts = [prepend, x, append]
        slim = tuple(1 if i == axis else s for i, s in enumerate(x.shape))
        x = concatenate(
            [
                broadcast_to(lift(p), slim) if lift(p).ndim == 0 else p
                for p in parts
                if p is not None and p is not np._NoValue
            ],
            axis,
        )
    for _ in range(n):
        length = x.shape[axis]
        whole = [slice(None)] * x.ndim
        ahead, behind = whole.copy(), whole.copy()
        ahead[axis], behind[axis] = slice(1, None), slice(None, int_max(length - 1, 0))
        x = (
            np.not_equal(x[tuple(ahead)], x[tuple(behind)])
            if x.type.dtype.is_bool
            else (np.subtract(x[tuple(ahead)], x[tuple(behind)]))
        )
    return x


@implements(np.shape)
def shape(a: Any) -> tuple[IntExpr, ...]:
    return lift(a).shape


@implements(np.ndim)
def ndim(a: Any) -> int:
    return lift(a).ndim


@implements(np.size)
def size_function(a: Any, axis: Any = None) -> IntExpr:
    x = lift(a)
    axes = axes_of(axis, x.ndim)
    return x.size if axes is None else product(x.shape[i] for i in axes)
