"""Equality up to names."""

from __future__ import annotations

import numpy as np
import pytest
from graphs import structural_equal
from loopwright.ir.graph.parser import parse_function, parse_module
from loopwright.ir.graph.structural import structural_hash

BASE = "fn (%x: Tensor[(4), float32]) { %0 = add(%x, 1f); sum(%0, axis=[0]) }"


@pytest.mark.parametrize(
    "other",
    [
        "fn (%y: Tensor[(4), float32]) { %a = add(%y, 1f); sum(%a, axis=[0]) }",
        "fn (%x: Tensor[(4), float32]) { %0 = add(%x, 1f); /* a:1 */ sum(%0, axis=[0]) }",
        "fn (%x: Tensor[(4), float32]) { sum(add(%x, 1f), axis=[0], keepdims=False) }",
    ],
)
def test_names_and_spans_do_not_count(other: str) -> None:
    left, right = parse_function(BASE), parse_function(other)
    assert structural_equal(left, right)
    assert structural_hash(left) == structural_hash(right)


@pytest.mark.parametrize(
    "other",
    [
        "fn (%x: Tensor[(5), float32]) { %0 = add(%x, 1f); sum(%0, axis=[0]) }",
        "fn (%x: Tensor[(4), float32]) { %0 = add(%x, 2f); sum(%0, axis=[0]) }",
        "fn (%x: Tensor[(4), float32]) { %0 = add(1f, %x); sum(%0, axis=[0]) }",
        "fn (%x: Tensor[(4), float32]) { %0 = add(%x, 1f); sum(%x, axis=[0]) }",
        "fn (%x: Tensor[(4), float32]) { %0 = add(%x, 1f); max(%0, axis=[0]) }",
        "fn (%x: Tensor[(4), float32]) { %0 = add(%x, 1f); sum(%0, axis=[0], keepdims=True) }",
        "fn (%x: Tensor[(4), float32], a=1) { %0 = add(%x, 1f); sum(%0, axis=[0]) }",
    ],
)
def test_everything_else_counts(other: str) -> None:
    left, right = parse_function(BASE), parse_function(other)
    assert not structural_equal(left, right)
    assert structural_hash(left) != structural_hash(right)


LOOP = "fn (%n: int64) { while (%k = %n, %s = 0i64) { less(%k, 9i64) } do { (add(%k, 1i64), %k) } }"


def test_names_inside_of_loops_do_not_count() -> None:
    other = parse_function(LOOP.replace("%k", "%step").replace("%s,", "%t,"))
    assert structural_equal(parse_function(LOOP), other)
    swapped = parse_function(LOOP.replace("less(%k", "less(%s"))
    assert not structural_equal(parse_function(LOOP), swapped)


def test_zeros_of_different_sign_differ() -> None:
    one, other = parse_function("fn () { 0f }"), parse_function("fn () { -0f }")
    assert not structural_equal(one, other)


def test_constants_count_by_content_not_by_name() -> None:
    a, b = np.arange(3, dtype="float32"), np.arange(3, dtype="float32")
    one = parse_function("fn () { meta[a] }", constants={"a": a})
    other = parse_function("fn () { meta[b] }", constants={"b": b})
    assert structural_equal(one, other)
    b = b.astype("int32")
    assert not structural_equal(one, parse_function("fn () { meta[b] }", constants={"b": b}))


def test_functions_of_a_module_keep_names_but_not_order() -> None:
    one = parse_module("def @f(%x: bool) -> bool { %x } def @g(%x: bool) -> bool { @f(%x) }")
    other = parse_module("def @g(%y: bool) -> bool { @f(%y) } def @f(%y: bool) -> bool { %y }")
    named = parse_module("def @h(%y: bool) -> bool { %y } def @g(%x: bool) -> bool { @h(%x) }")
    assert structural_equal(one, other)
    assert not structural_equal(one, named)


def test_hash_is_the_same_in_every_process() -> None:
    assert structural_hash(parse_function(BASE)) == "24f49e368d72bde681f3b32ae3a3fc36"
