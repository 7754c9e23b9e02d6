"""The small numeric programs: compiled they give what NumPy gives, and each prints something."""

from __future__ import annotations

import copy
import importlib
from pathlib import Path

import pytest

from bench.loops.peers import OURS
from bench.loops.program import leaves, mistake
from bench.loops.table import Row
from bench.numeric import __main__ as command
from bench.numeric.programs import PROGRAMS
from examples import numeric

FILES = sorted(p for p in Path(numeric.__file__).parent.glob("*.py") if p.stem != "__init__")


@pytest.mark.parametrize("name", PROGRAMS)
def test_compiled_is_what_numpy_gives(name: str) -> None:
    program = PROGRAMS[name]
    compiled = getattr(importlib.import_module(f"examples.numeric.{name}"), name)
    arguments = program.arguments(program.small)
    expected = program.plain(*copy.deepcopy(arguments))
    got = compiled(*arguments)
    assert not mistake(program, got, expected)
    assert [a.dtype for a in leaves(got)] == [a.dtype for a in leaves(expected)]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_programs_are_short_and_print(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert file.stem in PROGRAMS and len(file.read_text().splitlines()) < 60
    importlib.import_module(f"examples.numeric.{file.stem}").main()
    assert capsys.readouterr().out.count("\n") >= 2


def test_the_summary_says_which_bars_are_met() -> None:
    rows = [Row(str(n), "", 1, {OURS: 1.0, "numpy": 8.0, "jax": 2.0}) for n in range(3)]
    said, met = command.summary(rows)
    assert met and "numpy on 3 of 3, geometric mean 8.00x; met" in said
    assert "| 0 | 1e+03 | 8e+03 | 2e+03 | 8 | 2 |" in command.table(rows)
    rows += [Row(str(n), "", 1, {OURS: 1.0, "numpy": 0.5}) for n in range(4)]
    rows.append(Row("odd", "", 1, failed={OURS: "ValueError: 1 off"}))
    said, met = command.summary(rows)
    assert not met and "0 0.50" in said and "jax on 3 of 3" in said and "odd: ours: Value" in said


def test_what_there_is_is_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["--list"]) == 0
    assert "learning        k_means" in capsys.readouterr().out
    assert command.main(["no_such_program"]) == 2
    assert command.main(["k_means", "--peers", "fortran"]) == 2
