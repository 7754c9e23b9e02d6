"""Evaluates one operator by its declaration: the oracle that compiled code is compared with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np
from loopwright.ir.dims import as_int, symbol
from loopwright.ir.dtype import dtype_of
from loopwright.ir.errors import InternalError
from loopwright.ir.graph.builder import Builder
from loopwright.ir.graph.evaluate import evaluate
from loopwright.ir.graph.fusion.to_prim import apply_compute, placeholder, procedure_of
from loopwright.ir.graph.nodes import Atom, Call, Constant, For, Tuple, TupleGetItem, Var
from loopwright.ir.graph.operator import Operator, Pattern
from loopwright.ir.graph.types import TensorType
from loopwright.ir.graph.walk import nested_blocks
from loopwright.ir.loop.evaluate import evaluate_prim
from loopwright.ir.loop.nest import Accumulate, statements
from loopwright.ir.loop.prim import Axis, Buffer, PrimFunc, Stage
from loopwright.ir.loop.procedure import Procedure
from loopwright.ir.loop.tensor import Map, Reduction, Statements
from loopwright.ir.tolerance import tolerance
from loopwright.ir.traits import Trait

__all__ = [
    "Evaluated",
    "array_type",
    "assert_agree",
    "evaluate_operator",
    "has_statements",
    "operator_prim",
    "reduction_length",
    "samples_of",
]

LARGEST_TERM = 1e4  # special values beyond it swallow a sum instead of cancelling in it


class Evaluated(NamedTuple):
    """An operator's value; ``reduction_length`` is the most terms summed in one element."""

    value: Any
    reduction_length: int


def array_type(array: Any) -> TensorType:
    """The type of a NumPy array."""
    return TensorType(tuple(array.shape), dtype_of(array.dtype))


def assert_agree(actual: Evaluated, expected: Any, args: Sequence[Any]) -> None:
    """Raise AssertionError unless a result has the expected dtype, shape and values.

    ``args`` are the operands: how far two floats may lie apart depends on their size. Without a
    reduction, zeros must agree in sign too.
    """
    if isinstance(expected, tuple | list):
        assert len(actual.value) == len(expected)
        for part, wanted in zip(actual.value, expected, strict=True):
            assert_agree(Evaluated(part, actual.reduction_length), wanted, args)
        return
    value = actual.value
    assert (value.dtype, value.shape) == (expected.dtype, expected.shape)
    bound = tolerance(dtype_of(expected.dtype), actual.reduction_length, scale=_term_scale(args))
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(value, expected, rtol=bound.rtol, atol=bound.atol)
    if expected.dtype.kind == "f" and actual.reduction_length == 0:
        zero = (expected == 0) & (value == 0)
        np.testing.assert_array_equal(np.signbit(value)[zero], np.signbit(expected)[zero])


def _term_scale(args: Sequence[Any]) -> float:
    """The square of the greatest magnitude: the longest term that an operator sums."""
    scale = 1.0
    for a in args:
        if a.dtype.kind == "f":
            sizes = np.abs(a[np.abs(a) <= LARGEST_TERM])
            scale = max(scale, float(sizes.max(initial=0)) ** 2)
    return scale


def samples_of(op: Operator) -> Sequence[Any]:
    """The operator's samples, the same ones in every run; InternalError if there are none."""
    samples = op.samples(np.random.default_rng(2024))
    if not samples:
        raise InternalError(f"operator {op.name}: there is no sample")
    return samples


def has_statements(op: Operator) -> bool:
    """True if an operator is declared by statements, which its schedules keep in their order."""
    return op.pattern == Pattern.OPAQUE and op.compute is not None and Trait.BYTES not in op.traits


def evaluate_operator(op: Operator, arrays: Sequence[Any], attrs: Mapping[str, Any]) -> Evaluated:
    """The operator applied to arrays by its tensor expression.

    One that is not a primitive is decomposed, and so are the operators it decomposes to. The value
    is an array, or a tuple of values.

    >>> from loopwright.ir.ops import get
    >>> evaluate_operator(get("nn.relu"), [np.array([-1.0, 2.0])], {}).value
    array([0., 2.])
    """
    types = [array_type(a) for a in arrays]
    length = reduction_length(op, types, attrs)
    return Evaluated(_value(op, arrays, attrs), length)


