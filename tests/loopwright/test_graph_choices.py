"""Choices in the graph are measured both ways, logged, and heeded by every later build."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import loopwright as lw
import numpy as np
from loopwright.autotune.log.decision import Decision, Option
from loopwright.autotune.log.record import Workload, target_key
from loopwright.autotune.log.tuning_log import TuningLog
from loopwright.autotune.select import Chosen
from loopwright.codegen.target import Target
from loopwright.ir.graph.passes.choose_algorithms import Preferences
from loopwright.ir.schedule.steps import Schedule
from loopwright.pipeline import Built, build
from loopwright.tuning.graph_choices import GraphTuner
from loopwright.tuning.variants import Variants

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


def test_alternatives_are_what_else_the_graph_could_be() -> None:
    tuner = graph(set())
    flips = tuner.alternatives({})
    assert [(f.point.about, f.option) for f in flips] == [("fusion", "apart")] * 2
    for flip in flips:
        assert sum(flip.removed.values()) == 1 and sum(flip.added.values()) == 2
        assert {tuner.variants.hash_of(p) for p in flip.prims} == set(flip.added)
    back = tuner.alternatives({flips[0].point.key: "apart"})
    assert ("fusion", "fused") in [(f.point.about, f.option) for f in back]
    assert tuner.alternatives({}, frozenset()) == []


def test_alternatives_that_do_not_touch_share_a_program() -> None:
    tuner = graph(set())
    assert [len(batch) for batch in tuner._batches({}, tuner.alternatives({}))] == [2]


def test_what_is_quicker_in_place_is_taken(tmp_path: Path) -> None:
    first, second = graph(set()).alternatives({})
    kept = graph(set(second.added)).decide({}, [X], 3.0)
    assert kept.taken.get(second.point.key, "fused") == "fused"
    decided = graph(set(first.removed)).decide({}, [X], 3.0)
    assert decided.taken[first.point.key] == "apart"  # others may be as quick either way
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
    for flip in graph(set()).alternatives({}):
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
