"""Tensors made of nothing: full, iota, arange."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, isfinite
from typing import Any

import numpy as np

from ..dims import Dim, IntExpr, ceildiv, int_max
from ..errors import LoopwrightTypeError, LoopwrightValueError
from ..graph.operator import Attr, Operator, Pattern, Sample, register
from ..graph.types import TensorType, Type
from ..loop.expr import Expr, IndexLike, cast, const, index, op
from ..loop.tensor import Map, Tensor, index_add, index_expr, index_mul
from .rules import Attrs, dtype_attr, is_size, normalise_axis, require_fits, sizes_of, tensors

__all__: list[str] = []

_DTYPE = Attr("dtype", "name of the result's dtype", "float32")
_SHAPE = Attr("shape", "sizes of the result")


def _no_operands(name: str, types: tuple[Type, ...]) -> None:
    tensors(name, types, 0)


def _infer_full(types: tuple[Type, ...], attrs: Attrs) -> Type:
    _no_operands("full", types)
    dtype = dtype_attr("full", attrs["dtype"])
    require_fits("full", "fill_value", attrs["fill_value"], dtype)
    return TensorType(sizes_of("full", attrs["shape"]), dtype)


def _compute_full(inputs: Sequence[Tensor], attrs: Attrs, out: TensorType) -> Map:
    value = attrs["fill_value"]
    filled = cast(index(value), out.dtype) if isinstance(value, Dim) else const(value, out.dtype)
    return Map(out.shape, out.dtype, lambda *i: filled)


def _samples_full(rng: np.random.Generator) -> list[Sample]:
    def sample(shape: tuple[int, ...], value: Any, dtype: str) -> Sample:
        return Sample((), {"shape": shape, "fill_value": value, "dtype": dtype})

    return [
        sample((2, 3), 1.5, "float32"),
        sample((), -7, "int64"),
        sample((5,), True, "bool"),
        sample((3,), float("nan"), "float64"),
        sample((3,), -0.0, "float32"),
        sample((0, 2), 200, "uint8"),
    ]


register(
    Operator(
        name="full",
        doc="""A tensor filled with one value.

The result has ``shape`` and ``dtype``; ``fill_value`` is a number, or a symbolic size, whose
value is taken. LoopwrightTypeError or LoopwrightValueError if an integer dtype cannot hold the
value.

    fn () -> Tensor[(2, 3), float32] {
      full(shape=[2, 3], fill_value=1.5)
    }
""",
        params=(),
        attrs=(_SHAPE, Attr("fill_value", "the value"), _DTYPE),
        pattern=Pattern.ELEMENTWISE,
        infer=_infer_full,
        compute=_compute_full,
        reference=lambda arrays, attrs: np.full(
            attrs["shape"], attrs["fill_value"], attrs["dtype"]
        ),
        samples=_samples_full,
    )
)


def _infer_iota(types: tuple[Type, ...], attrs: Attrs) -> Type:
    _no_operands("iota", types)
    shape = sizes_of("iota", attrs["shape"])
    normalise_axis("iota", attrs["axis"], len(shape))
    return TensorType(shape, dtype_attr("iota", attrs["dtype"]))


def _compute_iota(inputs: Sequence[Tensor], attrs: Attrs, out: TensorType) -> Map:
    axis = attrs["axis"] % out.rank
    return Map(out.shape, out.dtype, lambda *i: cast(index_expr(i[axis]), out.dtype))


def _reference_iota(arrays: Sequence[Any], attrs: Attrs) -> Any:
    return np.indices(attrs["shape"])[attrs["axis"] % len(attrs["shape"])].astype(attrs["dtype"])


def _samples_iota(rng: np.random.Generator) -> list[Sample]:
    return [
        Sample((), {"shape": (3, 5), "axis": 1, "dtype": "int64"}),
        Sample((), {"shape": (3, 5, 2), "axis": -3, "dtype": "float32"}),
        Sample((), {"shape": (300,), "axis": 0, "dtype": "int8"}),
        Sample((), {"shape": (2, 1), "axis": 0, "dtype": "bool"}),
        Sample((), {"shape": (0, 4), "axis": 0, "dtype": "float64"}),
    ]


register(
    Operator(
        name="iota",
        doc="""Every element is its own index along ``axis``.

