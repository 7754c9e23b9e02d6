"""Writing into traced arrays: in-place operators, ``out=``, assignment to a slice or a mask.

A write computes the value that the written part has from now on, and ``core/array_writes.py`` puts
it into the storage. What an argument's storage holds at the end is written back to the caller's
array after the call.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np

from ...ir import errors as errors
from ...ir.dims import IntExpr, size_symbols
from ...ir.dtype import BOOL
from ...ir.errors import LoopwrightTypeError, LoopwrightValueError, UnsupportedError
from ..core import misuse
from ..core.arguments import any_traced
from ..core.array_writes import check_writeable, write
from ..core.dispatch import METHODS, UFUNCS, implements, method
from ..core.emitting import check_cast, emit, lift
from ..core.proxy import Proxy, is_number, run
from ..core.trace import active
from ..memory.regions import Region, Run, write_region
from . import indexing
from .indexing import basic_view, expanded, forwards, is_element, mask_of, masked, masked_part
from .shaping import broadcast_shapes, broadcast_to, reshape, transpose
from .ufuncs import IN_PLACE

OUTPUT = "output array"
DESTINATION = "assignment destination"


@method("ufunc.out")
def _store_ufunc(name: str, results: Any, outs: Sequence[Any], casting: str, where: Any) -> Any:
    """Returns the results of a ufunc written into ``outs`` (None: not written), as NumPy does."""
    values = results if isinstance(results, tuple) else (results,)
    stored = [_store(name, v, o, casting, where) for v, o in zip(values, outs, strict=True)]
    return stored[0] if len(stored) == 1 else tuple(stored)


def _store(name: str, value: Proxy, out: Proxy | None, casting: str, where: Any) -> Proxy:
    if out is None:
        return value
    _check_cast(name, value, out, casting)
    shapes = [value.shape] if where is True else [value.shape, lift(where).shape]
    shape = broadcast_shapes(*shapes)
    if not _broadcasts(out, shape, out.shape):
        raise LoopwrightValueError(
            f"non-broadcastable output operand with shape {_text(out.shape)} doesn't match the "
            f"broadcast shape {_text(broadcast_shapes(shape, out.shape))}",
            hint=misuse.spelled_out(),
        )
    result = broadcast_to(lift(value, out.type.dtype), out.shape)
    if where is not True:
        result = emit("where", lift(where, BOOL), result, out)
    write(out, result, OUTPUT)
    return out


def _check_cast(name: str, value: Proxy, out: Proxy, casting: str) -> None:
    given, wanted = value.dtype, out.dtype
    if not np.can_cast(given, wanted, casting):  # type: ignore[arg-type]
        raise LoopwrightTypeError(
            f"Cannot cast ufunc '{name}' output from {given!r} to {wanted!r} with casting rule "
            f"'{casting}'",
            hint=misuse.spelled_out(),
        )


@method("function.out")
def _store_result(name: str, value: Any, out: Any) -> Proxy:
    """Returns the result of a function written into its ``out=``, which has to be of its type."""
    if not isinstance(value, Proxy) or value.type != out.type:
        given = value.type.short if isinstance(value, Proxy) else "several arrays"
        raise UnsupportedError(
            f"{name}: out= is {out.type.short}, and the result is {given}",
            hint="out[...] = the result",
        )
    write(out, value, OUTPUT)
    return out


def _broadcasts(x: Proxy, shape: Sequence[IntExpr], to: Sequence[IntExpr]) -> bool:
    if len(shape) > len(to):
        return False
    if all(a in (1, b) for a, b in zip(reversed(shape), reversed(to))):
        return True
    decided = x.owner.data_sizes
    x.owner.needs.compare([decided[n] for n in size_symbols(*shape, *to) if n in decided])
    return False


def _text(shape: Sequence[IntExpr]) -> str:
    return f"({','.join(map(str, shape))}{',' if len(shape) == 1 else ''})"


def _fitted(value: Any, target: Proxy) -> Proxy:
    """``value`` as an assignment takes it: cast to the target's dtype, broadcast to its shape."""
    given = lift(value, target.type.dtype)
    shape = given.shape
    while len(shape) > target.ndim and shape[0] == 1:
        shape = shape[1:]
    if not _broadcasts(target, shape, target.shape):
        raise LoopwrightValueError(
            f"could not broadcast input array from shape {_text(given.shape)} "
            f"into shape {_text(target.shape)}"
        )
    return broadcast_to(reshape(given, shape), target.shape)


