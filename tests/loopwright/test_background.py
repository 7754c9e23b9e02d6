"""Tuning while the program runs."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import loopwright as lw
import numpy as np
import pytest
from loopwright.autotune.log.tuning_log import TuningLog
from loopwright.autotune.program.background import Winner
from loopwright.autotune.program.background_process import Throttle
from loopwright.autotune.selection.select import Chosen
from loopwright.autotune.workload import kernel_symbol, workload_of
from loopwright.background import tuning as background
from loopwright.background.trial import Direct, Trial
from loopwright.codegen.kernel import compile_kernel
from loopwright.codegen.objects import object_code
from loopwright.driver import pipeline
from loopwright.ir.schedule.steps import Schedule

PLAIN = Chosen(Schedule(), "rules", "plain")
LONGEST = 600.0
AT_ONCE = lw.Background(share=1.0, budget="3s", priority="normal")


def layers(x: Any, w: Any, v: Any) -> Any:
    return np.maximum(x @ w, 0) @ v


def operands(rng: np.random.Generator) -> list[np.ndarray]:
    shapes = ((40, 96), (96, 130), (130, 30))
    return [rng.standard_normal(shape).astype(np.float32) for shape in shapes]


def serve(function: Any, args: list[np.ndarray], until: Callable[[], bool]) -> None:
    """Call as a program would; every result is right."""
    expected = layers(*(a.astype(np.float64) for a in args))
    end = time.monotonic() + LONGEST
    while not until():
        assert time.monotonic() < end, str(function.background)
        np.testing.assert_allclose(function(*args), expected, rtol=1e-4, atol=1e-3)
        time.sleep(1e-4)


def test_a_slow_start_is_made_fast_while_the_program_runs(
    tmp_path: Path, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pipeline, "choose_schedule", lambda *_: PLAIN)
    log = tmp_path / "log.jsonl"
    options = lw.Background(share=1.0, budget="3s", priority="normal")
    function = lw.compile(layers, threads=1, log=log, tune=options)
    args = operands(rng)
    slow = function.lower(*args).built
    function(*args)
    serve(function, args, lambda: function.background.wait(0))
    assert function.background.state == "done", str(function.background)
    assert any("swapped in" in line for line in function.background.lines)
    (now,) = function._known.values()
    assert now.reason == "tuned in the background"
    assert "exact" in {c.origin for c in now.built.chosen.values()}
    assert now.built.code_hash != slow.code_hash
    assert len(TuningLog(log)) > 0


@contextlib.contextmanager
def pretended(
    make: Callable[[Any], list[Winner]], job: Any, events: Any
) -> Iterator[subprocess.Popen[bytes]]:
    """A side process that finds what ``make`` says, and ends."""
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        events.put(background._Event("news", tuple(make(job.built))))
        events.put(background._Event("end"))
        yield process


def winners(built: Any, chosen: Chosen) -> list[Winner]:
    found = {}
    for prim in built.source.prims.values():
        workload = workload_of(prim).hash
        kernel = compile_kernel(prim, chosen.schedule, built.source.target, kernel_symbol(workload))
        code = object_code(kernel.text, built.source.target)
        found[workload] = Winner(workload, chosen, kernel, code)
    return list(found.values())


@pytest.fixture
def slow_winners(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is tried takes twice as long as what is there, on a clock that only calls move."""
    now = 0.0

    def trial(old: Direct, new: Direct, *rest: Any) -> Trial:
        def taking(seconds: float, direct: Direct) -> Direct:
            def call(*arrays: Any) -> list[np.ndarray] | None:
                nonlocal now
                now += seconds
                return direct(*arrays)

            return call

        return Trial(taking(1e-4, old), taking(2e-4, new), *rest, clock=lambda: now)

    monkeypatch.setattr(background, "Trial", trial)


