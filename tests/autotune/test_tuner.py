from __future__ import annotations

import io
import math
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import planted_kernels as planted
import pytest
from loopwright.autotune.budget import Budget, BudgetClock, parse_budget
from loopwright.autotune.log.log_file import LogError
from loopwright.autotune.log.lookup import best_of
from loopwright.autotune.log.tuning_log import TuningLog
from loopwright.autotune.measure.measurer import NativeMeasurer
from loopwright.autotune.program.program_tuner import ProgramResult
from loopwright.autotune.progress import Lines, Live, Silent, make_progress
from loopwright.autotune.record import MeasureRecord
from loopwright.autotune.settings import DEFAULT_SETTINGS

from bench.one_task import tune_one
from bench.standins import SyntheticMeasurer, SyntheticSpace, synthetic_task

TASK = synthetic_task()


def run(log: TuningLog, budget: str = "120 trials", **options: object) -> ProgramResult:
    measurer = options.pop("measurer", None) or SyntheticMeasurer(TASK)
    return tune_one(TASK, measurer, log, budget, **options)[0]  # type: ignore[arg-type]


def best(result: ProgramResult) -> MeasureRecord:
    record = result.tasks[0].best
    assert record is not None
    return record


def test_tuning_finds_fast_schedules() -> None:
    log = TuningLog()
    result = run(log, "300 trials", settings=replace(DEFAULT_SETTINGS, least_gain=0.0))
    assert result.stopped == "budget" and result.trials == 300
    assert best(result).raced
    assert result.after < 0.6 * result.before
    sampled = SyntheticSpace().sample(20_000, np.random.default_rng(9))
    assert (SyntheticSpace().seconds(sampled) < 0.98 * result.after).mean() < 0.001
    assert result.model_failure is None
    assert result.quality is not None and result.quality.pairwise > 0.55
    assert [h[1] for h in result.history] == sorted((h[1] for h in result.history), reverse=True)
    logged = best_of([log], TASK.workload.hash, TASK.key)
    assert logged is not None and logged[1] is best(result)


def test_a_guided_search_beats_a_random_one() -> None:
    def after(strategy: str) -> float:
        runs = [run(TuningLog(), "160 trials", strategy=strategy, seed=s) for s in range(3)]
        return float(np.median([r.after for r in runs]))

    assert after("guided") < after("random")


def test_a_second_run_goes_on_from_the_log(tmp_path: Path) -> None:
    whole = replace(DEFAULT_SETTINGS, least_gain=0.0)  # the budget is spent to the end
    first = run(TuningLog(tmp_path / "log"), "100 trials", settings=whole)
    log = TuningLog(tmp_path / "log")
    second = run(log, "60 trials", seed=1, settings=whole)
    assert second.after <= first.after * 1.05
    assert second.before == pytest.approx(first.before, rel=0.05)
    tried = [r.schedule_key for r in log if not r.raced]
    assert len(tried) == len(set(tried)) == 160


def test_failures_are_counted_and_never_win() -> None:
    def fault(row: tuple[int, ...]) -> str | None:
        return {0: "wrong_result", 1: "timeout"}.get(row[7] if row[6] == 0 else 9)

    log = TuningLog()
    result = run(log, measurer=SyntheticMeasurer(TASK, fault=fault))
    assert set(result.errors) == {"wrong_result", "timeout"}
    assert fault(tuple(best(result).schedule[0][1])) is None
    everything = run(TuningLog(), measurer=SyntheticMeasurer(TASK, fault=lambda row: "crash"))
    assert everything.tasks[0].best is None and everything.tasks[0].after == math.inf
    assert everything.errors == {"crash": 120}


def test_suggestions_are_measured_right_after_the_favourite() -> None:
    """A budget too short for more leaves the favourite, not a guess, in the log."""
    row = SyntheticSpace().sample(1, np.random.default_rng(3))[0]
    log = TuningLog()
    run(log, "20 trials", suggestions={TASK.workload.hash: [row]})
    favourite = SyntheticSpace().default()[0].tolist()
    first = [record.schedule for record in log.records[:2]]
    assert first == [(["tile", favourite],), (["tile", row.tolist()],)]


