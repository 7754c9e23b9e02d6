"""Choices in the graph are measured both ways, logged, and heeded by every later build."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import loopwright as lw
import numpy as np
import pytest
from loopwright.autotune.log.decision import Decision, Option
from loopwright.autotune.log.tuning_log import TuningLog
from loopwright.autotune.record import Workload, target_key
from loopwright.autotune.selection.select import Chosen
from loopwright.codegen.target import Target
from loopwright.driver.built import Built
from loopwright.driver.pipeline import build
from loopwright.ir.graph.passes.choose_algorithms import Preferences
from loopwright.ir.schedule.steps import Schedule
from loopwright.tuning.alternatives import Graph
from loopwright.tuning.graph_choices import GraphTuner
from loopwright.tuning.kernel_times import KernelTimes
from loopwright.tuning.variants import Taken, Variants

RNG = np.random.default_rng(0)
X = RNG.random((64, 256), np.float32)
W = RNG.random((256, 64), np.float32)
V = RNG.random((64, 128), np.float32)
KEY = target_key(Target.host(), 1)


@lw.compile
def net(x):
    return np.maximum(x @ W - 64, 0) @ V + 1


MODULE = net.trace(X).module


def graph(slow: set[str]) -> GraphTuner:
    """Of ``net``; the kernels of these workloads get code that is many times slower."""
    bad = {workload: Chosen(Schedule(), "rules", "") for workload in slow}

    def made(taken: Mapping[str, str]) -> Built:
        return build(MODULE, threads=1, taken=taken, schedules=bad)

    return GraphTuner(Variants(MODULE, Preferences()), made, KEY, "main")


def alternatives(taken: Taken) -> Graph:
    """The alternatives of ``net``, whose kernels take as long as is expected."""
    found = Graph(Variants(MODULE, Preferences()), taken, KernelTimes(KEY))
    found.find()
    return found


def test_alternatives_are_what_else_the_graph_could_be() -> None:
    found = alternatives({})
    flips = found.alternatives
    assert [(f.point.about, f.option) for f in flips] == [("fusion", "apart")] * 2
    for flip in flips:
        assert sum(flip.change.removed.values()) == 1 and sum(flip.change.added.values()) == 2
        assert found.prims.keys() >= flip.change.added.keys() | flip.change.removed.keys()
    first, second = (f.point.work for f in flips)  # the larger product is first
    assert first > second > 0
    back = alternatives({flips[0].point.key: "apart"}).alternatives
    assert ("fusion", "fused") in [(f.point.about, f.option) for f in back]


def test_alternatives_that_do_not_touch_are_measured_together() -> None:
    found = alternatives({})
    assert found.is_sum([a.move for a in found.alternatives])
    slow = {w for a in found.alternatives for w in a.change.removed}
    found.times.place |= dict.fromkeys(slow, 1.0)
    assert set(found.moves()) == {a.move for a in found.alternatives}


def test_what_is_measured_for_one_move_is_known_for_all() -> None:
    found = alternatives({})
    first, _ = found.alternatives
    found.times.place |= dict.fromkeys(first.change.removed, 1.0)
    assert found.unknown(first.move) == set(first.change.added)
    found.times.place |= dict.fromkeys(first.change.added, 0.25)
    assert not found.unknown(first.move) and found.gain(first.move) == 0.5
    assert found.moves()[0] == first.move


def test_what_is_quicker_in_place_is_taken(tmp_path: Path) -> None:
    first, second = alternatives({}).alternatives
    kept = graph(set(second.change.added)).decide({}, [X], 3.0)
    assert kept.taken.get(second.point.key, "fused") == "fused"
    decided = graph(set(first.change.removed)).decide({}, [X], 3.0)
    assert decided.taken[first.point.key] == "apart"  # others may be as quick either way
    (tried,) = (t for t in decided.tried if t.taken)
    assert tried.measured is not None and tried.measured > 0.3 and "apart" in str(tried)
    # What its kernels took is known from now on.
    assert {r.workload.hash for r in decided.records} >= set(first.change.added)
    assert all(r.ok and r.cache == "place" and r.target == KEY for r in decided.records)
    again = KernelTimes(KEY, [TuningLog()])
    again.logs[0].append(decided.records)
    again.place |= dict.fromkeys(first.change.removed, 1.0)
    again.expect(first.change.added, first.change.removed, alternatives({}).prims)
    costs = {r.workload.hash: r.cost for r in decided.records}
    assert all(again.expected(w) == pytest.approx(costs[w], rel=0.2) for w in first.change.added)
    # The other one is too small a share of the time to be worth measuring.
    (decision,) = decided.decisions
    assert (decision.workload.hash, decision.winner.name) == (first.point.key, "apart")
    assert {o.name for o in decision.options} == {"fused", "apart"}
    assert decision.winner.cost < decision.losers[0].cost
    log = tmp_path / "log"
    TuningLog(log).append(decided.decisions)
    assert len(build(MODULE, log=log, threads=1).kernels) == 3
    assert len(build(MODULE, log=log, threads=2).kernels) == 2  # it was not measured so


def test_builds_with_either_option_compute_the_same(tmp_path: Path) -> None:
    expected = net.function(X)
    log = tmp_path / "log"
    for flip in alternatives({}).alternatives:
        options = (Option("fused", (2.0,)), Option("apart", (1.0,)))
        site = Workload(flip.point.key, flip.point.text)
        TuningLog(log).append(Decision("fusion", site, KEY, options, 1))
    f = lw.compile(net.function, log=log, threads=1)
    np.testing.assert_allclose(f(X), expected, rtol=1e-4)
    assert len(f.lower(X).built.kernels) == 4


def test_nothing_is_decided_without_time() -> None:
    decided = graph(set()).decide({}, [X], 0.0)
    assert decided.taken == {} and decided.decisions == ()


def test_variants_run_passes_once() -> None:
    variants = Variants(MODULE, Preferences())
    assert variants.of({}).prims == variants.of({}).prims
    assert all(a is b for a, b in zip(variants.of({}).prims, variants.of({}).prims))
