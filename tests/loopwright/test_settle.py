"""After tuning nothing is slower than it was before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import loopwright as lw
import loopwright.tuning.last_comparison as settling
import numpy as np
import pytest
from loopwright.autotune.comparison import Verdict
from loopwright.autotune.log.decision import Decision, Option
from loopwright.autotune.log.tuning_log import TuningLog
from loopwright.autotune.record import MeasureRecord, Workload, target_key
from loopwright.autotune.selection.select import Chosen, Origin
from loopwright.autotune.workload import workload_of
from loopwright.codegen.target import Target
from loopwright.driver.built import Built
from loopwright.driver.pipeline import build
from loopwright.ir.graph.passes.choose_algorithms import Preferences
from loopwright.ir.schedule.steps import Schedule
from loopwright.tuning.last_comparison import GraphChange, Settled, settle
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


UNCHANGED = GraphChange({}, {}, {})


def settled(first: Built, last: Built, log: Path, change: GraphChange = UNCHANGED) -> Settled:
    """Settled between builds of ``net``, with what was decided in the log."""
    found = settle(first, last, change, [X], 0.2, "main")
    TuningLog(log).append(found.decisions)
    return found


def test_what_was_just_compared_is_not_run_again_without_time() -> None:
    first, ended = (replace(build(CURVE, threads=1), code_hash=code) for code in "ab")

    def never(arrays: Sequence[Any]) -> list[Any]:
        raise AssertionError("there is no time for it")

    calls = (1e-3,) * 4, (2e-3,) * 4
    builds = replace(first, call=never), replace(ended, call=never)
    found = settle(*builds, UNCHANGED, [Z], 0.0, "main", calls)
    assert found.built is builds[0] and found.before == found.after == pytest.approx(1e-3)


def test_schedules_that_made_the_whole_slower_are_taken_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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
    monkeypatch.setattr(Verdict, "slower", True)
    log = tmp_path / "log"
    variants = Variants(MODULE, Preferences())
    site = next(iter(variants.of({}).sites.values()))
    options = Option("fused", (2.0,)), Option("apart", (1.0,))
    decision = Decision(site.about, Workload(site.key, site.text), KEY, options, 1)
    TuningLog(log).append([decision])
    first, ended = build(MODULE, threads=1), build(MODULE, log=log, threads=1)
    assert len(ended.kernels) == len(first.kernels) + 1
    found = settled(first, ended, log, GraphChange({site.key: site}, {}, {site.key: "apart"}))
    assert [d.winner.name for d in found.decisions] == ["fused"]
    assert found.built.code_hash == first.code_hash


def test_the_builds_run_in_processes_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    first = build(CURVE, threads=1)
    assert first.parts is not None
    (prim,) = first.parts.prims.values()
    slow = {workload_of(prim).hash: Chosen(Schedule(()), Origin.GIVEN, "slow")}
    last = build(CURVE, threads=1, schedules=slow)
    found = settle(first, last, UNCHANGED, [Z], 0.0, "main", (), 0.05)
    assert found.fresh and found.undone and found.built is first
    (decision,) = found.decisions
    assert decision.program == "main, in processes of their own"
    assert (
        len(decision.winner.seconds) >= 6 and 1e-6 < decision.winner.cost < decision.losers[0].cost
    )

    def failing(*_: Any) -> None:
        raise OSError("the disk is full")

    monkeypatch.setattr(settling, "extra", lambda name: failing)
    calls = (2e-3,) * 4, (1e-3,) * 4
    found = settle(first, last, UNCHANGED, [Z], 0.0, "main", calls, 0.05)
    assert not found.fresh and not found.undone and found.built is last
