"""The texts of docs/architecture.md are those that the program prints, and links lead somewhere.

Texts are made for a described machine, not the one the test runs on. After a change that is meant
to show, rewrite them with ``make docs``, which draws the picture of README.md as well.
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

from bench.speed_chart import read_table, svg
from tools.site.reference import pages

PAGE = sources.ROOT / "docs" / "architecture.md"
SITE = sources.ROOT / "mkdocs.yml"
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


def test_the_picture_shows_the_figures(pytestconfig: pytest.Config) -> None:
    picture = sources.ROOT / "docs" / "speed.svg"
    drawn = svg(read_table((sources.ROOT / "docs" / "benchmarks.md").read_text()))
    if pytestconfig.getoption("--update-golden"):
        picture.write_text(drawn)
    assert picture.read_text() == drawn, "`make docs` draws it anew"


def test_the_site_has_every_page() -> None:
    """Those of docs/, and a reference with all public names."""
    listed = {*re.findall(r"([\w/]+\.md)$", SITE.read_text(), re.MULTILINE)}
    reference = pages()
    written = {page.name for page in (sources.ROOT / "docs").glob("*.md")} | {*reference}
    assert written <= listed, written - listed
    assert all(f"lw.{name}" in reference["reference/index.md"] for name in lw.__all__)
    assert "lw.nn.relu" in reference["reference/nn.md"]


def test_pages_link_to_what_is_there() -> None:
    """Files, and the headings that a link names behind a ``#``."""
    names = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md", "tuning_logs/README.md")
    dead = []
    for page in (*(sources.ROOT / "docs").glob("*.md"), *(sources.ROOT / name for name in names)):
        text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
        for link in re.findall(r"\]\(([^)\s]+)\)", text):
            file, _, heading = link.partition("#")
            target = page.parent / file if file else page
            if not re.match(r"https?:", link) and not (
                target.exists() and (not heading or heading in _anchors(target))
            ):
                dead.append(f"{page.name}: {link}")
    assert not dead


@functools.cache
def _anchors(page: Path) -> set[str]:
    """The names by which links find the headings of a page."""
    titles = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}
