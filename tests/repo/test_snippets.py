"""Every Python block in README.md and docs/ runs alone, in a fresh process, as when it is pasted.

Processes are forked from one that has imported the package, the blocks of several pages from each.
A block that is followed by one of the kind ``text`` prints exactly that.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import pytest
import repo_sources as sources

BLOCK = re.compile(
    r"^```python\n(?P<code>.*?)^```(?:\n+```text\n(?P<shown>.*?)^```)?", re.DOTALL | re.MULTILINE
)
PAGES = [
    page
    for page in (sources.ROOT / "README.md", *sorted((sources.ROOT / "docs").glob("*.md")))
    if BLOCK.search(page.read_text())
]
PARTS = 3
"""Processes that fork the blocks without PyTorch."""
PEERS = ("jax", "numba", "onnxruntime")
"""Packages that only pages about them need; their blocks run where they are installed."""

FORKS = """
import os, runpy, sys, tempfile, traceback
if sys.argv[1] == "torch":
    import torch
import numpy, loopwright
for path in sys.argv[2:]:
    sys.stdout.flush()
    if not os.fork():
        os.chdir(tempfile.mkdtemp(dir="."))
        for stream, end in ((1, "out"), (2, "err")):
            os.dup2(os.open(path + "." + end, os.O_WRONLY | os.O_CREAT), stream)
        try:
            runpy.run_path(path, run_name="__main__")
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        sys.stdout.flush()
        os._exit(0)
    print(os.wait()[1])
"""


class Snippet(NamedTuple):
    """A block of a page: the page, its first line, its text, and what it is said to print."""

    page: Path
    line: int
    code: str
    shown: str | None


def snippets(page: Path) -> list[Snippet]:
    """The blocks of a page that can run here."""
    text = page.read_text()
    blocks = [
        Snippet(page, text.count("\n", 0, m.start()) + 1, m["code"], m["shown"])
        for m in BLOCK.finditer(text)
    ]
    absent = [name for name in PEERS if find_spec(name) is None]
    return [b for b in blocks if not re.search(rf"import ({'|'.join(absent) or '-'})\b", b.code)]


SNIPPETS = [snippet for page in PAGES for snippet in snippets(page)]


@pytest.mark.parametrize("part", (*range(PARTS), "torch"))
def test_each_block_of_a_page_runs_alone(part: int | str, tmp_path: Path) -> None:
    of_torch = [s for s in SNIPPETS if "import torch" in s.code]
    if part == "torch":
        pytest.importorskip("torch")
        blocks = of_torch
    else:
        blocks = [s for s in SNIPPETS if s not in of_torch][part::PARTS]
    # Files of their own, as a user would have them: tracing shows lines of the source.
    paths = [tmp_path / f"{block.page.stem}_{block.line}.py" for block in blocks]
    for path, block in zip(paths, blocks, strict=True):
        path.write_text(block.code)
    done = subprocess.run(
        [sys.executable, "-c", FORKS, str(part), *map(str, paths)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=900,
        env={**os.environ, "LOOPWRIGHT_VERIFY": "0"},  # as users run it
    )
    assert done.returncode == 0, done.stderr
    for status, path, block in zip(done.stdout.split(), paths, blocks, strict=True):
        where = f"{block.page.name}:{block.line}"
        assert status == "0", f"{where}\n{Path(f'{path}.err').read_text()}"
        if block.shown is not None:
            assert Path(f"{path}.out").read_text() == block.shown, where
