"""Random programs with control flow and state: ``control_run.py`` runs many more of them."""

from __future__ import annotations

import pytest
from control_ways import GRAPHS, Compiler, compilers, failure
from random_control import (
    Group,
    Program,
    Statement,
    draw_control,
    function_of,
    mistake,
    outcome,
    smaller,
)
from random_draw import RandomDraw

WAYS: dict[str, Compiler] = {**GRAPHS, **compilers(("host",), (1,))}


@pytest.mark.parametrize("first", range(0, 30, 10))
def test_random_programs(first: int) -> None:
    for seed in range(first, first + 10):
        program = draw_control(RandomDraw(seed))
        text = failure(program, WAYS)
        assert not text or text.startswith("refused"), f"seed {seed}: {text}\n{program}"


def test_programs_are_the_same_each_time_and_differ() -> None:
    texts = [str(draw_control(RandomDraw(seed))) for seed in range(30)]
    assert texts == [str(draw_control(RandomDraw(seed))) for seed in range(30)]
    assert len(set(texts)) == 30
    together = "\n".join(texts)
    for name in ("cond", "switch", "while_loop", "fori_loop", "scan", "map", "function"):
        assert f"lw.{name}" in together


def test_failing_programs_become_small() -> None:
    lines = ["v1 = a[1:]", "v2 = n + 1", "v1[0] = 7.0", "v3 = v2 * 2", "return (v1, v2, v3, )"]
    program = Program(Group([Statement([line]) for line in lines]), 0)

    def fails(candidate: Program) -> bool:
        return outcome(function_of(candidate), candidate)[-4][1] == 7.0  # what ``a`` is then

    assert fails(program)
    cut = str(smaller(program, fails)).splitlines()
    assert [line.strip() for line in cut[1:]] == ["v1 = a[1:]", "v1[0] = 7.0", "return ()"]


def test_mistakes_are_seen() -> None:
    program = draw_control(RandomDraw(1))
    expected = outcome(function_of(program), program)
    assert not mistake(expected, expected)
    assert "results" in mistake(expected[1:], expected)
    off = [value + 1 if value.dtype.kind == "f" else value for value in expected]
    assert "not" in mistake(off, expected)
