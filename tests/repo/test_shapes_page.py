"""docs/shapes.md: its programs run and keep what they assert."""

from __future__ import annotations

import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "shapes.md"


def test_the_programs_run() -> None:
    names: dict[str, object] = {"__name__": "shapes"}
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    for block in blocks:
        exec(compile(block, str(PAGE), "exec"), names)
    assert len(blocks) >= 4
