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
      %11 = cast(7u8, dtype="int32");
      %12 = multiply(%9, %10);
      %13 = multiply(%8, %12);
      %14 = round(%13);
      %15 = cast(%14, dtype="int32");
      %16 = add(%15, %11);
      %17 = maximum(%16, 0);
      %18 = minimum(%17, 255);
      cast(%18, dtype="uint8")
    }

Constants::

    w = np.arange(600, dtype=np.int8).reshape(300, 2)
    scales, zeros = np.float32([0.5, 0.25]), np.int8([0, 0])

Machines multiply bytes faster than anything else. Zero points never make them wider: what they add
to a sum of products is a sum of one operand, which for weights is a constant. An image is padded by
its zero point. Sums of few products, those of most grouped convolutions, are as exact in float32,
whose kernels read neighbours of a byte without widening them to int32. A result that is quantised
is multiplied by the inverse of its scale, as the kernels of the field do: it is off by one where
the quotient is halfway between two integers but for rounding. A bias in whole steps of the sums,
as quantisers choose it, is added to these. Where machines multiply words, Winograd's tiles of 2 are
exact, and taken where they save time. ("Quantization and training of neural
networks for efficient integer-arithmetic-only inference", B. Jacob and others, 2018.)
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import cached_property
from math import inf

import numpy as np

from ...dtype import DTYPES, FLOAT32, INT8, INT32, UINT8, Array, DType, widens_many
from ...pass_context import optional
from ...traits import Trait
from .. import walk
from ..builder import Builder
from ..byte_products import GREATEST_PRODUCT, MOST_SUM, TILED, ByteOperand, ByteProduct
from ..compose import F, Value, is_zero
from ..contractions import Roles, roles_of
from ..limits import DEFAULT_LIMITS, GraphLimits
from ..nodes import Atom, Call, Constant, Function, Module, Var, tensor_type
from ..operator import Operator, Pattern
from ..type_rules import permutation
from ..types import TensorType
from .choose_algorithms import quickest
from .eliminate_dead_code import rewrite_live_blocks
from .narrow_factors import narrower
from .sink_dequantising import is_same

BYTES = (INT8, UINT8)

MOST_ROUNDED = 2.0**30
"""Numbers below this are rounded to int32 whatever is added: limits of bytes are compared after it,
as integers, which more units of a core do."""

MOST_SCALED = 8
"""Operators behind a sum of products that are emitted again with a factor."""


@optional(level=2)
def multiply_integers(module: Module, limits: GraphLimits = DEFAULT_LIMITS) -> Module:
    """Products and convolutions of dequantised bytes become sums of products of integers, where
    the machine has an instruction for them."""
    if not limits.factor:
        return module
    return walk.map_functions(module, lambda function: _multiply(function, limits))


def _multiply(function: Function, limits: GraphLimits) -> Function:
    facts = _Facts(function)
    return rewrite_live_blocks(function, lambda _calls: _Step(facts, limits).step)


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


class _Step:
    """Facts about the variables of one block, collected on the way."""

    def __init__(self, facts: _Facts, limits: GraphLimits) -> None:
        self.facts, self.limits = facts, limits
        self.calls: walk.Calls = {}  # of what is emitted the last of each step
        self.of_integers: set[Atom] = set()  # numbers made of integers, element by element
        self.products: dict[Atom, ByteProduct] = {}
        self.bounds: dict[Atom, float] = {}
        self.whole: dict[Atom, tuple[Value, Value, Atom]] = {}  # rounded, least byte, zero point

    def step(self, var: Var, value: Call, builder: Builder) -> Atom | None:
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
        if name == "add" and (made := self.biased(var, call, builder)) is not None:
            self.of_integers.add(var)
            return made
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
        is_tiled = self.is_tiled(call, tensor_type(var))
        product = ByteProduct(call, x, w, roles, DTYPES[self.limits.factor], is_tiled)
        made = product.emitted(builder)
        self.products[made.atom], self.bounds[made.atom] = product, product.bound
        return made.atom

    def is_tiled(self, call: Call, result: TensorType) -> bool:
        """True if Winograd's algorithm of exact tiles takes less time for a convolution."""
        if call.operator.algorithms is None or call.attrs["algorithm"] != "auto":
            return False
        types = [replace(tensor_type(arg), dtype=FLOAT32) for arg in call.args]  # of its estimates
        ways = call.operator.algorithms(types, result, call.attrs, self.limits)
        return bool(ways) and quickest(ways[0], [w for w in ways if w.name == TILED]).name == TILED

    def biased(self, var: Var, call: Call, builder: Builder) -> Atom | None:
        """Returns a product of bytes to whose sums the whole numbers are added that a constant is
        in their unit, as quantisers choose it for biases; None for anything else."""
        for x, other in (call.args, call.args[::-1]):
            product = self.products.get(x)
            if product is None or not isinstance(x, Var) or self.facts.uses[x] > 1:
                continue
            bias, is_whole = self.constant(other), tensor_type(x).shape == tensor_type(var).shape
            if bias is None or not is_whole:
                continue
            steps = product.steps(bias, tensor_type(x).rank)
            if steps is not None:
                made = product.emitted(builder, steps)
                self.bounds[made.atom] = product.bound
                return made.atom
        return None

    def constant(self, atom: Atom) -> Array | None:
        """Returns what an atom is made of a constant by reshapes and dequantising."""
        if isinstance(atom, Constant):
            return atom.value
        call = self.calls.get(atom)
        if call is None or call.operator.name not in ("reshape", "nn.dequantize"):
            return None
        parts = [self.constant(a) for a in call.args]
        given = [part for part in parts if part is not None]
        return call.operator.reference(given, call.attrs) if len(given) == len(parts) else None

    def rounded(self, call: Call, builder: Builder) -> Atom | None:
        """Returns what is quantised only to be dequantised alike, as floats all the way."""
        integers, scale, zero = call.args
        before = self.calls.get(integers)
        if before is None or not isinstance(integers, Var) or self.facts.uses[integers] > 1:
            return None
        if tensor_type(zero).rank:
            return None
        info = np.iinfo(tensor_type(zero).dtype.numpy)
        if integers in self.whole:
            whole, least, before_zero = self.whole[integers]
            if not is_same(before_zero, zero):
                return None
            offset = F.cast(Value(builder, zero), dtype=INT32.name)
            whole = F.minimum(F.maximum(whole, least - offset), int(info.max) - offset)
        elif before.operator.name == "nn.quantize" and is_same(before.args[2], zero):
            x, by = (Value(builder, atom) for atom in before.args[:2])
            offset = F.cast(Value(builder, zero), dtype=x.dtype.name)
            quotient = F.maximum(x / by, float(info.min) - offset)
            whole = F.round(F.minimum(quotient, float(info.max) - offset))
        else:
            return None
        made = F.cast(whole, dtype=tensor_type(scale).dtype.name) * Value(builder, scale)
        self.bounds[made.atom] = self.bound(scale) * (int(info.max) - int(info.min))
        return made.atom

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
        assert isinstance(scale, Constant)
        inverse = F.divide(Value(builder, one), Value(builder, scale))
        zero_point = Value(builder, zero)
        if zero_point.rank or not self.bound(x) / scale.value < MOST_ROUNDED:
            scaled = self.scaled(x, inverse)
            return F.nn.quantize(scaled, Value(builder, one), zero_point, **call.attrs).atom
        info, offset = np.iinfo(zero_point.dtype.numpy), F.cast(zero_point, dtype=INT32.name)
        least = Value(builder, Constant(np.array(info.min, np.int32)))
        relu = self.calls.get(x)
        if relu is not None and _is_relu(relu):
            x, least = relu.args[0], F.maximum(offset, int(info.min))
        whole = F.cast(F.round(self.scaled(x, inverse)), dtype=INT32.name)
        limited = F.minimum(F.maximum(whole + offset, least), int(info.max))
        made = F.cast(limited, dtype=zero_point.dtype.name)
        self.whole[made.atom] = whole, least, zero
        return made.atom

    def bound(self, x: Atom, above: int = 0) -> float:
        """Returns what no element is greater than, without its sign, if that is not far ``above``;
        else infinity."""
        if isinstance(x, Constant):
            return float(np.max(np.abs(x.value.astype(np.float64)), initial=0))
        call = self.calls.get(x)
        if x in self.bounds or call is None or above == MOST_SCALED:
            return self.bounds.get(x, inf)
        name, args = call.operator.name, call.args
        if name == "nn.dequantize" and tensor_type(args[0]).dtype in BYTES:
            return self.bound(args[1]) * np.iinfo(np.uint8).max
        if _is_relu(call) or name == "reshape":
            return self.bound(args[0], above + 1)
        if name not in ("add", "multiply"):
            return inf
        left, right = (self.bound(a, above + 1) for a in args)
        return left + right if name == "add" else left * right

    def scaled(self, x: Atom, factor: Value, above: int = 0) -> Value:
        """Returns ``x * factor``, multiplied where that is done once for all calls, if that is not
        far ``above``: what is between is emitted again."""
        value, call = Value(factor.builder, x), self.calls.get(x)
        if call is None or x not in self.of_integers or above == MOST_SCALED:
            return value * factor
        name, args, above = call.operator.name, call.args, above + 1
        parts = [Value(factor.builder, a) for a in args]
        if name == "multiply" and args[0] in self.of_integers:
            return parts[0] * (parts[1] * factor)
        if name == "nn.dequantize":
            return F.nn.dequantize(parts[0], parts[1] * factor, parts[2], **call.attrs)
        if name == "add" and args[0] in self.of_integers:
            term = self.calls.get(args[1])
            is_byte = term is not None and term.operator.name == "nn.dequantize"
            once = isinstance(args[1], Var) and self.facts.uses[args[1]] == 1
            right = self.scaled(args[1], factor, above) if once or is_byte else parts[1] * factor
            return self.scaled(args[0], factor, above) + right
        if _is_relu(call):
            return F.nn.relu(self.scaled(args[0], factor, above))
        return value * factor

    def operand(self, atom: Atom, subtracts: bool = True) -> ByteOperand | None:
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
        made = narrow and ByteOperand(narrow, None, None, None)
        return made and _seen_through(made, tuple(reversed(views)))

    def dequantized(self, call: Call, subtracts: bool) -> ByteOperand | None:
        """Returns the operands of a call that dequantises bytes, or subtracts a zero point."""
        name, args = call.operator.name, call.args
        if name == "nn.dequantize" and tensor_type(args[0]).dtype in BYTES:
            differs = tensor_type(args[1]).rank > 0
            axis = call.attrs["axis"] % tensor_type(args[0]).rank if differs else None
            return ByteOperand(args[0], args[2], args[1], axis)
        if name == "cast" and tensor_type(args[0]).dtype in BYTES:
            is_wide = call.attrs["dtype"] == INT32.name
            return ByteOperand(args[0], None, None, None) if is_wide else None
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
        call = self.calls.get(zero)
        is_cast = call is not None and call.operator.name == "cast"
        return call is not None and is_cast and tensor_type(call.args[0]).dtype is dtype


def _is_relu(call: Call) -> bool:
    name, args = call.operator.name, call.args
    if name != "maximum" or tensor_type(args[1]).rank:
        return name == "nn.relu"
    return is_zero(args[1])


def _seen_through(operand: ByteOperand, views: tuple[Call, ...]) -> ByteOperand | None:
    """Returns the operand behind index maps, None if its axis does not stay one."""
    axis = operand.axis
    for view in views:
        if axis is not None and view.operator.name == "transpose":
            rank = tensor_type(view.args[0]).rank
            axis = permutation(view.attrs["axes"], rank).index(axis)
        elif axis is not None:
            return None
    return replace(operand, axis=axis, views=views)


def _fits(x: ByteOperand, w: ByteOperand, roles: Roles, call: Call) -> bool:
    """True if a contraction of these operands can be one of integers, and gains by it."""
    if (x.scale is None) != (w.scale is None) or w.axis not in (None, roles.out):
        return False
    if x.axis is not None and (roles.spatial or x.axis != tensor_type(call.args[0]).rank - 2):
        return False
    terms = roles.terms(tensor_type(call.args[1]))
    if x.scale is None:  # what wraps around in int32 is meant to
        return (x.zero is not None or w.zero is not None) and terms < inf
    return terms * GREATEST_PRODUCT < MOST_SUM
