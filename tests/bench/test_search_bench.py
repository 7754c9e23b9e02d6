"""The commands that judge the search engine: what they compute of measurements, without any."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from loopwright.autotune.log.tuning_log import TuningLog
from loopwright.autotune.record import MeasureRecord
from loopwright.autotune.settings import DEFAULT_SETTINGS

from bench.ablation import DEFAULTS, VARIANTS, Recorded, Run, compare, simulated, table
from bench.interval import geometric_mean
from bench.one_task import tune_one
from bench.scheduling import PROGRAMS, SCHEDULERS, SHARES, landscape, simulate
from bench.search_tasks import HELD_OUT, held_out_tasks
from bench.standins import SyntheticMeasurer, synthetic_task
from bench.throughput import Throughput
from bench.time_to_quality import incumbents
from bench.zero_trial import ratios

TASK = synthetic_task()


def test_the_ablation_compares_at_equal_budget() -> None:
    chosen = [v for v in VARIANTS if v.name in ("random", "guided")]
    runs = simulated("64 trials", 1, chosen)
    assert len(runs) == 2 * 4 and {r.variant for r in runs} == {"random", "guided"}
    ends = {v: np.mean([np.log(r.end) for r in runs if r.variant == v]) for v in ("random",)}
    evolved = np.mean([np.log(r.end) for r in runs if r.variant == "guided"])
    assert evolved < ends["random"]
    first, second = Run("guided", "t", 3.0, 1.0, 0, 8), Run("b", "t", 4.0, 2.0, 0, 6)
    assert table([first, second]).splitlines()[2:] == [
        "| guided | 3.000 | 1.000 | 100 % | 1.000 |  | 8 | 0% |",
        "| b | 4.000 | 2.000 | 0 % | 2.000 | 2.000 (2.000-2.000) | 6 | 0% |",
    ]


def test_the_ablation_races_what_its_runs_end_with_and_keeps_to_its_time() -> None:
    def run(until: float) -> list[Run]:
        return compare(
            {"t": TASK},
            lambda task, seed: SyntheticMeasurer(task, noise=0.0, seed=seed),
            lambda task: lambda r: r.cost,
            "48 trials",
            1,
            [v for v in VARIANTS if v.name in ("random", "guided")],
            race=lambda task, records: {r.schedule_key: 2 * r.cost for r in records},
            until=until,
        )

    of = {r.variant: r for r in run(np.inf)}
    assert of.keys() == {"random", "guided", DEFAULTS}
    assert of[DEFAULTS].end == 2 * of[DEFAULTS].half >= of["guided"].end
    assert 0 < of[DEFAULTS].trials <= len(TASK.space.default())
    assert not run(-np.inf)


def test_intervals_are_of_tasks() -> None:
    assert str(geometric_mean([[2.0, 8.0], [4.0]])) == "4.000 (4.000-4.000)"
    wide = geometric_mean([[1.0] * 9, [4.0]])
    assert wide.value == 2.0 and (wide.low, wide.high) == (1.0, 4.0)


def test_what_was_recorded_is_answered_and_what_lies_between_is_guessed() -> None:
    space = TASK.space
    rows = space.sample(300, np.random.default_rng(0))
    log = TuningLog()
    for _, record in SyntheticMeasurer(TASK, noise=0.0).measure(
        [_candidate(row) for row in rows], np.inf
    ):
        log.append(record)
    recorded = Recorded(TASK, list(log))
    known = recorded.seconds(rows[:20])
    true = space.seconds(rows[:20])  # type: ignore[attr-defined]
    assert np.abs(np.log(known / true)).max() < 0.05
    others = space.sample(100, np.random.default_rng(1))
    guessed = np.log(recorded.seconds(others))
    truth = np.log(space.seconds(others))  # type: ignore[attr-defined]
    assert np.corrcoef(guessed, truth)[0, 1] > 0.5


def _candidate(row):
    from loopwright.autotune.protocols import Candidate

    return Candidate(tuple(TASK.space.schedule(row).to_json()), row=tuple(int(v) for v in row))


def test_incumbents_are_the_best_so_far() -> None:
    def record(seconds: float, raced: bool = False) -> MeasureRecord:
        return MeasureRecord(TASK.workload, TASK.key, (), seconds=(seconds,), raced=raced)

    records = [record(3.0), record(4.0), record(2.0), record(1.0, raced=True), record(1.5)]
    assert [r.cost for r in incumbents(records)] == [3.0, 2.0, 1.5]


def test_rates_count_everything() -> None:
    one = Throughput("t", 1e-4, 40, 4.0, 0.5)
    assert (one.rate, one.share) == (10.0, 0.125)


def test_held_out_kernels_are_of_all_kinds() -> None:
    assert len(HELD_OUT) == 20 and len({str(entry) for entry in HELD_OUT}) == 20
    tasks = held_out_tasks(count=2)
    assert len({t.workload.hash for t in tasks.values()}) == 2


def test_a_search_that_can_gain_no_more_stops() -> None:
    long = replace(DEFAULT_SETTINGS, scheduler_batch=64)  # slices of a single task
    full, _ = tune_one(
        TASK,
        SyntheticMeasurer(TASK),
        TuningLog(),
        "900 trials",
        settings=replace(long, least_gain=0.0),
    )
    early, _ = tune_one(TASK, SyntheticMeasurer(TASK), TuningLog(), "900 trials", settings=long)
    assert full.stopped == "budget" and full.trials == 900
    assert early.stopped == "converged" and early.trials < 900
    assert early.after <= 1.03 * full.after


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda v: v.name.strip())
def test_every_variant_has_a_model(variant) -> None:
    model = variant.model(0)
    assert not model.trained
    rows = np.random.default_rng(0).random((64, 5)).astype(np.float32)
    model.update("g", rows, rows[:, 0].astype(np.float64) + 0.1)
    assert model.trained and model.predict(rows).shape == (64,)


@pytest.mark.parametrize("name", PROGRAMS)
def test_slices_by_expected_gain_beat_round_robin(name: str) -> None:
    """On recorded slices, at equal budget: most where the budget is short, never much behind."""
    kernels = landscape(name)
    everything = sum(took for k in kernels for took, _ in k.turns)
    gains = []
    for share in SHARES:
        planned, in_turn = (simulate(kernels, s, share * everything) for s in SCHEDULERS.values())
        gains.append(in_turn / planned)
    assert min(gains) > 0.995 and max(gains) > 1.05
    assert float(np.exp(np.mean(np.log(gains)))) > 1.02


def test_what_the_model_is_worth_is_said_in_ratios_of_times() -> None:
    seconds = {"default": 2.0, "zero": 1.8, "model 0": 2.2, "model 1": 1.5, "quick": 1.5}
    assert ratios(seconds | {"search": 1.2}) == pytest.approx(
        {
            "zero trials over the default": 0.9,
            "the model's first over the default": 1.1,
            "the best of eight over the default": 0.75,
            "zero over the search": 1.5,
            "quick over the search": 1.25,
            "default over the search": 2.0 / 1.2,
        }
    )
