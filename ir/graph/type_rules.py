"""Parts of type rules: operand checks, broadcasting, axes. Sizes may be symbolic everywhere.

Messages are one line that says what is wrong and names the operands' types in the short spelling
``float32[64, 784]``; ``declare`` puts the operator's name in front. Two sizes count as equal if
that is proved (``n`` and ``n``); sizes that may be equal are required to be (see
``ir/graph/requirements.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from ..dims import LARGEST_SIZE, Dim, IntExpr, bounds
from ..dtype import DType, dtype_named, dtype_names, promote
from ..errors import LoopwrightTypeError, LoopwrightValueError
from ..loop.expr import Expr, IndexLike
from ..loop.tensor import Tensor
from .requirements import require
from .types import TensorType, Type

Attrs: TypeAlias = Mapping[str, Any]
Shape: TypeAlias = tuple[IntExpr, ...]

ANY = "biuf"
"""The kinds of all dtypes."""

_KIND_NAMES = {
    "b": "bool",
    "i": "a signed integer",
    "u": "an unsigned integer",
    "f": "a float",
    "c": "a complex number",
}


def tensors(types: Sequence[Type], count: int | None = None) -> tuple[TensorType, ...]:
    """Returns the operands as tensor types; checks that there are ``count`` (None: at least 1)."""
    if len(types) != count and (count is not None or not types):
        takes = "at least 1 operand" if count is None else f"{count} operand{'s' * (count != 1)}"
        raise LoopwrightTypeError(f"takes {takes}, not {len(types)}")
    checked: list[TensorType] = []
    for type in types:
        if not isinstance(type, TensorType):
            raise LoopwrightTypeError(f"operands are tensors, not {type}")
        checked.append(type)
    return tuple(checked)


def shorts(types: Sequence[TensorType]) -> str:
    """The operands' types for a message: ``float32[3] and int8[3]``."""
    return " and ".join(t.short for t in types)


def same_dtype(types: Sequence[TensorType]) -> DType:
    """Returns the one dtype of all operands."""
    if any(t.dtype != types[0].dtype for t in types):
        common = promote(*(t.dtype for t in types))
        raise LoopwrightTypeError(
            f"operands {shorts(types)} differ in dtype",
            hint=f"cast both to {common}" if len(types) == 2 else f"cast all to {common}",
        )
    return types[0].dtype


def require_kind(kinds: str, types: Sequence[TensorType]) -> None:
    """Raises LoopwrightTypeError unless the kinds of all dtypes are in ``kinds``."""
    for t in types:
        if t.dtype.kind in kinds:
            continue
        wanted = " or ".join(_KIND_NAMES[k] for k in kinds)
        if "i" in kinds and "u" in kinds:
            wanted = {"f": "a number", "b": "an integer or bool"}.get(
                (set(kinds) - {"i", "u"}).pop() if len(kinds) > 2 else "", "an integer"
            )
        raise LoopwrightTypeError(
            f"needs {wanted}, not {shorts(types)}",
            hint="cast to float32 or float64" if kinds == "f" else None,
        )


def broadcast_pair(left: IntExpr, right: IntExpr) -> IntExpr | None:
    """Returns the size of two broadcast sizes, or None if they are not known to fit."""
    if left == right or right == 1:
        return left
    return right if left == 1 else None


def broadcast_shapes(types: Sequence[TensorType]) -> Shape:
    """Returns the broadcast shape, by NumPy's rules."""

    def refuse(left: IntExpr, right: IntExpr) -> LoopwrightTypeError:
        return LoopwrightTypeError(
            f"operands {shorts(types)} do not broadcast, sizes {left} and {right} differ",
            hint=_broadcast_hint(types),
        )

    return joined_shape([t.shape for t in types], refuse)


def joined_shape(
    shapes: Sequence[Shape], refuse: Callable[[IntExpr, IntExpr], LoopwrightTypeError]
) -> Shape:
    """Returns the broadcast of shapes; ``refuse`` makes the error of two sizes that differ."""
    result: list[IntExpr] = []
    for back in range(max(map(len, shapes)), 0, -1):
        size: IntExpr = 1
        for shape in shapes:
            if len(shape) < back:
                continue
            size = joined_size(size, shape[-back], refuse)
        result.append(size)
    return tuple(result)


def joined_size(
    left: IntExpr, right: IntExpr, refuse: Callable[[IntExpr, IntExpr], LoopwrightTypeError]
) -> IntExpr:
    """Returns the broadcast of two sizes. Symbolic ones that may differ are required to be equal:
    an axis broadcasts where its size is 1 for all calls."""
    joined = broadcast_pair(left, right)
    if joined is not None:
        return joined
    error = refuse(left, right)
    require_equal(left, right, error)
    return right if isinstance(right, int) else left


def require_equal(left: IntExpr, right: IntExpr, error: LoopwrightTypeError) -> None:
    """Raises ``error`` unless two sizes are equal; of symbolic ones that may be, it is required."""
    if not require(left, "==", right, error.message):
        raise error


