"""A log whose schedules make wrong code makes no wrong results: through ``lw.compile``."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import replace
from pathlib import Path
from typing import Any

import loopwright as lw
import numpy as np
import pytest
from loopwright.autotune.log.tuning_log import TuningLog
from loopwright.autotune.measure import sandbox, verdicts
from loopwright.autotune.record import MeasureRecord, target_key
from loopwright.autotune.selection import select
from loopwright.autotune.workload import workload_of
from loopwright.cli import main
from loopwright.codegen import limits
from loopwright.codegen.kernel import Kernel, compile_kernel
from loopwright.codegen.module_text import ModuleText
from loopwright.codegen.target import Target
from loopwright.driver import kernels
from loopwright.ir.errors import InternalError
from loopwright.ir.loop.prim import PrimFunc
from loopwright.ir.schedule.apply import apply_schedule
from loopwright.ir.schedule.steps import Schedule, Step, split, unroll, vectorize
from planted_kernels import compile_planted

HOST = Target.host()
X = np.random.default_rng(0).random(1000, dtype=np.float32)
EIGHT, FOUR = ([split("i", (1000 // n, n)), vectorize("i.1")] for n in (8, 4))


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """As a new process with an empty cache folder."""
    monkeypatch.setenv("LOOPWRIGHT_CACHE", str(tmp_path / "cache"))
    forget(monkeypatch)


def forget(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "_kernels", OrderedDict())
    verdicts.verdicts.cache_clear()


def twice_plus_one(x: Any) -> Any:
    return x * 2 + 1


def log_of(path: Path, *schedules: list[Step]) -> Path:
    """A log that praises these schedules, the first one most; none was ever checked."""
    built = lw.compile(twice_plus_one, threads=1).lower(X).built
    assert built.parts is not None
    (prim,) = built.parts.prims.values()
    TuningLog(path).append(
        MeasureRecord(
            workload_of(prim),
            target_key(HOST, 1),
            tuple(Schedule(tuple(steps)).to_json()),
            "foreign",
            (1e-12 * (n + 1),),
            checked=None,
        )
        for n, steps in enumerate(schedules)
    )
    return path


def plant(monkeypatch: pytest.MonkeyPatch, kind: str, *victims: list[Step]) -> None:
    """Schedules, or all with steps, compile to a kernel that is wrong in some way."""

    def wrong(prim: PrimFunc, schedule: Schedule, target: Target, name: str) -> Kernel:
        real = compile_kernel(prim, schedule, target, name)
        if list(schedule.steps) not in victims and (victims or not schedule.steps):
            return real
        text = compile_planted(prim, [["plant", kind, 1]], target, name).text
        return replace(real, code=ModuleText.of(text), workspace_bytes=64)

    forget(monkeypatch)
    monkeypatch.setattr(kernels, "compile_kernel", wrong)


def summary_of(path: Path) -> str:
    """After a call whose result is right."""
    function = lw.compile(twice_plus_one, log=path, threads=1)
    np.testing.assert_array_equal(function(X), X * 2 + 1)
    return function.lower(X).built.summary


@pytest.mark.parametrize("kind", ["wrong", "write_far_after", "segfault", "endless"])
def test_the_next_best_schedule_takes_the_place_of_a_wrong_one(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = log_of(tmp_path / "log.jsonl", EIGHT, FOUR)
    plant(monkeypatch, kind, EIGHT)
    assert "1 kernel: 1 tuned; 1 schedule refused: " in summary_of(path)
    built = lw.compile(twice_plus_one, log=path, threads=1).lower(X).built
    (chosen,) = built.chosen.values()
    assert list(chosen.schedule.steps) == FOUR and len(chosen.refused) == 1


def test_the_default_schedule_is_what_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = log_of(tmp_path / "log.jsonl", EIGHT, FOUR)
    plant(monkeypatch, "wrong", EIGHT, FOUR)
    assert "1 by the rules" in (text := summary_of(path)) and "2 schedules refused: " in text


def test_a_schedule_whose_code_is_not_valid_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def invalid(prim: PrimFunc, schedule: Schedule, target: Target, name: str) -> Kernel:
        real = compile_kernel(prim, schedule, target, name)
        wrong = real.text.replace("  ret void", "  store i32 %unknown, ptr null\n  ret void")
        return replace(real, code=ModuleText.of(wrong)) if list(schedule.steps) == EIGHT else real

    path = log_of(tmp_path / "log.jsonl", EIGHT, FOUR)
    forget(monkeypatch)
    monkeypatch.setattr(kernels, "compile_kernel", invalid)
    assert "1 tuned; 1 schedule refused: LLVM refuses the code" in summary_of(path)


@pytest.mark.parametrize("error", [IndexError("pop"), InternalError("bad"), StopIteration()])
def test_whatever_a_logged_schedule_makes_the_compiler_raise_refuses_it(
    error: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(prim: PrimFunc, schedule: Schedule, *others: Any) -> Any:
        if list(schedule.steps) == EIGHT:
            raise error
        return (compile_kernel if others else apply_schedule)(prim, schedule, *others)

    path = log_of(tmp_path / "log.jsonl", EIGHT, FOUR)
    with monkeypatch.context() as lowering:
        forget(lowering)
        lowering.setattr(kernels, "compile_kernel", failing)
        reason = f"1 schedule refused: {type(error).__name__}: {error}"
        assert reason in summary_of(path)
    forget(monkeypatch)
    monkeypatch.setattr(select, "apply_schedule", failing)
    np.testing.assert_array_equal(lw.compile(twice_plus_one, log=path, threads=1)(X), X * 2 + 1)
    (chosen,) = lw.compile(twice_plus_one, log=path, threads=1).lower(X).built.chosen.values()
    assert list(chosen.schedule.steps) == FOUR
    assert chosen.passed == ("an own record does not apply",)


def test_a_schedule_beyond_the_limits_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "LIMITS", replace(limits.LIMITS, instructions=500))
    path = log_of(tmp_path / "log.jsonl", [unroll("i")], FOUR)
    assert "1 tuned; 1 schedule refused: the kernel has more than" in summary_of(path)


def test_a_later_process_checks_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = log_of(tmp_path / "log.jsonl", EIGHT, FOUR)
    plant(monkeypatch, "wrong", EIGHT)
    first = summary_of(path)
    forget(monkeypatch)
    monkeypatch.setattr(sandbox, "Job", None)
    assert summary_of(path) == first


def test_default_schedules_are_checked_when_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch, "wrong")
    trusting = lw.compile(twice_plus_one, threads=1)
    assert not np.array_equal(trusting(X), X * 2 + 1)
    monkeypatch.setenv("LOOPWRIGHT_CHECK", "1")
    forget(monkeypatch)
    # Every schedule of the rules is broken here; the plain nest is what is left.
    assert "2 schedules refused" in summary_of(tmp_path / "none.jsonl")


def test_log_verify_names_schedules_refused_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = log_of(tmp_path / "log.jsonl", EIGHT, FOUR, EIGHT)
    assert main(["log", "verify", str(path)]) == 1  # none of them was checked when it was measured
    assert "first use" not in capsys.readouterr().out
    plant(monkeypatch, "wrong", EIGHT)
    summary_of(path)
    forget(monkeypatch)
    assert main(["log", "verify", str(path)]) == 1
    said = [line for line in capsys.readouterr().out.splitlines() if "first use" in line]
    assert len(said) == 1 and said[0].startswith(f"{path}:1: its schedule was refused at its first")
    assert "elements of" in said[0]
