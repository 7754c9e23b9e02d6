"""Operators on stacks of operands: as row by row."""

from __future__ import annotations

import numpy as np
import pytest
from loopwright.ir.dims import size
from loopwright.ir.errors import UnsupportedError
from loopwright.ir.graph.builder import Builder
from loopwright.ir.graph.evaluate import evaluate
from loopwright.ir.graph.nodes import Call, Function, Module, Var
from loopwright.ir.graph.operator import OPERATORS, Pattern
from loopwright.ir.graph.types import TensorType, TupleType
from loopwright.ir.graph.vmap import stacked_type
from loopwright.ir.graph.vmap_blocks import AllRows, Rows
from loopwright.ir.traits import Trait
from operators import array_type, samples_of

COUNT = 3
LARGEST = 200_000
"""Bytes of operands beyond which a sample adds time and no case."""
SUMS = ("nn.batch_norm", "nn.grouped_matmul")
"""Operators whose elements are sums, in an order of their own."""

SORTED = ("search_few", "search_rows", "nn.searchsorted")
"""Operators whose first operand has sorted rows."""

OPERANDS = [n for n, op in OPERATORS.items() if op.params and Trait.SETS_SIZE not in op.traits]


def drawn_rows(name, args, batched):
    """Yields the operands of each row: the elements of those that differ in another order."""
    for n in range(COUNT):
        row = [np.roll(a, n) if many else a for a, many in zip(args, batched, strict=True)]
        yield [np.sort(row[0], axis=-1), *row[1:]] if name in SORTED else row


def emitted(rows_class, op, sample, batched, count=COUNT):
    """Returns the function of all rows; None if there is no form."""
    attrs = op.complete_attrs(sample.attrs)
    kinds = [array_type(a) for a in sample.args]
    builder = Builder()
    atoms = [Var(f"row{n}", kind) for n, kind in enumerate(kinds)]
    params = [
        builder.param(f"x{n}", stacked_type(kind, count) if many else kind)
        for n, (kind, many) in enumerate(zip(kinds, batched, strict=True))
    ]
    pairs = [*zip(atoms, params, batched, strict=True)]
    stacked, whole = ({a: p for a, p, many in pairs if many == side} for side in (True, False))
    rows = rows_class(count, builder, stacked, whole)
    result = Var("result", op.infer(tuple(kinds), attrs))
    if not rows.binding(result, Call(op, tuple(atoms), attrs)):
        return None
    fields = [rows.spread(leaf) for leaf in rows.leaves(result)]
    is_tuple = isinstance(result.type, TupleType)
    value = builder.make_tuple(fields) if is_tuple else fields[0]
    return Function(tuple(params), builder.block(value))


def choices(sample):
    """Returns which operands differ from row to row: all, and each one alone."""
    count = len(sample.args)
    alone = [tuple(n == k for n in range(count)) for k in range(count)]
    return dict.fromkeys([(True,) * count, *alone])


def check(op, sample, batched, function):
    rows = [*drawn_rows(op.name, sample.args, batched)]
    if op.name in SORTED:
        sample = type(sample)(tuple(rows[0]), sample.attrs)
    arrays = [
        np.stack([row[n] for row in rows]) if many else rows[0][n] for n, many in enumerate(batched)
    ]
    attrs = op.complete_attrs(sample.attrs)
    actual = evaluate(Module({"main": function}), *arrays)
    expected = [op.reference(row, attrs) for row in rows]
    if not isinstance(actual, tuple):
        actual, expected = (actual,), [(e,) for e in expected]
    for n, value in enumerate(actual):
        wanted = np.stack([e[n] for e in expected])
        assert (value.dtype, value.shape) == (wanted.dtype, wanted.shape)
        if op.pattern in (Pattern.REDUCTION, Pattern.CONTRACTION) or op.name in SUMS:
            # The order of the terms of a sum is not the same.
            bound = 1e-12 if wanted.dtype.itemsize > 4 else 2e-6
            np.testing.assert_allclose(value, wanted, rtol=bound, atol=bound)
        else:
            np.testing.assert_array_equal(value, wanted)
            signs = (np.signbit(v) for v in (value, wanted)) if value.dtype.kind == "f" else (0, 0)
            np.testing.assert_array_equal(*signs)


@pytest.mark.parametrize("name", OPERANDS)
def test_all_rows_at_once_are_as_row_by_row(name):
    op = OPERATORS[name]
    for sample in samples_of(op):
        if sum(a.nbytes for a in sample.args) > LARGEST:
            continue
        for batched in choices(sample):
            function = emitted(AllRows, op, sample, batched)
            assert function is not None
            check(op, sample, batched, function)


@pytest.mark.parametrize("name", OPERANDS)
def test_the_number_of_rows_may_be_a_symbolic_size(name):
    op, count = OPERATORS[name], size("rows", 1)
    for sample in samples_of(op)[:3]:
        if sum(a.nbytes for a in sample.args) > LARGEST:
            continue
        for batched in choices(sample):
            function = emitted(AllRows, op, sample, batched, count)
            assert function is not None
            check(op, sample, batched, function)


@pytest.mark.parametrize("name", OPERANDS)
def test_forms_that_passes_use_are_as_row_by_row(name):
    op = OPERATORS[name]
    for sample in samples_of(op)[:6]:
        for batched in choices(sample):
            function = emitted(Rows, op, sample, batched)
            if function is not None:
                check(op, sample, batched, function)


def test_passes_have_no_form_for_what_keeps_a_state():
    for name in ("nn.sort", "cumsum", "index_update", "nn.scatter_nd", "random", "nn.conv2d"):
        op = OPERATORS[name]
        sample = samples_of(op)[0]
        assert emitted(Rows, op, sample, (True,) * len(sample.args)) is None


def test_a_size_that_differs_from_row_to_row_is_refused():
    op = OPERATORS["set_size"]
    with pytest.raises(UnsupportedError, match="a size that the values of a row decide"):
        emitted(AllRows, op, samples_of(op)[0], (True,))


def texts(name, sample, *batched):
    function = emitted(AllRows, OPERATORS[name], sample, batched)
    assert function is not None
    return str(function)


def test_most_operators_stay_what_they_are():
    """An axis is added; what then is the same operator is not taken apart."""
    for name, number in (
        ("nn.softmax", 0),
        ("nn.sort", 0),
        ("cumsum", 0),
        ("tril", 0),
        ("diagonal", 0),
        ("one_hot", 0),
        ("nn.gelu", 0),
        ("mean", 0),
        ("split", 0),
        ("nn.pad", 0),
        ("contract", 0),
    ):
        sample = samples_of(OPERATORS[name])[number]
        text = texts(name, sample, *[True] * len(sample.args))
        assert text.count(f"{name}(") == 1 and "for (" not in text and "stage." not in text


def test_an_expression_that_is_no_operator_with_an_axis_more_is_a_stage():
    text = texts("reduce_window", samples_of(OPERATORS["reduce_window"])[0], True)
    assert "stage.reduce(%x0, body=" in text


def test_types_of_stacks():
    row = TupleType((TensorType((2,), array_type(np.zeros(1)).dtype),))
    assert str(stacked_type(row, 5)) == "(Tensor[(5, 2), float64],)"
