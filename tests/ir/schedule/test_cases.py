"""Schedules for ranges of a size: which one is picked, and their data."""

from __future__ import annotations

import pytest
from loopwright.ir.dims import size, size_symbols
from loopwright.ir.errors import ScheduleError
from loopwright.ir.schedule.cases import Cases, Interval
from loopwright.ir.schedule.steps import Schedule, parallel, vectorize

N = size("n", 0, 100)
ONE, SOME, MANY = Schedule(), Schedule.of(vectorize("i")), Schedule.of(parallel("i"))
CASES = Cases(2 * N, ((2, ONE), (40, SOME)), MANY)


def test_picks_by_comparison():
    picked = [CASES.pick(value) for value in (0, 2, 3, 40, 41)]
    assert picked == [ONE, ONE, SOME, SOME, MANY]
    assert CASES.schedules == (ONE, SOME, MANY)


def test_intervals_leave_out_values_that_no_size_has():
    assert list(CASES.intervals()) == [
        Interval(0, 2, ONE),
        Interval(3, 40, SOME),
        Interval(41, 200, MANY),
    ]
    narrow = Cases(size("n", 3, 40), ((2, ONE), (40, SOME)), MANY)
    assert list(narrow.intervals()) == [Interval(3, 40, SOME)]


def test_json_reads_back():
    data = CASES.to_json()
    assert data["size"] == "2 * n"
    assert Cases.from_json(data, size_symbols(N)) == CASES


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"size": "2 * m"}, "2 * m is not a size of n"),
        ({"size": "n +"}, "size 'n +': ends too early"),
        ({"size": 3}, "is not a schedule for a range of sizes"),
        ({"cases": [[1]]}, "[1] is not a case of a schedule"),
        ({"cases": [[True, []]]}, "is not a case of a schedule"),
        ({"cases": [[9, []], [8, []]]}, "cases are sorted by their greatest sizes, not [9, 8]"),
        ({"otherwise": None}, "a schedule is a list of steps, not NoneType"),
    ],
)
def test_data_that_is_no_schedule(change, message):
    with pytest.raises(ScheduleError) as caught:
        Cases.from_json({**CASES.to_json(), **change}, size_symbols(N))
    assert message in str(caught.value)
