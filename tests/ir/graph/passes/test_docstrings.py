"""The docstring of every pass is an example, and the example is true."""

from __future__ import annotations

import importlib
import re
import textwrap

import pytest
from graphs import check_pass

PASSES = [
    "eliminate_common_subexpressions",
    "eliminate_dead_code",
    "fold_constants",
    "fuse_operators",
    "inline_calls",
    "lower_to_primitives",
    "simplify",
    "sink_transposes",
]


def example(doc: str, title: str) -> str:
    """The indented block under ``title::``."""
    match = re.search(rf"^{title}::\n\n((?:    .*\n|\n)+)", doc, re.MULTILINE)
    assert match is not None, f"no {title}"
    return textwrap.dedent(match[1])


@pytest.mark.parametrize("name", PASSES)
def test_before_becomes_after(name: str) -> None:
    module = importlib.import_module(f"loopwright.ir.graph.passes.{name}")
    check_pass(
        getattr(module, name),
        before=example(module.__doc__, "Before"),
        after=example(module.__doc__, "After"),
    )
