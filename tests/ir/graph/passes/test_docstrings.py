"""The docstring of every pass is an example, and the example is true."""

from __future__ import annotations

import importlib
import re
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from graphs import check_pass
from loopwright.ir.graph import passes, pipeline
from loopwright.ir.pass_context import pass_name

ROUNDS = {"round_factors": 2**-4}
"""Passes that round, and how far they may be off in their examples: 2**-7 of eight terms."""

LANGUAGE = {"specialise_types", "lift_functions", "defunctionalise"}
"""Passes of programs that are more than arrays, before these are made plain."""

FOLDER = Path(*passes.__path__)


def found() -> list[str]:
    """The files of the folder that hold a function of their own name."""
    names = sorted(path.stem for path in FOLDER.glob("[a-z]*.py"))
    return [
        name
        for name in names
        if hasattr(importlib.import_module(f"{passes.__name__}.{name}"), name)
    ]


def example(doc: str, title: str) -> str:
    """The indented block under ``title::``."""
    block = block_of(doc, title)
    assert block, f"no {title}"
    return block


def block_of(doc: str, title: str) -> str:
    match = re.search(rf"^{title}::\n\n((?:    .*\n|\n)+)", doc, re.MULTILINE)
    return textwrap.dedent(match[1]) if match else ""


def constants_of(doc: str) -> dict[str, Any]:
    """The arrays behind ``meta[name]``: the block under ``Constants::`` assigns them."""
    names: dict[str, Any] = {}
    exec(block_of(doc, "Constants"), {"np": np}, names)
    return names


@pytest.mark.parametrize("name", found())
def test_before_becomes_after(name: str) -> None:
    module = importlib.import_module(f"{passes.__name__}.{name}")
    check_pass(
        getattr(module, name),
        before=example(module.__doc__, "Before"),
        after=example(module.__doc__, "After"),
        constants=constants_of(module.__doc__),
        rtol=ROUNDS.get(name, 1e-6),
    )


def test_every_pass_of_the_pipeline_is_in_the_folder() -> None:
    assert {pass_name(p) for p in pipeline.default_pipeline()} == set(found()) - LANGUAGE
