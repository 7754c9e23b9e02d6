"""The texts of docs/architecture.md are those the program prints.

They are made for a described machine, not the one the test runs on. After a change that is meant
to show, rewrite them with ``make docs``.
"""

from __future__ import annotations

import functools
import importlib.util
import re
from pathlib import Path

import loopwright as lw
import pytest
import repo_sources as sources
from loopwright.codegen.target import Target

PAGE = sources.ROOT / "docs" / "architecture.md"
BLOCK = re.compile(r"(<!-- level: (\w+(?: of \w+)?) -->\n```\n)(.*?)(```\n)", re.DOTALL)
MACHINE = Target(isa="x86-64-v3", cpu="described", cores=1, l1=1 << 15, l2=1 << 20, l3=1 << 25)
LEVELS = [match[1] for match in BLOCK.findall(PAGE.read_text())]


@functools.cache
def lowered(name: str) -> lw.Lowered:
    """The function ``name`` of the example of that name."""
    path = sources.ROOT / "examples" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    function = lw.compile(getattr(module, name), target=MACHINE, threads=1)
    return function.lower(*module.example_inputs)


@pytest.mark.parametrize("level", LEVELS)
def test_the_text_of_a_level(level: str, pytestconfig: pytest.Config) -> None:
    which, _, name = level.partition(" of ")
    made = lowered(name or "classify").as_text(which).rstrip() + "\n"
    made = made.replace(f"{sources.ROOT}/", "")
    page = PAGE.read_text()
    if pytestconfig.getoption("--update-golden"):
        PAGE.write_text(BLOCK.sub(lambda m: _with(m, level, made), page))
    shown = {match[1]: match[2] for match in BLOCK.findall(PAGE.read_text())}
    assert made == shown[level], "printed differently now; `make docs` rewrites the page"


def _with(match: re.Match[str], level: str, text: str) -> str:
    return match[1] + text + match[4] if match[2] == level else match[0]


def test_pages_link_to_files_that_are_there() -> None:
    names = ("README.md", "CONTRIBUTING.md", "tuning_logs/README.md")
    for page in (*(sources.ROOT / "docs").glob("*.md"), *(sources.ROOT / name for name in names)):
        for link in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
            assert (Path(page).parent / link).exists(), f"{page.name}: {link}"
