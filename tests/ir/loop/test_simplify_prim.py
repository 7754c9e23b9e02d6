"""Bringing PrimFuncs into canonical form keeps what they compute."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from loopwright.ir.dims import as_int
from loopwright.ir.loop.evaluate import evaluate_prim
from loopwright.ir.loop.parser import parse_prim
from loopwright.ir.loop.simplify_prim import (
    canonical_prim,
    lay_out,
    merge_axes,
    share_axes,
    squeeze,
)
from loopwright.ir.loop.verify import verify_prim
from prims import KINDS, make_prim, random_inputs


def body(prim):
    return [line.strip() for line in str(prim).splitlines()[1:-1]]


def header(prim):
    return str(prim).splitlines()[0]


def test_squeeze():
    prim = parse_prim("""
prim @f(x: float32[1, 1], y: float32[1, 6]) -> out: float32[1, 6] {
  out[i, j] = x[i, 0] + y[i, j]
}""")
    after = squeeze(prim)
    assert header(after) == "prim @f(x: float32[], y: float32[6]) -> out: float32[6] {"
    assert body(after) == ["out[j] = x[] + y[j]"]


def test_squeeze_a_reduced_axis_of_one():
    prim = parse_prim("""
prim @f(x: float32[3, 1]) -> out: float32[3] { out[i] = sum(k: 1) x[i, k] }""")
    assert body(squeeze(prim)) == ["out[i] = sum() x[i]"]


def test_share_axes():
    prim = parse_prim("""
prim @f(x: float32[4]) -> out: float32[4] {
  t[a]: float32[4] = exp(x[a])
  out[i] = t[i] + 1.0
}""")
    assert body(share_axes(prim)) == ["t[i]: float32[4] = exp(x[i])", "out[i] = t[i] + 1.0"]


def test_what_is_only_turned_is_kept_turned():
    prim = parse_prim("""
prim @f(x: float32[4, 5], y: float32[5, 6]) -> out: float32[6, 4] {
  t[a, b]: float32[4, 6] = sum(k: 5) x[a, k] * y[k, b]
  out[i, j] = t[j, i]
}""")
    assert body(canonical_prim(prim)) == ["out[i, j] = sum(k: 5) x0[j, k] * x1[k, i]"]
    prim = parse_prim("""
prim @f(x: float32[4, 5], y: float32[5, 6]) -> out: float32[6, 4] {
  t[a, b]: float32[4, 6] = sum(k: 5) x[a, k] * y[k, b]
  out[i, j] = exp(t[j, i])
}""")
    assert body(canonical_prim(prim)) == [
        "t0[i, j]: float32[6, 4] = sum(k: 5) x0[j, k] * x1[k, i]",
        "out[i, j] = exp(t0[i, j])",
    ]


def test_what_is_read_in_two_orders_or_needed_itself_is_not_turned():
    prim = parse_prim("""
prim @f(x: float32[4, 4]) -> out: float32[4, 4] {
  t[a, b]: float32[4, 4] = sum(k: 4) x[a, k] * x[k, b]
  out[i, j] = t[j, i] + t[i, j]
}""")
    assert lay_out(prim) is prim
    prim = parse_prim("""
prim @f(x: float32[4, 4]) -> t: float32[4, 4], out: float32[4, 4] {
  t[a, b] = sum(k: 4) x[a, k] * x[k, b]
  out[i, j] = t[j, i]
}""")
    assert lay_out(prim) is prim


def test_windows_and_permutations_share_what_they_can():
    prim = parse_prim("""
prim @f(x: float32[4, 4]) -> out: float32[4, 4] {
  t[a, b]: float32[4, 4] = exp(x[a, b])
  out[i, j] = t[j, i] + t[i, i]
}""")
    assert body(share_axes(prim))[0] == "t[j, i]: float32[4, 4] = exp(x[j, i])"
    window = parse_prim("""
prim @f(x: float32[6]) -> out: float32[5] {
  t[a]: float32[6] = exp(x[a])
  out[i] = t[i] + t[i + 1]
}""")
    assert share_axes(window) == window


def test_merge_axes():
    prim = parse_prim("""
prim @f(x: float32[4, 6]) -> out: float32[4, 6] { out[i, j] = x[i, j] + 1.0 }""")
    after = merge_axes(prim)
    assert header(after) == "prim @f(x: float32[24]) -> out: float32[24] {"
    assert body(after) == ["out[i] = x[i] + 1.0"]
    assert merge_axes(after) is after


@pytest.mark.parametrize(
    "text",
    [
        "prim @f(x: float32[6, 4]) -> out: float32[4, 6] { out[i, j] = x[j, i] }",
        "prim @f(x: float32[4, 7]) -> out: float32[4, 6] { out[i, j] = x[i, j] }",
        "prim @f(x: float32[4, 6], b: float32[6]) -> y: float32[4, 6] { y[i, j] = x[i, j] + b[j] }",
        "prim @f(x: float32[4, 6]) -> out: int64[4, 6] { out[i, j] = index(i) }",
    ],
)
def test_axes_that_are_not_walked_as_one_stay(text):
    prim = parse_prim(text)
    assert merge_axes(prim) is prim


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=25)
@given(st.tuples(*[st.sampled_from((0, 1, 2, 3, 5))] * 3))
def test_canonical_form_computes_the_same(kind, sizes):
    prim = make_prim(kind, *sizes)
    after = canonical_prim(prim)
    verify_prim(after)
    assert canonical_prim(after) == after
    inputs = random_inputs(prim, np.random.default_rng(0))
    values = {
        new.name: inputs[old.name].reshape([as_int(s) for s in new.shape])
        for old, new in zip(prim.params, after.params, strict=True)
    }
    expected = evaluate_prim(prim, inputs)
    found = evaluate_prim(after, values)
    for old, new in zip(prim.outputs, after.outputs, strict=True):
        np.testing.assert_array_equal(found[new].reshape(expected[old].shape), expected[old])
