"""After tuning nothing is slower than it was before, nor than plain NumPy."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import loopwright as lw
import numpy as np
import pytest
from loopwright.autotune.comparison import Verdict
from loopwright.autotune.log.decision import COMPILED, Decision, Option
from loopwright.autotune.log.record import MeasureRecord, Workload, target_key
from loopwright.autotune.log.tuning_log import TuningLog
from loopwright.autotune.program.in_program import decision_line
from loopwright.autotune.workload import workload_of
from loopwright.codegen.target import Target
from loopwright.ir.graph.passes.choose_algorithms import Preferences
from loopwright.pipeline import Built, build, by_plain_numpy
from loopwright.tuning import settle as settled_module
from loopwright.tuning.graph_choices import GraphTuner
from loopwright.tuning.plain_numpy import PlainNumpy, numpy_name, program_key
from loopwright.tuning.settle import GraphChange, Settled, settle
from loopwright.tuning.variants import Variants

RNG = np.random.default_rng(0)
X, W, V = (RNG.random(s, np.float32) for s in ((48, 300), (300, 96), (96, 32)))
Z = RNG.random((400, 500), np.float32)
KEY = target_key(Target.host(), 1)


@lw.compile
def net(x):
    return np.maximum(x @ W - 70, 0) @ V + 1


MODULE = net.trace(X).module


@lw.compile
def curve(x):
    return np.tanh(x) + 1


CURVE = curve.trace(Z).module


def slow() -> Built:
    """``curve`` by code that is many times slower than need be."""
    plain = build(CURVE, threads=1)

    def call(arrays: Sequence[Any]) -> list[Any]:
        time.sleep(0.02)
        return plain.call(arrays)

    return replace(plain, call=call)


UNCHANGED = GraphChange({}, {}, {})


def settled(first: Built, last: Built, log: Path, change: GraphChange = UNCHANGED) -> Settled:
    """Settled between builds of ``net``, with what was decided in the log."""
    found = settle(first, last, change, [X], 0.2, "main")
    TuningLog(log).append(found.decisions)
    return found


def test_numpy_runs_what_it_runs_faster(tmp_path: Path) -> None:
    log = tmp_path / "log"
    bad = slow()
    found = settle(bad, bad, UNCHANGED, [Z], 0.2, "main")
    TuningLog(log).append(found.decisions)
    (decision,) = found.decisions
    assert decision.winner.name == numpy_name() and found.after < found.before
    assert decision_line(decision).startswith(f"kept NumPy ({numpy_name()}) for the whole of main")
    f = lw.compile(curve.function, log=log, threads=1)
    for _ in range(3):
        np.testing.assert_allclose(f(Z), curve.function(Z), rtol=1e-5)
    assert f.lower(Z).built.summary.startswith(f"by {numpy_name()}")
    assert not build(CURVE, log=log, threads=2).summary.startswith("by NumPy")
    report = f.tune(Z, budget=None, trials=2)  # it is asked again
    assert report.in_program.after > 0


def test_numpy_is_not_asked_where_it_has_no_function_or_is_slow() -> None:
    softmax = lw.compile(lambda x: lw.nn.softmax(x)).trace(X).module
    assert not PlainNumpy.fits(softmax) and PlainNumpy.fits(MODULE)
    good = build(MODULE, threads=1, routes={})
    module = lw.compile(lambda x: (x * 2 + 1) * x - x).trace(X).module
    quick = build(module, threads=1)
    found = settle(quick, quick, UNCHANGED, [X], 0.1)
    assert found.built is quick and all(d.winner.name == COMPILED for d in found.decisions)
    assert good.direct is not None


def test_what_was_just_compared_is_not_run_again_without_time() -> None:
    first, ended = (replace(build(CURVE, threads=1), code_hash=code) for code in "ab")

    def never(arrays: Sequence[Any]) -> list[Any]:
        raise AssertionError("there is no time for it")

    calls = (1e-3,) * 4, (2e-3,) * 4
    builds = replace(first, call=never), replace(ended, call=never)
    found = settle(*builds, UNCHANGED, [Z], 0.0, "main", calls)
    assert found.built is builds[0] and found.before == found.after == pytest.approx(1e-3)


def test_what_another_numpy_was_measured_at_counts_for_nothing(tmp_path: Path) -> None:
    log = tmp_path / "log"
    options = Option(COMPILED, (2e-4,)), Option("NumPy 1.0", (1e-4,))
    site = Workload(program_key(MODULE), "the whole of main")
    decision = Decision("route", site, KEY, options, 1)
    TuningLog(log).append([decision])
    assert not build(MODULE, log=log, threads=1).summary.startswith("by NumPy")
    mine = replace(decision, options=(options[0], Option(numpy_name(), (1e-4,))))
    TuningLog(log).append([mine])
    built = build(MODULE, log=log, threads=1)
    assert built.summary.startswith("by NumPy") and built.direct is not None
    assert built.direct(X.astype(np.float64)) is None and built.direct(X, X) is None


def test_results_of_numpy_belong_to_the_caller() -> None:
    module = lw.compile(lambda x: (x.T, x[1:], np.negative(x), x, W)).trace(X).module
    built = build(module, threads=1)
    results = PlainNumpy(module, built.inputs).call([X])
    for got, expected in zip(results, (X.T, X[1:], -X, X, W)):
        np.testing.assert_array_equal(got, expected)
        assert got.flags.c_contiguous
        assert not np.shares_memory(got, X) and not np.shares_memory(got, W)


def test_schedules_that_made_the_whole_slower_are_taken_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PlainNumpy, "fits", staticmethod(lambda module: False))
    log = tmp_path / "log"
    first = build(MODULE, log=log, threads=1)
    assert first.parts is not None
    for prim in first.parts.prims.values():  # records that call the plain nest fast
        record = MeasureRecord(workload_of(prim), KEY, (), "planted/1", (1e-9,) * 3)
        TuningLog(log).append(record)
    ended = build(MODULE, log=log, threads=1)
    assert {c.sketch for c in ended.chosen.values()} == {"planted/1"}
    found = settled(first, ended, log)
    assert len(found.decisions) == 2 and found.after <= found.before
    again = build(MODULE, log=log, threads=1)
    assert {n: c.schedule for n, c in again.chosen.items()} == {
        n: c.schedule for n, c in first.chosen.items()
    }
    assert found.built.code_hash == first.code_hash


def test_choices_that_made_the_whole_slower_are_taken_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PlainNumpy, "fits", staticmethod(lambda module: False))
    monkeypatch.setattr(Verdict, "slower", True)
    log = tmp_path / "log"
    variants = Variants(MODULE, Preferences())
    tuner = GraphTuner(variants, lambda t: build(MODULE, threads=1, taken=t), KEY)
    site = tuner.alternatives({})[0].point
    options = Option("fused", (2.0,)), Option("apart", (1.0,))
    decision = Decision(site.about, Workload(site.key, site.text), KEY, options, 1)
    TuningLog(log).append([decision])
    first, ended = build(MODULE, threads=1), build(MODULE, log=log, threads=1)
    assert len(ended.kernels) == len(first.kernels) + 1
    found = settled(first, ended, log, GraphChange({site.key: site}, {}, {site.key: "apart"}))
    assert [d.winner.name for d in found.decisions] == ["fused"]
    assert found.built.code_hash == first.code_hash


def test_numpys_library_does_not_run_between_calls_of_ours(monkeypatch) -> None:
    ran: list[int] = []

    def noted(built: Built, name: int) -> Built:
        def call(arrays: Sequence[Any]) -> list[Any]:
            ran.append(name)
            return built.call(arrays)

        return replace(built, call=call, code_hash=str(name))

    first, ended = (noted(build(CURVE, threads=1), n) for n in (1, 2))
    monkeypatch.setattr(settled_module, "_plain_numpy", lambda last, _: by_plain_numpy(last))
    numpy_runs = PlainNumpy.call

    def run(self: PlainNumpy, arrays: Sequence[Any]) -> list[Any]:
        ran.append(0)
        return numpy_runs(self, arrays)

    monkeypatch.setattr(PlainNumpy, "call", run)
    settle(first, ended, UNCHANGED, [Z], 0.05, "main")
    begin = ran.index(0)
    assert {1, 2} <= set(ran[:begin]) and set(ran[begin:]) == {0}
