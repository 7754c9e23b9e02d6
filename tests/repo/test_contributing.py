"""The how-tos of CONTRIBUTING.md: each patch is applied to a copy, run, and counted."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest
import repo_sources as sources

PAGE = sources.ROOT / "CONTRIBUTING.md"
BLOCK = r"^```%s\n(.*?)^```$"


class Limit(NamedTuple):
    lines: int
    files: int


LIMITS = {
    "A composite operator": Limit(8, 1),
    "An elementwise primitive": Limit(8, 2),
    "A derivative": Limit(4, 1),
    "A NumPy function": Limit(6, 1),
    "A graph pass": Limit(40, 2),
    "A sketch rule": Limit(45, 2),
    "A schedule step": Limit(30, 3),
    "A lowering": Limit(30, 2),
    "A target": Limit(1, 1),
    "A dtype": Limit(1, 1),
    "An operator of ONNX": Limit(3, 1),
    "An operator of PyTorch": Limit(1, 1),
}
"""The most lines of product, blank ones aside, and files."""

NEEDED = ("ml_dtypes", "onnx", "torch")
"""Libraries that are there with some extras only."""


class HowTo(NamedTuple):
    patch: str
    check: str

    @property
    def hunks(self) -> list[tuple[str, list[str]]]:
        """The file and the lines of each hunk."""
        found: list[tuple[str, list[str]]] = []
        for part in re.split(r"^--- ", self.patch, flags=re.M)[1:]:
            name, *hunks = re.split(r"^@@\n", part, flags=re.M)
            found += [(name.strip(), hunk.splitlines()) for hunk in hunks]
        return found


def how_tos() -> dict[str, HowTo]:
    """The sections of the page that show a patch, by their titles."""
    found: dict[str, HowTo] = {}
    for section in PAGE.read_text().split("\n## ")[1:]:
        patch, check = (
            re.search(BLOCK % kind, section, re.M | re.S) for kind in ("diff", "python")
        )
        if patch and check:
            found[section.partition("\n")[0]] = HowTo(patch[1], check[1])
    return found


HOW_TOS = how_tos()


def test_every_how_to_has_a_limit() -> None:
    assert HOW_TOS.keys() == LIMITS.keys()


@pytest.mark.parametrize("name", LIMITS)
def test_what_it_takes(name: str) -> None:
    hunks = HOW_TOS[name].hunks
    lines = sum(line[:1] == "+" and bool(line[1:].strip()) for _, hunk in hunks for line in hunk)
    assert (lines, len({file for file, _ in hunks})) <= LIMITS[name]


@pytest.mark.parametrize("name", LIMITS)
def test_it_works(name: str, tmp_path: Path) -> None:
    for library in re.findall(r"^(?:import|from) (\w+)", HOW_TOS[name].check, re.M):
        if library in NEEDED:
            pytest.importorskip(library)
    for part in sources.PARTS:
        shutil.copytree(sources.ROOT / part, tmp_path / part, copy_function=_linked)
        if part != "loopwright":
            (tmp_path / "loopwright" / part).symlink_to(Path("..", part))
    for file, hunk in HOW_TOS[name].hunks:
        _apply(tmp_path / file, hunk)
    check = tmp_path / "check.py"
    check.write_text("import loopwright as lw\nimport numpy as np\n\n" + HOW_TOS[name].check)
    done = subprocess.run(
        [sys.executable, check],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
    )
    assert done.returncode == 0, done.stderr


def _linked(source: str, target: str) -> None:
    """Copies byte code too, which is valid: files keep their times."""
    try:
        os.link(source, target)
    except OSError:  # another file system
        shutil.copy2(source, target)


def _apply(file: Path, hunk: list[str]) -> None:
    """Replaces the lines of ``hunk`` that are not new, which stand in ``file`` once, by all that
    are not removed."""
    text = file.read_text() if file.exists() else ""
    old = "".join(f"{line[1:]}\n" for line in hunk if line[:1] in " -")
    new = "".join(f"{line[1:]}\n" for line in hunk if line[:1] in " +")
    assert not text or text.count(old) == 1, f"{file.name} has {text.count(old)} times\n{old}"
    file.unlink(missing_ok=True)  # not the linked file
    file.write_text(text.replace(old, new) if text else new)
