"""Contractions of bytes that stand for numbers: the operands, and the integers that are emitted."""

from __future__ import annotations

from dataclasses import replace
from math import inf, prod
from typing import Any

import numpy as np

from ..dataclass import dataclass
from ..dtype import FLOAT32, INT8, INT32, Array, DType
from .builder import Builder
from .compose import F, Value, is_zero
from .compose import call as emitted
from .contractions import Roles
from .nodes import Atom, Call, Constant, tensor_type

WORD_BYTES = 4
"""Bytes of a word: products of its bytes are added up at once."""

MOST_EXACT = 1 << 24
"""Sums of integers below this are exact in float32."""

MOST_SUM = 1 << 31
"""Sums of products stay below this in int32."""

GREATEST_PRODUCT = 255 * 255
"""No product of two bytes less their zero points is greater, without its sign."""

TILED = "winograd2"
"""The algorithm of convolutions that is exact in integers, with few multiplications."""

MOST_TILED = MOST_SUM // 4
"""Sums of products stay below this where it computes four times each, in int32."""

UNIT_ROUNDING = 2.0**-22
"""Greatest error of a bias as whole steps of the sums it is added to, relative to it: the product
of two scales is rounded, and so is the bias."""


@dataclass(frozen=True, slots=True)
class ByteOperand:
    """Bytes ``values`` seen through ``views``, the first applied first. They stand for ``(values -
    zero) * scale``, where None is 0 and 1; ``axis`` is the one of the operand along which these
    differ, None if they are numbers."""

    values: Atom
    zero: Atom | None
    scale: Atom | None
    axis: int | None
    views: tuple[Call, ...] = ()

    def viewed(self, builder: Builder) -> Value:
        atom = self.values
        for view in self.views:
            if isinstance(atom, Constant):
                atom = Constant(view.operator.reference((atom.value,), view.attrs), atom.name)
            else:
                atom = builder.emit(view.operator, (atom,), view.attrs)
        return Value(builder, atom)


@dataclass(frozen=True, slots=True)
class ByteProduct:
    """A contraction of what bytes stand for, as one of integers of the dtype ``factor``, where one
    of words ``is_tiled`` if Winograd's algorithm takes less time."""

    call: Call
    x: ByteOperand
    w: ByteOperand
    roles: Roles
    factor: DType
    is_tiled: bool = False

    @property
    def most(self) -> float:
        """Returns a number above all sums, without their signs."""
        return self.roles.terms(tensor_type(self.call.args[1])) * GREATEST_PRODUCT

    @property
    def bound(self) -> float:
        """Returns what no element of the result is greater than, without its sign, a bias added."""
        scales = [s.value for s in (self.x.scale, self.w.scale) if isinstance(s, Constant)]
        unit = prod(float(np.max(np.abs(s), initial=0)) for s in scales)
        return (self.most + MOST_EXACT) * unit if len(scales) == 2 else inf

    @property
    def is_centred(self) -> bool:
        """True if zero points are subtracted before products are made, few or exact in floats."""
        return self.roles.groups > 1 and (self.most < MOST_EXACT or not is_zero(self.w.zero))

    def emitted(self, builder: Builder, steps: Array | None = None) -> Value:
        """Emits the contraction, and what zero points and scales make of it; ``steps`` are added to
        its sums."""
        call, x, w, roles = self.call, self.x, self.w, self.roles
        more = None if steps is None else Value(builder, Constant(steps))
        if self.is_centred:
            dtype = FLOAT32 if self.most < MOST_EXACT else INT32
            left, right = (_centred(o, dtype, builder) for o in (x, w))
            total = _emit(call, left, right, roles, builder)
        elif self.factor is not INT8:
            is_tiled = self.is_tiled and self.most < MOST_TILED
            total = _sum_of_centred(call, x, w, roles, self.factor, is_tiled, builder)
            total = total if more is None else total + more
        else:
            total = _sum_of_bytes(call, x, w, roles, more, builder)
        if x.scale is None or w.scale is None:
            return F.cast(total, dtype=INT32.name)
        left = _placed(x.scale, total.rank - 2, total.rank, builder)
        right = _placed(w.scale, roles.channel, total.rank, builder)
        return F.cast(total, dtype=left.dtype.name) * (left * right)

    def steps(self, bias: Array, rank: int) -> Array | None:
        """Returns what a bias adds to the sums, in int32; None unless it is whole."""
        scales = self.x.scale, self.w.scale
        if self.is_centred or self.most + MOST_EXACT >= MOST_SUM:
            return None
        if not isinstance(scales[0], Constant) or not isinstance(scales[1], Constant):
            return None
        unit = np.ones((), np.float64)
        for scale, axis in zip((scales[0].value, scales[1].value), (rank - 2, self.roles.channel)):
            shape = [-1 if n == axis else 1 for n in range(rank)]
            unit = unit * (scale.reshape(shape) if scale.size > 1 else scale.reshape(()))
        with np.errstate(all="ignore"):
            steps = np.rint(bias / unit)
            whole = np.abs(steps * unit - bias) <= UNIT_ROUNDING * np.abs(bias)
        fits = np.all(whole) and np.all(np.abs(steps) < MOST_EXACT)
        return steps.astype(np.int32) if fits else None