def test_a_small_space_is_exhausted() -> None:
    class Tiny(SyntheticSpace):
        def sample(self, n: int, rng: np.random.Generator) -> np.ndarray:
            return np.repeat(self.default()[:1], min(n, 3), 0)

    task = replace(TASK, space=Tiny())
    result, _ = tune_one(task, SyntheticMeasurer(task), TuningLog(), "1h")
    assert result.stopped == "exhausted" and result.trials == 2


class Interrupting(SyntheticMeasurer):
    """Sends itself a signal while it measures candidate number ``at``."""

    def __init__(self, at: int, number: int) -> None:
        super().__init__(TASK)
        self.at, self.number = at, number

    def measure(self, candidates, best_seconds):
        for entry in super().measure(candidates, best_seconds):
            if self.count == self.at:
                os.kill(os.getpid(), self.number)
            yield entry


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_keeps_everything(number: int, tmp_path: Path) -> None:
    log = TuningLog(tmp_path / "log")
    before = signal.getsignal(signal.SIGTERM)
    result = run(log, "1h", measurer=Interrupting(40, number))
    assert result.stopped == "interrupted"
    assert best(result).ok and result.trials in (39, 40)
    assert len(TuningLog(tmp_path / "log")) >= 39
    assert signal.getsignal(signal.SIGTERM) == before


def test_tuning_works_in_a_thread() -> None:
    results: list[ProgramResult] = []
    thread = threading.Thread(target=lambda: results.append(run(TuningLog(), "30 trials")))
    thread.start()
    thread.join()
    assert results[0].stopped == "budget"


def test_a_full_disk_ends_tuning_and_costs_nothing(tmp_path: Path) -> None:
    class Full(TuningLog):
        def _write(self, data: bytes) -> None:
            if len(self) >= 30:
                raise LogError(self.path, "No space left on device")
            super()._write(data)

    result = run(Full(tmp_path / "log"), "1h")
    assert result.stopped.startswith(f"tuning log {tmp_path / 'log'}: No space left on device")
    assert best(result).ok
    assert len(TuningLog(tmp_path / "log")) == 30


def test_a_log_that_cannot_be_written_is_an_error_before_tuning() -> None:
    log = TuningLog()
    log.path = Path("/proc/no/such/log")
    measurer = SyntheticMeasurer(TASK)
    with pytest.raises(LogError):
        run(log, measurer=measurer)
    assert measurer.count == 0


def test_a_budget_in_seconds_is_kept() -> None:
    now = 0.0

    class Slow(SyntheticMeasurer):
        def measure(self, candidates, best_seconds):
            nonlocal now
            for entry in super().measure(candidates, best_seconds):
                now += 0.02
                yield entry

    clock = BudgetClock(parse_budget("1s"), lambda: now)
    result = run(TuningLog(), measurer=Slow(TASK), clock=clock)
    assert result.stopped == "budget"
    assert 0.8 < now < 1.2
    assert 10 < result.trials <= 50


PROGRAM = textwrap.dedent(
    """
    import sys, time
    from dataclasses import replace
    from loopwright.autotune.model.cost_model import LinearModel
    from loopwright.autotune.log.tuning_log import TuningLog
    from loopwright.autotune.settings import DEFAULT_SETTINGS
    from bench.one_task import tune_one
    from bench.standins import SyntheticMeasurer, synthetic_task
    class Told(TuningLog):
        def append(self, records):
            super().append(records)
            print(len(self), flush=True)
            time.sleep(0.002)
    task = synthetic_task()
    tune_one(task, SyntheticMeasurer(task, seed=int(sys.argv[2])), Told(sys.argv[1]),
             sys.argv[3], seed=int(sys.argv[2]), strategy="random", model=LinearModel(),
             settings=replace(DEFAULT_SETTINGS, least_gain=0.0))
    """
)


