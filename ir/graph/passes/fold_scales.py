"""Multiply weights by the factors of what they are contracted with, and of what comes out.

Before::

    def @main(%x: Tensor[(4, 8), float32]) -> Tensor[(2, 4, 8), float32] {
      %0 = multiply(%x, 2f);
      %1 = nn.matmul(%0, meta[w]);
      %2 = subtract(%1, meta[mean]);
      %3 = divide(%2, meta[deviation]);
      %4 = add(%3, meta[beta]);
      %5 = transpose(reshape(%4, newshape=[4, 2, 8]), axes=[1, 0, 2]);
      multiply(%5, 0.5f)
    }

After::

    def @main(%x: Tensor[(4, 8), float32]) -> Tensor[(2, 4, 8), float32] {
      %0 = nn.matmul(%x, meta[scaled]);
      %1 = add(%0, meta[shift]);
      %2 = reshape(%1, newshape=[4, 2, 8]);
      transpose(%2, axes=[1, 0, 2])
    }

Constants::

    w = np.ones((8, 16), np.float32)
    mean, deviation, beta = (np.full(16, v, np.float32) for v in (3, 2, 7))
    scaled, shift = np.full((8, 16), 0.5, np.float32), np.full(16, 2.75, np.float32)

A batch normalisation behind a convolution is such a chain, and so is the root that queries are
divided by. Weights of 8 or 16 bits stay as narrow as they are: the scales of their channels move
behind the product. Where no operand is a constant, as in the product of queries and keys, a number
that all elements of an operand are multiplied by moves behind the contraction, into its kernel.
Results differ by rounding.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import field, replace
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from ...dataclass import dataclass
from ...pass_context import optional
from ...traits import Trait
from .. import walk
from ..builder import Builder
from ..nodes import Atom, Block, Call, Constant, Expr, Function, Module, Var
from ..operator import OPERATORS, Operator, Pattern
from ..patterns import is_constant, is_op, wildcard
from ..types import TensorType
from .eliminate_dead_code import rewrite_without_dead_code, without_dead_code

Vector: TypeAlias = npt.NDArray[np.float64]
"""One number, or one per channel."""


@optional(level=2)
def fold_scales(module: Module) -> Module:
    """Folds constant factors and summands around contractions into their constant operands."""
    return walk.map_functions(module, _fold)


@dataclass(frozen=True, slots=True)
class _Weights:
    """Constant weights of a contraction, and where the channels are: axes of the other operand and
    of the result, counted from the end, and of the weights. ``padded``: zeros are added to the
    operand, which its summands are not."""

    value: npt.NDArray[np.floating]
    position: int
    axis_in: int
    axis_out: int
    own_in: int
    own_out: int
    grouped: bool = False
    padded: bool = False


@dataclass(frozen=True, slots=True)
class _Chain:
    """``x * scale + shift``, per channel, of a contraction ``root``, seen through ``views``."""

    root: Var
    axis: int
    channels: int
    scale: Vector = field(default_factory=lambda: np.ones(1))
    shift: Vector = field(default_factory=lambda: np.zeros(1))
    views: tuple[Call, ...] = ()
    steps: int = 0
    scaled: bool = False


def _fold(function: Function) -> Function:
    return _fold_behind(_fold_in_front(function))


def _is_float(atom: Atom) -> bool:
    return isinstance(atom.type, TensorType) and atom.type.dtype.is_float


def _is_single(atom: Atom) -> bool:
    return isinstance(atom.type, TensorType) and atom.type.dtype.bytes >= 4


def _weights_of(call: Call) -> _Weights | None:
    """Returns the weights of a convolution or a product with a constant on the right."""
    if Trait.MULTILINEAR not in call.operator.traits or isinstance(call.args[0], Constant):
        return None
    weights = call.args[-1]
    if not isinstance(weights, Constant) or not _is_float(weights):
        return None
    name, attrs = call.operator.name, call.attrs
    if name in ("nn.matmul", "nn.dense") and weights.value.ndim == 2:
        own_in, own_out = (0, 1) if name == "nn.matmul" else (1, 0)
        return _Weights(weights.value, 1, -1, -1, own_in, own_out)
    if "kernel_layout" in attrs:
        layout, kernel = attrs["data_layout"], attrs["kernel_layout"]
        axis = layout.index("C") - len(layout)
        padded = bool(np.any(attrs["padding"]))
        own_in, own_out = kernel.index("I"), kernel.index("O")
        grouped = attrs["groups"] != 1
        return _Weights(weights.value, 1, axis, axis, own_in, own_out, grouped, padded)
    return None


def _affine(call: Call, source: Atom, axis: int, channels: int) -> tuple[Vector, Vector] | None:
    """Returns (scale, shift) of a call that is ``source * scale + shift`` per channel."""
    assert isinstance(call.op, Operator) and isinstance(source.type, TensorType)
    name = call.op.name
    if name == "nn.batch_norm":
        if call.args[0] is not source or call.attrs["axis"] % source.type.rank != axis % (
            source.type.rank
        ):
            return None
        values = [_vector(a, 1, -1, channels) for a in call.args[1:]]
        if any(v is None for v in values):
            return None
        gamma, beta, mean, variance = (np.asarray(v) for v in values)
        scale = gamma / np.sqrt(variance + call.attrs["epsilon"])
        return scale, beta - mean * scale
    if len(call.args) != 2:
        return None
    first = call.args[0] is source
    vector = _vector(call.args[1 if first else 0], source.type.rank, axis, channels)
    if vector is None or not np.isfinite(vector).all():
        return None
    one, zero = np.ones(1), np.zeros(1)
    match name:
        case "add":
            return one, vector
        case "subtract":
            return (one, -vector) if first else (-one, vector)
        case "multiply":
            return vector, zero
        case "divide" if first and vector.all():
            return 1 / vector, zero
        case _:
            return None


def _vector(atom: Atom, rank: int, axis: int, channels: int) -> Vector | None:
    """Returns a constant as one number, or as one per channel, if it is broadcast so."""
    if not isinstance(atom, Constant) or atom.value.size not in (1, channels):
        return None
    shape = atom.value.shape
    if len(shape) > rank:
        return None
    if atom.value.size > 1:
        padded = (1,) * (rank - len(shape)) + shape
        if padded[axis] != channels:
            return None
    return np.asarray(atom.value, np.float64).reshape(-1)


# -- what stands in front of a contraction -----------------------------------------------------


def _fold_in_front(function: Function) -> Function:
    """Moves factors of operands into constant weights, or behind the contraction."""
    uses = walk.use_counts(function)

    def new_step(_calls: walk.Calls) -> walk.CallStep:
        alone: walk.Calls = {}  # those with a single reader

        def step(var: Var, value: Call, builder: Builder) -> Atom | None:
            if uses[var] == 1:
                alone[var] = value
            if value.operator.pattern != Pattern.CONTRACTION or not _is_float(var):
                return None
            weights = _weights_of(value)
            if weights is not None:
                folded = _fold_operand(value, weights, alone, builder)
                if folded is not None:
                    return folded
            scaled = _pull_channels(value, alone, builder)
            return scaled if scaled is not None else _pull_numbers(value, alone, builder)

        return step

    changed = walk.rewrite_blocks(function, new_step)
    return function if changed is function else without_dead_code(changed)


def _fold_operand(
    call: Call, weights: _Weights, alone: walk.Calls, builder: Builder
) -> Atom | None:
    """Emits the contraction of ``x`` where its operand is ``x * scale + shift`` per channel."""
    operand = call.args[0]
    assert isinstance(operand.type, TensorType) and isinstance(call.op, Operator)
    channels = operand.type.shape[weights.axis_in]
    scale, shift = np.ones(1), np.zeros(1)
    while isinstance(channels, int) and (inner := alone.get(operand)) is not None:
        source = next((a for a in inner.args if a.type == operand.type), operand)
        affine = _affine(inner, source, weights.axis_in, channels)
        if affine is None or isinstance(source, Constant):
            break
        inner_scale, inner_shift = affine
        if inner_shift.any() and (weights.padded or weights.grouped):
            break
        if inner_scale.size > 1 and weights.grouped:
            break
        operand = source
        scale, shift = scale * inner_scale, shift + scale * inner_shift
    if operand is call.args[0]:
        return None
    rank, dtype = weights.value.ndim, weights.value.dtype
    scaled = _along(scale, weights.own_in, rank) * weights.value
    result = builder.emit(call.op, (operand, _constant(scaled, dtype)), call.attrs)
    if not shift.any():
        return result
    others = tuple(n for n in range(rank) if n != weights.own_out)
    summand = np.sum(_along(shift, weights.own_in, rank) * weights.value, axis=others)
    return _plus(result, summand, weights.axis_out, dtype, builder)


_WIDENED = is_op("cast")(is_constant()).named("weights")
_SCALED = is_op("multiply")(
    _WIDENED.optional(lambda weights: is_op("subtract")(weights, wildcard("points"))),
    wildcard("scales"),
)
_SCALED_OR_TRANSPOSED = _SCALED.optional(lambda scaled: is_op("transpose")(scaled).named("view"))


def _pull_channels(call: Call, alone: walk.Calls, builder: Builder) -> Atom | None:
    """Emits the product of ``x`` and weights that are widened where they are read, multiplied by
    the scales of their channels, with the scales behind it: once for each result."""
    x, name = call.args[0], call.operator.name
    if name not in ("nn.matmul", "nn.dense") or isinstance(x, Constant) or not _is_matrix(x):
        return None
    pattern = _SCALED_OR_TRANSPOSED if name == "nn.matmul" else _SCALED
    for captures in pattern.matches(call.args[-1], alone, {}):
        weights, transposed = captures["weights"], captures.get(captures.get("view"))
        axis = -1 if name == "nn.matmul" and transposed is None else 0
        size, points = _size(weights, axis), captures.get("points")
        vector = _vector(captures["scales"], 2, axis, size)
        zero = np.zeros(1) if points is None else _vector(points, 2, axis, size)
        if vector is None or zero is None or not _is_single(weights):
            continue
        if not np.isfinite(zero * vector).all():
            continue
        if transposed is not None:
            weights = builder.emit(transposed.operator, (weights,), transposed.attrs)
        result = builder.emit(call.operator, (x, weights), call.attrs)
        assert isinstance(result.type, TensorType)
        dtype = result.type.dtype.numpy
        result = builder.emit(OPERATORS["multiply"], (result, _constant(vector, dtype)))
        if zero.any():  # products with zero points are those of the sum of a row
            rows = builder.emit(OPERATORS["sum"], (x,), {"axis": (-1,), "keepdims": True})
            rest = builder.emit(OPERATORS["multiply"], (rows, _constant(zero * vector, dtype)))
            result = builder.emit(OPERATORS["subtract"], (result, rest))
        return result
    return None


def _is_matrix(atom: Atom) -> bool:
    return isinstance(atom.type, TensorType) and atom.type.rank > 1


def _size(weights: Atom, axis: int) -> int:
    """Returns the channels of a matrix; 0 of anything else."""
    kind = weights.type
    size = kind.shape[axis] if isinstance(kind, TensorType) and kind.rank == 2 else 0
    return size if isinstance(size, int) else 0


def _pull_numbers(call: Call, alone: walk.Calls, builder: Builder) -> Atom | None:
    """Emits the contraction of operands without the numbers that they are multiplied by."""
    if Trait.MULTILINEAR not in call.operator.traits or not _is_single(call.args[0]):
        return None  # sums of unscaled half floats may overflow
    factor = 1.0
    args: list[Atom] = []
    for operand in call.args:
        source, views, number = _without_numbers(operand, alone)
        for view in reversed(views):
            source = builder.emit(view.operator, (source,), view.attrs)
        args.append(source)
        factor *= number
    if factor == 1.0 and all(a is b for a, b in zip(args, call.args)):
        return None
    result = builder.emit(call.operator, args, call.attrs)
    assert isinstance(result.type, TensorType)
    number = _constant(np.asarray(factor), result.type.dtype.numpy)
    return builder.emit(OPERATORS["multiply"], (result, number))


def _without_numbers(operand: Atom, alone: walk.Calls) -> tuple[Atom, list[Call], float]:
    """Returns what is multiplied by numbers to make an operand, the views between the two, last
    first, and the product of the numbers. An operand that is not comes back itself."""
    views: list[Call] = []
    pulled: tuple[Atom, list[Call], float] = operand, [], 1.0
    atom, factor = operand, 1.0
    while (inner := alone.get(atom)) is not None:
        if _is_view(inner):
            views.append(inner)
            atom = inner.args[0]
            continue
        source = next((a for a in inner.args if a.type == atom.type), None)
        affine = None if source is None else _affine(inner, source, -1, 1)
        if source is None or affine is None or affine[1].any() or isinstance(source, Constant):
            break
        atom, factor = source, factor * float(affine[0][0])
        pulled = atom, [*views], factor
    return pulled


# -- what follows a contraction ----------------------------------------------------------------


def _fold_behind(function: Function) -> Function:
    """Moves factors of results into constant weights, and adds their summands at once."""
    ends: dict[Var, _Chain] = {}
    _find_chains(function.body, walk.use_counts(function), ends)
    roots = {chain.root for chain in ends.values()}
    calls: dict[Var, Call] = {}
    scaled: dict[tuple[int, bytes], Constant] = {}  # weights that several contractions share

    def step(var: Var, value: Expr, builder: Builder) -> Atom | None:
        if var in roots:
            assert isinstance(value, Call)
            calls[var] = value
        chain = ends.get(var)
        return None if chain is None else _emit_chain(chain, calls[chain.root], scaled, builder)

    return rewrite_without_dead_code(function, step)


def _find_chains(block: Block, uses: Counter[Var], ends: dict[Var, _Chain]) -> None:
    """Enters the chains behind contractions with constant weights, each by the variable of the last
    operator that is folded."""
    chains: dict[Var, _Chain] = {}
    last: dict[Var, Var] = {}  # by the contraction
    for binding in block.bindings:
        value, var = binding.value, binding.var
        for inside in walk.nested_blocks(value):
            _find_chains(inside, uses, ends)
        if not isinstance(value, Call) or not isinstance(value.op, Operator):
            continue
        weights = _weights_of(value)
        if weights is not None:
            channels = weights.value.shape[weights.own_out]
            chains[var] = _Chain(var, weights.axis_out, channels)
            continue
        source = next((a for a in value.args if isinstance(a, Var) and a in chains), None)
        if source is None or uses[source] != 1 or not _is_float(var):
            continue
        chain = chains[source]
        if _is_view(value):
            chains[var] = replace(chain, views=(*chain.views, value))
            continue
        longer = _extended(chain, value, source) if var.type == source.type else None
        if longer is None:
            continue
        chains[var] = longer
        if longer.scaled or longer.steps > 1:  # fewer operators are left
            ends.pop(last.get(chain.root, var), None)
            ends[var], last[chain.root] = longer, var


def _is_view(call: Call) -> bool:
    alone = len(call.args) == 1
    return alone and (call.operator.name == "transpose" or Trait.VIEW in call.operator.traits)


def _extended(chain: _Chain, call: Call, source: Var) -> _Chain | None:
    """Returns the chain with one more operator; None if that is not affine."""
    affine = _affine(call, source, chain.axis, 1 if chain.views else chain.channels)
    if affine is None:
        return None
    scale, shift = affine
    if chain.views and shift.any():
        return None  # the summand stands before the views, and not all of them keep zeros
    return replace(
        chain,
        scale=chain.scale * scale,
        shift=chain.shift * scale + shift,
        steps=chain.steps + 1,
        scaled=chain.scaled or bool((scale != 1).any()),
    )


def _emit_chain(
    chain: _Chain, call: Call, scaled: dict[tuple[int, bytes], Constant], builder: Builder
) -> Atom:
    """Emits the contraction with scaled weights, one summand, and the views."""
    weights = _weights_of(call)
    assert weights is not None and isinstance(call.op, Operator)
    old, dtype = weights.value, weights.value.dtype
    key = id(old), chain.scale.tobytes()
    if key not in scaled:
        scaled[key] = _constant(_along(chain.scale, weights.own_out, old.ndim) * old, dtype)
    value = builder.emit(call.op, (call.args[0], scaled[key]), call.attrs)
    if chain.shift.any():
        value = _plus(value, chain.shift, chain.axis, dtype, builder)
    for view in chain.views:
        value = builder.emit(view.operator, (value,), view.attrs)
    return value


def _plus(value: Var, summand: Vector, axis: int, dtype: np.dtype, builder: Builder) -> Var:
    """Emits a sum of ``value`` and one number, or one per channel."""
    shape = (-1, *(1,) * (-1 - axis)) if summand.size > 1 else ()
    return builder.emit(OPERATORS["add"], (value, _constant(summand.reshape(shape), dtype)))


def _along(vector: Vector, axis: int, rank: int) -> Vector:
    """Returns a vector as an array of this rank that varies along one axis."""
    shape = [1] * rank
    shape[axis] = -1
    return vector.reshape(shape)


def _constant(value: npt.NDArray[np.floating], dtype: np.dtype) -> Constant:
    array = np.array(value, dtype, order="C")
    array.flags.writeable = False
    return Constant(array)
