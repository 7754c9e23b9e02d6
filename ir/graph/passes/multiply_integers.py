"""Contract the integers themselves where both operands of a contraction stand for numbers.

Before::

    def @main(%x: Tensor[(4, 300), uint8]) -> Tensor[(4, 2), uint8] {
      %0 = nn.dequantize(%x, 0.5f, 3u8);
      %1 = nn.dequantize(meta[w], meta[scales], meta[zeros], axis=1);
      %2 = nn.matmul(%0, %1);
      nn.quantize(%2, 0.1f, 7u8)
    }

After::

    def @main(%x: Tensor[(4, 300), uint8]) -> Tensor[(4, 2), uint8] {
      %0 = cast(%x, dtype="int32");
      %1 = cast(meta[w], dtype="int32");
      %2 = nn.matmul(%0, %1);
      %3 = cast(3u8, dtype="int32");
      %4 = sum(%1, axis=[0], keepdims=True);
      %5 = multiply(%3, %4);
      %6 = subtract(%2, %5);
      %7 = reshape(meta[scales], newshape=[1, -1]);
      %8 = cast(%6, dtype="float32");
      %9 = multiply(0.5f, %7);
      %10 = divide(1f, 0.1f);
      %11 = multiply(%9, %10);
      %12 = multiply(%8, %11);
      nn.quantize(%12, 1f, 7u8)
    }

Constants::

    w = np.arange(600, dtype=np.int8).reshape(300, 2)
    scales, zeros = np.float32([0.5, 0.25]), np.int8([0, 0])

Machines multiply bytes faster than anything else. Zero points never make them wider: what they add
to a sum of products is a sum of one operand, which for weights is a constant. An image is padded by
its zero point. Sums of few products, those of most grouped convolutions, are as exact in float32,
whose kernels read neighbours of a byte without widening them to int32. A result that is quantised
is multiplied by the inverse of its scale, as the kernels of the field do: it is off by one where
the quotient is halfway between two integers but for rounding. ("Quantization and training of neural
networks for efficient integer-arithmetic-only inference", B. Jacob and others, 2018.)
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import cached_property
from math import inf
from typing import Any

import numpy as np

from ...dataclass import dataclass
from ...dtype import DTYPES, FLOAT32, INT8, INT32, UINT8, DType, widens_many
from ...pass_context import optional
from ...traits import Trait
from .. import walk
from ..builder import Builder
from ..compose import F, Value, is_zero
from ..compose import call as emitted
from ..contractions import Roles, roles_of
from ..limits import DEFAULT_LIMITS, GraphLimits
from ..nodes import Atom, Call, Constant, Expr, Function, Module, Var, tensor_type
from ..operator import Operator, Pattern
from ..type_rules import permutation
from .eliminate_dead_code import without_dead_code
from .narrow_factors import narrower
from .sink_dequantising import is_same

BYTES = (INT8, UINT8)

WORD_BYTES = 4
"""Bytes of a word: products of its bytes are added up at once."""

MOST_EXACT = 1 << 24
"""Sums of integers below this are exact in float32."""

MOST_SUM = 1 << 31
"""Sums of products stay below this in int32."""

MOST_SCALED = 8
"""Operators behind a sum of products that are emitted again with a factor."""

GREATEST_PRODUCT = 255 * 255
"""No product of two bytes less their zero points is greater, without its sign."""


@optional(level=2)
def multiply_integers(module: Module, limits: GraphLimits = DEFAULT_LIMITS) -> Module:
    """Products and convolutions of dequantised bytes become sums of products of integers, where
    the machine has an instruction for them."""
    if not limits.factor:
        return module
    return walk.map_functions(module, lambda function: _multiply(function, limits))


def _multiply(function: Function, limits: GraphLimits) -> Function:
    facts = _Facts(function)
    changed = walk.rewrite_blocks(function, lambda: _Step(facts, limits).step)
    return function if changed is function else without_dead_code(changed)


class _Facts:
    """Facts of a whole function, which are computed where integers are dequantised."""

    def __init__(self, function: Function) -> None:
        self.function = function

    @cached_property
    def uses(self) -> Counter[Var]:
        return walk.use_counts(self.function)

    @cached_property
    def factors(self) -> set[Atom]:
        return _factors(self.function)

    @cached_property
    def products(self) -> set[Atom]:
        return _factors(self.function, is_spatial=False)


def _factors(function: Function, is_spatial: bool = True) -> set[Atom]:
    """Returns what contractions multiply, also through index maps; without convolutions unless
    ``is_spatial``."""
    factors: set[Atom] = set()
    for binding in reversed([*walk.all_bindings(function)]):
        call = binding.value
        if not isinstance(call, Call) or not isinstance(call.op, Operator):
            continue
        roles = roles_of(call)
        contracts = roles is not None and (is_spatial or not roles.spatial)
        if contracts or (binding.var in factors and Trait.PICKS in call.op.traits):
            factors.update(call.args)
    return factors


@dataclass(frozen=True, slots=True)
class _Operand:
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


class _Step:
    """Facts about the variables of one block, collected on the way."""

    def __init__(self, facts: _Facts, limits: GraphLimits) -> None:
        self.facts, self.limits = facts, limits
        self.calls: dict[Var, Call] = {}
        self.of_integers: set[Atom] = set()  # numbers made of integers, element by element

    def step(self, var: Var, value: Expr, builder: Builder) -> Atom | None:
        if not isinstance(value, Call) or not isinstance(value.op, Operator):
            return None
        self.calls[var] = value
        made = self.replaced(var, value, builder)
        last = builder.bindings[-1] if builder.bindings else None
        if made is not None and last is not None and last.var is made:
            assert isinstance(last.value, Call)
            is_kept = value.operator.name == "nn.dequantize" and isinstance(value.args[0], Constant)
            self.calls[last.var] = value if is_kept else last.value
            self.facts.uses[last.var] = self.facts.uses[var]
            if var in self.of_integers:
                self.of_integers.update((made, last.value.args[0]))
        return made

    def replaced(self, var: Var, call: Call, builder: Builder) -> Atom | None:
        name = call.operator.name
        if name == "nn.quantize":
            return self.quantized(call, builder)
        if name == "nn.dequantize" and isinstance(call.args[0], Var):
            self.of_integers.add(var)
            return None if var in self.facts.factors else self.rounded(call, builder)
        if name == "nn.dequantize":
            return self.widened(var, call, builder)
        if call.operator.pattern in (Pattern.ELEMENTWISE, Pattern.BROADCAST):
            if not self.of_integers.isdisjoint(call.args):
                self.of_integers.add(var)
            return None
        roles = roles_of(call)
        operands = [self.operand(a) for a in call.args] if roles else [None]
        x, w = operands[0], operands[-1]
        if roles is None or x is None or w is None or not _fits(x, w, roles, call):
            return None
        if x.scale is not None:
            self.of_integers.add(var)
        whole = DTYPES[self.limits.factor]
        return _contracted(call, x, w, roles, whole, builder).atom

    def rounded(self, call: Call, builder: Builder) -> Atom | None:
        """Returns what is quantised only to be dequantised alike, as floats all the way."""
        integers, scale, zero = call.args
        before = self.calls.get(integers) if isinstance(integers, Var) else None
        if before is None or before.operator.name != "nn.quantize" or tensor_type(zero).rank:
            return None
        assert isinstance(integers, Var)
        x, by = (Value(builder, atom) for atom in before.args[:2])
        if (
            self.facts.uses[integers] > 1
            or not is_same(before.args[2], zero)
            or x.dtype is not by.dtype
        ):
            return None
        info, dtype = np.iinfo(tensor_type(zero).dtype.numpy), x.dtype.name
        offset = F.cast(Value(builder, zero), dtype=dtype)
        quotient = F.maximum(x / by, float(info.min) - offset)
        whole = F.round(F.minimum(quotient, float(info.max) - offset))
        return (F.cast(whole, dtype=tensor_type(scale).dtype.name) * Value(builder, scale)).atom

    def widened(self, var: Var, call: Call, builder: Builder) -> Atom | None:
        """Returns weights of a product as bytes that are widened, which folding keeps, for a
        product with floats. One with integers reads the bytes."""
        weights, scale = call.args[0], tensor_type(call.args[1])
        assert isinstance(weights, Constant) and call.operator.decompose is not None
        if var not in self.facts.products or not widens_many(weights.value, scale.dtype):
            return None
        made = call.operator.decompose(builder, call.args, call.attrs)
        return made if isinstance(made, Var) else None

    def quantized(self, call: Call, builder: Builder) -> Atom | None:
        """Returns what is quantised of sums with the inverse of its scale among their factors."""
        x, scale, zero = call.args
        one = Constant(np.ones((), tensor_type(scale).dtype.numpy))
        positive = isinstance(scale, Constant) and not scale.value.ndim and scale.value > 0
        if x not in self.of_integers or not positive or is_same(scale, one):
            return None
        inverse = F.divide(Value(builder, one), Value(builder, scale))
        scaled, zero_point = self.scaled(x, inverse), Value(builder, zero)
        return F.nn.quantize(scaled, Value(builder, one), zero_point, **call.attrs).atom

    def scaled(self, x: Atom, factor: Value, above: int = 0) -> Value:
        """Returns ``x * factor``, multiplied where that is done once for all calls, if that is not
        far ``above``: what is between is emitted again."""
        value, call = Value(factor.builder, x), self.calls.get(x) if isinstance(x, Var) else None
        if call is None or x not in self.of_integers or above == MOST_SCALED:
            return value * factor
        name, args, above = call.operator.name, call.args, above + 1
        parts = [Value(factor.builder, a) for a in args]
        if name == "multiply" and args[0] in self.of_integers:
            return parts[0] * (parts[1] * factor)
        if name == "nn.dequantize":
            return F.nn.dequantize(parts[0], parts[1] * factor, parts[2], **call.attrs)
        if name == "add" and args[0] in self.of_integers:
            once = isinstance(args[1], Var) and self.facts.uses[args[1]] == 1
            right = self.scaled(args[1], factor, above) if once else parts[1] * factor
            return self.scaled(args[0], factor, above) + right
        if name == "maximum" and is_zero(args[1]):
            return F.maximum(self.scaled(args[0], factor, above), parts[1])
        if name == "nn.relu":
            return F.nn.relu(self.scaled(args[0], factor, above))
        return value * factor

    def operand(self, atom: Atom, subtracts: bool = True) -> _Operand | None:
        """Returns the bytes that an operand stands for; None if it is something else. Unless it
        ``subtracts`` a zero point, it has none: none is taken off twice."""
        views: list[Call] = []
        while isinstance(atom, Var) and atom in self.calls:
            call = self.calls[atom]
            if len(call.args) != 1 or Trait.PICKS not in call.operator.traits:
                made = self.dequantized(call, subtracts)
                return made and _seen_through(made, tuple(reversed(views)))
            views.append(call)
            atom = call.args[0]
        narrow = None if isinstance(atom, Var) else narrower(atom)
        return narrow and _seen_through(_Operand(narrow, None, None, None), tuple(reversed(views)))

    def dequantized(self, call: Call, subtracts: bool) -> _Operand | None:
        """Returns the operands of a call that dequantises bytes, or subtracts a zero point."""
        name, args = call.operator.name, call.args
        if name == "nn.dequantize" and tensor_type(args[0]).dtype in BYTES:
            differs = tensor_type(args[1]).rank > 0
            axis = call.attrs["axis"] % tensor_type(args[0]).rank if differs else None
            return _Operand(args[0], args[2], args[1], axis)
        if name == "cast" and tensor_type(args[0]).dtype in BYTES:
            is_wide = call.attrs["dtype"] == INT32.name
            return _Operand(args[0], None, None, None) if is_wide else None
        if name != "subtract" or not subtracts:
            return None
        made, kind = self.operand(args[0], subtracts=False), tensor_type(args[0])
        if made is None or made.zero is not None or made.scale is not None:
            return None
        sizes = (1,) * kind.rank + tensor_type(args[1]).shape
        along = [n for n, size in enumerate(sizes[len(sizes) - kind.rank :]) if size != 1]
        if len(along) > 1 or tensor_type(args[1]).rank > kind.rank:
            return None
        if not self.is_one_of(args[1], tensor_type(made.values).dtype):
            return None
        return replace(made, zero=args[1], axis=along[0] if along else None)

    def is_one_of(self, zero: Atom, dtype: DType) -> bool:
        """True if a zero point is among the integers of ``dtype``: then differences are small."""
        if isinstance(zero, Constant):
            info = np.iinfo(dtype.numpy)
            return bool(np.all((zero.value >= info.min) & (zero.value <= info.max)))
        call = self.calls.get(zero) if isinstance(zero, Var) else None
        is_cast = call is not None and call.operator.name == "cast"
        return call is not None and is_cast and tensor_type(call.args[0]).dtype is dtype


def _seen_through(operand: _Operand, views: tuple[Call, ...]) -> _Operand | None:
    """Returns the operand behind index maps, None if its axis does not stay one."""
    axis = operand.axis
    for view in views:
        if axis is not None and view.operator.name == "transpose":
            rank = tensor_type(view.args[0]).rank
            axis = permutation(view.attrs["axes"], rank).index(axis)
        elif axis is not None:
            return None
    return replace(operand, axis=axis, views=views)


def _fits(x: _Operand, w: _Operand, roles: Roles, call: Call) -> bool:
    """True if a contraction of these operands can be one of integers, and gains by it."""
    if (x.scale is None) != (w.scale is None) or w.axis not in (None, roles.out):
        return False
    if x.axis is not None and (roles.spatial or x.axis != tensor_type(call.args[0]).rank - 2):
        return False
    terms = roles.terms(tensor_type(call.args[1]))
    if x.scale is None:  # what wraps around in int32 is meant to
        return (x.zero is not None or w.zero is not None) and terms < inf
    return terms * GREATEST_PRODUCT < MOST_SUM


def _contracted(
    call: Call, x: _Operand, w: _Operand, roles: Roles, factor: DType, builder: Builder
) -> Value:
    """Emits a contraction of integers, and what their zero points and scales make of it."""
    exact = roles.terms(tensor_type(call.args[1])) * GREATEST_PRODUCT < MOST_EXACT
    if roles.groups > 1 and (exact or not is_zero(w.zero)):
        dtype = FLOAT32 if exact else INT32
        left, right = (_centred(o, dtype, builder) for o in (x, w))
        total = _emit(call, left, right, roles, builder)
    elif factor is not INT8:
        total = _sum_of_centred(call, x, w, roles, factor, builder)
    else:
        total = _sum_of_bytes(call, x, w, roles, builder)
    if x.scale is None or w.scale is None:
        return F.cast(total, dtype=INT32.name)
    left = _placed(x.scale, total.rank - 2, total.rank, builder)
    right = _placed(w.scale, roles.channel, total.rank, builder)
    return F.cast(total, dtype=left.dtype.name) * (left * right)


def _sum_of_centred(
    call: Call, x: _Operand, w: _Operand, roles: Roles, factor: DType, builder: Builder
) -> Value:
    """Emits the contraction of bytes less their zero points, which wider integers hold."""
    image, weights = (_centred(o, factor, builder) for o in (x, w))
    if roles.is_padded:
        image, roles = _padded(image, None, roles), replace(roles, sides=())
    more = _missing_channels(call, WORD_BYTES // factor.bytes)
    if more:
        image = _pad_axis(image, call.attrs["data_layout"].index("C"), more)
        weights = _pad_axis(weights, call.attrs["kernel_layout"].index("I"), more)
    left, right = (F.cast(value, dtype=INT32.name) for value in (image, weights))
    return _emit(call, left, right, roles, builder)


def _sum_of_bytes(call: Call, x: _Operand, w: _Operand, roles: Roles, builder: Builder) -> Value:
    """Emits the contraction of bytes, less what their zero points add to it."""
    image, weights = x.viewed(builder), w.viewed(builder)
    if roles.is_padded:
        image, roles = _padded(image, x.zero, roles), replace(roles, sides=())
    more = _missing_channels(call, WORD_BYTES)
    if more and is_zero(w.zero):
        image = _pad_axis(image, call.attrs["data_layout"].index("C"), more)
        weights = _pad_axis(weights, call.attrs["kernel_layout"].index("I"), more)
    image, weights = (F.cast(value, dtype=INT32.name) for value in (image, weights))
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
        total = total - x_zero * sums
    if w_zero is not None:
        if roles.spatial:
            shape = [1 if axis == roles.out else size for axis, size in enumerate(weights.shape)]
            sums = _emit(call, image, weights.full(shape, 1), roles, builder)
        else:
            sums = F.sum(image, axis=-1, keepdims=True)
        total = total - w_zero * sums
    return total


def _missing_channels(call: Call, group: int) -> int:
    """Returns how many channels an image lacks to be read in groups, as instructions do: colours,
    one in four of which may be for nothing."""
    if "data_layout" not in call.attrs or call.attrs["groups"] > 1:
        return 0
    channels = tensor_type(call.args[0]).shape[call.attrs["data_layout"].index("C")]
    wanted = isinstance(channels, int) and channels % group and channels >= WORD_BYTES - 1
    return -channels % group if wanted else 0


def _pad_axis(x: Value, axis: int, more: int) -> Value:
    widths = tuple((0, more if n == axis else 0) for n in range(x.rank))
    padded = x.fold(lambda array: np.pad(array, widths))
    return F.nn.pad(x, pad_width=widths) if padded is None else padded


def _emit(call: Call, x: Value, w: Value, roles: Roles, builder: Builder) -> Value:
    """Emits the contraction of other operands, term by term."""
    attrs = dict(call.attrs)
    if roles.spatial:
        attrs["padding"] = roles.sides or 0
    if "algorithm" in attrs:
        attrs["algorithm"] = "direct"
    return Value(builder, builder.emit(call.operator, (x.atom, w.atom), attrs))


def _centred(operand: _Operand, dtype: DType, builder: Builder) -> Value:
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
