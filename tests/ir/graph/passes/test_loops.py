"""Loops: what they carry, and what leaves them."""

from __future__ import annotations

from graphs import check_pass
from loopwright.ir.graph.passes.reduce_carries import reduce_carries


def test_values_that_go_on_as_they_began() -> None:
    check_pass(
        reduce_carries,
        before="""fn (%n: int64, %x: float32) {
          %0 = while (%i = 0i64, %m = %n, %a = %x, %b = 2f, %c = %x) {
            less(%i, %m)
          } do {
            %1 = add(%i, 1i64);
            (%1, %m, %x, 2f, %a)
          };
          (%0.0, %0.1, %0.2, %0.3, %0.4)
        }""",
        after="""fn (%n: int64, %x: float32) {
          %0 = while (%i = 0i64) { less(%i, %n) } do { %1 = add(%i, 1i64); (%1,) };
          %2 = %0.0;
          (%2, %n, %x, 2f, %x)
        }""",
    )


def test_values_through_loops_inside() -> None:
    check_pass(
        reduce_carries,
        before="""fn (%w: Tensor[(4), float32], %x: Tensor[(4), float32]) {
          %0 = for (%i < 3i64; %v = %w, %a = %x) {
            %1 = for (%j < 3i64; %u = %v, %b = %a) { %2 = multiply(%b, %u); (%u, %2) };
            (%1.0, %1.1)
          };
          %0.1
        }""",
        after="""fn (%w: Tensor[(4), float32], %x: Tensor[(4), float32]) {
          %0 = for (%i < 3i64; %a = %x) {
            %1 = for (%j < 3i64; %b = %a) { %2 = multiply(%b, %w); (%2,) };
            (%1.0,)
          };
          %0.0
        }""",
    )


def test_equal_values_are_told_from_those_that_only_begin_alike() -> None:
    check_pass(
        reduce_carries,
        before="""fn (%n: int64) {
          %0 = for (%i < %n; %a = 0i64, %b = 0i64, %c = 0i64, %d = 0i64) {
            %1 = add(%a, %c);
            %2 = add(%b, %d);
            %3 = add(%c, 1i64);
            %4 = add(%d, 1i64);
            (%1, %2, %3, %4)
          };
          (%0.0, %0.1, %0.2, %0.3)
        }""",
        after="""fn (%n: int64) {
          %0 = for (%i < %n; %a = 0i64, %c = 0i64) {
            %1 = add(%a, %c);
            %3 = add(%c, 1i64);
            (%1, %3)
          };
          %5 = %0.0;
          %6 = %0.1;
          (%5, %5, %6, %6)
        }""",
    )
    apart = """fn (%n: int64) {
      %0 = for (%i < %n; %a = 0i64, %b = 0i64) { %1 = add(%b, 1i64); (%b, %1) };
      (%0.0, %0.1)
    }"""
    check_pass(reduce_carries, before=apart, after=apart)
