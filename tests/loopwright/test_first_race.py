"""Schedules of near shapes beside the default one, raced at their first use."""

from __future__ import annotations

from pathlib import Path

import loopwright as lw
import numpy as np
import pytest
from loopwright.autotune.log.tuning_log import TuningLog
from loopwright.autotune.measure.kernels import task_of
from loopwright.autotune.record import MeasureRecord, target_key
from loopwright.autotune.workload import workload_of
from loopwright.driver import kernels
from loopwright.ir.schedule.steps import Schedule

HERE, NEAR = np.ones((64, 96), np.float32), np.ones((64, 112), np.float32)


def scaled(x: object) -> object:
    return np.exp(x) * 3  # type: ignore[call-overload]


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A log in which plain loops of the near shape are twice as fast as its default schedule."""
    monkeypatch.setenv("LOOPWRIGHT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("LOOPWRIGHT_CACHE_SIZE", "16")
    monkeypatch.setattr(kernels, "_kernels", type(kernels._kernels)())
    parts = lw.compile(scaled, threads=1).lower(NEAR).built.parts
    assert parts is not None
    ((_, prim),) = parts.prims.items()
    space = task_of(prim, parts.target, 1).space
    default = space.default()[0]
    rng = np.random.default_rng(0)
    others = (space.schedule(row) for row in space.sample(64, rng))
    other = next(s for s in others if s != space.schedule(default))
    key = target_key(parts.target, 1)
    steps = ((space.schedule(default), 2e-6), (other, 1e-6))
    path = tmp_path / "near.jsonl"
    TuningLog(path).append(
        MeasureRecord(workload_of(prim), key, tuple(s.to_json()), "", (seconds,))
        for s, seconds in steps
    )
    return path


def chosen(log: Path, **options: object) -> kernels.Chosen:
    built = lw.compile(scaled, log=log, threads=1, **options).lower(HERE).built  # type: ignore[arg-type]
    return next(iter(built.chosen.values()))


def raced(monkeypatch: pytest.MonkeyPatch, *gains: float) -> list[int]:
    """Lets races end so; returns a list that counts them."""
    races: list[int] = []

    def race(subjects: object, threads: int) -> list[float]:
        races.append(threads)
        return list(gains)

    monkeypatch.setattr(kernels, "race", race)
    return races


def test_the_faster_one_is_taken_and_remembered(log, monkeypatch) -> None:
    races = raced(monkeypatch, 1.0, 1.4)
    first, again = chosen(log), chosen(log)
    assert first == again and (first.origin, first.gain) == ("near", 1.4)
    assert races == [1]


def test_the_summary_says_what_was_taken(log, monkeypatch) -> None:
    raced(monkeypatch, 1.0, 1.4)
    summary = lw.compile(scaled, log=log, threads=1).lower(HERE).built.summary
    assert summary.startswith("1 kernel: 1 fitted from a near shape; ")
    assert summary.endswith("; fitted ones at 1.40 to 1.40x the default's speed")


def test_a_slower_one_is_passed_over(log, monkeypatch) -> None:
    raced(monkeypatch, 1.0, 0.7)
    way = chosen(log)
    assert way.origin == "rules"
    assert way.passed == ("a record of a near shape is 0.70x the default's speed",)


def test_what_takes_too_long_to_race_is_taken_for_its_records(log, monkeypatch) -> None:
    raced(monkeypatch)
    assert chosen(log).origin == "near"


def test_never_measures_nothing(log, monkeypatch) -> None:
    races = raced(monkeypatch, 1.0, 0.7)
    assert chosen(log, measure="never").origin == "near"
    monkeypatch.setenv("LOOPWRIGHT_MEASURE", "never")
    assert chosen(log).origin == "near" and not races
    with pytest.raises(TypeError, match="measure is auto or never, not 'now'"):
        lw.compile(scaled, measure="now")  # type: ignore[call-overload]


def test_a_race_times_the_code_of_each(log) -> None:
    """Nobody says how it ends here: both are run, on the same operands."""
    gains: list[list[float]] = []
    real = kernels.race

    def race(subjects, threads):
        gains.append(real(subjects, threads))
        return gains[-1]

    kernels.race = race
    try:
        way = chosen(log)
    finally:
        kernels.race = real
    ((default, other),) = gains
    assert default == 1.0 and 0.0 < other < 100.0
    assert way.origin == ("near" if other > 1.0 else "rules") and way.schedule != Schedule()