@pytest.mark.usefixtures("slow_winners")
def test_what_is_slower_in_place_is_taken_back_for_good(
    tmp_path: Path, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        background,
        "_side_process",
        lambda job, events: pretended(lambda built: winners(built, PLAIN), job, events),
    )
    log = tmp_path / "log.jsonl"
    function = lw.compile(layers, threads=1, log=log, tune="background")
    args = operands(rng)
    function(*args)
    (first,) = function._known.values()
    fast = first.built.code_hash
    serve(function, args, lambda: function.background.wait(0))
    lines = function.background.lines
    assert sum("taken back" in line for line in lines) == 3, lines  # both at once, then each
    (now,) = function._known.values()
    assert now.built.code_hash == fast
    decided = [d for d in TuningLog(log).decisions if d.about == "schedule"]
    assert len(decided) == 2
    assert all(d.winner.schedule != d.losers[0].schedule for d in decided)


@pytest.mark.usefixtures("slow_winners")
def test_a_program_that_is_idle_is_not_waited_for(
    tmp_path: Path, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(background, "_IDLE_SECONDS", 0.1)
    monkeypatch.setattr(
        background,
        "_side_process",
        lambda job, events: pretended(lambda built: winners(built, PLAIN), job, events),
    )
    function = lw.compile(layers, threads=1, log=tmp_path / "log.jsonl", tune="background")
    args = operands(rng)
    function(*args)
    assert function.background.wait(LONGEST)
    assert "idle" in function.background.lines[-1]
    count = len(function.background.lines)
    serve(function, args, lambda: len(function.background.lines) > count)
    assert "taken back" in function.background.lines[-1]


def test_stopping_ends_the_process_and_keeps_the_function(
    tmp_path: Path, rng: np.random.Generator
) -> None:
    function = lw.compile(layers, threads=1, log=tmp_path / "log.jsonl", tune="background")
    args = operands(rng)
    function(*args)
    while function.background.state == "waiting":
        time.sleep(0.01)
    function.background.stop()
    assert function.background.state == "stopped"
    assert function.background.wait(0)
    function(*args)


def test_a_log_that_cannot_be_written_is_told_and_the_program_goes_on(
    rng: np.random.Generator,
) -> None:
    function = lw.compile(layers, threads=1, log="/proc/nowhere/log.jsonl", tune=AT_ONCE)
    args = operands(rng)
    function(*args)
    serve(function, args, lambda: function.background.wait(0))
    assert function.background.state == "failed"
    assert "/proc/nowhere/log.jsonl" in str(function.background)


def test_another_build_is_not_written_over(rng: np.random.Generator) -> None:
    function = lw.compile(layers)
    args = operands(rng)
    function(*args)
    (request,) = function._known
    built = function._known[request].built
    assert not function._install(request, object(), built)  # type: ignore[arg-type]
    function.cache_clear()
    assert not function._install(request, built, built)


@pytest.mark.parametrize("share", [0, -1, 1.5])
def test_a_share_that_is_none_is_refused(share: float) -> None:
    with pytest.raises(lw.LoopwrightValueError, match="share of the processors"):
        lw.Background(share=share)


def test_options_that_are_not_understood() -> None:
    with pytest.raises(lw.LoopwrightTypeError, match='tune is "quick", "background"'):
        lw.compile(layers, tune="soon")
    with pytest.raises(lw.LoopwrightValueError, match='"idle" or "normal"'):
        lw.Background(priority="high")
    with pytest.raises(lw.LoopwrightValueError, match="write one, as '10m'"):
        lw.Background(budget="20 trials")


def test_a_throttle_keeps_to_its_share() -> None:
    now, used = 0.0, 0.0

    def sleep(seconds: float) -> None:
        nonlocal now
        now += seconds

    throttle = Throttle(0.5, lambda: used, burst=0.1, clock=lambda: now, sleep=sleep)
    for _ in range(100):
        now += 0.03
        used += 0.03
        throttle.pause()
    assert used / now == pytest.approx(0.5, rel=0.03)
    now += 100.0  # nothing to do for long is no permission to take all of it at once
    used += 1.0
    assert throttle.pause() == pytest.approx((1.0 - 0.1) / 0.5)
