from __future__ import annotations

import pytest
from loopwright.autotune.budget import Budget, BudgetClock, parse_budget


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("30s", Budget(30.0)),
        ("2m", Budget(120.0)),
        ("1m30s", Budget(90.0)),
        ("500ms", Budget(0.5)),
        ("1.5h", Budget(5400.0)),
        (20, Budget(20.0)),
        (0.25, Budget(0.25)),
        ("12", Budget(12.0)),
        ("200 trials", Budget(None, 200)),
        ("30s, 200 trials", Budget(30.0, 200)),
        (Budget(1.0, 2), Budget(1.0, 2)),
        ("quick", Budget(quick=True)),
    ],
)
def test_budgets_are_understood(written: object, meant: Budget) -> None:
    assert parse_budget(written) == meant
    assert parse_budget(str(meant)) == meant


@pytest.mark.parametrize("written", ["soon", "30 parsecs", "", "1.5 trials", "3s4", True])
def test_what_is_not_understood_says_what_would_be(written: object) -> None:
    with pytest.raises(ValueError, match="is not understood; write seconds"):
        parse_budget(written)


@pytest.mark.parametrize("written", ["0s", 0, -3, "0 trials", float("inf")])
def test_a_budget_is_more_than_nothing(written: object) -> None:
    with pytest.raises(ValueError, match="more than nothing"):
        parse_budget(written)


def test_the_clock_tells_what_is_left() -> None:
    now = [100.0]
    clock = BudgetClock(Budget(10.0, 4), now=lambda: now[0])
    assert clock.seconds_left == 10.0
    assert clock.trials_left == 4
    now[0] = 104.0
    clock.trials = 2
    assert clock.elapsed == 4.0
    assert clock.expected_seconds_left == 4.0  # two more trials at two seconds each
    assert not clock.spent
    clock.trials = 4
    assert clock.spent
    now[0] = 111.0
    assert clock.seconds_left == 0.0
