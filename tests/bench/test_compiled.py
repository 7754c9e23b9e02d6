"""The command that compares machine code before and after a change."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench.compiled import main


def test_same_code_and_other_code(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "before.json"
    names = ["softmax_columns", "--chain", "10", "--isa", "x86-64"]
    assert main([*names, "--out", str(file)]) == 0
    assert main([*names, "--against", str(file)]) == 0
    assert "2 of 2 have the same code" in capsys.readouterr().out

    before = json.loads(file.read_text())
    kernels = before["chain_of_10 x86-64"]["kernels"]
    kernels[next(iter(kernels))] = "other"
    file.write_text(json.dumps(before))
    assert main([*names, "--against", str(file)]) == 1
    assert "chain_of_10 x86-64: other kernels" in capsys.readouterr().out
