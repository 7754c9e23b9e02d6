"""Random modules with control flow: every pass keeps their meaning."""

from __future__ import annotations

import pytest
from graphs import assert_same_value, random_args, structural_equal
from hypothesis import given, settings
from hypothesis import strategies as st
from loopwright.driver.pipeline import kernels_of
from loopwright.ir.graph.evaluate import evaluate
from loopwright.ir.graph.nodes import Module
from loopwright.ir.graph.parser import parse_module
from loopwright.ir.graph.pipeline import default_pipeline
from loopwright.ir.graph.printer import constants_of
from loopwright.ir.graph.verify import verify
from loopwright.ir.pass_context import pass_name
from random_control_graphs import random_control_modules


@settings(max_examples=60)
@given(random_control_modules())
def test_what_prints_parses_back(program: Module) -> None:
    verify(program)
    again = parse_module(str(program), constants=constants_of(program))
    assert str(again) == str(program)
    assert structural_equal(again, program)


@settings(max_examples=60)
@given(random_control_modules(), st.integers(0, 99))
def test_passes_keep_the_meaning(program: Module, seed: int) -> None:
    args = random_args(program, seed)
    expected = evaluate(program, *args)
    for step in default_pipeline():
        before, program = program, verify(step(program))
        found = evaluate(program, *args)
        try:
            assert_same_value(found, expected, rtol=1e-4)
        except AssertionError as error:
            pytest.fail(
                f"{pass_name(step)} changes the result of\n{before}\nto\n{program}\n{error}"
            )
    kernels_of(program)


@settings(max_examples=30)
@given(random_control_modules())
def test_passes_alone_keep_the_meaning_and_end(program: Module) -> None:
    """Not one after the other: each pass may meet what others would have removed."""
    args = random_args(program)
    expected = evaluate(program, *args)
    for step in default_pipeline():
        if pass_name(step) == "fuse_operators":
            continue  # expects what the passes before it give
        result = verify(step(program))
        assert_same_value(evaluate(result, *args), expected, rtol=1e-4)
        assert step(result) is result, f"a second run of {pass_name(step)} changes {result}"
