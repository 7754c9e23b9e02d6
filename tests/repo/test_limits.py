"""Layers without a target hold no sizes of a machine: those are fields of ``GraphLimits``."""

from __future__ import annotations

import ast
from itertools import pairwise
from pathlib import Path

from loopwright.ir.graph.limits import GraphLimits

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("ir/ops", "ir/graph")

# Numbers that are the same on every machine, and why.
KNOWN = {
    # How a text is laid out, and how much of it is shown.
    "declare._DOC_WIDTH": "columns of a text",
    "printer._COMMENT_COLUMN": "columns of a text",
    "printer._WIDTH": "columns of a text",
    "verify._WINDOW": "lines of a message",
    "emit._NAMED_OPERATORS": "operators in the name of a group",
    # Bounds on the work of the compiler itself.
    "structural._COMPARED_BYTES": "bytes compared rather than hashed",
    "patterns._COMPARED_ELEMENTS": "elements of a constant that a rule looks at",
    "groups._SEARCH_LIMIT": "groups searched for a cycle",
    "graph._LONGEST_CHAIN": "index maps that a reader copies",
    "attention._LONGEST": "operators of fused attention",
    "rules.MOST_OPERATORS": "operators of a group, so that its code stays small",
    "inline_calls.MOST_BINDINGS": "bindings that are copied to each call",
    "evaluate_partially.MOST_STEPS": "bindings looked at for one call",
    "evaluate_partially.MOST_UNFOLDED": "bindings that a call leaves",
    "evaluate_partially.MOST_BRANCHES": "branches inside each other that a call leaves",
    "evaluate_partially.MOST_COPIES": "copies of one function",
    "evaluate_partially.MOST_COMPUTED": "elements of a value computed while compiling",
    "fold_constants.DEEPEST": "operators on top of each other that stay unfolded",
    "contract_codes.SHORTEST_GROUP": "weights that share a scale, which takes as much memory",
    "share_groups.FEWEST_ALIKE": "functions that are worth a shared one",
    "share_groups.MOST_SCALARS": "operands of a shared function",
    "split_stacks.ROWS_OF_A_STACK": "rows that are each code of their own",
    "pull_picks.MOST_PULLED": "operators that are computed anew for a pick",
    "sort.NETWORK": "elements of a row, each pair of which is code of its own",
    "to_prim.LONG_CHAIN": "operators of a group that recursion composes",
    # Memory that a program may take for its constants.
    "fold_constants.GROWTH_LIMIT": "bytes by which a folded call may grow",
    "fold_constants.MOST_FOLDED": "bytes of a folded result",
    "unroll_loops.UNROLLED_BINDINGS": "bindings of all iterations of a loop",
    "unroll_loops.FOLDED_BINDINGS": "the same where constants are picked",
    "vectorise_loops.MOST_STACKED": "elements of a value of all iterations",
    "vectorise_loops.MOST_CONSTANT": "iterations whose indices are computed while compiling",
    "weights.LEAST_BYTES": "bytes of a constant that is let go",
    "tail_calls_to_loops.REPEATED_WORK": "instructions that take as long as carrying a value",
    "hoist_invariants.UNGUARDED_WORK": "instructions that are done in vain at most once",
    "hoist_invariants.SCALARS": "elements of a value that registers keep",
    # Ratios of work to work, which hold for any machine that has registers and memory.
    "fold_branches.SELECTED_WORK": "instructions in the time of a mispredicted branch",
    "fold_branches.SELECTED_ELEMENTS": "elements of a value that is selected in registers",
    "choose_algorithms.MARGIN": "share of the direct algorithm's time",
    "choose_algorithms._GROWTH_ALLOWED": "share of a tolerance",
    "recurrence._BATCH_TILE": "sums of a step that registers hold beside each other",
    "conv_transpose.ONE_CONVOLUTION": "work of phases together, over that of each alone",
    "graph._MANY_USES": "uses of an element that make up for a copy",
    "narrow_factors.FEW": "elements of a constant that are not worth a cast",
    "round_factors.FEW_TERMS": "terms of a sum that fill no groups",
    "sink_picks.FEWER": "elements over elements that are read",
    "pull_picks.FEWER": "elements over picked elements",
    "products._LEAST_OF_THREE": "rows and columns of complex matrices",
    "products._MOST_LANES": "adjacent partial sums, a power of 2",
    "counting.INTERLEAVED": "counters of a number, which equal neighbours use in turns",
    "counting.PARTS": "parts of an array that are counted at once",
    "counting.PART_SIZE": "elements that make up for clearing a part's counters",
    "counting.COUNTER_BYTES": "of counters, which fit any L1",
    "random.LANES": "part of what a key means",
    "random.MOST_VALUES": "numbers of a word",
    "random._LOW": "bits of a word",
    "scan.SQUARE_SIDE": "elements of a square that is transposed, lanes of the widest vectors",
    "scan.ROW_PIECE": "elements of a piece, whose block of all lanes fits any L1",
    "search.COUNTED": "elements for which comparing all is less than halving",
    "search.SEARCHED_AT_ONCE": "values, whose places fit any L1",
    "search.STEPS_AT_ONCE": "independent steps of one iteration",
    "sort_keys.STACK_ROW_BYTES": "a row's buffer on the stack",
    "sort.WIDE_DIGIT": "bits of a digit",
    "sort.LONG_ROW": "elements that make up for clearing so many counters",
    "sort.SHORT_ROW": "elements for which n * n steps are less than clearing counters",
    "sort.COMPARED_KEYS": "elements that are compared at a time",
    "limits.FEW_FIRST": "elements that are inserted one by one",
    "update_carries.SMALL": "of an array's elements: one in so many",
    "winograd._CHANNELS": "channels transformed at a time, while the code is made",
    "to_prim.CHEAP": "instructions that cost less than a store and a load",
    "builder.MOST_AXES": "of NumPy's arrays",
    "small_systems.STRAIGHT": "equations that are straight code",
    "small_systems.MOST_EQUATIONS": "equations, each step of which is code of its own",
    "builder.ADDRESSABLE_BYTES": "of a process on x86-64",
    "batch_while_loops._CHEAP": "cost of an operator",
    "multiply_integers.MOST_ROUNDED": "of int32",
    "byte_products.UNIT_ROUNDING": "of float32",
    "byte_products.WORD_BYTES": "bytes of int32",
    "multiply_integers.MOST_SCALED": "operators behind a sum",
    "byte_products.MOST_EXACT": "of float32",
    "byte_products.MOST_SUM": "of int32",
    "winograd._WORD_SHIFT": "denominators of a matrix",
    "byte_products.GREATEST_PRODUCT": "of bytes",
    "specialise_types.MOST_COPIES_NESTED": "copies of a function: no end of them",
    # Marks and data of tests.
    "groups.EXIT": "a mark, no size",
}


