"""Two builds called in turn by the program itself."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest
from loopwright.background.trial import Trial


class Clock:
    """Time that goes on only where a build says it took some."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def build(self, name: str, seconds: float, calls: list[str]) -> Any:
        def run(*arrays: Any) -> Any:
            if arrays == ("foreign",):
                return None
            calls.append(name)
            self.now += seconds
            return [name]

        return run


def make(old: float, new: float) -> tuple[Trial, list[str], list[tuple[bool, float, float]]]:
    clock, calls, decisions = Clock(), list[str](), list[tuple[bool, float, float]]()
    trial = Trial(
        clock.build("old", old, calls),
        clock.build("new", new, calls),
        lambda arrays: [],
        lambda *decision: decisions.append(decision),
        clock,
    )
    return trial, calls, decisions


def test_both_builds_are_called_in_turn_until_the_faster_one_is_known() -> None:
    trial, calls, decisions = make(1e-3, 0.9e-3)
    while not decisions:
        trial.direct()
    assert calls[:8] == ["old", "new", "new", "old"] * 2
    assert decisions == [(True, pytest.approx(1e-3), pytest.approx(0.9e-3))]
    assert abs(calls.count("old") - calls.count("new")) <= 2
    trial.direct()
    assert calls[-1] == "new"
    assert len(decisions) == 1


def test_a_slower_build_loses() -> None:
    trial, calls, decisions = make(1e-3, 1.05e-3)
    while not decisions:
        trial.direct()
    assert not decisions[0][0]
    trial.direct()
    assert calls[-1] == "old"


def test_a_much_slower_build_is_called_a_few_times_only() -> None:
    trial, calls, decisions = make(1e-3, 2e-3)
    while not decisions:
        trial.direct()
    assert not decisions[0][0]
    assert calls.count("new") <= 6


def test_long_calls_are_decided_after_few_and_short_ones_after_many() -> None:
    long, calls_of_long, decided = make(1.0, 0.5)
    while not decided:
        long.direct()
    assert len(calls_of_long) < 24
    short, calls_of_short, decided = make(1e-6, 0.5e-6)
    while not decided:
        short.direct()
    assert len(calls_of_short) > 400


def test_arguments_of_another_kind_do_not_count() -> None:
    trial, calls, _ = make(1.0, 1.0)
    assert [trial.direct("foreign") for _ in range(50)] == [None] * 50
    assert trial.calls == 0
    assert calls == []


def test_many_threads_get_results_and_one_decision() -> None:
    decisions: list[bool] = []
    results = np.zeros(1)
    trial = Trial(
        lambda *a: [results], lambda *a: [results], list, lambda won, *_: decisions.append(won)
    )
    answers: list[Any] = []

    def serve() -> None:
        answers.extend(trial.direct() for _ in range(500))

    threads = [threading.Thread(target=serve) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(answers) == 2000
    assert all(answer[0] is results for answer in answers)
    assert len(decisions) == 1
