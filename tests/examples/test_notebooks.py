"""The notebooks: their cells run in order, and what each shows of itself can be read."""

from __future__ import annotations

import ast
import json
import linecache
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from loopwright.codegen.machine import estimated_machine

NOTEBOOKS = sorted((Path(__file__).parents[2] / "examples" / "notebooks").glob("*.ipynb"))
MOST_LINES = 60


def _value(source: str, file: str, scope: dict[str, Any]) -> Any:
    """Runs a cell, and returns the value of its last line if that is an expression."""
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    *body, last = ast.parse(source).body
    if not isinstance(last, ast.Expr):
        body, last = [*body, last], None
    exec(compile(ast.Module(body, []), file, "exec"), scope)
    return None if last is None else eval(compile(ast.Expression(last.value), file, "eval"), scope)


class _Balanced(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_cells_run_and_show_what_can_be_read(notebook: Path, monkeypatch) -> None:
    monkeypatch.setattr("loopwright.codegen.machine.measured_machine", estimated_machine)
    if notebook.stem == "onnx_model":
        pytest.importorskip("onnx")
    scope: dict[str, Any] = {"__name__": "__main__"}
    shown = 0
    for number, cell in enumerate(json.loads(notebook.read_text())["cells"]):
        if cell["cell_type"] != "code":
            continue
        assert not cell["outputs"] and cell["execution_count"] is None, "outputs are stripped"
        value = _value("".join(cell["source"]), f"cell{number}", scope)
        if not type(value).__module__.startswith("loopwright"):
            continue
        shown += 1
        text = repr(value)
        assert not re.search(r" at 0x[0-9a-f]{6}|\b[A-Z]\w+\(\w+=", text), text
        assert text.count("\n") < MOST_LINES and max(map(len, text.split("\n"))) < 400, text
        if hasattr(value, "_repr_html_"):
            page = _Balanced()
            page.feed(value._repr_html_())
            assert not page.open and len(page.text) > 20 and " at 0x" not in page.text
    assert shown > 1