def _numbers(path: Path) -> list[str]:
    """The module constants of a file whose value is a number."""
    found: list[str] = []
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            try:
                value = eval(compile(ast.Expression(node.value), str(path), "eval"), {})
            except Exception:
                continue
            if isinstance(value, int | float) and not isinstance(value, bool):
                found += [f"{path.stem}.{ast.unparse(target)}" for target in targets]
    return found


def test_numbers_of_graph_and_operators_are_no_sizes_of_a_machine() -> None:
    files = [file for folder in FOLDERS for file in sorted((ROOT / folder).rglob("*.py"))]
    found = {name for file in files for name in _numbers(file)}
    assert found - KNOWN.keys() == set(), "a machine's size is a field of ir/graph/limits.py"
    assert KNOWN.keys() - found == set(), "gone: take it off the list"


def test_every_limit_has_a_sentence() -> None:
    body = next(
        node
        for node in ast.parse((ROOT / "ir/graph/limits.py").read_text()).body
        if isinstance(node, ast.ClassDef)
    ).body
    for field, text in pairwise(body):
        if isinstance(field, ast.AnnAssign):
            said = isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant)
            assert said, f"{ast.unparse(field.target)} has no sentence"


def test_the_default_limits_are_those_of_the_default_machine() -> None:
    assert GraphLimits.of_caches(48 << 10, 2 << 20, 16) == GraphLimits()