def start(path: Path, seed: int, budget: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(path), str(seed), budget],
        stdout=subprocess.PIPE,
        text=True,
    )


def test_kill_9_at_random_moments_loses_nothing_acknowledged(tmp_path: Path) -> None:
    path = tmp_path / "log"
    rng = np.random.default_rng(11)
    acknowledged = 0
    for seed in range(8):
        tuner = start(path, seed, "1h")
        assert tuner.stdout is not None
        acknowledged = int(tuner.stdout.readline())
        time.sleep(float(rng.random()) * 0.15)
        tuner.kill()
        rest = tuner.communicate()[0].split("\n")
        told = [int(line) for line in rest[:-1] if line]
        acknowledged = told[-1] if told else acknowledged
        log = TuningLog(path)
        assert len(log) >= acknowledged
        assert log.skipped.total == 0
    before = TuningLog(path)
    result = run(TuningLog(path), "32 trials")
    assert best(result).ok
    assert {r.schedule_key for r in before} < {r.schedule_key for r in TuningLog(path)}


def test_two_tuners_on_one_log(tmp_path: Path) -> None:
    path = tmp_path / "log"
    tuners = [start(path, seed, "80 trials") for seed in (1, 2)]
    for tuner in tuners:
        tuner.communicate()
        assert tuner.returncode == 0
    log = TuningLog(path)
    assert log.skipped.total == 0
    assert len([r for r in log if not r.raced]) == 160


def test_tuning_with_real_processes(tmp_path: Path) -> None:
    class PlantedSpace(SyntheticSpace):
        """Rows are planted kernels: the first knob chooses good or bad, the second the delay."""

        def schedule(self, row: np.ndarray):
            kinds = ["good", "good", "good", "good", "wrong", "write_after", "segfault"]
            kind = kinds[row[0] % len(kinds)]
            return _Plain([["plant", kind, int(1 + 500 * row[1] + row[2])]])

    task = replace(planted.make_task(), space=_without_rows(PlantedSpace()), parse=list)
    settings = replace(DEFAULT_SETTINGS, least_timeout=60.0, first_timeout=60.0, least_gain=0.0)
    with NativeMeasurer(task, planted.TOOLCHAIN, settings) as measurer:
        log = TuningLog(tmp_path / "log")
        result, _ = tune_one(task, measurer, log, Budget(trials=60), settings=settings)
    assert result.trials == 60
    assert best(result).schedule[0][1] == "good"
    assert set(result.errors) <= {"wrong_result", "out_of_bounds", "crash"}
    assert result.errors
    assert len(TuningLog(tmp_path / "log")) >= 60


class _Plain:
    def __init__(self, data: list[object]) -> None:
        self.data = data

    def to_json(self) -> list[object]:
        return self.data


def _without_rows(space: SyntheticSpace) -> SyntheticSpace:
    space.row_of = lambda schedule: None  # type: ignore[method-assign]
    return space


def test_progress_shows_best_rate_and_time_left() -> None:
    stream = io.StringIO()
    run(TuningLog(), "40 trials", progress=Lines(stream, every=0.0))
    lines = stream.getvalue().splitlines()
    assert len(lines) == 40
    assert lines[-1].startswith("matmul  ")
    assert " us  " in lines[-1] and "GFLOP/s  40 tried" in lines[-1]
    assert lines[-1].endswith("00:00 left")


def test_a_terminal_gets_a_live_table() -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    stream = Terminal()
    assert isinstance(make_progress(stream), Live)
    assert isinstance(make_progress(io.StringIO()), Lines)
    assert isinstance(make_progress(stream, quiet=True), Silent)
    run(TuningLog(), "80 trials", progress=make_progress(stream))
    text = stream.getvalue()
    assert "matmul" in text and "of peak" in text
    assert "\r" in text and "\x1b[A" in text  # drawn again in its place
