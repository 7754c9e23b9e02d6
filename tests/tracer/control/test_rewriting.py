"""The rewrites that errors show of expressions: each means what the user's line means."""

from __future__ import annotations

import loopwright as lw
import numpy as np
import pytest
from loopwright.tracer.rewriting.expressions import Aliases, rewritten

EXPRESSIONS = (
    "r = 0 < x < 1",
    "r = x > 0 and x < 2 or not x > -1",
    "r = n in (2, 3, 5) and n not in [3]",
    "r = x * 2 if x > 0 else -x",
    "r = max(x, 4.0, y) + min(x, y) + abs(x)",
    "g = lambda v: v if v > 0 else v * 0.1; r = g(x)",
)


@pytest.mark.parametrize("source", EXPRESSIONS)
@pytest.mark.parametrize("x", [-3.0, 0.5, 2.0])
def test_rewrites_mean_the_same(source: str, x: float) -> None:
    parts = [p.strip() for p in source.split(";")]
    text = "\n".join(rewritten(part, 1) or part for part in parts)
    assert text != "\n".join(parts)
    theirs = {"x": x, "y": 1.5, "n": int(x)}
    ours = {**theirs, "np": np, "lw": lw}
    exec("\n".join(parts), theirs)
    exec(text, ours)
    assert ours["r"] == theirs["r"]


def test_names_of_modules_are_the_users() -> None:
    assert rewritten("r = not x", 1, Aliases(numpy="xp")) == "r = xp.logical_not(x)"


@pytest.mark.parametrize("source", ["if x > 0:\n    y = 1\n", "r = x + 1", "r = ("])
def test_what_has_no_rewrite_has_none(source: str) -> None:
    assert rewritten(source, 1) is None