def _assigned(value: Any, target: Proxy) -> Any:
    """``value`` as NumPy assigns it: an integer that does not fit may be an error where a cast of
    it wraps. Whether it is depends on both dtypes, so NumPy itself is asked."""
    dtype = target.type.dtype
    if isinstance(value, Proxy):
        if value.is_scalar and value.type.dtype.is_integer and dtype.is_signed:
            trace = target.owner
            trace.numbers.require(value.atom, dtype, trace.span)
        return value
    literal = isinstance(value, list | tuple) and not any_traced(value)
    if not literal and not isinstance(value, np.generic):
        return value
    lift(value)  # what it cannot be is said in our words
    try:
        with np.errstate(all="ignore"):
            made = np.empty(np.shape(value), dtype.numpy)
            made[...] = value
    except OverflowError as error:
        raise errors.LoopwrightOverflowError(str(error)) from None
    except ValueError as error:
        raise LoopwrightValueError(str(error)) from None
    return made[()]


@method("__setitem__")
def _setitem(x: Proxy, key: Any, value: Any) -> None:
    """``x[key] = value``."""
    if isinstance(value, Selection):
        return  # x[mask] += y has written it already
    mask = mask_of(key)
    if mask is not None:
        _assign_where(x, lift(mask), value)
        return
    if x.is_scalar:
        x.owner.memory.touch(x.storage)
        x.owner.memory.changed = True
        raise LoopwrightTypeError("a scalar does not support item assignment")
    if (chosen := masked_part(x, key)) is not None:
        _assign_where(*chosen[:2], value, chosen[2])
        return
    x, items = forwards(x, expanded(x, key))
    part = basic_view(x, items)
    if part is None:
        _assign_at(x, items, key, value)
        return
    many = lift(value).ndim and not x.type.dtype.is_bool
    if part.ndim == 0 and is_element(key) and many:
        raise LoopwrightValueError("setting an array element with a sequence.", hint="x[i, ...]")
    same = _is_same(value, part)  # x[key] += y has written it already
    write(part, part if same else _fitted(_assigned(value, part), part), DESTINATION)


def _assign_at(x: Proxy, items: list[Any], key: Any, value: Any) -> None:
    """``x[key] = value`` for a key with traced ints or arrays of ints."""
    part, region, front = indexing.region_of(x, items)
    alias = value.alias if isinstance(value, Proxy) else None
    if alias is not None and alias.region == region and alias.parent.atom is part.atom:
        x.owner.memory.changed = True
        return  # x[i] += y has written it already
    if not region.shape and is_element(key) and lift(value).ndim and not x.type.dtype.is_bool:
        raise LoopwrightValueError("setting an array element with a sequence.", hint="x[i, ...]")
    write_at(part, region, front, _assigned(value, part))


def write_at(x: Proxy, region: Region, front: int, value: Any, reduction: str = "none") -> None:
    """Joins ``value`` to the elements of ``x`` of a region; ``front`` axes of it stand before
    those of its index arrays."""
    given = lift(value, x.type.dtype)
    count = len(region.index_shape)
    runs = tuple(run.size for _, run in region.runs)
    wanted = (*runs[:front], *region.index_shape, *runs[front:])
    shape = given.shape
    while len(shape) > len(wanted) and shape[0] == 1:
        shape = shape[1:]
    if not _broadcasts(x, shape, wanted):
        raise LoopwrightValueError(
            f"shape mismatch: value array of shape {_text(given.shape)} could not be broadcast to "
            f"indexing result of shape {_text(wanted)}"
        )
    given = reshape(given, shape)
    if front and count and shape:
        order = (*range(front, front + count), *range(front), *range(front + count, len(wanted)))
        given = transpose(broadcast_to(given, wanted), order)
    check_writeable(x, DESTINATION)
    atom = write_region(x.owner, x.atom, given.atom, region, reduction)
    write(x, Proxy(atom, x.owner), DESTINATION)


def _is_same(value: Any, target: Proxy) -> bool:
    """True if an array is assigned to itself."""
    if not isinstance(value, Proxy) or value.storage is not target.storage:
        return False
    target.owner.memory.changed = True
    return value.atom is target.atom


def _assign_where(x: Proxy, mask: Proxy, value: Any, before: int = 0) -> None:
    """``x[mask] = value``, where the mask has the leading axes of ``x``; ``before`` of the others
    stand before that of the chosen elements in ``value``."""
    if mask.shape != x.shape[: mask.ndim]:
        raise misuse.mask_shape(mask.shape, _text(x.shape))
    if isinstance(value, int) or (isinstance(value, Proxy) and value.weak is int):
        value = lift(value, x.type.dtype)  # which an int has to fit, other than an array
    if _is_chosen(value, mask, x, before):
        write(x, _with_chosen(x, mask, value, before), DESTINATION)
        return
    wide = broadcast_to(lift(_masked(value, mask, x), x.type.dtype), x.shape)
    write(x, emit("where", wide_mask(mask, x), wide, x), DESTINATION)


@method("fill")
def _fill(x: Proxy, value: Any) -> None:
    given = lift(_assigned(value, x), x.type.dtype)
    if x.is_scalar:
        return  # a scalar's method changes a copy
    if given.size != 1:
        raise LoopwrightValueError("fill: the value has to be one number")
    write(x, _fitted(reshape(given, ()), x), DESTINATION)


