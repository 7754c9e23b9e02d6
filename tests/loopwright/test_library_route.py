"""A kernel is left to NumPy's library where that is faster in the program, and nowhere else."""

from __future__ import annotations

import functools
from dataclasses import replace
from pathlib import Path
from typing import Any

import loopwright as lw
import numpy as np
import pytest
from loopwright.autotune.budget import Budget
from loopwright.autotune.comparison import Verdict
from loopwright.autotune.log.decision import COMPILED, Decision, Option
from loopwright.autotune.log.record import target_key
from loopwright.autotune.log.tuning_log import TuningLog
from loopwright.autotune.program.in_program import decision_line
from loopwright.autotune.program.program_tuner import ProgramResult
from loopwright.autotune.select import Chosen
from loopwright.autotune.workload import workload_of
from loopwright.cli import main
from loopwright.codegen.runtime.blas import numpy_blas
from loopwright.codegen.target import Target
from loopwright.ir.schedule.steps import Schedule
from loopwright.pipeline import Built, build
from loopwright.tuning import library_route
from loopwright.tuning import tune as tuning
from loopwright.tuning.library_route import libraries_for, route
from loopwright.tuning.plain_numpy import PlainNumpy

pytestmark = pytest.mark.skipif(numpy_blas() is None, reason="NumPy has no known BLAS here")

RNG = np.random.default_rng(0)
X, W, V = (RNG.random(s, np.float32) for s in ((48, 300), (300, 96), (96, 32)))
NOTHING_TUNED = ProgramResult((), 0.0, Budget(), "budget")
KEY = target_key(Target.host(), 1)


@lw.compile
def net(x):
    return np.maximum(x @ W - 70, 0) @ V + 1


MODULE = net.trace(X).module


@functools.cache
def slow(*names: str) -> Built:
    """``net`` with code for some kernels that is many times slower than need be."""
    if not names:
        return build(MODULE, threads=1, routes={})
    plain = slow()
    assert plain.parts is not None
    bad = {
        workload_of(p).hash: Chosen(Schedule(), "rules", "")
        for n, p in plain.parts.prims.items()
        if n in names
    }
    return build(MODULE, threads=1, routes={}, schedules=bad)


def first_and_second(built: Built) -> list[str]:
    assert built.parts is not None
    return [*built.parts.prims]


def of(built: Built, name: str) -> str:
    assert built.parts is not None
    return workload_of(built.parts.prims[name]).hash


def decided(built: Built, name: str, library: str, threads: int = 1) -> Decision:
    """That a kernel goes to a library."""
    assert built.parts is not None
    options = Option(COMPILED, (2e-4,)), Option(library, (1e-4,))
    key = replace(KEY, threads=threads)
    return Decision("route", workload_of(built.parts.prims[name]), key, options, 1)


def test_a_kernel_that_is_slow_goes_to_the_library_and_later_builds_heed_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = first_and_second(slow())
    built = slow(first)
    assert libraries_for(built).keys() == {of(built, first), of(built, second)}
    routed = route(built, [X], 0.2, "main")
    found = {d.workload.hash: d for d in routed.decisions}
    taken = found[of(built, first)]
    assert taken.winner.name == numpy_blas().name and taken.winner.cost < taken.losers[0].cost
    assert decision_line(taken).startswith(f"kept NumPy ({taken.winner.name}) for ")
    np.testing.assert_allclose(routed.built.call([X])[0], net.function(X), rtol=1e-4)
    log = tmp_path / "log"
    TuningLog(log).append([taken])
    f = lw.compile(net.function, log=log, threads=1)
    np.testing.assert_allclose(f(X), net.function(X), rtol=1e-4)
    again = f.lower(X).built
    assert [again.chosen[n].origin for n in (first, second)] == ["library", "rules"]
    assert "NumPy's BLAS" in again.summary
    assert "its product by OpenBLAS" in again.as_text("loops")
    assert all(again.as_text(level) for level in ("program", "llvm", "asm"))
    # On other threads nobody measured it.
    assert "library" not in {c.origin for c in build(MODULE, log=log, threads=2).chosen.values()}


def test_the_library_is_not_taken_where_it_loses(monkeypatch: pytest.MonkeyPatch) -> None:
    built = slow()
    monkeypatch.setattr(Verdict, "faster", True)
    monkeypatch.setattr(Verdict, "speedup", 1.02)
    routed = route(built, [X], 0.05)
    assert routed.built is built and {d.winner.name for d in routed.decisions} == {COMPILED}


def test_what_makes_the_whole_slower_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    first, _ = first_and_second(slow())
    built = slow(first)
    monkeypatch.setattr(Verdict, "slower", True)
    monkeypatch.setattr(Verdict, "clearly_faster", True)
    routed = route(built, [X], 0.05)
    assert routed.built is built and {d.winner.name for d in routed.decisions} == {COMPILED}


def test_a_wrong_result_is_never_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    first, _ = first_and_second(slow())

    def spoiled(*args: Any) -> list[np.ndarray]:
        return [values + 1 for values in run(*args)]

    run = library_route.run_kernel
    monkeypatch.setattr(library_route, "run_kernel", spoiled)
    routed = route(slow(first), [X], 0.05)
    assert {d.winner.name for d in routed.decisions} == {COMPILED}


def test_another_library_than_the_one_measured_is_not_used(tmp_path: Path) -> None:
    built = slow()
    first, _ = first_and_second(built)
    log = tmp_path / "log"
    TuningLog(log).append([decided(built, first, "OpenBLAS 0.2.20 Haswell")])
    assert {c.origin for c in build(MODULE, log=log, threads=1).chosen.values()} == {"rules"}
    mine = decided(built, first, numpy_blas().name)
    TuningLog(log).append([replace(mine, target=replace(KEY, cpu="another"))])
    assert {c.origin for c in build(MODULE, log=log, threads=1).chosen.values()} == {"rules"}
    TuningLog(log).append([mine])
    assert build(MODULE, log=log, threads=1).chosen[first].origin == "library"


def test_programs_without_products_are_not_asked() -> None:
    module = lw.compile(lambda x: np.exp(x)).trace(X).module
    built = build(module, threads=1)
    routed = route(built, [X], 0.05)
    assert routed.built is built and not routed.decisions


def test_tuning_tells_and_tools_show_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(Verdict, "clearly_faster", True)
    monkeypatch.setattr(Verdict, "slower", False)
    monkeypatch.setattr(PlainNumpy, "fits", lambda module: False)
    file, log = tmp_path / "net.py", tmp_path / "log"
    file.write_text("import loopwright as lw\n@lw.compile\ndef f(x, w):\n    return x @ w\n")
    where = [
        f"{file}:f",
        "--arg",
        "x=f32[16,24]",
        "--arg",
        "w=f32[24,8]",
        "--log",
        str(log),
        "--threads",
        "1",
    ]
    for _ in range(2):  # the second time it is in the log already, and nothing is searched
        assert main(["tune", *where, "--trials", "1"]) == 0
        assert "kept NumPy (OpenBLAS" in capsys.readouterr().out
        monkeypatch.setattr(tuning, "tune_tasks", lambda *_, **__: NOTHING_TUNED)
    assert {d.about for d in TuningLog(log).decisions} >= {"route"}
    assert main(["tune", *where, "--list"]) == 0
    assert "NumPy" in capsys.readouterr().out
    assert main(["explain", *where]) == 0
    assert "its product by OpenBLAS" in capsys.readouterr().out
    assert main(["report", str(log), "-o", str(tmp_path / "report.html")]) == 0
    assert main(["log", "best", str(log)]) == 0
