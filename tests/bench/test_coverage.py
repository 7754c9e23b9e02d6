"""The bars of ``bench.coverage``."""

from __future__ import annotations

from dataclasses import replace

from loopwright.autotune.budget import Budget
from loopwright.autotune.program.in_program import TriedChoice
from loopwright.autotune.program.program_tuner import ProgramResult, TaskResult
from planted_kernels import make_task

from bench.coverage import missed


def test_what_was_not_tried_misses_a_bar() -> None:
    task = replace(make_task(), seconds=1e-3)
    tried = TaskResult(task, None, 1e-3, 1e-3, 5, {})
    choice = TriedChoice("algorithm direct: nn.conv2d", 0.02, -0.01)
    good = ProgramResult(
        (tried,), 10.0, Budget(10.0), "budget", tried=(choice,), spent={"start": 2.0, "search": 7.0}
    )
    assert missed(good, 10.0, 9.8) == []
    assert "time: start 2.0 s (22%), search 7.0 s (78%)" in str(good)
    untried = replace(good, tasks=(replace(tried, trials=0),))
    assert missed(untried, 10.0, 9.8) == [f"{task.name}: 100.0% of the time, not tried"]
    (line,) = missed(replace(good, tried=(replace(choice, measured=None),)), 10.0, 9.8)
    assert line.endswith("expected up to +2.0 %, no time")
    slow = replace(good, spent={"search": 5.0})
    assert missed(slow, 10.0, 11.0) == [
        "the search had 50% of the budget",
        "11.0 s instead of 10 s",
    ]
