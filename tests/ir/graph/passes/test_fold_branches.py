"""Branches that are known, alike, or cheaper to select."""

from __future__ import annotations

from graphs import check_pass, parse
from loopwright.ir.graph.passes.fold_branches import fold_branches


def test_known_conditions() -> None:
    check_pass(
        fold_branches,
        before="fn (%x: float32) { if (False) { sin(%x) } else { %0 = exp(%x); cos(%0) } }",
        after="fn (%x: float32) { %0 = exp(%x); cos(%0) }",
    )


def test_a_condition_is_known_inside_of_its_branches() -> None:
    check_pass(
        fold_branches,
        before="""fn (%p: bool, %x: Tensor[(64), float32]) {
          if (%p) { exp(if (%p) { %x } else { sin(%x) }) } else { where(%p, %x, cos(%x)) }
        }""",
        after="""fn (%p: bool, %x: Tensor[(64), float32]) {
          if (%p) { exp(%x) } else { where(False, %x, cos(%x)) }
        }""",
    )


def test_equal_branches_and_shared_fields() -> None:
    check_pass(
        fold_branches,
        before="""fn (%p: bool, %x: Tensor[(64), float32]) {
          if (%p) { %0 = exp(%x); add(%0, %x) } else { %1 = exp(%x); add(%1, %x) }
        }""",
        after="fn (%p: bool, %x: Tensor[(64), float32]) { %0 = exp(%x); add(%0, %x) }",
    )
    check_pass(
        fold_branches,
        before="""fn (%p: bool, %x: Tensor[(64), float32], %y: Tensor[(64), float32]) {
          if (%p) { %0 = exp(%x); (%y, %0, 1f) } else { %1 = sin(%x); (%y, %1, 1f) }
        }""",
        after="""fn (%p: bool, %x: Tensor[(64), float32], %y: Tensor[(64), float32]) {
          %0 = if (%p) { exp(%x) } else { sin(%x) };
          (%y, %0, 1f)
        }""",
    )
    unlike = """fn (%p: bool, %x: Tensor[(64), float32], %y: Tensor[(64), float32]) {
      if (%p) { %0 = exp(%x); add(%0, %x) } else { %1 = exp(%x); add(%1, %y) }
    }"""
    check_pass(fold_branches, before=unlike, after=unlike)


def test_negations_swap_the_branches() -> None:
    check_pass(
        fold_branches,
        before="""fn (%p: bool, %x: Tensor[(64), float32]) {
          %0 = logical_not(%p);
          if (%0) { exp(%x) } else { sin(%x) }
        }""",
        after="""fn (%p: bool, %x: Tensor[(64), float32]) {
          %0 = logical_not(%p);
          if (%p) { sin(%x) } else { exp(%x) }
        }""",
    )


def test_truths_need_no_selection() -> None:
    check_pass(
        fold_branches,
        before="""fn (%p: bool, %q: bool) {
          if (%p) { (True, False, %q) } else { (False, True, False) }
        }""",
        after="""fn (%p: bool, %q: bool) {
          %0 = logical_not(%p);
          %1 = logical_and(%p, %q);
          (%p, %0, %1)
        }""",
    )


def test_what_is_long_large_or_may_not_end_stays_a_branch() -> None:
    for then in ("power(%x, 3.5f)", "@f(%x)", "while (%y = %x) { True } do { (%y,) }.0"):
        text = f"""
          def @main(%p: bool, %x: float32) -> float32 {{ if (%p) {{ {then} }} else {{ %x }} }}
          def @f(%x: float32) -> float32 {{ @f(%x) }}"""
        module = parse(text)
        assert fold_branches(module) is module
    large = "fn (%p: bool, %x: Tensor[(64), int32]) { if (%p) { %x } else { add(%x, 1) } }"
    check_pass(fold_branches, before=large, after=large)


def test_truths_on_one_side() -> None:
    check_pass(
        fold_branches,
        before="""fn (%p: bool, %q: bool) {
          if (%p) { (True, False, %q) } else { (%q, %q, True) }
        }""",
        after="""fn (%p: bool, %q: bool) {
          %0 = logical_or(%p, %q);
          %1 = logical_not(%p);
          %2 = logical_and(%1, %q);
          %3 = logical_not(%p);
          %4 = logical_or(%3, %q);
          (%0, %2, %4)
        }""",
    )
