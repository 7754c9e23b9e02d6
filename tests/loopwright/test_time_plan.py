"""Tuning a program ends when its budget does, whatever its parts take."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from loopwright.autotune.budget import Budget, BudgetClock
from loopwright.tuning import interleaved
from loopwright.tuning.time_plan import SHARES, TimePlan


class Clock:
    """Seconds that pass when somebody says so."""

    def __init__(self) -> None:
        self.seconds = 100.0

    def __call__(self) -> float:
        return self.seconds

    def run(self, seconds: float) -> None:
        self.seconds += seconds


def session(total: float, start: float, call: float, build: float, turn: float) -> float:
    """When a simulated session ends: every part takes what it was given, and what it needs."""
    clock = Clock()
    plan = TimePlan(Budget(total, spent=0.0), clock.seconds, clock)
    clock.run(start)
    clock.run(build)
    plan.build, plan.call = build, call
    clock.run(plan.graph + build)  # a batch that was begun in time ends a build late
    budget = plan.search
    search = BudgetClock(budget, clock)
    while not search.spent:
        clock.run(turn)
    clock.run(plan.comparison)
    clock.run(SHARES.last_calls * call + SHARES.last_builds * build)
    return plan.elapsed


@settings(max_examples=200, deadline=None)
@given(
    st.sampled_from((20.0, 60.0, 300.0)),
    st.floats(0.3, 5.0),
    st.floats(1e-5, 0.1),
    st.floats(0.05, 1.0),
    st.floats(0.1, 1.5),
)
def test_a_session_ends_in_time(
    total: float, start: float, call: float, build: float, turn: float
) -> None:
    ended = session(total, start, call, build, turn)
    assert total - 5.0 <= ended <= total + 5.0


def test_the_search_gets_most_of_the_time() -> None:
    clock = Clock()
    plan = TimePlan(Budget(60.0), clock.seconds, clock, call=1e-3, build=0.2)
    clock.run(1.0)
    assert 0.0 < plan.graph <= 0.2 * 60
    clock.run(plan.graph)
    budget = plan.search
    assert budget.seconds is not None and budget.seconds > 0.7 * 60


def test_slow_programs_leave_time_for_the_search() -> None:
    clock = Clock()
    plan = TimePlan(Budget(60.0), clock.seconds, clock, call=5.0, build=2.0)
    assert plan.kept_back == SHARES.kept_back * 60
    clock.run(59.0)
    budget = plan.search
    assert budget.seconds == pytest.approx(6.0)  # something is tried, however late it is


def test_choices_leave_the_search_its_share() -> None:
    clock = Clock()
    plan = TimePlan(Budget(60.0), clock.seconds, clock, call=0.05, build=4.0)
    clock.run(8.0)
    assert plan.graph == pytest.approx((1 - SHARES.search) * 60 - 8.0 - plan.kept_back)
    clock.run(plan.graph)
    assert plan.search.seconds == pytest.approx(SHARES.search * 60)
    clock.run(30.0)
    assert plan.graph == 0.0


def test_a_choice_that_takes_longer_than_its_share_is_not_begun() -> None:
    clock = Clock()
    plan = TimePlan(Budget(6.0), clock.seconds, clock, call=0.15, build=0.3)
    assert plan.graph == 0.0
    plan.call, plan.build = 0.01, 0.1
    assert plan.graph == pytest.approx(0.2 * 6)
    clock.run(5.0)
    assert plan.fits(calls=50, builds=5) and not plan.fits(calls=60, builds=5)


def test_new_processes_have_a_share_of_a_budget_in_seconds() -> None:
    clock = Clock()
    plan = TimePlan(Budget(60.0), clock.seconds, clock, call=1e-3, build=0.2)
    without = plan.kept_back
    assert not plan.affords_fresh
    plan.fresh = 5.0
    assert plan.affords_fresh and plan.kept_back == pytest.approx(without + 5.0)
    plan.fresh = 7.0
    assert not plan.affords_fresh and plan.kept_back == without
    assert not TimePlan(Budget(trials=100), 0.0, Clock(), fresh=1.0).affords_fresh


def test_without_a_limit_in_seconds_nothing_is_infinite() -> None:
    plan = TimePlan(Budget(trials=100), 0.0, Clock())
    assert plan.search == Budget(trials=100)
    assert np.isfinite([plan.graph, plan.comparison]).all()


def test_what_was_spent_before_counts() -> None:
    clock = Clock()
    assert BudgetClock(Budget(60.0, spent=7.0), clock).seconds_left == pytest.approx(53.0)


def test_long_rounds_are_fewer(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr(interleaved.time, "perf_counter", clock)

    def rounds(took: float, seconds: float) -> int:
        first, second = interleaved._interleaved([lambda: clock.run(took / 2)] * 2, seconds)
        assert len(first) == len(second)
        return len(first)

    assert rounds(1e-3, 0.0) == interleaved.LEAST_ROUNDS
    assert rounds(1.0, 0.0) == interleaved.FEWEST_ROUNDS
    assert rounds(1.0, 9.5) == 10
    assert rounds(1e-3, 60.0) == interleaved.MOST_ROUNDS
