"""Programs with control flow: run by Python and compiled, they give what plain loops give."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from typing import Any

import loopwright as lw
import numpy as np
import pytest

from bench.loops import __main__ as command
from bench.loops import steps
from bench.loops.peers import PEERS, Job
from bench.loops.program import PROGRAMS, leaves, mistake
from bench.loops.programs import linear, recursion, scalars, sequences, simulation, tables
from bench.loops.stand_ins import python_loops
from bench.loops.table import Row, summary, table

FAMILIES = (linear, recursion, scalars, sequences, simulation, tables)


def test_there_are_forty_programs_of_all_families() -> None:
    assert len(PROGRAMS) >= 40
    names = {module.__name__.rpartition(".")[2] for module in FAMILIES}
    assert {program.family for program in PROGRAMS.values()} == names


@pytest.mark.parametrize("name", PROGRAMS)
def test_eager(name: str) -> None:
    program = PROGRAMS[name]
    arguments = program.arguments(program.small)
    assert not mistake(program, program.function(*arguments), program.plain(*arguments))


@pytest.mark.parametrize("name", PROGRAMS)
def test_compiled(name: str) -> None:
    program = PROGRAMS[name]
    arguments = program.arguments(program.small)
    compiled = lw.compile(program.function)
    assert not mistake(program, compiled(*arguments), program.plain(*arguments))


@pytest.fixture
def loops_by_hand() -> Iterator[None]:
    """Programs whose loops are Python's own."""
    before = linear.lw
    for family in FAMILIES:
        family.lw = python_loops()  # type: ignore[attr-defined]
    yield
    for family in FAMILIES:
        family.lw = before  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", [n for n, p in PROGRAMS.items() if p.arrays])
def test_loops_of_the_numpy_peer(name: str, loops_by_hand: None) -> None:
    program = PROGRAMS[name]
    arguments = program.arguments(program.small)
    assert not mistake(program, program.function(*arguments), program.plain(*arguments))


@pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")
def test_c_gives_what_python_gives() -> None:
    wrong: dict[str, str] = {}
    for name, program in PROGRAMS.items():
        arguments = program.arguments(program.small)
        expected = program.plain(*arguments)
        try:
            call = PEERS["c"].make(Job(program, arguments, leaves(expected)))
        except NotImplementedError:
            continue
        wrong[name] = mistake(program, call(), expected)
    assert len(wrong) > 20
    assert not any(wrong.values()), wrong


def test_mistakes_are_seen() -> None:
    program = PROGRAMS["euler"]
    assert mistake(program, (1.0, 2.0), (1.0, 2.0, 3.0)) == "2 results, not 3"
    assert "shape" in mistake(program, np.zeros(2), np.zeros(3))
    assert "off" in mistake(program, 1.5, 1.0)
    assert "off" in mistake(program, np.nan, 1.0)
    assert not mistake(program, 1.001, 1.0)


def _row(name: str, **seconds: float) -> Row:
    return Row(name, "scalars", 0, seconds)


def test_the_table_has_ratios_and_bars() -> None:
    rows = [
        _row("collatz", ours=1e-3, numba=2e-3, jax=8e-3, c=1.5e-3),
        _row("gcd", ours=3e-3, numba=1e-3),
    ]
    text = table(rows)
    assert "| collatz | 1 | 2 | 8 | 1.5 | 2 | 1.5 | - |" in text
    said, met = summary(rows)
    assert "1 of 2 (bar 34), geometric mean 0.82x" in said and "gcd 0.33" in said
    assert not met
    said, met = summary(rows[:1])
    assert "1 of 1" in said and met


def test_a_run_prints_a_row(tmp_path: Any, capsys: Any) -> None:
    arguments = ["bisection", "--peers", "python,c", "--rounds", "1", "--seconds", "0.001"]
    places = ["--out", str(tmp_path), "--folder", str(tmp_path)]
    small = PROGRAMS["bisection"].small
    PROGRAMS["bisection"], before = _smaller("bisection", small), PROGRAMS["bisection"]
    try:
        command.main(arguments + places)
    finally:
        PROGRAMS["bisection"] = before
    assert "| bisection |" in capsys.readouterr().out
    assert len(list(tmp_path.glob("bisection-12-*.npz"))) == 1


def test_steps_are_measured(monkeypatch: Any, capsys: Any) -> None:
    monkeypatch.setattr(steps, "_MANY", 1000)
    monkeypatch.setattr(steps, "_DEEP", 100)
    assert command.main(["--steps"]) in (0, 1)
    printed = capsys.readouterr().out
    assert "empty while" in printed and "deep recursion" in printed


def _smaller(name: str, size: int) -> Any:
    from dataclasses import replace

    return replace(PROGRAMS[name], large=size)


def test_an_unknown_peer_is_refused(capsys: Any) -> None:
    assert command.main(["collatz", "--peers", "fortran"]) == 2
    assert "no peer fortran" in capsys.readouterr().err
    assert sys.executable == PEERS["jax"].interpreter
