"""Operators without operands: full, empty, iota, arange."""

from __future__ import annotations

from math import ceil, isfinite
from typing import Any

import numpy as np

from ..dims import Dim, IntExpr, ceildiv, int_max
from ..errors import LoopwrightTypeError, LoopwrightValueError
from ..graph.operator import Pattern, Sample
from ..graph.type_rules import dtype_attr, is_size, normalise_axis, require_fits, sizes_of
from ..graph.types import TensorType
from ..loop.expr import Expr, IndexLike, cast, const, index, op
from ..loop.tensor import index_add, index_expr, index_mul
from ..traits import Trait
from .declare import Body, Element, attr, primitive
from .sampling import sample

_DTYPE = attr("name of the result's dtype", "float32")
_SHAPE = attr("sizes of the result")


def _full_rule(*, shape: Any, fill_value: Any, dtype: str) -> TensorType:
    require_fits("fill_value", fill_value, dtype_attr(dtype))
    return TensorType(sizes_of(shape), dtype_attr(dtype))


def _full_samples(_rng: np.random.Generator) -> list[Sample]:
    def drawn(shape: tuple[int, ...], value: Any, dtype: str) -> Sample:
        return sample(shape=shape, fill_value=value, dtype=dtype)

    return [
        drawn((2, 3), 1.5, "float32"),
        drawn((), -7, "int64"),
        drawn((5,), True, "bool"),
        drawn((3,), float("nan"), "float64"),
        drawn((3,), -0.0, "float32"),
        drawn((0, 2), 200, "uint8"),
    ]


@primitive(
    "full",
    Pattern.ELEMENTWISE,
    traits=Trait.MOVES,
    rule=_full_rule,
    reference=np.full,
    samples=_full_samples,
)
def _full(
    out: TensorType,
    *,
    _shape: Any = _SHAPE,
    fill_value: Any = attr("the value"),
    _dtype: Any = _DTYPE,
) -> Element:
    """A tensor filled with one value.

    The result has ``shape`` and ``dtype``; ``fill_value`` is a number, or a symbolic size, whose
    value is taken. LoopwrightTypeError or LoopwrightValueError if an integer dtype cannot hold the
    value.

        fn () -> Tensor[(2, 3), float32] {
          full(shape=[2, 3], fill_value=1.5)
        }
    """
    if isinstance(fill_value, Dim):
        return lambda *_i: cast(index(fill_value), out.dtype)
    return lambda *_i: const(fill_value, out.dtype)


@primitive(
    "empty",
    Pattern.OPAQUE,
    traits=Trait.UNSET,
    rule=lambda shape, dtype: TensorType(sizes_of(shape), dtype_attr(dtype)),
    reference=np.zeros,
    samples=lambda _rng: [sample(shape=(0,)), sample(shape=(3, 0), dtype="int64")],
)
def _empty(_out: TensorType, *, _shape: Any = _SHAPE, _dtype: Any = _DTYPE) -> Body:
    """A tensor whose elements may be anything: memory to write to.

    The result has ``shape`` and ``dtype``. Every call has memory of its own, and stays where it is.

        fn () -> Tensor[(2, 3), float32] {
          empty(shape=[2, 3])
        }
    """
    return Body(lambda _name: ())


def _iota_rule(shape: Any, axis: Any, dtype: Any) -> TensorType:
    shape = sizes_of(shape)
    normalise_axis(axis, len(shape))
    return TensorType(shape, dtype_attr(dtype))


def _iota_reference(shape: Any, axis: Any, dtype: Any) -> Any:
    return np.indices(shape)[axis % len(shape)].astype(dtype)