@implements(np.copyto)
def _copyto(dst: Any, src: Any, casting: str = "same_kind", where: Any = True) -> None:
    target = writable(dst, "np.copyto")
    check_cast(target.type.dtype, casting, src if is_number(src) else lift(src))
    if where is True and _is_same(src, target):
        return  # NumPy lets that pass even if it is read-only
    value = _fitted(src, target)
    if where is not True:
        value = emit("where", broadcast_to(lift(where, BOOL), target.shape), value, target)
    write(target, value, DESTINATION)


@implements(np.putmask)
def _putmask(a: Any, mask: Any, values: Any) -> None:
    target = writable(a, "np.putmask")
    value = lift(values, target.type.dtype)
    if value.size != 1 and value.shape != target.shape:
        raise UnsupportedError(
            "np.putmask repeats values of another shape", hint="np.where(mask, values, x)"
        )
    value = broadcast_to(reshape(value, ()) if value.size == 1 else value, target.shape)
    chosen = broadcast_to(lift(mask, BOOL), target.shape)
    write(target, emit("where", chosen, value, target), DESTINATION)


def writable(array: Any, name: str) -> Proxy:
    """Returns the array that a function is to write; an error for one that is not traced."""
    if not isinstance(array, Proxy):
        if (trace := active()) is not None:
            trace.writes_numpys = True  # then arrays that the function makes are traced ones
        raise misuse.out_argument(name)
    return array


class Selection:
    """``x[mask]`` of which Python wants to know what ``+=`` makes of it. How many elements that
    are depends on values; what is done to each of them is done to all, and kept where the mask
    holds."""

    __slots__ = ("array", "before", "mask")
    __array_ufunc__ = None

    def __init__(self, array: Proxy, mask: Any, before: int = 0) -> None:
        self.array = array
        self.mask = mask
        self.before = before

    def __getattr__(self, name: str) -> NoReturn:
        raise misuse.mask_index()


METHODS["getitem.mask"] = Selection


def _masked(value: Any, mask: Proxy, x: Proxy) -> Proxy:
    """``value`` as it is assigned to all elements that the mask chooses, in the shape of ``x``."""
    given = lift(value)
    rest = x.shape[mask.ndim :]
    return reshape(given, given.shape[1:]) if given.ndim > len(rest) else given


def _is_chosen(value: Any, mask: Proxy, x: Proxy, before: int) -> bool:
    """True for values of which each is for one of the elements that the mask chooses."""
    shape = lift(value).shape
    behind = x.ndim - mask.ndim - before
    return len(shape) > behind and (before > 0 or shape[0] != 1)


def _with_chosen(x: Proxy, mask: Proxy, value: Any, before: int) -> Proxy:
    """``x`` with a value for each of the elements that the mask chooses."""
    places = METHODS["places.true"](mask)
    rest = x.shape[mask.ndim :]
    wanted = (*rest[:before], places.shape[0], *rest[before:])
    given = lift(value, x.type.dtype)
    if not _broadcasts(x, given.shape, wanted):
        raise UnsupportedError(
            f"x[mask] = values: how many of {given.type.short} are taken depends on the mask",
            hint="values[mask], or np.where(mask, values of the shape of x, x)",
        )
    order = (before, *(axis for axis in range(len(wanted)) if axis != before))
    given = transpose(broadcast_to(given, wanted), order)
    rows = reshape(x, (mask.size, *rest))
    region = Region((places.atom, *(Run(0, 1, size) for size in rest)))
    atom = write_region(x.owner, rows.atom, given.atom, region)
    return reshape(Proxy(atom, x.owner), x.shape)


def wide_mask(mask: Proxy, x: Proxy) -> Proxy:
    """Returns a mask of the leading axes of ``x`` in the shape of ``x``."""
    column = reshape(mask, (*mask.shape, *(1 for _ in x.shape[mask.ndim :])))
    return broadcast_to(column, x.shape)


def update_where(x: Proxy, mask: Proxy, ufunc: np.ufunc, value: Any, before: int = 0) -> None:
    """``x[mask] = ufunc(x[mask], value)``."""
    if _is_chosen(value, mask, x, before):
        result = UFUNCS[ufunc](masked(x, mask, before), value)
        _check_cast(ufunc.__name__, result, x, "same_kind")
        write(x, _with_chosen(x, mask, result, before), OUTPUT)
        return
    result = UFUNCS[ufunc](x, _masked(value, mask, x))
    METHODS["ufunc.out"](ufunc.__name__, result, (x,), "same_kind", wide_mask(mask, x))


def _add_operators() -> None:
    for name, ufunc in IN_PLACE.items():

        def operator(self: Selection, value: Any, ufunc: np.ufunc = ufunc) -> Selection:
            def into(x: Proxy, value: Any) -> None:
                update_where(x, lift(self.mask), ufunc, value, self.before)

            run(ufunc.__name__, into, (self.array, value))
            return self

        setattr(Selection, name, operator)


_add_operators()
