"""The path through the sources of docs/reading.md leads everywhere."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import repo_sources as sources

PAGE = sources.ROOT / "docs" / "reading.md"
LINK = re.compile(r"\]\(\.\./([\w/]+\.py)\)")
NAMED = LINK.findall(PAGE.read_text())
WEEKEND = LINK.findall(PAGE.read_text().partition("## Another weekend")[0])
MOST_LINES = 9_000
"""Lines of source that can be read in a weekend."""
MODULES = {sources.module_name(path): path for path in sources.library_files()}


def test_the_files_are_there_and_can_be_read_in_a_weekend() -> None:
    missing = [name for name in NAMED if not (sources.ROOT / name).is_file()]
    assert not missing
    assert len(set(NAMED)) == len(NAMED)
    assert len(WEEKEND) >= 30
    lines = [len((sources.ROOT / name).read_text().splitlines()) for name in WEEKEND]
    assert sum(lines) <= MOST_LINES


def test_every_module_is_imported_by_one_of_them_or_is_an_extra() -> None:
    reached: set[str] = set()
    work = [sources.module_name(Path(name)) for name in NAMED]
    while work:
        name = work.pop()
        if name in reached or name not in MODULES:
            continue
        reached.add(name)
        work.append(name.rpartition(".")[0])  # importing a module runs its packages
        work += [imported for imported, _ in sources.imports(MODULES[name])]
    left = [
        name
        for name, path in MODULES.items()
        if name not in reached and not sources.is_extra(name) and not _is_empty(path)
    ]
    assert not left, "\n".join(left)


def _is_empty(path: Path) -> bool:
    """True for a package that has nothing but a docstring."""
    return len(ast.parse((sources.ROOT / path).read_text()).body) == 1
