"""Attention becomes one kernel, and what only looks like it does not."""

from __future__ import annotations

import numpy as np
import pytest
from graphs import assert_same_value, module, random_args, scalar, tensor
from loopwright.ir.graph.evaluate import evaluate
from loopwright.ir.graph.nodes import Call, Constant, Module
from loopwright.ir.graph.passes.fuse_operators import fuse_operators
from loopwright.ir.graph.verify import verify


def calls(program: Module) -> list[str]:
    """What main calls, in order, once ``program`` is fused; checked to mean the same."""
    result = verify(fuse_operators(program))
    assert fuse_operators(result) is result
    args = random_args(program)
    assert_same_value(evaluate(result, *args), evaluate(program, *args))
    values = [b.value for b in result.main.body.bindings]
    return [v.op.name for v in values if isinstance(v, Call)]


def softmax(m, x, rank):
    e = m.exp(m.subtract(x, m.max(x, axis=(rank - 1,), keepdims=True)))
    return m.divide(e, m.sum(e, axis=(rank - 1,), keepdims=True))


Q, K, V = tensor(2, 20, 8), tensor(2, 24, 8), tensor(2, 24, 12)


def attention(m, q, k, v, mask=None):
    scores = m.multiply(m("nn.matmul", q, m.transpose(k, axes=(0, 2, 1))), scalar(0.5))
    if mask is not None:
        scores = m.where(mask, scores, scalar(-np.inf))
    return m("nn.matmul", softmax(m, scores, 3), v)


def test_attention_is_one_kernel() -> None:
    assert calls(module(attention, Q, K, V)) == ["matmul_multiply_max_subtract_exp_3_more"]


def test_a_mask_comes_along() -> None:
    mask = Constant(np.tri(20, 24, dtype=bool))

    def make(m, q, k, v):
        return attention(m, q, k, v, mask)

    assert len(calls(module(make, Q, K, V))) == 1


def zero_rows(m, p, total, limit=0.0, other=0.0):
    return m.where(m.greater(total, scalar(limit)), p, scalar(other))


def with_zero_rows(m, q, k, v, limit=0.0, other=0.0):
    x = m("nn.matmul", q, m.transpose(k, axes=(0, 2, 1)))
    e = m.exp(m.subtract(x, m.max(x, axis=(2,), keepdims=True)))
    total = m.sum(e, axis=(2,), keepdims=True)
    return m("nn.matmul", zero_rows(m, m.divide(e, total), total, limit, other), v)


def test_rows_without_a_sum_may_be_zero() -> None:
    assert len(calls(module(with_zero_rows, Q, K, V))) == 1


@pytest.mark.parametrize("limit, other", [(2.0, 0.0), (0.0, 1.0)])
def test_other_choices_after_a_softmax_stay_apart(limit: float, other: float) -> None:
    def make(m, q, k, v):
        return with_zero_rows(m, q, k, v, limit, other)

    assert len(calls(module(make, Q, K, V))) > 1


def test_contractions_by_name_of_their_axes() -> None:
    def make(m, q, k, v):
        scores = m.contract(q, k, equation="bqd,bkd->bqk")
        return m.contract(softmax(m, scores, 3), v, equation="bqk,bkn->bqn")

    assert len(calls(module(make, Q, K, V))) == 1


def test_heads_are_read_where_they_lie() -> None:
    def make(m, q, k, v):
        q, k, v = (m.transpose(x, axes=(0, 2, 1, 3)) for x in (q, k, v))
        scores = m("nn.matmul", q, m.transpose(k, axes=(0, 1, 3, 2)))
        return m("nn.matmul", softmax(m, scores, 4), v)

    assert len(calls(module(make, *[tensor(2, 18, 3, 8)] * 3))) == 1


def weights_too(m, q, k, v):
    p = softmax(m, m("nn.matmul", q, m.transpose(k, axes=(0, 2, 1))), 3)
    return [m("nn.matmul", p, v), p]


def other_axis(m, q, k, v):
    x = m("nn.matmul", q, m.transpose(k, axes=(0, 2, 1)))
    e = m.exp(m.subtract(x, m.max(x, axis=(1,), keepdims=True)))
    return m("nn.matmul", m.divide(e, m.sum(e, axis=(1,), keepdims=True)), v)


def no_maximum(m, q, k, v):
    e = m.exp(m("nn.matmul", q, m.transpose(k, axes=(0, 2, 1))))
    return m("nn.matmul", m.divide(e, m.sum(e, axis=(2,), keepdims=True)), v)


def values_from_scores(m, q, k, v):
    x = m("nn.matmul", q, m.transpose(k, axes=(0, 2, 1)))
    return m("nn.matmul", softmax(m, x, 3), m.transpose(x, axes=(0, 2, 1)))


@pytest.mark.parametrize("make", [weights_too, other_axis, no_maximum, values_from_scores])
def test_what_needs_all_scores_is_not_fused(make) -> None:
    assert len(calls(module(make, Q, K, V))) > 1


def test_a_single_query_is_not_fused() -> None:
    assert len(calls(module(attention, tensor(2, 1, 8), K, V))) > 1