def _value(op: Operator, arrays: Sequence[Any], attrs: Mapping[str, Any]) -> Any:
    complete = op.complete_attrs(attrs)
    types = [array_type(a) for a in arrays]
    if op.traits & (Trait.LIBRARY | Trait.BYTES):
        return op.reference(arrays, complete)
    if op.compute is not None:
        prim = operator_prim(op, types, complete)
        return evaluate_prim(prim, {f"x{n}": a for n, a in enumerate(arrays)})["out"]
    builder, params, result = _decomposed(op, types, complete)
    if any(isinstance(binding.value, For) for binding in builder.bindings):
        return evaluate(builder.function(result), *arrays)
    values: dict[Var, Any] = dict(zip(params, arrays, strict=True))

    def value_of(atom: Atom) -> Any:
        if isinstance(atom, Constant):
            return atom.value
        if isinstance(atom, Var):
            return values[atom]
        raise InternalError(f"{op.name} decomposes into a call of @{atom.name}")

    for binding in builder.bindings:
        node = binding.value
        if isinstance(node, Call) and isinstance(node.op, Operator):
            values[binding.var] = _value(node.op, [value_of(a) for a in node.args], node.attrs)
        elif isinstance(node, Tuple):
            values[binding.var] = tuple(value_of(f) for f in node.fields)
        elif isinstance(node, TupleGetItem):
            values[binding.var] = value_of(node.value)[node.index]
        else:
            raise InternalError(f"{op.name} decomposes into {type(node).__name__}")
    return value_of(result)


def reduction_length(op: Operator, types: Sequence[TensorType], attrs: Mapping[str, Any]) -> int:
    """Returns the most terms that the operator sums in one element."""
    complete = op.complete_attrs(attrs)
    if op.traits & (Trait.LIBRARY | Trait.BYTES):
        return 0
    length = 0
    if op.compute is None:
        blocks = [tuple(_decomposed(op, types, complete)[0].bindings)]
        for binding in (b for block in blocks for b in block):
            blocks += [block.bindings for block in nested_blocks(binding.value)]
            node = binding.value
            if isinstance(node, Call) and isinstance(node.op, Operator):
                part = reduction_length(node.op, [a.type for a in node.args], node.attrs)
                cancels = Trait.CANCELS in node.op.traits  # as a sum of two terms does
                length = max(length, part, 2 * cancels) * node.op.terms
        return length
    prim = operator_prim(op, types, complete)
    if isinstance(prim, Procedure):
        reduces = any(isinstance(s, Accumulate) for s in statements(prim.body))
        length = max((prod(map(as_int, t.shape)) for t in types), default=0)
    else:
        reduces = any(s.combiner is not None for s in prim.stages)
        length = max(
            (prod(as_int(a.extent) for a in s.reduce_axes) for s in prim.stages), default=0
        )
    return length if reduces else 0


def _decomposed(
    op: Operator, types: Sequence[TensorType], attrs: Mapping[str, Any]
) -> tuple[Builder, Sequence[Var], Atom]:
    """Returns the bindings that an operator decomposes to, their parameters and the result."""
    assert op.decompose is not None
    builder = Builder()
    params = [builder.param(f"x{n}", type) for n, type in enumerate(types)]
    return builder, params, op.decompose(builder, params, attrs)


def _stage_of(name: str, result: Map | Reduction, prefix: str = "i") -> Stage:
    """Returns the stage that stores ``result`` in a buffer; its axes are ``i0 i1 ... ri0 ...``."""
    axes = tuple(Axis(f"{prefix}{n}", size) for n, size in enumerate(result.shape))
    buffer = Buffer(name, result.shape, result.dtype)
    if isinstance(result, Map):
        return Stage(buffer, axes, result.element(*(symbol(a.name) for a in axes)))
    reduced = tuple(Axis(f"r{prefix}{n}", size) for n, size in enumerate(result.over))
    expr = result.element(*(symbol(a.name) for a in (*axes, *reduced)))
    return Stage(buffer, axes, expr, reduced, result.combiner)


def operator_prim(op: Operator, types: Sequence[TensorType], attrs: Mapping[str, Any]) -> PrimFunc:
    """Returns the PrimFunc of one primitive operator, with parameters ``x0 x1 ...`` and ``out``.

    >>> from loopwright.ir.dtype import FLOAT32
    >>> from loopwright.ir.ops import get
    >>> print(operator_prim(get("exp"), [TensorType((4,), FLOAT32)], {}))
    prim @exp(x0: float32[4]) -> out: float32[4] {
      out[i0] = exp(x0[i0])
    }
    """
    complete = op.complete_attrs(attrs)
    out_type = op.infer(tuple(types), complete)
    params = tuple(Buffer(f"x{n}", t.shape, t.dtype) for n, t in enumerate(types))
    given = {p.name: placeholder(p) for p in params}
    result = apply_compute(op, [*given.values()], complete, out_type)
    name = op.name.replace(".", "_")
    if isinstance(result, Statements):
        return procedure_of(name, params, result, given)
    return PrimFunc(name, params, ("out",), (_stage_of("out", result),))
