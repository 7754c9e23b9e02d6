"""What can befall a tuner, each with its outcome: signals, disks, logs, clocks."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from loopwright.autotune.log.log_file import LogError
from loopwright.autotune.log.tuning_log import TuningLog
from loopwright.autotune.measure.worker_process import WorkerError
from loopwright.autotune.program.program_tuner import ProgramResult
from loopwright.autotune.settings import DEFAULT_SETTINGS

from bench.one_task import tune_one
from bench.standins import SyntheticMeasurer, synthetic_task

TASK = synthetic_task()
PROGRAM = textwrap.dedent(
    """
    import json, sys, time
    from loopwright.autotune.model.cost_model import LinearModel
    from loopwright.autotune.log.tuning_log import TuningLog
    from loopwright.autotune.progress import Live
    from bench.standins import SyntheticMeasurer, synthetic_task
    from bench.one_task import tune_one
    from loopwright.autotune.measure.worker_process import WorkerProcess

    class Slow(SyntheticMeasurer):
        def measure(self, candidates, best_seconds):
            for entry in super().measure(candidates, best_seconds):
                time.sleep(0.01)
                print(self.count, flush=True)
                yield entry
        def close(self):
            time.sleep(float(sys.argv[3]))

    worker = WorkerProcess()
    worker.start()
    print(worker.pid, flush=True)
    task = synthetic_task()
    measurer = Slow(task)
    result, _ = tune_one(task, measurer, TuningLog(sys.argv[1]), sys.argv[2], strategy="random",
                  model=LinearModel(), progress=Live(sys.stderr))
    try:
        measurer.close()
    finally:
        worker.close()
    print(json.dumps([result.stopped, result.trials, result.tasks[0].best is not None]), flush=True)
    """
)


class Running:
    """A tuner in a process of its own, with a worker."""

    def __init__(self, path: Path, budget: str = "1h", closing: float = 0.0) -> None:
        command = [sys.executable, "-c", PROGRAM, str(path), budget, str(closing)]
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert self.process.stdout is not None
        self.worker = int(self.process.stdout.readline())

    def after(self, trials: int) -> Running:
        assert self.process.stdout is not None
        while int(self.process.stdout.readline()) < trials:
            pass
        return self

    def end(self) -> tuple[list[object], int]:
        out, error = self.process.communicate(timeout=60)
        last = out.strip().splitlines()[-1:]
        assert self.process.returncode or not error.count("Traceback"), error
        found = json.loads(last[0]) if last and last[0].startswith("[") else []
        return found, self.process.returncode

    def worker_ended(self) -> bool:
        for _ in range(500):
            try:
                os.kill(self.worker, 0)
            except ProcessLookupError:
                return True
            time.sleep(0.01)
        return False


@contextmanager
def inherited(number: int, action: Any) -> Iterator[None]:
    """Processes that start within it begin with ``action`` for a signal."""
    before = signal.signal(number, action)
    try:
        yield
    finally:
        signal.signal(number, before)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_tuning_in_order(number: int, tmp_path: Path) -> None:
    default = signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL
    with inherited(number, default):  # the tests themselves may run under nohup
        run = Running(tmp_path / "log").after(20)
    run.process.send_signal(number)
    (stopped, trials, found), code = run.end()
    assert (stopped, found, code) == ("interrupted", True, 0)
    assert int(str(trials)) >= 19
    log = TuningLog(tmp_path / "log")
    assert len(log) >= int(str(trials)) and not log.skipped.total
    assert run.worker_ended()


def test_a_second_one_ends_it_at_once(tmp_path: Path) -> None:
    run = Running(tmp_path / "log", closing=100.0).after(10)
    run.process.send_signal(signal.SIGINT)
    time.sleep(0.3)
    run.process.send_signal(signal.SIGINT)
    started = time.monotonic()
    _, code = run.end()
    assert code != 0 and time.monotonic() - started < 20
    assert len(TuningLog(tmp_path / "log")) >= 9
    assert run.worker_ended()


def test_a_hang_up_is_ignored_under_nohup(tmp_path: Path) -> None:
    with inherited(signal.SIGHUP, signal.SIG_IGN):
        run = Running(tmp_path / "log", "40 trials").after(5)
    run.process.send_signal(signal.SIGHUP)
    assert run.end() == (["budget", 40, True], 0)


def test_a_new_size_of_the_terminal_and_a_pause_change_nothing(tmp_path: Path) -> None:
    run = Running(tmp_path / "log", "60 trials").after(5)
    for number in (signal.SIGWINCH, signal.SIGTSTP, signal.SIGCONT, signal.SIGWINCH):
        run.process.send_signal(number)
        time.sleep(0.05)
    assert run.end() == (["budget", 60, True], 0)


def test_workers_end_with_a_killed_tuner(tmp_path: Path) -> None:
    run = Running(tmp_path / "log").after(5)
    run.process.kill()
    run.end()
    assert run.worker_ended()


def tuned(log: TuningLog, measurer: SyntheticMeasurer, budget: str = "100 trials") -> ProgramResult:
    whole_budget = replace(DEFAULT_SETTINGS, least_gain=0.0)
    return tune_one(TASK, measurer, log, budget, strategy="random", settings=whole_budget)[0]


class At(SyntheticMeasurer):
    """Does something when so many candidates are measured."""

    def __init__(self, count: int, action: object) -> None:
        super().__init__(TASK)
        self.at, self.action = count, action

    def measure(self, candidates, best_seconds):
        for entry in super().measure(candidates, best_seconds):
            if self.count == self.at:
                self.action()
            yield entry


def test_a_disk_that_fills_up_ends_tuning_with_everything_kept(tmp_path: Path) -> None:
    path = tmp_path / "log"
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)

    def fill() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + 100, hard))

    try:
        result = tuned(TuningLog(path), At(30, fill))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert result.stopped.startswith(f"tuning log {path}: ")
    assert result.tasks[0].best is not None and result.trials == 29
    again = TuningLog(path)
    assert len(again) == 29 and not again.skipped.total
    assert tuned(again, SyntheticMeasurer(TASK), "10 trials").trials == 10  # there is room again


@pytest.mark.skipif(os.getuid() == 0, reason="nothing is read-only for the superuser")
def test_a_read_only_log_is_an_error_before_anything_is_measured(tmp_path: Path) -> None:
    path = tmp_path / "log"
    tuned(TuningLog(path), SyntheticMeasurer(TASK), "5 trials")
    path.chmod(0o400)
    measurer = SyntheticMeasurer(TASK)
    with pytest.raises(LogError, match="Permission denied"):
        tuned(TuningLog(path), measurer)
    assert measurer.count == 0


def test_a_log_deleted_under_the_tuner_is_begun_anew(tmp_path: Path) -> None:
    path = tmp_path / "log"
    with pytest.warns(UserWarning, match="was removed or emptied while it was in use"):
        result = tuned(TuningLog(path), At(50, path.unlink))
    assert (result.stopped, result.trials) == ("budget", 100)
    assert result.tasks[0].best is not None
    log = TuningLog(path)
    assert len([r for r in log if not r.raced]) == 51 and not log.skipped.total


def test_a_log_cut_short_under_the_tuner_is_gone_on_with(tmp_path: Path) -> None:
    path = tmp_path / "log"

    def cut() -> None:
        os.truncate(path, path.stat().st_size // 2)

    result = tuned(TuningLog(path), At(50, cut))
    assert (result.stopped, result.trials) == ("budget", 100)
    log = TuningLog(path)
    assert 70 <= len([r for r in log if not r.raced]) <= 80
    assert log.skipped.torn <= 1


def test_a_clock_that_is_set_changes_no_budget(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = time.time

    def jump() -> None:
        monkeypatch.setattr(time, "time", lambda: real() - 1e6)

    class Slow(At):
        def measure(self, candidates, best_seconds):
            for entry in super().measure(candidates, best_seconds):
                time.sleep(0.01)
                yield entry

    started = time.monotonic()
    result = tuned(TuningLog(tmp_path / "log"), Slow(10, jump), "1s")
    assert result.stopped == "budget"
    assert 0.8 < time.monotonic() - started < 5


def test_workers_that_cannot_be_started_end_tuning_with_everything_kept(tmp_path: Path) -> None:
    def fail() -> None:
        raise WorkerError("measuring processes do not start: no memory")

    result = tuned(TuningLog(tmp_path / "log"), At(20, fail))
    assert result.stopped == "measuring processes do not start: no memory"
    assert result.tasks[0].best is not None and len(TuningLog(tmp_path / "log")) >= 19
