"""Indices that come from data: what stands behind a gather reads through every primitive."""

import numpy as np
import pytest
from loopwright.ir.dims import Dim, symbol
from loopwright.ir.dtype import INT64
from loopwright.ir.graph.fusion.to_prim import apply_compute, placeholder
from loopwright.ir.graph.operator import Pattern
from loopwright.ir.graph.types import TensorType
from loopwright.ir.loop.evaluate import evaluate_prim
from loopwright.ir.loop.expr import Read, read, walk
from loopwright.ir.loop.prim import Axis, Buffer, PrimFunc, Stage
from loopwright.ir.loop.tensor import Reduction
from loopwright.ir.ops import all_operators
from operators import Evaluated, array_type, assert_agree, samples_of

PRIMITIVES = {
    name: op
    for name, op in all_operators().items()
    if op.compute is not None and op.pattern != Pattern.OPAQUE
}


def gathered(op, sample, axis, index):
    """``out[i...]`` is the operator's element at ``index[i]`` on one axis, as one stage."""
    attrs = op.complete_attrs(sample.attrs)
    types = [array_type(a) for a in sample.args]
    out = op.infer(tuple(types), attrs)
    params = [Buffer(f"x{n}", t.shape, t.dtype) for n, t in enumerate(types)]
    result = apply_compute(op, [placeholder(p) for p in params], attrs, out)
    axes = [Axis(f"i{n}", size) for n, size in enumerate(out.shape)]
    axes[axis] = Axis(axes[axis].name, len(index))
    over = result.over if isinstance(result, Reduction) else ()
    reduced = tuple(Axis(f"r{n}", size) for n, size in enumerate(over))
    at = [symbol(a.name) for a in axes]
    at[axis] = read("index", [at[axis]], INT64)
    stage = Stage(
        Buffer("out", tuple(a.extent for a in axes), out.dtype),
        tuple(axes),
        result.element(*at, *(symbol(a.name) for a in reduced)),
        reduced,
        result.combiner if isinstance(result, Reduction) else None,
    )
    prim = PrimFunc("f", (*params, Buffer("index", (len(index),), INT64)), ("out",), (stage,))
    arrays = {f"x{n}": a for n, a in enumerate(sample.args)}
    length = max(1, int(np.prod(over))) if over else 0
    return Evaluated(evaluate_prim(prim, {**arrays, "index": index})["out"], length)


@pytest.mark.parametrize("name", PRIMITIVES)
def test_elements_at_indices_from_data(name):
    op = PRIMITIVES[name]
    rng = np.random.default_rng(3)
    for sample in samples_of(op):
        expected = np.asarray(op.reference(sample.args, op.complete_attrs(sample.attrs)))
        if expected.ndim == 0 or expected.size == 0:
            continue
        for axis in {0, expected.ndim - 1}:
            index = rng.integers(0, expected.shape[axis], 6)
            actual = gathered(op, sample, axis, index)
            assert_agree(actual, np.take(expected, index, axis), sample.args)


def test_plain_indices_stay_integer_expressions():
    """Without a gather, no index of an index map becomes scalar arithmetic."""
    maps = ("reshape", "transpose", "strided_slice", "reverse", "nn.pad", "concatenate")
    for name in (*maps, "diagonal", "expand_dims", "squeeze", "broadcast_to"):
        op = PRIMITIVES[name]
        for sample in samples_of(op):
            attrs = op.complete_attrs(sample.attrs)
            types = [array_type(a) for a in sample.args]
            out = op.infer(tuple(types), attrs)
            assert isinstance(out, TensorType)
            params = [Buffer(f"x{n}", t.shape, t.dtype) for n, t in enumerate(types)]
            result = apply_compute(op, [placeholder(p) for p in params], attrs, out)
            expr = result.element(*(symbol(f"i{n}") for n in range(out.rank)))
            reads = [node for node in walk(expr) if isinstance(node, Read)]
            assert all(isinstance(i, int | Dim) for node in reads for i in node.indices)
