"""``f.error_bound``: how far each element of a result may lie from the exact one.

::

    lowered graph    call by call: values in float64, and a bound of the error of each element
      kernel         stage by stage, over the grid of its elements
        expression   node by node: what the operands' errors do, and what the node itself rounds

This is running error analysis (J. Wilkinson, Rounding Errors in Algebraic Processes, 1963) of the
fused kernels as they were compiled. A function that rises or falls is taken at both ends of its
operand's interval; sums are added up in blocks of bounded length (``ir/loop/block_sums.py``). Where
a comparison may come out either way, a choice by it has the difference of both sides as its error.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from math import frexp, isfinite, prod
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from ..driver.built import Built, Parts
from ..ir.dims import Dim, IntExpr, evaluate
from ..ir.dtype import Array, DType, dtype_of
from ..ir.errors import UnsupportedError
from ..ir.graph.nodes import (
    Atom,
    Block,
    Call,
    Constant,
    Expr,
    Function,
    If,
    Module,
    Tuple,
    TupleGetItem,
    Var,
)
from ..ir.graph.operator import Operator
from ..ir.graph.types import TensorType, Type, fields_of
from ..ir.graph.weights import constants_of
from ..ir.loop.evaluate import bind_sizes, blocks, index_values, open_grid, sum_of_products
from ..ir.loop.expr import Const, Index, Op, Read, walk
from ..ir.loop.prim import PrimFunc, Stage
from ..ir.loop.procedure import Procedure
from ..ir.loop.rounding import rounds
from ..ir.loop.scalar import COMBINERS, SCALAR_OPS, ScalarOp
from ..ir.traits import Trait
from .additions import additions

_ARITHMETIC, _FUNCTION = 1, 4
"""Units of rounding of one instruction, and of all other functions: at most 1.95 ulp, which are
3.9, were seen of any (docs/elementary.md)."""

_LITERAL = 1 << 16
"""Literals that are not multiples of this part of their size were rounded."""

_FOLDED = 8
"""Units of rounding of constants that were computed while compiling."""


class Bounded(NamedTuple):
    """Values, in float64 where they are floats, and how far those of the code may be away."""

    value: Any
    error: Any


Value: TypeAlias = "Bounded | tuple[Value, ...]"
Rule: TypeAlias = Callable[..., Any]


def bounds_of(built: Built, arrays: Sequence[Array]) -> list[Bounded]:
    """Returns the values of the results in float64, and bounds of the errors of the code's.

    Raises UnsupportedError for code with loops on values, library calls and kernels that sort,
    search or scatter.
    """
    source, parts = built.source, built.parts
    if source is None or parts is None:
        raise UnsupportedError("this build does not say what it is made of")
    given = {id(c) for c in constants_of(source.module)}
    walker = _Walk(source.lowered, parts, given)
    with np.errstate(all="ignore"):
        return _flat(walker.call(source.lowered.main, [_exact(a) for a in arrays]))


def _flat(value: Value) -> list[Bounded]:
    if isinstance(value, Bounded):
        return [value]
    return [each for field in value for each in _flat(field)]


def _exact(array: Array) -> Bounded:
    array = np.asarray(array)
    value = array.astype(np.float64) if dtype_of(array.dtype).is_float else array
    return Bounded(value, np.zeros(value.shape))


# -- the graph ---------------------------------------------------------------------------------


class _Walk:
    """Walks the calls of a module, with the values and bounds of what they compute."""

    def __init__(self, module: Module, parts: Parts, given: set[int]) -> None:
        self.module, self.parts, self.given = module, parts, given

    def call(self, function: Function, args: Sequence[Value]) -> Value:
        return self.block(function.body, dict(zip(function.params, args, strict=True)))

    def block(self, block: Block, values: dict[Var, Value]) -> Value:
        for binding in block.bindings:
            values[binding.var] = _typed(self.value(binding.value, values), binding.var.type)
        return self.atom(block.result, values)

    def atom(self, atom: Atom, values: Mapping[Var, Value]) -> Value:
        if isinstance(atom, Var):
            return values[atom]
        if not isinstance(atom, Constant):
            raise UnsupportedError("functions as values have no error bound")
        exact = _exact(atom.value)
        if id(atom.value) in self.given or atom.type.dtype.kind != "f":
            return exact
        return Bounded(exact.value, _FOLDED * _unit(atom.type.dtype) * np.abs(exact.value))

    def value(self, expr: Expr, values: dict[Var, Value]) -> Value:
        if isinstance(expr, Call):
            return self.applied(expr, [self.atom(a, values) for a in expr.args])
        if isinstance(expr, Tuple):
            return tuple(self.atom(f, values) for f in expr.fields)
        if isinstance(expr, TupleGetItem):
            fields = self.atom(expr.value, values)
            assert not isinstance(fields, Bounded)
            return fields[expr.index]
        if isinstance(expr, Var | Constant):
            return self.atom(expr, values)
        if isinstance(expr, If):
            condition = self.atom(expr.condition, values)
            assert isinstance(condition, Bounded)
            if not np.any(condition.error):
                return self.block(expr.then if condition.value else expr.orelse, {**values})
        raise UnsupportedError(
            "there is no error bound for loops, and for branches that rounding may decide",
            span=getattr(expr, "span", None),
        )

    def applied(self, call: Call, args: list[Value]) -> Value:
        op = call.op
        if isinstance(op, Operator):
            (x, *rest) = args
            if Trait.MOVES in op.traits and not rest and isinstance(x, Bounded):
                return Bounded(*(op.reference([part], call.attrs) for part in x))
            raise UnsupportedError(f"{op.name} has no error bound", span=call.span)
        prim = self.parts.prims.get(op.name)
        if prim is None:
            callee = self.module.functions[op.name]
            assert isinstance(callee, Function)
            return self.call(callee, args)
        if isinstance(prim, Procedure):
            what = f"the kernel {op.name}, not a tensor expression, has no error bound"
            raise UnsupportedError(what, span=call.span)
        deep = additions(self.parts.kernels[op.name].nest)
        results = _of_prim(prim, [each for arg in args for each in _flat(arg)], deep)
        return results[0] if len(results) == 1 else tuple(results)


# -- a kernel ----------------------------------------------------------------------------------


def _of_prim(prim: PrimFunc, inputs: Sequence[Bounded], deep: Mapping[str, int]) -> list[Bounded]:
    """Returns the results of a kernel. ``deep`` are the additions that a term of a sum goes through
    in its nest, by stage."""
    buffers = {p.name: _shaped(x, p.shape) for p, x in zip(prim.params, inputs, strict=True)}
    of_shape = {
        p.name: np.broadcast_to(p.dtype.numpy.type(), buffers[p.name].value.shape)
        for p in prim.params
    }
    sizes = bind_sizes(prim, of_shape)
    for stage in prim.stages:
        buffers[stage.name] = _of_stage(stage, buffers, sizes, deep.get(stage.name, 0))
    return [buffers[name] for name in prim.outputs]


def _shaped(x: Bounded, sizes: Sequence[IntExpr]) -> Bounded:
    """Returns values in another shape: kernels may join axes."""
    shape = [-1 if isinstance(size, Dim) else size for size in sizes]
    if shape.count(-1) > 1 or x.value.ndim == len(shape):
        return x
    return Bounded(x.value.reshape(shape), x.error.reshape(shape))


def _typed(value: Value, kind: Type) -> Value:
    if isinstance(value, Bounded):
        return _shaped(value, kind.shape) if isinstance(kind, TensorType) else value
    return tuple(_typed(v, k) for v, k in zip(value, fields_of(kind), strict=True))


def _of_stage(
    stage: Stage, buffers: Mapping[str, Bounded], sizes: Mapping[str, int], deep: int
) -> Bounded:
    axes, rank = (*stage.axes, *stage.reduce_axes), len(stage.axes)
    extents = [evaluate(a.extent, sizes) for a in axes]
    unit, terms = _unit(stage.buffer.dtype), prod(extents[rank:])
    added = min(deep, terms) or terms
    expr = stage.expr
    if isinstance(expr, Op) and expr.name == "multiply" and stage.combiner == "sum" and unit:
        env = open_grid(axes, [(0, extent) for extent in extents], sizes)
        pair = [_of_expr(factor, buffers, env) for factor in expr.args]
        exact = _sum_of_products(pair[0], pair[1], extents, rank, unit * (added + 1))
        return Bounded(exact.value, exact.error + terms * _underflow(stage.buffer.dtype))
    kind = np.float64 if stage.buffer.dtype.is_float else stage.buffer.dtype.numpy
    value, error = np.empty(extents[:rank], kind), np.zeros(extents[:rank])
    if stage.combiner is not None:
        value.fill(COMBINERS[stage.combiner].identity(stage.buffer.dtype))
    size = np.full(extents[:rank], float(stage.combiner == "prod"))
    grown = np.ones(extents[:rank])  # what a factor that underflows may still be multiplied by
    over = tuple(range(rank, len(axes)))
    for block in blocks(extents):
        shape = tuple(stop - start for start, stop in block)
        part = tuple(slice(start, stop) for start, stop in block[:rank])
        env = open_grid(axes, block, sizes)
        v, e = (np.broadcast_to(x, shape) for x in _of_expr(stage.expr, buffers, env))
        if stage.combiner is None:
            value[part], error[part] = v, e
            continue
        combine = COMBINERS[stage.combiner].numpy
        value[part] = combine(value[part], combine.reduce(v, axis=over)).astype(kind)
        if stage.combiner == "sum":
            error[part] += e.sum(axis=over)
            size[part] += (np.abs(v) + e).sum(axis=over)
        elif stage.combiner == "prod":
            size[part] *= (np.abs(v) + e).prod(axis=over)
            grown[part] *= np.maximum(np.abs(v) + e, 1).prod(axis=over)
        else:  # as far away as the one that is farthest, or undecided if any is
            error[part] = np.maximum(error[part], e.max(axis=over, initial=0.0))
    if stage.combiner == "sum" and unit:
        error += unit * added * size
    elif stage.combiner == "prod" and unit:  # all factors as large as they may be
        error = size * (1 + 2 * unit * terms) - np.abs(value)
        error += terms * _underflow(stage.buffer.dtype) * grown
    return Bounded(value, error)


def _sum_of_products(
    a: Bounded, b: Bounded, extents: Sequence[int], rank: int, unit: float
) -> Bounded:
    """Returns the sum of products of two factors: matrix products of their values and errors."""

    def summed(x: Any, y: Any) -> Array:
        both = [np.asarray(z, np.float64) for z in (x, y)]
        both = [z.reshape([1] * (len(extents) - z.ndim) + list(z.shape)) for z in both]
        return np.array(sum_of_products(both[0], both[1], extents, rank))

    size_a, size_b = np.abs(a.value) + a.error, np.abs(b.value) + b.error
    error = summed(a.error, size_b) + summed(np.abs(a.value), b.error)
    error += unit * summed(size_a, size_b)
    return Bounded(summed(a.value, b.value), np.where(np.isnan(error), np.inf, error))


def _unit(dtype: DType) -> float:
    """Returns the unit of rounding of a dtype of floats; that of float64 counts twice, since the
    values that bounds are around have it, too."""
    if not dtype.is_float:
        return 0.0
    return 2.0 ** -(dtype.fraction_bits + 1) * (1 + (dtype.bits == 64))


def _underflow(dtype: DType) -> float:
    """Returns the error of a result too small for a normal number."""
    return _unit(dtype) * 2.0 ** (1 - dtype.exponent_bias) if dtype.is_float else 0.0


# -- an expression -----------------------------------------------------------------------------


def _of_expr(expr: Any, buffers: Mapping[str, Bounded], env: Mapping[str, Any]) -> Bounded:
    done: dict[int, Bounded] = {}
    for node in walk(expr):
        if isinstance(node, Const):
            kind = np.float64 if node.dtype.is_float else node.dtype.numpy
            done[id(node)] = Bounded(np.asarray(node.value, kind), _of_literal(node))
        elif isinstance(node, Index):
            done[id(node)] = Bounded(np.asarray(index_values(node.value, env)), np.zeros(()))
        elif isinstance(node, Read):
            done[id(node)] = _of_read(node, buffers[node.buffer], env, done)
        else:
            done[id(node)] = _of_op(node, [done[id(a)] for a in node.args])
    return done[id(expr)]


def _of_literal(node: Const) -> Any:
    """Returns the error of a literal: one that takes all bits of its dtype was rounded to it."""
    fraction = frexp(node.value)[0] * _LITERAL if node.dtype.is_float else 0.0
    rounded = isfinite(fraction) and not fraction.is_integer()
    return np.asarray(_unit(node.dtype) * abs(node.value) if rounded else 0.0)


def _of_read(
    node: Read, buffer: Bounded, env: Mapping[str, Any], done: Mapping[int, Bounded]
) -> Bounded:
    """Reads elements; outside of the buffer any, which nothing uses."""
    indices: list[Any] = []
    unsure: Any = 0.0
    for i, size in zip(node.indices, buffer.value.shape, strict=True):
        if isinstance(i, int | Dim):
            at = np.asarray(index_values(i, env), np.int64)
        else:
            at, error = done[id(i)]
            unsure = unsure + np.where(error > 0, np.inf, 0.0)
        indices.append(np.clip(np.asarray(at, np.int64), 0, max(0, size - 1)))
    if buffer.value.size == 0:
        shape = np.broadcast_shapes(*(i.shape for i in indices))
        return Bounded(np.zeros(shape, buffer.value.dtype), np.zeros(shape))
    place = tuple(indices)
    return Bounded(np.asarray(buffer.value[place]), buffer.error[place] + unsure)


def _of_op(node: Op, args: Sequence[Bounded]) -> Bounded:
    row = SCALAR_OPS[node.name]
    values, errors = [a.value for a in args], [np.asarray(a.error) for a in args]
    kind = np.float64 if node.dtype.is_float else node.dtype.numpy
    if row.to_bits and any(np.any(e) for e in errors):
        raise UnsupportedError("the bits of a computed float have no error bound")
    with_bits = (
        [v.astype(a.dtype.numpy) for v, a in zip(values, node.args)] if row.to_bits else values
    )
    made = values[0] if node.name == "cast" else row.numpy(*with_bits)
    value = np.asarray(made).astype(kind)
    if node.name != "cast":
        error = _rule_of(row)(value, values, errors)
    elif node.dtype.is_float:
        error = errors[0]
    else:
        whole = np.trunc if node.args[0].dtype.is_float else np.asarray
        error = _stepwise(whole)(value, values, errors)
    error = np.where(np.isnan(error), np.inf, error)
    if rounds(node):
        units = _ARITHMETIC if row.cost <= 1 else _FUNCTION
        rounded = units * (_unit(node.dtype) * (np.abs(value) + error) + _underflow(node.dtype))
        error = error + np.where(value == 0, 0.0, rounded)
    some = np.any([np.any(e) for e in errors])
    return Bounded(value, np.where(np.isfinite(value) | some, error, 0.0))


def _gap(one: Any, other: Any) -> Any:
    """Returns the distance of two numbers; 0 of equal infinities."""
    return np.where(one == other, 0.0, np.abs(np.subtract(one, other, dtype=np.float64)))


def _scaled(size: Any, error: Any) -> Any:
    return np.where(error == 0, 0.0, np.abs(size) * error)


def _monotone(function: Any) -> Rule:
    """The rule of a function that only rises or only falls in each operand: its corners."""

    def rule(value: Any, values: Sequence[Any], errors: Sequence[Any]) -> Any:
        error: Any = 0.0
        for signs in np.ndindex(*(2,) * len(values)):
            corner = [v + (2 * s - 1) * e for v, e, s in zip(values, errors, signs)]
            error = np.maximum(error, _gap(np.asarray(function(*corner), np.float64), value))
        return error

    return rule


def _stepwise(function: Any) -> Rule:
    """The rule of a function with jumps, of bools and of integers: nothing where no operand is
    unsure, else what the corners say."""
    corners = _monotone(function)

    def rule(value: Any, values: Sequence[Any], errors: Sequence[Any]) -> Any:
        if not any(np.any(e) for e in errors):
            return 0.0
        if any(v.dtype.kind not in "f" for v in values):
            unsure = np.any(np.broadcast_arrays(*(e > 0 for e in errors)), axis=0)
            return np.where(unsure, np.inf, 0.0)
        return corners(value, values, errors)

    return rule


def _greatest(_value: Any, _values: Any, errors: Sequence[Any]) -> Any:
    return functools.reduce(np.maximum, errors)


def _compared(_value: Any, values: Sequence[Any], errors: Sequence[Any]) -> Any:
    """1 where a comparison may come out either way."""
    reach = errors[0] + errors[1]
    return np.where((reach > 0) & (_gap(*values) <= reach), 1.0, 0.0)


def _chosen(_value: Any, values: Sequence[Any], errors: Sequence[Any]) -> Any:
    condition, x, y = values
    unsure, error_x, error_y = errors
    plain = np.where(condition, error_x, error_y)
    either = _gap(x, y) + np.maximum(error_x, error_y)
    return np.where(unsure > 0, either, plain)


def _quotient(value: Any, values: Sequence[Any], errors: Sequence[Any]) -> Any:
    least = np.abs(values[1]) - errors[1]
    error = (errors[0] + _scaled(value, errors[1])) / least
    exact = (errors[0] == 0) & (errors[1] == 0)
    return np.where(exact, 0.0, np.where(least > 0, error, np.inf))


def _of_tangent(_value: Any, values: Sequence[Any], errors: Sequence[Any]) -> Any:
    least = np.abs(np.cos(values[0])) - errors[0]
    return np.where(least > 0, errors[0] / least**2, np.inf)


def _of_remainder(_value: Any, _values: Any, errors: Sequence[Any]) -> Any:
    return np.where((errors[0] > 0) | (errors[1] > 0), np.inf, 0.0)


def _summed(_value: Any, _values: Any, errors: Sequence[Any]) -> Any:
    return sum(errors)


def _of_product(_value: Any, values: Sequence[Any], errors: Sequence[Any]) -> Any:
    (x, y), (of_x, of_y) = values, errors
    return _scaled(x, of_y) + _scaled(y, of_x) + of_x * of_y


_OTHER_RULES: dict[Any, Rule] = {
    np.divide: _quotient,
    np.sin: lambda _v, _x, e: np.minimum(e[0], 2.0),
    np.cos: lambda _v, _x, e: np.minimum(e[0], 2.0),
    np.cosh: lambda v, x, e: _gap(np.cosh(np.abs(x[0]) + e[0]), v),
    np.tan: _of_tangent,
    np.arctan2: lambda _v, x, e: (e[0] + e[1]) / (np.hypot(*x) - e[0] - e[1]).clip(0),
}
"""Rules of functions that neither rise nor fall everywhere."""


def _rule_of(row: ScalarOp) -> Rule:
    """Returns what gives the error of a result by ``(value, operands, errors)``, by the traits of
    the operator; one without any of them rises or falls with its operands, or jumps."""
    if row.compares:
        return _compared
    if Trait.MOVES in row.traits:
        return _chosen
    if Trait.LINEAR in row.traits:
        return _summed
    if Trait.MULTILINEAR in row.traits:
        return _of_product
    if Trait.JUMPS in row.traits and row.slopes:
        return _of_remainder
    is_near = Trait.EXACT in row.traits and Trait.JUMPS not in row.traits
    if row.kinds == "b" or (is_near and None not in row.slopes):
        return _greatest  # an operand, or its opposite
    return _OTHER_RULES.get(row.numpy) or _stepwise(row.numpy)