def require_shape(shape: Shape, wanted: Shape, error: LoopwrightTypeError) -> None:
    """Raises ``error`` unless two shapes are equal; of symbolic ones that may be, it is
    required."""
    if shape == wanted:
        return
    if len(shape) != len(wanted):
        raise error
    for left, right in zip(shape, wanted):
        if left != right:
            require_equal(left, right, error)


def _broadcast_hint(types: Sequence[TensorType]) -> str | None:
    """Returns a hint if the shorter operand matches the leading axes of the longer one."""
    ordered = sorted(types, key=lambda t: t.rank)
    short, long = ordered[0], ordered[-1]
    if 0 < short.rank < long.rank and short.shape == long.shape[: short.rank]:
        shape = ", ".join(map(str, short.shape + (1,) * (long.rank - short.rank)))
        return f"reshape {short.short} to ({shape})"
    return None


def broadcast_read(tensor: Tensor, indices: Sequence[IndexLike]) -> Expr:
    """Reads an operand at the indices of the broadcast result: index 0 on axes of size 1."""
    last = indices[len(indices) - len(tensor.shape) :]
    return tensor(*(0 if size == 1 else i for size, i in zip(tensor.shape, last, strict=True)))


def normalise_axis(axis: Any, rank: int, operand: TensorType | None = None) -> int:
    """Returns ``axis`` counted from the front; LoopwrightValueError if it is out of range."""
    if not isinstance(axis, int) or isinstance(axis, bool):
        raise LoopwrightValueError(f"an axis is an int, not {axis!r}")
    if not -rank <= axis < rank:
        what = f"{operand.short}" if operand is not None else f"a tensor of rank {rank}"
        raise LoopwrightValueError(f"axis {axis} is out of range for {what}")
    return axis % rank


def normalise_axes(axes: Any, rank: int, operand: TensorType | None = None) -> tuple[int, ...]:
    """Returns axes (an int, a tuple, or None for all) counted from the front and sorted.

    >>> normalise_axes((-1, 0), 3)
    (0, 2)
    """
    if axes is None:
        return tuple(range(rank))
    counted = [normalise_axis(a, rank, operand) for a in as_axes(axes)]
    if len(set(counted)) != len(counted):
        raise LoopwrightValueError(f"axis {axes} names an axis twice")
    return tuple(sorted(counted))


def permutation(axes: Any, rank: int, x: TensorType | None = None) -> tuple[int, ...]:
    """Returns the axes of a transpose (None reverses all) counted from the front."""
    if axes is None:
        return tuple(reversed(range(rank)))
    order = tuple(normalise_axis(a, rank, x) for a in as_axes(axes))
    if sorted(order) != list(range(rank)):
        what = x.short if x is not None else f"rank {rank}"
        raise LoopwrightValueError(f"{axes} is not a permutation of the axes of {what}")
    return order


def as_axes(axes: Any) -> tuple[Any, ...]:
    """Returns an attribute that is one value or a tuple of them as a tuple."""
    return axes if isinstance(axes, tuple) else (axes,)


def is_size(value: Any) -> bool:
    """True if the value is an int or an integer expression."""
    return isinstance(value, int | Dim) and not isinstance(value, bool)


def sizes_of(shape: Any) -> Shape:
    """Returns a shape attribute as a tuple; LoopwrightValueError for a negative size."""
    sizes = as_axes(shape)
    for size in sizes:
        if not is_size(size) or (isinstance(size, int) and size < 0):
            raise LoopwrightValueError(f"{size!r} is not a size")
    return sizes


def require_fits(label: str, value: Any, dtype: DType) -> None:
    """Raises an error unless ``value`` is a number or symbolic size that ``dtype`` can hold."""
    if not isinstance(value, bool | int | float | complex | Dim):
        raise LoopwrightValueError(f"{label} {value!r} is not a number")
    if isinstance(value, complex) and not dtype.is_complex:
        raise LoopwrightTypeError(f"{label} {value} is complex, and the dtype {dtype}")
    if isinstance(value, Dim) or not dtype.is_integer:
        return
    if isinstance(value, float) and not value.is_integer():
        raise LoopwrightTypeError(
            f"{label} {value} is not an integer, as {dtype} needs",
            hint="cast the operand to float32 or float64",
        )
    least, greatest = dtype.limits
    if not least <= int(value.real) <= greatest:
        raise LoopwrightValueError(f"{label} {value} does not fit {dtype}")


def dtype_attr(value: Any) -> DType:
    """Returns the dtype that an attribute names."""
    dtype = dtype_named(str(value))
    if dtype is None:
        raise LoopwrightValueError(
            f"dtype {value!r} is not supported; the dtypes are {dtype_names()}"
        )
    return dtype


def upper_bound(size: IntExpr) -> int:
    """Returns an upper bound of a size."""
    inside = bounds(size, {})
    return LARGEST_SIZE if inside is None else inside[1]
