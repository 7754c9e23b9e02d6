"""docs/gradients.md: its table is what the operators declare, and every operator has a rule or a
reason."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from loopwright.ir.graph.operator import Operator
from loopwright.ir.loop.scalar import SCALAR_OPS
from loopwright.ir.ops import all_operators
from loopwright.ir.traits import Trait
from operators import samples_of

PAGE = Path(__file__).parents[2] / "docs" / "gradients.md"
BEGIN, END = "<!-- The operators' rules -->\n", "<!-- The end of the operators' rules -->\n"

DERIVED = (
    "from the operators that it consists of",
    "from the slopes of a scalar operator",
    "0, as the result jumps",
)
PARTLY = "the tangent from its linearity; the transpose by hand"
BY_HAND = "by hand"
NONE = "none"


def rule_of(op: Operator) -> str | None:
    """Returns where a derivative comes from; None of an operator that makes no floats of floats."""
    samples = samples_of(op)
    results = [op.reference(s.args, op.complete_attrs(s.attrs)) for s in samples]
    parts = [p for r in results for p in (r if isinstance(r, tuple) else (r,))]
    given = [np.asarray(a) for s in samples for a in s.args]
    if not (_has_floats(parts) and _has_floats(given)):
        return None
    if op.name in SCALAR_OPS and SCALAR_OPS[op.name].slopes and op.name not in ("where", "cast"):
        return DERIVED[1]
    if op.tangent is not None or op.unfold is not None:
        return BY_HAND
    if op.decompose is not None:
        return DERIVED[0]
    if Trait.JUMPS in op.traits:
        return DERIVED[2]
    return NONE if op.not_differentiable else PARTLY


def _has_floats(arrays: list[Any]) -> bool:
    return any(np.asarray(a).dtype.kind in "fc" for a in arrays)


def names_by_rule() -> dict[str, list[str]]:
    rules: dict[str, list[str]] = defaultdict(list)
    for op in all_operators().values():
        if (rule := rule_of(op)) is not None:
            rules[rule].append(op.name)
    return rules


def test_the_page_shows_the_rules(request: pytest.FixtureRequest) -> None:
    rules = names_by_rule()
    total = sum(map(len, rules.values()))
    lines = [
        f"{total} operators make floats of floats; the others have no derivative by their types.\n",
        "| derivative | operators | |",
        "| --- | ---: | --- |",
    ]
    for rule in (*DERIVED, PARTLY, BY_HAND):
        lines.append(f"| {rule} | {len(rules[rule])} | {', '.join(sorted(rules[rule]))} |")
    for name in sorted(rules[NONE]):
        lines.append(f"| none: {all_operators()[name].not_differentiable} | 1 | {name} |")
    text = "\n".join(lines) + "\n"
    before, _, rest = PAGE.read_text().partition(BEGIN)
    if request.config.getoption("--update-golden"):
        PAGE.write_text(before + BEGIN + text + END + rest.partition(END)[2])
    assert PAGE.read_text().partition(BEGIN)[2].partition(END)[0] == text


def test_most_rules_are_derived() -> None:
    rules = names_by_rule()
    derived = sum(len(rules[rule]) for rule in DERIVED)
    assert derived >= 0.6 * sum(map(len, rules.values()))


def test_an_operator_that_is_linear_has_a_transpose() -> None:
    for name in names_by_rule()[PARTLY]:
        op = all_operators()[name]
        linear = Trait.LINEAR | Trait.MULTILINEAR | Trait.PICKS
        assert op.linear is not None or op.traits & linear, f"{name} has neither rule nor reason"
        assert op.transpose is not None, name
