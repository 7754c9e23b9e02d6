"""What is collected, and how what is chosen without measuring is judged, without measuring."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from loopwright.autotune.log.tuning_log import TuningLog
from loopwright.autotune.measure.kernels import task_of
from loopwright.autotune.model.cost_model import XGBoostModel
from loopwright.autotune.record import MeasureRecord
from loopwright.codegen.target import Target

from bench import collect
from bench.collect import candidates_of, drawn_tasks
from bench.families import fixed_workloads
from bench.standins import SyntheticSpace
from bench.transfer import Shares, ranking, unseen
from bench.warm_start import trials_until
from tools.evaluate_model import matmul_prim
from tools.samples import grouped

TARGET = Target("x86-64-v3", "some CPU", 2, 32768, 1 << 20, 1 << 25)
TASK = task_of(matmul_prim(120, 88, 72), TARGET, 1)


def records(count: int, noise: float = 0.0, seed: int = 5) -> list[MeasureRecord]:
    rows = candidates_of(TASK, count, 1)[:count]
    rng = np.random.default_rng(seed)
    seconds = np.arange(1, len(rows) + 1) * 1e-5 * np.exp(noise * rng.standard_normal(len(rows)))
    return [
        MeasureRecord(
            TASK.workload,
            TASK.key,
            tuple(TASK.space.schedule(row).to_json()),
            "tile",
            (float(s),),
            seed=seed,
        )
        for row, s in zip(rows, seconds, strict=True)
    ]


def test_candidates_are_the_favourites_then_near_ones_and_others_each_once() -> None:
    rows = candidates_of(TASK, 40, 1)
    favourites = TASK.space.default()
    assert np.array_equal(rows[: len(favourites)], favourites)
    assert len({row.tobytes() for row in rows}) == len(rows) >= 40
    assert TASK.space.valid(rows).all()
    assert np.array_equal(rows, candidates_of(TASK, 40, 1))


def test_drawn_tasks_are_the_same_for_a_seed_and_none_that_is_to_be_avoided(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fixed = list(fixed_workloads())
    monkeypatch.setattr(collect, "fixed_workloads", lambda: fixed[::12])  # each takes 0.1 s
    drawn = [task.workload.hash for _, task in drawn_tasks(2, 77, TARGET, 1, set())]
    assert len(set(drawn)) == 2
    again = [task.workload.hash for _, task in drawn_tasks(2, 77, TARGET, 1, {drawn[0]})]
    assert drawn[0] not in again and drawn[1] in again
    small = next(w for w in fixed[::12] if w.flops <= collect.MOST_FLOPS)
    hashes = {task.workload.hash for task in collect.kernels_in(small, TARGET, 1)}
    assert hashes and hashes <= collect._fixed_hashes(TARGET, 1)


def test_a_second_measurement_foretells_the_first_as_far_as_there_is_no_noise() -> None:
    groups = grouped(records(60))
    (same,) = ranking(groups, _log(records(60)))
    assert same.quality.pairwise == same.quality.recall == 1.0 and same.tops == (1.0, 1.0)
    (noisy,) = ranking(groups, _log(records(60, noise=0.3)))
    assert 0.5 < noisy.quality.pairwise < 1.0
    assert noisy.quality.clear is not None and noisy.quality.clear >= noisy.quality.pairwise
    (worst,) = ranking(groups, _log(_backwards(records(60))))
    assert worst.quality.pairwise == 0.0 and worst.tops[0] == pytest.approx(1 / 60)
    assert not ranking(grouped(records(12)), _log(records(12)))  # too few to say anything


def test_what_was_found_by_tuning_is_not_ranked() -> None:
    found = [replace(r, seed=0) for r in records(60)]
    assert not ranking(grouped(found), _log(found))


def test_only_kernels_that_nothing_was_learnt_from_are_judged() -> None:
    assert list(unseen(_log(records(3))))
    known = TuningLog()
    from loopwright.autotune.model.shipped import sample_logs

    first = next(iter(TuningLog(sample_logs()[0])))
    known.append([first])
    assert not unseen(known)


def test_shares_are_told_with_their_worst_and_where_they_came_from() -> None:
    shares = Shares()
    assert shares.line("near") == "near: nothing to compare"
    shares.add("a", 1.0, "rules")
    shares.add("b", 0.25, "near")
    line = shares.line("near", 0.9)
    assert line == (
        "near: 50.0 % of tuned speed (bar 90 %), worst 25 %, 2 kernels: 1 near, 1 rules"
    )


def test_a_model_that_knows_needs_fewer_trials_than_one_that_does_not() -> None:
    space = SyntheticSpace((512, 96, 300))
    rows = space.sample(300, np.random.default_rng(1))
    features, seconds = space.features(rows), space.seconds(rows)
    warm = XGBoostModel()
    warm.learn([(features, seconds, "here")])
    rng = np.random.default_rng(0)
    few = trials_until(features, seconds, warm, rng, 8)
    many = [
        trials_until(features, seconds, XGBoostModel(seed=s), np.random.default_rng(s), 8)
        for s in range(3)
    ]
    assert 1 <= few <= 16 and few < np.mean(many)
    best = int(np.argmin(seconds))
    assert trials_until(features, seconds, XGBoostModel(), rng, 8, [best]) == 1


def _log(found: list[MeasureRecord]) -> TuningLog:
    log = TuningLog()
    log.append(found)
    return log


def _backwards(found: list[MeasureRecord]) -> list[MeasureRecord]:
    seconds = [r.seconds for r in found][::-1]
    return [replace(r, seconds=s) for r, s in zip(found, seconds, strict=True)]
