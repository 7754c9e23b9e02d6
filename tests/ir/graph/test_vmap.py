"""Operators on stacks of operands: as row by row."""

from __future__ import annotations

import numpy as np
import pytest
from loopwright.ir.dtype import dtype_of
from loopwright.ir.graph.builder import Builder
from loopwright.ir.graph.evaluate import evaluate
from loopwright.ir.graph.nodes import Call, Function, Module
from loopwright.ir.graph.operator import OPERATORS
from loopwright.ir.graph.types import TensorType
from loopwright.ir.graph.vmap import Batch, batched_call
from operators import samples_of

COUNT = 3


def batched(op, sample, stacked):
    """Returns the results for all rows, and those row by row; None if there is no form."""
    attrs = op.complete_attrs(sample.attrs)
    rows = [
        [np.roll(a, n) if many else a for a, many in zip(sample.args, stacked, strict=True)]
        for n in range(COUNT)
    ]
    arrays = [
        np.stack([row[n] for row in rows]) if many else sample.args[n]
        for n, many in enumerate(stacked)
    ]
    builder = Builder()
    params = [
        builder.param(f"x{n}", TensorType(a.shape, dtype_of(a.dtype))) for n, a in enumerate(arrays)
    ]
    kinds = tuple(TensorType(a.shape, dtype_of(a.dtype)) for a in sample.args)
    shape = op.infer(kinds, attrs)
    if not isinstance(shape, TensorType):
        return None
    call = Call(op, tuple(params), attrs)
    result = batched_call(Batch(call, params, stacked, COUNT, shape.shape, builder))
    if result is None:
        return None
    function = Function(tuple(params), builder.block(result))
    expected = np.stack([op.reference(row, attrs) for row in rows])
    return evaluate(Module({"main": function}), *arrays), expected


@pytest.mark.parametrize("name", [n for n, op in OPERATORS.items() if op.params])
def test_all_rows_at_once_are_as_row_by_row(name):
    op, forms = OPERATORS[name], 0
    for sample in samples_of(op)[:6]:
        count = len(sample.args)
        for stacked in {
            (True,) * count,
            *(tuple(n == k for n in range(count)) for k in range(count)),
        }:
            both = batched(op, sample, stacked)
            if both is not None:
                forms += 1
                np.testing.assert_allclose(*both, rtol=1e-4, atol=1e-4)
    assert forms or op.batch is None, "the rule has a form for some sample"