The result has ``shape`` and ``dtype``; narrow integers wrap around. LoopwrightValueError for an
axis out of range.

    fn () -> Tensor[(2, 3), int64] {
      iota(shape=[2, 3], axis=1, dtype="int64")
    }
""",
        params=(),
        attrs=(_SHAPE, Attr("axis", "the axis whose index it is", 0), _DTYPE),
        pattern=Pattern.ELEMENTWISE,
        infer=_infer_iota,
        compute=_compute_iota,
        reference=_reference_iota,
        samples=_samples_iota,
    )
)


def _arange_size(start: Any, stop: Any, step: Any) -> IntExpr:
    if isinstance(start, Dim) or isinstance(stop, Dim):
        if not is_size(step):
            raise LoopwrightValueError(f"arange: a symbolic range needs an int step, not {step!r}")
        return ceildiv(stop - start, step) if step > 0 else ceildiv(start - stop, -step)
    return int_max(0, ceil((stop - start) / step))


def _infer_arange(types: tuple[Type, ...], attrs: Attrs) -> Type:
    _no_operands("arange", types)
    dtype = dtype_attr("arange", attrs["dtype"])
    values = start, stop, step = attrs["start"], attrs["stop"], attrs["step"]
    for value in values:
        if isinstance(value, bool) or not isinstance(value, int | float | Dim):
            raise LoopwrightValueError(f"arange: {value!r} is not a number")
        if isinstance(value, float) and not isfinite(value):
            raise LoopwrightValueError(f"arange: {value} is not finite")
    if step == 0:
        raise LoopwrightValueError("arange: the step is 0")
    if dtype.is_bool:
        raise LoopwrightTypeError("arange: a range of bools is not supported")
    if not dtype.is_float and any(isinstance(v, float) for v in values):
        raise LoopwrightTypeError(
            f"arange: {start}, {stop}, {step} are not integers", hint="dtype='float64'"
        )
    return TensorType((_arange_size(start, stop, step),), dtype)


def _compute_arange(inputs: Sequence[Tensor], attrs: Attrs, out: TensorType) -> Map:
    start, step = attrs["start"], attrs["step"]

    def element(*i: IndexLike) -> Expr:
        if is_size(start) and is_size(step):
            return cast(index_expr(index_add(start, index_mul(i[0], step))), out.dtype)
        position = cast(index_expr(i[0]), out.dtype)
        scaled = op("multiply", position, const(step, out.dtype))
        return op("add", scaled, const(start, out.dtype))

    return Map(out.shape, out.dtype, element)


def _reference_arange(arrays: Sequence[Any], attrs: Attrs) -> Any:
    start, stop, step = attrs["start"], attrs["stop"], attrs["step"]
    wide = np.dtype("float64" if "float" in attrs["dtype"] else "int64")
    return np.arange(start, stop, step, dtype=wide).astype(attrs["dtype"])


def _samples_arange(rng: np.random.Generator) -> list[Sample]:
    def sample(start: Any, stop: Any, step: Any, dtype: str) -> Sample:
        return Sample((), {"start": start, "stop": stop, "step": step, "dtype": dtype})

    return [
        sample(0, 10, 1, "int64"),
        sample(-5, 7, 3, "int32"),
        sample(9, 0, -2, "int16"),
        sample(0, 37, 1, "float32"),
        sample(0.5, 2.0, 0.25, "float32"),
        sample(1.0, -1.0, -0.3, "float64"),
        sample(3, 3, 1, "uint8"),
        sample(5, 2, 1, "float64"),
    ]


register(
    Operator(
        name="arange",
        doc="""Evenly spaced values ``start + i * step``, up to but without ``stop``.

The result is 1-D with ceil((stop - start) / step) elements. ``start`` and ``stop`` may be
symbolic sizes if ``step`` is an int; the range is then taken not to be negative.
LoopwrightValueError for a step of 0, LoopwrightTypeError for fractions in an integer dtype.

    fn () -> Tensor[(3), int64] {
      arange(stop=6, step=2)
    }
""",
        params=(),
        attrs=(
            Attr("start", "first value", 0),
            Attr("stop", "end of the range, not included"),
            Attr("step", "distance of neighbours", 1),
            Attr("dtype", "name of the result's dtype", "int64"),
        ),
        pattern=Pattern.ELEMENTWISE,
        infer=_infer_arange,
        compute=_compute_arange,
        reference=_reference_arange,
        samples=_samples_arange,
    )
)