def _sum_of_centred(
    call: Call,
    x: ByteOperand,
    w: ByteOperand,
    roles: Roles,
    factor: DType,
    is_tiled: bool,
    builder: Builder,
) -> Value:
    """Emits the contraction of bytes less their zero points, which wider integers hold."""
    image, weights = (_centred(o, factor, builder) for o in (x, w))
    if is_tiled and isinstance(weights.atom, Constant):
        return _emit(call, image, weights, roles, builder, TILED)
    left, right, roles = _in_groups(call, image, weights, None, roles, WORD_BYTES // factor.bytes)
    return _emit(call, left, right, roles, builder)


def _sum_of_bytes(
    call: Call, x: ByteOperand, w: ByteOperand, roles: Roles, steps: Value | None, builder: Builder
) -> Value:
    """Emits the contraction of bytes, less what their zero points add to it, and with ``steps``."""
    group = WORD_BYTES if is_zero(w.zero) else 1
    factors = x.viewed(builder), w.viewed(builder)
    image, weights, roles = _in_groups(call, *factors, x.zero, roles, group)
    total = _emit(call, image, weights, roles, builder)
    rank = total.rank
    zeros = [
        None if operand.zero is None or is_zero(operand.zero) else _placed(operand.zero, *place)
        for operand, place in (
            (x, (rank - 2, rank, builder)),
            (w, (roles.channel, rank, builder)),
        )
    ]
    x_zero, w_zero = (zero and F.cast(zero, dtype=INT32.name) for zero in zeros)
    if x_zero is not None:
        batched = call.operator.name == "nn.matmul"
        sums = F.sum(weights, axis=roles.summed, keepdims=batched)
        if not batched:
            sums = _placed(sums.atom, roles.channel, rank, builder)
        if w_zero is not None:
            sums = sums - w_zero * int(roles.terms(tensor_type(call.args[1])))
        less = x_zero * sums
        total = total - (less if steps is None else less - steps)
    elif steps is not None:
        total = total + steps
    if w_zero is not None:
        if roles.spatial:
            shape = [1 if axis == roles.out else size for axis, size in enumerate(weights.shape)]
            sums = _emit(call, image, weights.full(shape, 1), roles, builder)
        else:
            sums = F.sum(image, axis=-1, keepdims=True)
        total = total - w_zero * sums
    return total


def _in_groups(
    call: Call, image: Value, weights: Value, zero: Atom | None, roles: Roles, group: int
) -> tuple[Value, Value, Roles]:
    """Returns operands in int32, the image with its border, and with channels that it lacks to be
    read in groups, as instructions do: colours, one in four of which may be for nothing."""
    if roles.is_padded:
        image, roles = _padded(image, zero, roles), replace(roles, sides=())
    attrs = call.attrs
    if "data_layout" in attrs and attrs["groups"] == 1:
        axis, inner = attrs["data_layout"].index("C"), attrs["kernel_layout"].index("I")
        channels = image.shape[axis]
        if isinstance(channels, int) and channels % group and channels >= WORD_BYTES - 1:
            image = _pad_axis(image, axis, -channels % group)
            weights = _pad_axis(weights, inner, -channels % group)
    return F.cast(image, dtype=INT32.name), F.cast(weights, dtype=INT32.name), roles


def _pad_axis(x: Value, axis: int, more: int) -> Value:
    widths = tuple((0, more if n == axis else 0) for n in range(x.rank))
    padded = x.fold(lambda array: np.pad(array, widths))
    return F.nn.pad(x, pad_width=widths) if padded is None else padded


def _emit(
    call: Call, x: Value, w: Value, roles: Roles, builder: Builder, algorithm: str = "direct"
) -> Value:
    """Emits the contraction of other operands, term by term unless said otherwise."""
    attrs = dict(call.attrs)
    if roles.spatial:
        attrs["padding"] = roles.sides or 0
    if "algorithm" in attrs:
        attrs["algorithm"] = algorithm
    return Value(builder, builder.emit(call.operator, (x.atom, w.atom), attrs))


def _centred(operand: ByteOperand, dtype: DType, builder: Builder) -> Value:
    """Returns bytes less their zero points in a dtype that holds them; constants at once."""
    value = operand.viewed(builder).cast(dtype.name)
    if operand.zero is None or is_zero(operand.zero):
        return value
    if isinstance(value.atom, Constant) and isinstance(operand.zero, Constant):
        shape = [-1 if n == (operand.axis or 0) else 1 for n in range(value.rank)]
        zero = operand.zero.value.astype(dtype.numpy)
        less = value.atom.value - (zero.reshape(shape) if zero.size > 1 else zero.reshape(()))
        return Value(builder, Constant(less, value.atom.name, value.atom.span))
    zero_point = _placed(operand.zero, operand.axis or 0, value.rank, builder)
    return value - zero_point.cast(dtype.name)


def _placed(atom: Atom, axis: int, rank: int, builder: Builder) -> Value:
    """Returns a number as it is, and anything else as a vector along an axis of so many."""
    value = Value(builder, atom)
    if value.type.size == 1:
        return F.reshape(value, newshape=()) if value.rank else value
    return F.reshape(value, newshape=[-1 if n == axis else 1 for n in range(rank)])


def _padded(image: Value, zero: Atom | None, roles: Roles) -> Value:
    """Returns an image with a border of what stands for 0."""
    widths: list[tuple[Any, Any]] = [(0, 0)] * image.rank
    for axis, sides in zip(roles.spatial, zip(*np.split(np.array(roles.sides), 2), strict=True)):
        widths[axis] = sides
    value = int(zero.value) if isinstance(zero, Constant) else 0
    border = F.nn.pad(image, pad_width=tuple(widths), pad_value=value)
    if zero is None or isinstance(zero, Constant):
        return border
    shape = [size if axis in roles.spatial else 1 for axis, size in enumerate(image.shape)]
    ones = Value(
        image.builder, emitted(image.builder, "full", shape=shape, fill_value=True, dtype="bool")
    )
    inside = F.nn.pad(ones, pad_width=tuple(widths))
    outside = F.cast(Value(image.builder, zero), dtype=image.dtype.name)
    return F.where(inside, border, outside)
