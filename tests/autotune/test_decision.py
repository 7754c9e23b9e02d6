"""Decisions in the log: written, read, skipped by old readers, and heeded by every reader."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from loopwright.autotune.comparison import compare
from loopwright.autotune.log.decision import Decision, Option
from loopwright.autotune.log.lookup import best_of
from loopwright.autotune.log.note import entry_of
from loopwright.autotune.log.tuning_log import TuningLog
from loopwright.autotune.logtool.tools import best, list_records, merge, prune, verify
from loopwright.autotune.record import MeasureRecord, TargetKey, Workload
from loopwright.autotune.record_line import FutureRecordError, RecordError

WORK = Workload("9f1c", "take float32 i=1024", "prim (float32[1024])")
HERE = TargetKey("x86-64-v4", "cpu", 2, 1, 1 << 15, 1 << 20, 1 << 25)
OTHER = TargetKey("x86-64-v4", "another", 8, 1, 1 << 15, 1 << 20, 1 << 25)


def run(factor: int, seconds: float, target: TargetKey = HERE) -> MeasureRecord:
    return MeasureRecord(WORK, target, (("split", "i", factor),), "map/1", (seconds,) * 3)


def decided(options: dict[int, float], taken: int, target: TargetKey = HERE) -> Decision:
    made = tuple(Option("map/1", (s,) * 3, (("split", "i", f),)) for f, s in options.items())
    return Decision("schedule", WORK, target, made, list(options).index(taken), "main 12ab")


def winner(log: TuningLog, target: TargetKey = HERE) -> int:
    found = best_of([log], WORK.hash, target)
    assert found is not None
    return found[1].schedule[0][2]


def test_a_decision_comes_back_from_its_line() -> None:
    one = decided({8: 2e-4, 16: 5e-4}, 8)
    again = Decision.from_json(one.to_json())
    assert again.to_json() == one.to_json()
    assert again.winner.key == one.winner.key and again.losers[0].cost == 5e-4
    assert isinstance(entry_of(one.to_json()), Decision)


def test_readers_of_version_1_see_a_line_of_the_future() -> None:
    with pytest.raises(FutureRecordError):
        MeasureRecord.from_json(decided({8: 1e-4, 16: 1e-4}, 8).to_json())


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"options": []}, "options"),
        ({"taken": 2}, "taken"),
        ({"taken": True}, "taken"),
        ({"program": 3}, "program"),
        ({"options": [{"name": "a", "seconds": [1.0]}]}, "schedule"),
        ({"options": [{"name": "a", "seconds": [-1.0], "schedule": []}]}, "time"),
        ({"options": [{"name": "a", "seconds": [], "schedule": []}]}, "never measured"),
        ({"target": 1}, "target"),
    ],
)
def test_damaged_decisions_are_no_decisions(change: dict, error: str) -> None:
    data = {**json.loads(decided({8: 1e-4, 16: 1e-4}, 8).to_json()), "taken": 0, **change}
    with pytest.raises(RecordError, match=error):
        entry_of(json.dumps(data))


def test_what_a_later_version_decides_is_kept_for_it(tmp_path: Path) -> None:
    path = tmp_path / "log"
    data = json.loads(decided({8: 1e-4, 16: 1e-4}, 8).to_json())
    path.write_text(json.dumps({**data, "about": "weather"}) + "\n" + run(8, 1e-4).to_json() + "\n")
    log = TuningLog(path)
    assert (len(log), len(log.decisions), log.skipped.future) == (1, 0, 1)
    assert prune(path, keep=1).kept == 2


def test_what_lost_in_a_program_is_held_back(tmp_path: Path) -> None:
    log = TuningLog(tmp_path / "log")
    log.append([run(8, 3e-4), run(16, 2e-4), run(32, 2.5e-4)])
    assert winner(log) == 16
    log.append(decided({8: 2e-4, 16: 5e-4}, 8))
    # 32 is no faster alone than 16, which lost: nothing speaks for it either.
    assert winner(log) == winner(TuningLog(tmp_path / "log")) == 8
    assert [row.best_seconds for row in list_records(log)] == [3e-4]
    assert [r.schedule[0][2] for r in best(log)] == [8]


def test_what_is_faster_alone_may_try_again() -> None:
    log = TuningLog()
    log.append([run(8, 3e-4), run(16, 2e-4), decided({8: 2e-4, 16: 5e-4}, 8), run(64, 1e-4)])
    assert winner(log) == 64
    log.append(decided({8: 2e-4, 64: 3e-4}, 8))
    assert winner(log) == 8


def test_the_last_decision_counts() -> None:
    log = TuningLog()
    log.append([run(8, 3e-4), run(16, 2e-4)])
    log.append([decided({8: 2e-4, 16: 5e-4}, 8), decided({8: 2e-4, 16: 1e-4}, 16)])
    assert winner(log) == 16


def test_what_was_kept_is_known_without_a_run_of_its_own() -> None:
    log = TuningLog()
    log.append([run(16, 2e-4), decided({8: 2.1e-4, 16: 5e-4}, 8)])
    assert winner(log) == 8


def test_decisions_on_one_machine_are_not_those_on_another() -> None:
    log = TuningLog()
    log.append([run(8, 3e-4), run(16, 2e-4), run(8, 3e-4, OTHER), run(16, 2e-4, OTHER)])
    log.append(decided({8: 2e-4, 16: 5e-4}, 8))
    assert (winner(log), winner(log, OTHER)) == (8, 16)


def test_log_tools_keep_decisions(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    TuningLog(one).append([run(8, 3e-4), run(16, 2e-4), decided({8: 2e-4, 16: 5e-4}, 8)])
    assert verify(one).good == 1  # runs that were never checked are complained of
    assert merge([one], other).added == 3 and merge([one], other).duplicates == 3
    assert prune(other, keep=1).kept == 2
    assert [r.schedule[0][2] for r in TuningLog(other)] == [8]
    assert winner(TuningLog(other)) == 8


@pytest.mark.parametrize(
    ("before", "after", "sign"),
    [
        ([1.0, 1.1, 1.0, 1.0], [0.8, 0.9, 0.8, 0.8], 1),
        ([0.8, 0.9, 0.8, 0.8], [1.0, 1.1, 1.0, 1.0], -1),
        ([1.0, 1.0, 1.0], [1.01, 1.01, 1.01], 0),  # within what measurements differ by
        ([1e-7, 1e-7], [1.15e-7, 1.15e-7], 0),  # within a tick of the clock
        ([1.0, 9.0, 9.0, 9.0, 1.0], [1.1, 2.0, 2.0, 2.0, 1.1], 0),  # the rounds do not agree
    ],
)
def test_what_counts_as_faster(before: list[float], after: list[float], sign: int) -> None:
    verdict = compare([before, after])
    assert verdict.faster - verdict.slower == sign
