"""Every Python block in the README and the docs runs, in the order of its page."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
import repo_sources as sources

BLOCK = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)
PAGES = [
    page
    for page in (sources.ROOT / "README.md", *sorted((sources.ROOT / "docs").glob("*.md")))
    if BLOCK.search(page.read_text())
]


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_the_python_of_a_page_runs(page: Path, tmp_path: Path) -> None:
    code = "\n".join(BLOCK.findall(page.read_text()))
    # A file of its own, as a user would have it: tracing shows lines of the source.
    script = tmp_path / f"{page.stem}.py"
    script.write_text(code)
    done = subprocess.run(
        [sys.executable, script], cwd=tmp_path, capture_output=True, text=True, timeout=900
    )
    assert done.returncode == 0, done.stderr
