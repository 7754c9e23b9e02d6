"""Programs with control flow: run by Python, they give what plain loops give."""

from __future__ import annotations

import pytest

from bench.loops.program import PROGRAMS, mistake
from bench.loops.programs import linear, recursion, scalars, sequences, simulation, tables

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
