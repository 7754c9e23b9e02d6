"""Attention and rotary positions of ``lw.nn`` against formulas in NumPy's float64."""

from __future__ import annotations

from typing import Any

import loopwright as lw
import numpy as np
import pytest
from loopwright import nn

R = np.random.default_rng(7)
Q, K = R.normal(size=(2, 4, 5, 8)), R.normal(size=(2, 4, 7, 8))
V = R.normal(size=(2, 4, 7, 6))
SEEN = R.random((2, 1, 5, 7)) < 0.6
SEEN[..., 0] = True
BIAS = R.normal(size=(5, 7))


def formula(q: Any, k: Any, v: Any, bias: Any, scale: float, cap: float = 0.0) -> Any:
    scores = np.einsum("bhqd,bhkd->bhqk", q, k) * scale
    scores = (cap * np.tanh(scores / cap) if cap else scores) + bias
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return np.einsum("bhqk,bhkd->bhqd", weights / weights.sum(-1, keepdims=True), v)


def hidden(seen: Any) -> Any:
    return np.where(seen, 0, -np.inf)


CASES: dict[str, tuple[dict[str, Any], Any]] = {
    "plain": ({}, 0),
    "bool": ({"mask": SEEN}, hidden(SEEN)),
    "additive": ({"mask": BIAS}, BIAS),
    "causal": ({"causal": True}, hidden(np.tri(5, 7, dtype=bool))),
    "causal and bool": (
        {"mask": SEEN, "causal": True},
        hidden(SEEN & np.tri(5, 7, dtype=bool)),
    ),
    "causal and additive": (
        {"mask": BIAS, "causal": True},
        BIAS + hidden(np.tri(5, 7, dtype=bool)),
    ),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("groups", [4, 2, 1])
def test_attention_by_its_formula(name: str, groups: int) -> None:
    options, bias = CASES[name]
    k, v = K[:, :groups], V[:, :groups]
    expected = formula(Q, k.repeat(4 // groups, 1), v.repeat(4 // groups, 1), bias, 8**-0.5)

    def attended(q: Any, k: Any, v: Any) -> Any:
        return nn.scaled_dot_product_attention(q, k, v, **options)

    np.testing.assert_allclose(attended(Q, k, v), expected, atol=1e-12)
    np.testing.assert_allclose(lw.compile(attended)(Q, k, v), expected, atol=1e-12)


def test_scale_and_cap_of_scores() -> None:
    got = lw.compile(
        lambda q, k, v: nn.scaled_dot_product_attention(q, k, v, scale=0.5, softcap=0.7)
    )(Q, K, V)
    np.testing.assert_allclose(got, formula(Q, K, V, 0, 0.5, 0.7), atol=1e-12)


def test_a_query_that_sees_no_key_gets_zeros() -> None:
    seen = SEEN.copy()
    seen[0, 0, 2] = False
    bias = hidden(seen)
    for mask in (seen, bias):
        plain = nn.scaled_dot_product_attention(Q, K, V, mask)
        traced = lw.compile(nn.scaled_dot_product_attention)(Q, K, V, mask)
        known = lw.compile(lambda q, m=mask: nn.scaled_dot_product_attention(q, K, V, m))(Q)
        for got in (plain, traced, known):
            np.testing.assert_array_equal(got[0, :, 2], 0)
            assert np.isfinite(got).all()


def test_heads_that_do_not_divide_are_refused() -> None:
    with pytest.raises(lw.LoopwrightTypeError, match="4 heads of q for 3 of k"):
        nn.scaled_dot_product_attention(Q, K[:, :3], V[:, :3])
    with pytest.raises(lw.LoopwrightTypeError, match="different ranks"):
        nn.scaled_dot_product_attention(Q, K[0], V)


@pytest.mark.parametrize("interleaved", [False, True])
def test_rotary_positions_turn_complex_numbers(interleaved: bool) -> None:
    angles = R.normal(size=(5, 3))

    def pairs(x: Any) -> Any:
        left, right = (x[..., ::2], x[..., 1::2]) if interleaved else np.split(x, 2, -1)
        return left + 1j * right

    def rotated(x: Any) -> Any:
        return nn.rotary_embedding(x, np.cos(angles), np.sin(angles), interleaved, 6)

    for got in (rotated(Q), lw.compile(rotated)(Q)):
        np.testing.assert_allclose(
            pairs(got[..., :6]), pairs(Q[..., :6]) * np.exp(1j * angles), atol=1e-12
        )
        np.testing.assert_array_equal(got[..., 6:], Q[..., 6:])


@pytest.mark.parametrize("keys", [40, 260])
def test_rows_that_see_nothing_are_zero(keys: int) -> None:
    """As PyTorch exports it: softmax, and 0 instead of its NaN."""
    q, k = R.normal(size=(2, 33, 16)).astype("f"), R.normal(size=(2, keys, 16)).astype("f")
    v = R.normal(size=(2, keys, 24)).astype("f")
    bias = np.zeros((33, keys), np.float32)
    bias[3], bias[4, 7:], bias[5, : keys - 1] = -np.inf, -np.inf, -np.inf
    q[1, 9, 2] = np.nan

    def attended(q: Any, k: Any, v: Any, bias: Any) -> Any:
        weights = nn.softmax(q @ np.swapaxes(k, 1, 2) * np.float32(0.25) + bias, axis=-1)
        return np.where(np.isnan(weights), np.float32(0), weights) @ v

    scores = q.astype("d") @ np.swapaxes(k, 1, 2) * 0.25 + bias
    with np.errstate(invalid="ignore"):
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        weights = np.nan_to_num(weights / weights.sum(-1, keepdims=True))
    compiled = lw.compile(attended)
    assert str(compiled.lower(q, k, v, bias).as_text("kernels")).count("primitive=True") == 1
    result = compiled(q, k, v, bias)
    np.testing.assert_allclose(result, weights @ v, atol=2e-6)
    assert not result[:, 3].any()
    assert not result[1, 9].any()
