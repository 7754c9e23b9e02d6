"""``loopwright debug``: exit codes, and what it prints."""

from __future__ import annotations

from pathlib import Path

import pytest
from loopwright.cli import main
from loopwright.ir.graph.fusion import to_prim
from loopwright.ir.ops import get

PROGRAM = """
import numpy as np
import loopwright as lw

example_inputs = (lw.f32[6, 8],)


def layer(x):
    return np.maximum(x, 0.5) * 2
"""


@pytest.fixture
def program(tmp_path: Path) -> str:
    path = tmp_path / "net.py"
    path.write_text(PROGRAM)
    return f"{path}:layer"


def test_right_code_and_the_errors_of_its_operations(
    program: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["debug", program, "--each"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("layer: no difference in 1 kernel; its results are within ")
    assert [line.split(":")[0].strip() for line in lines[1:]] == ["maximum", "multiply"]


def test_a_wrong_operation_and_a_program_that_shows_it(
    program: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    real = to_prim.apply_compute

    def apply(op, *rest):
        return real(get("minimum") if op.name == "maximum" else op, *rest)

    monkeypatch.setattr(to_prim, "apply_compute", apply)
    repro = tmp_path / "wrong.py"
    assert main(["debug", program, "--repro", str(repro)]) == 1
    out = capsys.readouterr().out
    assert out.startswith("layer: maximum is the first operation that is wrong")
    assert "np.maximum(x, 0.5)" in out and str(repro) in out
    assert "maximum(%x0, 0.5f)" in repro.read_text()


def test_what_it_cannot_do(program: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["debug", program, "--repro", "/no/such/folder/r.py"]) == 2
    assert "there is no folder /no/such/folder" in capsys.readouterr().err
    assert main(["debug", program, "--log", "/no/such.jsonl"]) == 2