@primitive(
    "iota",
    Pattern.ELEMENTWISE,
    rule=_iota_rule,
    reference=_iota_reference,
    samples=lambda _rng: [
        sample(shape=(3, 5), axis=1, dtype="int64"),
        sample(shape=(3, 5, 2), axis=-3, dtype="float32"),
        sample(shape=(300,), axis=0, dtype="int8"),
        sample(shape=(2, 1), axis=0, dtype="bool"),
        sample(shape=(0, 4), axis=0, dtype="float64"),
    ],
)
def _iota(
    out: TensorType,
    *,
    _shape: Any = _SHAPE,
    axis: Any = attr("the axis whose index it is", 0),
    _dtype: Any = _DTYPE,
) -> Element:
    """Every element is its own index along ``axis``.

    The result has ``shape`` and ``dtype``; narrow integers wrap around. LoopwrightValueError for an
    axis out of range.

        fn () -> Tensor[(2, 3), int64] {
          iota(shape=[2, 3], axis=1, dtype="int64")
        }
    """
    return lambda *i: cast(index_expr(i[axis]), out.dtype)


def _arange_size(start: Any, stop: Any, step: Any) -> IntExpr:
    if isinstance(start, Dim) or isinstance(stop, Dim):
        if not is_size(step):
            raise LoopwrightValueError(f"a symbolic range needs an int step, not {step!r}")
        return ceildiv(stop - start, step) if step > 0 else ceildiv(start - stop, -step)
    return int_max(0, ceil((stop - start) / step))


def _arange_rule(start: Any, stop: Any, step: Any, dtype: Any) -> TensorType:
    dtype = dtype_attr(dtype)
    values = start, stop, step
    for value in values:
        if isinstance(value, bool) or not isinstance(value, int | float | Dim):
            raise LoopwrightValueError(f"{value!r} is not a number")
        if isinstance(value, float) and not isfinite(value):
            raise LoopwrightValueError(f"{value} is not finite")
    if step == 0:
        raise LoopwrightValueError("the step is 0")
    if dtype.is_bool:
        raise LoopwrightTypeError("a range of bools is not supported")
    if dtype.is_integer and any(isinstance(v, float) for v in values):
        raise LoopwrightTypeError(
            f"{start}, {stop}, {step} are not integers", hint="dtype='float64'"
        )
    return TensorType((_arange_size(start, stop, step),), dtype)


def _arange_reference(start: Any, stop: Any, step: Any, dtype: Any) -> Any:
    wide = np.dtype("int64" if np.dtype(dtype).kind in "iu" else "float64")
    return np.arange(start, stop, step, dtype=wide).astype(dtype)


def _arange_samples(_rng: np.random.Generator) -> list[Sample]:
    def drawn(start: Any, stop: Any, step: Any, dtype: str) -> Sample:
        return sample(start=start, stop=stop, step=step, dtype=dtype)

    return [
        drawn(0, 10, 1, "int64"),
        drawn(-5, 7, 3, "int32"),
        drawn(9, 0, -2, "int16"),
        drawn(0, 37, 1, "float32"),
        drawn(0.5, 2.0, 0.25, "float32"),
        drawn(1.0, -1.0, -0.3, "float64"),
        drawn(3, 3, 1, "uint8"),
        drawn(5, 2, 1, "float64"),
    ]


@primitive(
    "arange",
    Pattern.ELEMENTWISE,
    rule=_arange_rule,
    reference=_arange_reference,
    samples=_arange_samples,
)
def _arange(
    out: TensorType,
    *,
    start: Any = attr("first value", 0),
    _stop: Any = attr("end of the range, not included"),
    step: Any = attr("distance of neighbours", 1),
    _dtype: Any = attr("name of the result's dtype", "int64"),
) -> Element:
    """Evenly spaced values ``start + i * step``, up to but without ``stop``.

    The result is 1-D with ceil((stop - start) / step) elements. ``start`` and ``stop`` may be
    symbolic sizes if ``step`` is an int; the range is then taken not to be negative.
    LoopwrightValueError for a step of 0, LoopwrightTypeError for fractions in an integer dtype.

        fn () -> Tensor[(3), int64] {
          arange(stop=6, step=2)
        }
    """

    def element(*i: IndexLike) -> Expr:
        if is_size(start) and is_size(step):
            return cast(index_expr(index_add(start, index_mul(i[0], step))), out.dtype)
        position = cast(index_expr(i[0]), out.dtype)
        scaled = op("multiply", position, const(step, out.dtype))
        return op("add", scaled, const(start, out.dtype))

    return element
