"""Running pipelines."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pytest
from graphs import assert_same_value, module, parse, random_args, scalar, structural_equal, tensor
from hypothesis import given, settings
from hypothesis.strategies import sampled_from, sets
from loopwright.ir.dims import symbol
from loopwright.ir.errors import InternalError, LoopwrightValueError
from loopwright.ir.graph.evaluate import evaluate
from loopwright.ir.graph.nodes import Block, Call, Function, GlobalVar, If, Module, Var
from loopwright.ir.graph.parser import parse_module
from loopwright.ir.graph.passes.eliminate_dead_code import eliminate_dead_code
from loopwright.ir.graph.passes.fold_constants import fold_constants
from loopwright.ir.graph.passes.fuse_operators import fuse_operators
from loopwright.ir.graph.passes.simplify import simplify
from loopwright.ir.graph.pipeline import GRAPH, default_pipeline
from loopwright.ir.pass_context import PassContext, PassRun
from random_graphs import random_modules

TEXT = "fn (%x: Tensor[(4), float32]) { %0 = exp(%x); add(%x, multiply(2f, 3f)) }"


def break_it(program: Module) -> Module:
    """A pass that leaves a variable unbound."""
    main = program.main
    return program.with_function(
        "main", Function(main.params, Block((), Var("lost", main.body.result.type)))
    )


def test_times_and_changes_are_kept() -> None:
    context = PassContext()
    context.run(parse(TEXT), [simplify, eliminate_dead_code], GRAPH)
    assert [(r.name, r.changed) for r in context.runs] == [
        ("simplify", False),
        ("eliminate_dead_code", True),
    ]
    assert all(r.seconds >= 0 for r in context.runs)
    first, second = context.report().splitlines()
    assert first.endswith("ms  simplify *") and second.endswith("ms  eliminate_dead_code")


def test_dump_is_a_numbered_folder_of_what_changed(tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "dump"
    passes = [simplify, eliminate_dead_code, fold_constants]
    PassContext(dump=folder).run(parse(TEXT), passes, GRAPH)
    names = sorted(p.name for p in folder.iterdir())
    assert names == ["00_graph.txt", "02_eliminate_dead_code.txt", "03_fold_constants.txt"]
    assert "add(%x, 6f)" in (folder / names[-1]).read_text()
    assert parse((folder / names[1]).read_text())


def test_broken_pass_is_named() -> None:
    with pytest.raises(InternalError, match="%lost is used unbound") as caught:
        PassContext(verify=True).run(parse(TEXT), [simplify, break_it], GRAPH)
    assert caught.value.notes[0] == "in the pass break_it"
    assert PassContext(verify=False).run(parse(TEXT), [break_it], GRAPH)


def test_instruments_look_on() -> None:
    seen: list[tuple[PassRun, bool]] = []

    class Looker:
        def after(self, run: PassRun, before: Module, after: Module) -> None:
            seen.append((run, before is after))

    PassContext(instruments=[Looker()]).run(parse(TEXT), [simplify, fold_constants], GRAPH)
    assert [(replace(r, seconds=0), same) for r, same in seen] == [
        (PassRun("simplify", 0, False), True),
        (PassRun("fold_constants", 0, True), False),
    ]


def only_groups(block: Block) -> bool:
    """Whether no operator is left in ``block``."""
    for binding in block.bindings:
        value = binding.value
        if isinstance(value, Call) and not isinstance(value.op, GlobalVar | Var):
            return False
        if isinstance(value, If) and not (only_groups(value.then) and only_groups(value.orelse)):
            return False
    return True


@settings(max_examples=200)
@given(random_modules(max_operators=16))
def test_pipeline_keeps_the_meaning_and_leaves_groups(program: Module) -> None:
    context = PassContext(verify=True)
    result = context.run(program, default_pipeline(), GRAPH)
    assert only_groups(result.main.body)
    args = random_args(program)
    assert_same_value(evaluate(result, *args), evaluate(program, *args))
    assert fuse_operators(result) is result


def test_branches_are_fused_on_their_own() -> None:
    program = parse(
        """fn (%p: bool, %x: Tensor[(4), float32]) {
          %0 = exp(%x);
          %1 = if (%p) { %2 = sin(%0); add(%2, %x) } else { multiply(%0, 2f) };
          tanh(%1)
        }"""
    )
    result = PassContext(verify=True).run(program, default_pipeline(), GRAPH)
    assert only_groups(result.main.body)
    args = random_args(program)
    assert_same_value(evaluate(result, *args), evaluate(program, *args))


def test_recursive_programs_pass() -> None:
    program = parse(
        """
        def @main(%x: Tensor[(4), float32]) -> Tensor[(4), float32] { @loop(%x, 10) }
        def @loop(%x: Tensor[(4), float32], %n: int32) -> Tensor[(4), float32] {
          if (less_equal(%n, 0)) { %x } else { @loop(@step(%x), subtract(%n, 1)) }
        }
        def @step(%x: Tensor[(4), float32]) -> Tensor[(4), float32] { tanh(add(%x, %x)) }"""
    )
    result = PassContext(verify=True).run(program, default_pipeline(), GRAPH)
    assert "step" not in result.functions
    args = random_args(program)
    assert_same_value(evaluate(result, *args), evaluate(program, *args))


def test_twenty_thousand_operators_through_the_pipeline() -> None:
    def make(m, x, y):
        for i in range(6_667):
            x = m.add(m.exp(m.multiply(x, y)), y if i % 7 else x)
        return x

    context = PassContext()
    program = module(make, tensor(2), tensor(2))
    begun = time.process_time()  # of this process alone: others may keep the machine busy
    result = context.run(program, default_pipeline(), GRAPH)
    assert time.process_time() - begun < 20, context.report()
    assert only_groups(result.main.body)


def test_symbolic_sizes_pass() -> None:
    n, k = symbol("n"), symbol("k")

    def make(m, x, w, b):
        h = m("nn.gelu", m.add(m("nn.matmul", x, w), b), approximate="tanh")
        h = m("nn.softmax", m.reshape(m.reshape(h, newshape=(2 * n, 4)), newshape=(n, 8)))
        turned = m.transpose(h, axes=(1, 0))
        normed = m("nn.layer_norm", turned, m.sum(x, axis=(1,)), m.max(x, axis=(1,)))
        return m.power(m.mean(normed, axis=(0,)), scalar(2))

    program = module(make, tensor(n, k), tensor(k, 8), tensor(8))
    result = PassContext(verify=True).run(program, default_pipeline(), GRAPH)
    assert only_groups(result.main.body)
    assert structural_equal(parse_module(str(result)), result)
    args = random_args(program, n=5, k=3)
    assert_same_value(evaluate(result, *args), evaluate(program, *args), rtol=1e-4)


OPTIONAL = [
    *("simplify", "fold_constants", "fold_branches", "eliminate_common_subexpressions"),
    *("merge_mutual_recursion", "evaluate_partially", "tail_calls_to_loops", "select_few"),
    *("reduce_carries", "hoist_invariants", "while_to_for", "update_carries", "sink_picks"),
    "sink_casts",
    *("read_updates", "unroll_loops", "reduce_chosen", "vectorise_loops", "batch_while_loops"),
    *("choose_algorithms", "sink_transposes", "pull_picks", "narrow_factors", "multiply_integers"),
    *("fold_scales", "hoist_products", "split_stacks", "share_groups", "repeat_maps"),
    *("contract_codes", "sink_dequantising", "tabulate_bytes"),
]


@settings(max_examples=60)
@given(random_modules(max_operators=10), sampled_from([0, 1, 2]), sets(sampled_from(OPTIONAL)))
def test_optional_passes_can_be_left_out(program: Module, level: int, disabled: set[str]) -> None:
    context = PassContext(verify=True, opt_level=level, disabled=disabled)
    result = context.run(program, default_pipeline(), GRAPH)
    assert only_groups(result.main.body)
    args = random_args(program)
    assert_same_value(evaluate(result, *args), evaluate(program, *args))
    assert not disabled & {run.name for run in context.runs}


def test_levels_choose_passes() -> None:
    def names(level: int) -> set[str]:
        context = PassContext(opt_level=level)
        context.run(parse(TEXT), default_pipeline(), GRAPH)
        return {run.name for run in context.runs}

    needed = {"eliminate_dead_code", "fuse_operators", "inline_calls", "lower_to_primitives"}
    needed |= {"apply_requirements", "split_complex", "widen_halves", "round_factors"}
    assert names(0) == needed
    assert names(1) == needed | set(OPTIONAL[:15])
    assert names(2) == needed | set(OPTIONAL)


def test_what_cannot_be_disabled_is_an_error() -> None:
    with pytest.raises(LoopwrightValueError) as caught:
        PassContext(disabled=("fuse_operators",)).run(parse(TEXT), default_pipeline(), GRAPH)
    assert str(caught.value).startswith(
        "'fuse_operators' is not a pass that can be disabled\n  these"
    )
    with pytest.raises(LoopwrightValueError, match="try: simplify"):
        PassContext(disabled=("simplfy",)).run(parse(TEXT), default_pipeline(), GRAPH)
    with pytest.raises(LoopwrightValueError, match="opt_level=3 is none of 0, 1, 2"):
        PassContext(opt_level=3)
