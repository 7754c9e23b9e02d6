"""Rules and schedules of users: offered, measured, checked, logged, and reused without the rule."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path

import loopwright as lw
import numpy as np
import pytest
from loopwright.autotune.log.tuning_log import TuningLog
from loopwright.autotune.measure.kernels import task_of
from loopwright.autotune.protocols import Candidate
from loopwright.autotune.record import Check, MeasureRecord
from loopwright.autotune.selection.select import choose_schedule
from loopwright.autotune.space.rules import user
from loopwright.autotune.space.space import ScheduleSpace
from loopwright.codegen.target import Target
from loopwright.ir.dims import as_int, symbol
from loopwright.ir.dtype import FLOAT32
from loopwright.ir.errors import LoopwrightValueError, ScheduleError
from loopwright.ir.loop.expr import const, op, read
from loopwright.ir.loop.prim import Axis, Buffer, PrimFunc, Stage
from loopwright.ir.schedule.apply import apply_schedule
from loopwright.schedule import Schedule, split, unroll, vectorize

from bench.one_task import tune_one

TARGET = Target.host()


def doubling(size: int = 1024) -> PrimFunc:
    """out[i] = x0[i] * 2."""
    body = op("multiply", read("x0", (symbol("i"),), FLOAT32), const(2.0, FLOAT32))
    stage = Stage(Buffer("out", (size,), FLOAT32), (Axis("i", size),), body)
    return PrimFunc("double", (Buffer("x0", (size,), FLOAT32),), ("out",), (stage,))


def staircase(prim: PrimFunc, target: Target) -> Iterator[lw.Sketch]:
    """Vectors of four lanes, some of them written out: by structure, for one map over one axis."""
    (stage,) = prim.stages
    if stage.combiner is not None or len(stage.axes) != 1:
        return
    size = as_int(stage.axes[0].extent)

    def build(times: int, wide: int) -> list[lw.schedule.Step]:
        if size % (4 * times * (wide + 1)):
            raise ScheduleError("a rest would stay")
        lanes = 4 * (wide + 1)
        return [split("i", (size // times // lanes, times, lanes)), unroll("i.1"), vectorize("i.2")]

    yield lw.Sketch("stairs", build, times=(2, 4, 7, 8), wide=(0, 1))


@pytest.fixture
def rule() -> Iterator[user.Rule]:
    yield lw.sketch_rule(staircase)
    user.forget(staircase)


class LikesStairs:
    """Measures four lanes, eight times written out, as twice as fast as anything else."""

    def __init__(self, task) -> None:
        self.task = task

    def measure(self, candidates, best_seconds):
        for index, candidate in enumerate(candidates):
            yield index, self.record(candidate)

    def race(self, candidates, rounds, cache="warm"):
        return [self.record(c) for c in candidates]

    def close(self) -> None:
        """Nothing is open."""

    def record(self, candidate: Candidate) -> MeasureRecord:
        liked = ["split", "i", [32, 8, 4]] in [list(step) for step in candidate.schedule]
        return MeasureRecord(
            self.task.workload,
            self.task.key,
            candidate.schedule,
            candidate.sketch,
            (1e-6 if liked else 2e-6,) * 3,
            checked=Check(0.0, 1e-6),
        )


def test_a_users_sketch_wins_and_is_reused_without_its_rule(rule: user.Rule) -> None:
    prim = doubling()
    task = task_of(prim, TARGET, 1)
    log = TuningLog()
    _, result = tune_one(task, LikesStairs(task), log, "60 trials")  # type: ignore[arg-type]
    assert result.best is not None and result.best.sketch == "user.staircase.stairs"
    assert result.after < 0.6 * result.before  # what the built-in rules like best came first
    assert any(not r.sketch.startswith("user.") for r in log)
    user.forget(rule)
    assert "user" not in str([v.name for v in ScheduleSpace(prim, TARGET).variants])
    chosen = choose_schedule(prim, TARGET, 1, [log])
    assert chosen.origin == "exact" and chosen.sketch == "user.staircase.stairs"
    assert chosen.schedule.to_json()[0] == ["split", "i", [32, 8, 4]]


def test_all_choices_of_a_users_sketch_are_rows(rule: user.Rule) -> None:
    space = ScheduleSpace(doubling(), TARGET)
    number = [v.name for v in space.variants].index("user.staircase.stairs")
    assert number == len(space.variants) - 1 and number > 0  # behind the built-in ones
    rows = space.sample(4000, np.random.default_rng(0))
    mine = np.unique(rows[rows[:, 0] == number], axis=0)
    schedules = {str(space.schedule(row)) for row in mine}
    assert len(mine) == len(schedules) == 6  # seven times leaves a rest
    for row in mine:
        schedule = space.schedule(row)
        apply_schedule(space.prim, schedule)
        back = space.row_of(schedule)
        assert back is not None and back.tolist() == row.tolist()
    assert np.isfinite(space.features(mine)).all()
    grown = space.mutate(np.repeat(mine, 50, axis=0), np.random.default_rng(1))
    assert space.valid(grown).all()
    assert any(row[0] == number for row in space.default())


def test_kernels_of_another_structure_are_left_alone(rule: user.Rule) -> None:
    body = op("add", read("x0", (symbol("i"), symbol("j")), FLOAT32), const(1.0, FLOAT32))
    stage = Stage(Buffer("out", (8, 8), FLOAT32), (Axis("i", 8), Axis("j", 8)), body)
    prim = PrimFunc("add", (Buffer("x0", (8, 8), FLOAT32),), ("out",), (stage,))
    assert all(not v.name.startswith("user") for v in ScheduleSpace(prim, TARGET).variants)


def test_a_rule_that_fails_is_a_warning() -> None:
    @lw.sketch_rule
    def broken(prim: PrimFunc, target: Target) -> Iterator[lw.Sketch]:
        yield lw.Sketch("none", lambda: [vectorize("nowhere")])

    try:
        with pytest.warns(
            RuntimeWarning, match=r"rule broken failed for double.*no loop 'nowhere'"
        ):
            space = ScheduleSpace(doubling(), TARGET)
        assert space.variants
        with warnings.catch_warnings():  # compiling asks for the first variant only
            warnings.simplefilter("error")
            choose_schedule(doubling(), TARGET, 1, [])
    finally:
        user.forget(broken)


def test_sketches_say_what_they_cannot_be() -> None:
    with pytest.raises(LoopwrightValueError, match=r"knob rows offers .*; it needs ints from 0 on"):
        lw.Sketch("s", lambda rows: [], rows=())
    many = lw.Sketch("s", lambda a, b: [], a=range(100), b=range(100))
    with pytest.raises(LoopwrightValueError, match=r"offers 10000 choices; 4096 are the most"):
        _ = many.defaults
    with pytest.raises(TypeError, match=r"takes a function"):
        lw.sketch_rule(3)  # type: ignore[arg-type]


def test_a_schedule_by_hand_is_checked_logged_and_used(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    x = np.arange(512, dtype=np.float32)

    @lw.compile(log=log, threads=1)
    def f(x):
        return np.sqrt(x) * 3

    mine = Schedule.of(split("i", (16, 2, 16)), unroll("i.1"), vectorize("i.2"))
    (kernel,) = f.lower(x).built.kernels
    f.tune(x, trials=2, schedules={kernel: mine})
    (record,) = [r for r in TuningLog(log) if r.sketch == "user" and not r.raced]
    assert record.ok and record.checked is not None
    assert record.schedule == tuple(mine.to_json())
    np.testing.assert_allclose(f(x), np.sqrt(x) * 3, rtol=1e-6)
    again = len(TuningLog(log))
    f.tune(x, trials=1, schedules={kernel: lambda prim: mine.to_json()})
    assert all(r.raced or r.sketch != "user" for r in TuningLog(log).records[again:])


def test_schedules_that_do_not_fit_are_errors_before_anything_is_measured(tmp_path: Path) -> None:
    f = lw.compile(lambda x: np.sqrt(x) * 3, log=tmp_path / "log")
    x = np.ones(64, np.float32)
    with pytest.raises(LoopwrightValueError, match=r"given for gemm, but the kernels are sqrt_"):
        f.tune(x, schedules={"gemm": []})
    (kernel,) = f.lower(x).built.kernels
    with pytest.raises(ScheduleError, match=rf"given for {kernel} is illegal: .*no loop 'z'"):
        f.tune(x, schedules={kernel: [vectorize("z")]})
    with pytest.raises(LoopwrightValueError, match=r"no strategy 'luck'; .*random, grid"):
        f.tune(x, strategy="luck")
    assert not (tmp_path / "log").exists()
