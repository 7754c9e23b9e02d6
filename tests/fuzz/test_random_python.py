"""Random Python programs finish with Python's results, or are refused (``python_run``)."""

from __future__ import annotations

import random

import pytest
from control_ways import ISAS, compilers
from python_program import verdict
from random_draw import RandomDraw
from random_python import draw_python

WAYS = compilers(ISAS, (1, 2))
FIRST = random.Random("programs").randrange(1 << 30)


@pytest.mark.parametrize("way", WAYS)
def test_programs(way: str) -> None:
    for seed in range(FIRST, FIRST + 8):
        program = draw_python(RandomDraw(seed))
        kind, text = verdict(program, WAYS[way])
        assert kind not in ("wrong", "generator"), f"seed {seed}, {way}: {text}\n{program}"
