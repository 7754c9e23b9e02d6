"""Indexing as NumPy has it: ints, slices with steps, None, Ellipsis, arrays of ints.

Slices become ``strided_slice`` and ``reverse``, arrays of ints become ``take``. Traced ints, and
slices with traced bounds, give views of elements that values choose (``memory/regions``). A boolean
mask is taken only if its values are known, since the shape of the result depends on them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...ir.dataclass import dataclass
from ...ir.dims import Dim, IntExpr, as_int, ceildiv
from ...ir.dtype import INT64
from ...ir.errors import LoopwrightIndexError, LoopwrightTypeError, LoopwrightValueError
from ...ir.graph.requirements import Requirement, greater, is_data_size, lesser, require
from ..core import misuse
from ..core.dispatch import METHODS, implementation_of, implements, method, views
from ..core.emitting import emit, lift, one_array
from ..core.proxy import Proxy, is_array, is_number
from ..core.trace import Trace
from ..memory.regions import Region, Run, read_region
from ..memory.storage import View
from .reductions import normalise_axis
from .shaping import broadcast_shapes, broadcast_to, reshape, transpose


@method("__getitem__")
@views
def _getitem(x: Proxy, key: Any) -> Proxy:
    """``x[key]``. Raises LoopwrightIndexError where NumPy raises IndexError."""
    mask = mask_of(key)
    if mask is not None and misuse.is_augmented():
        if mask.shape != x.shape[: mask.ndim]:
            raise misuse.mask_shape(mask.shape, x.type.short)
        return METHODS["getitem.mask"](x, mask)
    if mask is not None and isinstance(mask, Proxy):
        return masked(x, mask)
    if (chosen := masked_part(x, key)) is not None:
        return METHODS["getitem.mask"](*chosen) if misuse.is_augmented() else masked(*chosen)
    items = _expanded(x, _listed(key))
    arrays = [i for i, item in enumerate(items) if _is_array(item)]
    if any(map(_is_chosen, items)):
        if not arrays:
            view = _chosen_view(x, items)
            return Proxy(view.atom, x.owner) if not view.ndim and is_element(key) else view
        x, items = _with_windows(x, items)
    advanced = _advanced(items)
    arrays = [i for i, item in enumerate(items) if isinstance(item, Proxy | np.ndarray)]
    sliced, axes = _basic(x, items)
    if not arrays:
        if sliced.ndim:
            return sliced
        if is_element(key):
            return Proxy(sliced.atom, x.owner, x.weak)  # a scalar
        return one_array(Proxy(x.atom, x.owner)) if x.is_scalar else sliced
    together = advanced == list(range(advanced[0], advanced[-1] + 1))
    taken = _gather(sliced, {axes[i]: items[i] for i in arrays}, together)
    if advanced != list(range(len(advanced))):
        taken.storage.strides = None  # NumPy chooses another order of axes in memory
    return taken


def _is_array(item: Any) -> bool:
    """True for an index whose use copies: an array, of rank 0 too if it is not a scalar."""
    return not _is_scalar(item) if isinstance(item, Proxy) else isinstance(item, np.ndarray)


def _is_scalar(item: Any) -> bool:
    return isinstance(item, Proxy) and item.ndim == 0 and item.is_scalar


def _is_chosen(item: Any) -> bool:
    """True for a traced int, and for a slice that begins or ends at one."""
    if isinstance(item, slice):
        return isinstance(item.start, Proxy) or isinstance(item.stop, Proxy)
    return _is_scalar(item)


def _advanced(items: list[Any]) -> list[int]:
    return [i for i, item in enumerate(items) if isinstance(item, Proxy | np.ndarray | int | Dim)]


def _chosen_view(x: Proxy, items: list[Any]) -> Proxy:
    """``x`` at traced ints and slices that begin at some, a view of it."""
    sliced, region, _ = region_of(x, items)
    for item in items:
        if isinstance(item, Proxy):  # an array of rank 0 would copy
            x.owner.memory.touch(item.storage)
    atom = read_region(x.owner, sliced.atom, region)
    strides = sliced.strides
    if strides is not None:
        strides = tuple(strides[n] * run.step for n, run in region.runs)
    view = Proxy(atom, x.owner, alias=View(sliced, "", {}, region=region, strides=strides))
    axes = [
        n
        for n, item in enumerate(i for i in items if not is_number(i) and not _is_scalar(i))
        if _is_backwards(item)
    ]
    return emit("reverse", view, axis=tuple(axes)) if axes else view


def _is_backwards(item: Any) -> bool:
    """True for a slice with traced bounds and a negative step."""
    return (
        isinstance(item, slice)
        and _is_chosen(item)
        and item.step is not None
        and _bound(item.step) < 0
    )


def masked(x: Proxy, mask: Proxy, before: int = 0) -> Proxy:
    """The elements at which a traced mask of leading axes holds, along an axis behind ``before``
    others: their number is a size that data decides."""
    if mask.shape != x.shape[: mask.ndim]:
        raise misuse.mask_shape(mask.shape, x.type.short)
    places = _late("places.true")(mask)
    rows = reshape(x, (mask.size, *x.shape[mask.ndim :]))
    taken = emit("take", rows, places, axis=0, mode="clip")
    return transpose(taken, (*range(1, before + 1), 0, *range(before + 1, taken.ndim)))


def _late(name: str) -> Any:
    """A function of a module that is loaded when it is first needed."""
    implementation = implementation_of(name, METHODS)
    assert implementation is not None
    return implementation


def _data_run(trace: Trace, part: slice, length: IntExpr) -> Run:
    """The elements of an axis between bounds that values decide, which are limited to the axis as
    NumPy does. Those of a slice with a negative step, in the order of the axis."""
    from ..core.integer_ranges import as_dim, is_certain  # loaded when it is first needed

    step = 1 if part.step is None else _bound(part.step)
    if type(step) is not int or not step:
        raise LoopwrightValueError(f"a slice with traced bounds and the step {step}")
    low, high = (0, length) if step > 0 else (-1, length - 1)

    def limited(bound: Any, otherwise: IntExpr) -> Any:
        if bound is None or (type(bound) is int and bound == 0 == otherwise):
            return otherwise
        at = lift(bound if isinstance(bound, Proxy) else _bound(bound), INT64)
        place = as_dim(trace, at.atom)
        below_end = is_certain(trace, place, "<=", high)
        if not is_certain(trace, place, ">=", 0):
            from_end = emit("add", at, lift(length, INT64))
            at = emit("where", emit("less", at, lift(0, INT64)), from_end, at)
            at = emit("maximum", at, lift(low, INT64))
        return at if below_end else emit("minimum", at, lift(high, INT64))

    begin = limited(part.start, low if step > 0 else high)

    def count() -> Proxy:
        end = limited(part.stop, high if step > 0 else low)
        near, far = (begin, end) if step > 0 else (end, begin)
        number = lift(far, INT64)
        if isinstance(near, Proxy) or near != 0:
            number = emit("subtract", number, lift(near, INT64))
        if abs(step) > 1:
            more = emit("add", number, lift(abs(step) - 1, INT64))
            number = emit("floor_divide", more, lift(abs(step), INT64))
        if is_certain(trace, as_dim(trace, number.atom), ">=", 0):
            return number
        return emit("maximum", number, lift(0, INT64))

    at_front = begin is low and step == 1
    mask = trace.values.counted_mask(part.stop.atom) if at_front else None
    if mask is not None and Requirement((held := Proxy(mask, trace)).size, "<=", length).decided:
        return Run(0, 1, _late("size.mask")(held))
    ends = (as_dim(trace, b.atom) if isinstance(b, Proxy) else b for b in (part.start, part.stop))
    number = _late("size.data")((*ends, step, length), count, ceildiv(length, abs(step)))
    if step < 0:
        begin = lift(begin, INT64) + (lift(number, INT64) - 1) * step
    return Run(begin.atom if isinstance(begin, Proxy) else begin, abs(step), number)


def _count(part: slice, length: IntExpr) -> int | None:
    """The number of places between the bounds of a slice, if it is known and fits an axis."""
    start, stop = part.start, part.stop
    step = 1 if part.step is None else _bound(part.step)
    if not isinstance(start, Proxy) or stop is None or type(step) is not int or step < 1:
        return None
    from ..core.integer_ranges import as_dim  # loaded when it is first needed

    ends = [b.atom if isinstance(b, Proxy) else _bound(b) for b in (start, stop)]
    count = as_dim(start.owner, ends[1]) - as_dim(start.owner, ends[0])
    # x[i:i - 1] is x[i:-1] from 0 on.
    fits = isinstance(count, int) and count >= 0 and Requirement(count, "<=", length).decided
    return count if fits is not False and isinstance(count, int) else None


def _with_windows(x: Proxy, items: list[Any]) -> tuple[Proxy, list[Any]]:
    """Applies the slices with traced bounds; the other items stay to be applied."""
    chosen = [isinstance(item, slice) and _is_chosen(item) for item in items]
    if not any(chosen):
        return x, items
    kept = [item for item in items if item is not None]
    only = [item if _is_chosen(item) and isinstance(item, slice) else slice(None) for item in kept]
    rest = [slice(None) if one else item for one, item in zip(chosen, items, strict=True)]
    return _chosen_view(x, only), rest


def region_of(x: Proxy, items: list[Any]) -> tuple[Proxy, Region, int]:
    """Returns the array that the known ints and slices among ``items`` leave of ``x``, the region
    of it that the others choose, and how many axes stand before those of index arrays in
    ``x[key]``."""
    choosing = [_is_chosen(item) or _is_array(item) for item in items]
    plain = [slice(None) if one else item for one, item in zip(choosing, items, strict=True)]
    sliced, axes = _basic(x, plain)
    chosen: list[Any] = [Run(0, 1, size) for size in sliced.shape]
    for position, item in enumerate(items):
        if choosing[position]:
            axis = axes[position]
            size = sliced.shape[axis]
            if isinstance(item, slice):
                chosen[axis] = _run(x.owner, item, size, axis)
            else:
                chosen[axis] = lift(_checked(item, size, axis)).atom
    advanced = _advanced(items)
    front = 0
    if advanced and advanced == list(range(advanced[0], advanced[-1] + 1)):
        front = advanced[0]  # what stands before keeps its axis
    return sliced, Region(tuple(chosen)), front


def _run(trace: Trace, part: slice, length: IntExpr, axis: int) -> Run:
    """The elements of an axis that a slice with traced bounds chooses. If it is known how many they
    are, the run is inside of the axis."""
    start = part.start
    for bound in (start, part.stop):
        if isinstance(bound, Proxy) and (bound.ndim or not bound.type.dtype.is_integer):
            raise misuse.index_of(bound.type.short)
    count = _count(part, length)
    if count is None:
        return _data_run(trace, part, length)
    step = 1 if part.step is None else _bound(part.step)
    if count:
        from ..core.runtime_checks import check_window  # loaded when it is first needed

        check_window(start, count, step, length, axis)
    return Run(start.atom, step, -(-count // step))


def is_element(key: Any) -> bool:
    """True if a key of ints chooses an element: with an Ellipsis it is an array of rank 0."""
    return not any(item is Ellipsis for item in _listed(key))


def _listed(key: Any) -> tuple[Any, ...]:
    return key if isinstance(key, tuple) else (key,)


def expanded(x: Proxy, key: Any) -> list[Any]:
    """The key with one item per axis (None besides): Ellipsis filled in, masks made positions."""
    return _expanded(x, _listed(key))


def forwards(x: Proxy, items: list[Any]) -> tuple[Proxy, list[Any]]:
    """Applies the slices with traced bounds if one of them has a negative step."""
    return _with_windows(x, items) if any(map(_is_backwards, items)) else (x, items)


def basic_view(x: Proxy, items: list[Any]) -> Proxy | None:
    """``x[key]`` as an array even where that is an element, for the items of the key; None for a
    key with traced ints or arrays in it."""
    if any(_is_array(item) or _is_chosen(item) for item in items):
        return None
    return _basic(x, items)[0]


def mask_of(key: Any) -> Any:
    """Returns the mask that a key is, an array of bools or a list of them; None for another key."""
    (item,) = key if isinstance(key, tuple) and len(key) == 1 else (key,)
    if isinstance(item, list) and item and not any(isinstance(i, Proxy) for i in item):
        item = np.asarray(item)
    if isinstance(item, Proxy):
        return item if item.type.dtype.is_bool else None
    return item if isinstance(item, np.ndarray) and item.dtype == bool and item.ndim else None


def masked_part(x: Proxy, key: Any) -> tuple[Proxy, Proxy, int] | None:
    """For a key of a traced mask among ints and slices: the array that the others leave of ``x``,
    with the axes of the mask in front, the mask, and how many of the others stand before that of
    the chosen elements. None for another key."""
    if not isinstance(key, tuple) or len(key) < 2:
        return None
    masks = [n for n, i in enumerate(key) if isinstance(i, Proxy) and i.type.dtype.is_bool]
    if len(masks) != 1 or not key[masks[0]].ndim:
        return None
    (at,) = masks
    mask: Proxy = key[at]
    whole = (slice(None),) * mask.ndim
    part = basic_view(x, _expanded(x, (*key[:at], *whole, *key[at + 1 :])))
    if part is None:
        return None
    before, after = ([i for i in some if not is_number(i)] for some in (key[:at], key[at + 1 :]))
    first = len(before) if Ellipsis not in before else part.ndim - mask.ndim - len(after)
    axes = range(first, first + mask.ndim)
    if tuple(part.shape[axis] for axis in axes) != mask.shape:
        raise misuse.mask_shape(mask.shape, x.type.short)
    rest = [axis for axis in range(part.ndim) if axis not in axes]
    apart = [n for n, item in enumerate(key) if is_number(item) or n == at]
    together = apart == list(range(apart[0], apart[-1] + 1))
    return transpose(part, (*axes, *rest)), mask, first if together else 0


def _expanded(x: Proxy, key: tuple[Any, ...]) -> list[Any]:
    items: list[Any] = []
    for item in key:
        items += _item(x, item)
    taken = sum(1 for i in items if i is not None and i is not Ellipsis)
    if taken > x.ndim:
        raise LoopwrightIndexError(
            f"too many indices: {taken} for {x.type.short}, which has {x.ndim} axes"
        )
    places = [i for i, item in enumerate(items) if item is Ellipsis]
    if len(places) > 1:
        raise LoopwrightIndexError("an index can have only one ellipsis")
    at = places[0] if places else len(items)
    fill = [slice(None)] * (x.ndim - taken)
    items = items[:at] + fill + items[at + 1 :]
    if any(map(is_data_size, x.shape)):
        from ..core.runtime_checks import checked_number  # loaded when it is first needed

        axes = iter(range(x.ndim))
        items = [i if i is None else checked_number(i, x.shape, next(axes)) for i in items]
    return items


def _item(x: Proxy, item: Any) -> list[Any]:
    if item is None or item is Ellipsis or isinstance(item, slice | Dim):
        return [item]
    if isinstance(item, Proxy):
        if item.type.dtype.is_bool:
            raise misuse.mask_index()
        if not item.type.dtype.is_integer:
            raise misuse.index_of(item.type.short)
        return [item]
    if isinstance(item, bool | np.bool_):
        raise LoopwrightIndexError("a bool as an index is not supported", hint="x[None] or x[:0]")
    if isinstance(item, int | np.integer):
        return [int(item)]
    misuse.refuse_subclass(item)
    if isinstance(item, list):
        if any(isinstance(i, Proxy) for i in item):
            return _item(x, lift(item))
        item = np.asarray(item)
        if not item.size:
            item = item.astype(np.int64)
    if isinstance(item, np.ndarray):
        if item.dtype == bool:
            return list(item.nonzero())
        if item.dtype.kind not in "iu":
            raise LoopwrightIndexError(f"an index must be of integers, not {item.dtype}")
        return [int(item)] if item.ndim == 0 else [item]
    raise LoopwrightIndexError(f"{item!r} is not an index")


def _basic(x: Proxy, items: list[Any]) -> tuple[Proxy, dict[int, int]]:
    """Applies ints, slices and None; for each item, the axis of the result it stands at."""
    begin: list[IntExpr] = []
    end: list[IntExpr] = []
    strides: list[int] = []
    reversed_axes: list[int] = []
    kept: list[int | None] = []  # axes of the sliced array that stay; None: a new one
    axes: dict[int, int] = {}
    axis = 0
    for position, item in enumerate(items):
        if item is None:
            kept.append(None)
            continue
        length = x.shape[axis]
        if is_number(item) or isinstance(item, Dim):
            axes[position] = len(kept)
            at = _position(item, length, axis)
            first, last, step = at, at + 1, 1
        else:
            axes[position] = len(kept)
            part = item if isinstance(item, slice) else slice(None)
            first, last, step, backwards = _slice(part, length)
            if backwards:
                reversed_axes.append(axis)
            kept.append(axis)
        begin.append(first)
        end.append(last)
        strides.append(step)
        axis += 1
    if any(b != 0 for b in begin) or tuple(end) != x.shape or any(s != 1 for s in strides):
        x = emit("strided_slice", x, begin=tuple(begin), end=tuple(end), strides=tuple(strides))
    if reversed_axes:
        x = emit("reverse", x, axis=tuple(reversed_axes))
    return reshape(x, tuple(1 if a is None else x.shape[a] for a in kept)), axes


def _position(index: IntExpr, length: IntExpr, axis: int) -> IntExpr:
    message = f"index {index} is outside of axis {axis}, which has {length}"
    place = index + length if _is_negative(index, "an index") else index
    if not (require(0, "<=", place, message) and require(place, "<", length, message)):
        raise LoopwrightIndexError(message)
    return place


def _is_negative(place: IntExpr, what: str) -> bool:
    """True if a place counts from the end. Of a symbolic one whose sign is open, it is required
    that it does not."""
    if isinstance(place, int):
        return place < 0
    return not require(0, "<=", place, f"{what} {place} that is negative counts from the end")


def _slice(part: slice, length: IntExpr) -> tuple[IntExpr, IntExpr, int, bool]:
    """Begin, end and a positive stride, and whether the result is to be reversed."""
    step = 1 if part.step is None else _bound(part.step)
    if isinstance(step, Dim) or step == 0:
        raise LoopwrightValueError(f"a slice's step must be an int other than 0, not {step}")
    start, stop = _bound(part.start), _bound(part.stop)
    if isinstance(length, Dim) or isinstance(start, Dim) or isinstance(stop, Dim):
        return _symbolic_slice(start, stop, step, length)
    chosen = range(*slice(start, stop, step).indices(length))
    if not chosen:
        return 0, 0, 1, False
    low, high = min(chosen[0], chosen[-1]), max(chosen[0], chosen[-1])
    return low, high + 1, abs(step), step < 0


def _bound(value: Any) -> Any:
    if value is None or isinstance(value, Dim):
        return value
    try:
        return int(value.__index__())
    except (AttributeError, TypeError):
        raise LoopwrightTypeError(f"a slice's bound must be an int, not {value!r}") from None


def _symbolic_slice(
    start: IntExpr | None, stop: IntExpr | None, step: int, length: IntExpr
) -> tuple[IntExpr, IntExpr, int, bool]:
    """As ``_slice`` with symbolic sizes. The end is as many steps behind the begin as there are
    elements; where there are none, the begin may lie outside of the axis."""

    def counted(place: IntExpr) -> IntExpr:
        return place + length if _is_negative(place, "a bound") else place

    if step > 0:
        begin = 0 if start is None else greater(counted(start), 0)
        end = length if stop is None else greater(lesser(counted(stop), length), 0)
        size = greater(ceildiv(end - begin, step), 0)
        return begin, begin + size * step, step, False
    first = length - 1 if start is None else lesser(counted(start), length - 1)
    last = -1 if stop is None else greater(lesser(counted(stop), length - 1), -1)
    size = greater(ceildiv(first - last, -step), 0)
    begin = first + (size - 1) * step
    return begin, begin - size * step, -step, True


@dataclass(frozen=True, slots=True)
class _Merged:
    """Several indexed axes as one: the array reshaped, and the position in the merged axis."""

    array: Proxy
    position: Any


def _gather(x: Proxy, indices: dict[int, Any], together: bool) -> Proxy:
    """Indexes the axes in ``indices`` by arrays that broadcast against each other."""
    axes = sorted(indices)
    front = axes[0] if together else 0
    rest = [a for a in range(x.ndim) if a not in axes]
    order = rest[:front] + axes + rest[front:]
    merged = _merge(transpose(x, tuple(order)), [indices[a] for a in axes], front)
    return _take(merged.array, merged.position, front)


def _merge(x: Proxy, indices: list[Any], front: int) -> _Merged:
    sizes = x.shape[front : front + len(indices)]
    if len(indices) == 1:
        return _Merged(x, _checked(indices[0], sizes[0], front))
    constant = all(map(is_array, indices))
    parts = [
        _from_front(i, s, front + k) for k, (i, s) in enumerate(zip(indices, sizes, strict=True))
    ]
    position: Any = parts[0]
    for part, length in zip(parts[1:], sizes[1:], strict=True):
        position = np.add(np.multiply(position, _size(length)), part)
    if not constant:
        shape = broadcast_shapes(*(lift(p).shape for p in parts))
        position = broadcast_to(lift(position), shape)
    total: IntExpr = 1
    for length in sizes:
        total = total * length
    shape = (*x.shape[:front], total, *x.shape[front + len(indices) :])
    return _Merged(reshape(x, shape), position)


def _checked(index: Any, length: IntExpr, axis: int) -> Any:
    """Returns an index array; one whose values are known must lie inside of its axis."""
    if is_array(index) and index.size:
        for at in sorted((int(index.argmin()), int(index.argmax()))):
            worst = int(index.flat[at])
            if is_data_size(length):
                from ..core.runtime_checks import checked_number  # loaded when it is first needed

                checked_number(worst, {axis: length}, axis)
                continue
            message = f"index {worst} is outside of axis {axis}, which has {length}"
            inside = require(worst, "<", length, message)
            if not (inside and require(-worst, "<=", length, message)):
                raise LoopwrightIndexError(message)
    if isinstance(index, Proxy) and index.owner.check_index:
        from ..core.runtime_checks import check_index  # loaded when it is first needed

        check_index(index, length, axis)
    return index


def _size(length: IntExpr) -> Any:
    """Returns a size as an operand of index arithmetic."""
    return lift(length, INT64) if isinstance(length, Dim) else length


def _from_front(index: Any, length: IntExpr, axis: int) -> Any:
    """Negative positions counted from the front."""
    if is_array(_checked(index, length, axis)):
        return np.where(index < 0, index + _size(length), index).astype(np.int64)
    wide = lift(index, INT64)
    if isinstance(length, Dim):
        size = lift(length, INT64)
        low = emit("maximum", wide, emit("negative", size))
        bounded = emit("minimum", low, emit("subtract", size, lift(1, INT64)))
        below = emit("less", bounded, lift(0, INT64))
        return emit("where", below, emit("add", bounded, size), bounded)
    bounded = emit("clip", wide, a_min=-as_int(length), a_max=as_int(length) - 1)
    below = emit("less", bounded, lift(0, INT64))
    return emit("where", below, emit("add", bounded, lift(as_int(length), INT64)), bounded)


def _take(x: Proxy, index: Any, axis: int) -> Proxy:
    return emit("take", x, lift(index), axis=axis, mode="clip")


@implements(np.take)
@method("take")
def take(
    a: Any, indices: Any, axis: int | None = None, _out: Any = None, mode: str = "raise"
) -> Proxy:
    """``np.take``; LoopwrightIndexError in calls with an index outside of the axis."""
    x = lift(a)
    if mode not in ("raise", "clip", "wrap"):
        raise LoopwrightValueError(f"np.take: mode {mode!r} is none of 'raise', 'clip', 'wrap'")
    if axis is None:
        x, axis = reshape(x, (x.size,)), 0
    axis = normalise_axis(axis, x.ndim)
    misuse.refuse_subclass(indices)
    index = lift(indices) if isinstance(indices, Proxy | Dim) else np.asarray(indices)
    if mode == "raise":
        _checked(index, x.shape[axis], axis)
    position = lift(index)
    if not position.type.dtype.is_integer:
        raise misuse.index_of(position.type.short)
    if mode != "raise":
        from ..core.runtime_checks import check_taken  # loaded when it is first needed

        check_taken(x, axis, position.size)
    if mode == "clip" and position.type.dtype.is_signed:  # a negative one means 0 here
        position = emit("maximum", position, lift(0, position.type.dtype))
    return emit("take", x, position, axis=axis, mode="wrap" if mode == "wrap" else "clip")


@implements(np.take_along_axis)
def _take_along_axis(arr: Any, indices: Any, axis: int | None = -1) -> Proxy:
    x, index = lift(arr), lift(indices)
    if axis is None:
        x, axis = reshape(x, (x.size,)), 0
    axis = normalise_axis(axis, x.ndim)
    if index.ndim != x.ndim:
        raise LoopwrightTypeError(
            f"take_along_axis: {index.type.short} and {x.type.short} differ in rank"
        )
    key: list[Any] = []
    for each in range(x.ndim):
        if each == axis:
            key.append(index)
            continue
        size = x.shape[each]
        slim = tuple(size if i == each else 1 for i in range(x.ndim))
        if isinstance(size, Dim):
            key.append(emit("iota", shape=slim, axis=each, dtype="int64"))
        else:
            key.append(np.arange(size).reshape([-1 if i == each else 1 for i in range(x.ndim)]))
    return _getitem(x, tuple(key))
