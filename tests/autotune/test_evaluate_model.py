from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from loopwright.autotune.log.tuning_log import TuningLog
from loopwright.autotune.model.quality import ModelQuality, pairwise_accuracy, recall_at

from bench.standins import SyntheticMeasurer, synthetic_task
from tools.evaluate_model import collect, held_out_quality, main, matmul_prim

SIZES = [(256, 256, 256), (512, 96, 128), (64, 700, 90), (100, 100, 1000)]


def test_a_model_is_judged_by_a_task_it_has_not_seen() -> None:
    log, samples = TuningLog(), {}
    for size in SIZES:
        task = synthetic_task(size)
        samples[task.workload.text] = collect(task, SyntheticMeasurer(task), log, 150, seed=0)
        assert len(samples[task.workload.text][1]) == 150
    held_out = synthetic_task(SIZES[-1]).workload.text
    blind = held_out_quality(samples, held_out)
    assert blind.candidates == 150 and blind.k == 30
    assert blind.pairwise > 0.8
    informed = held_out_quality(samples, held_out, seen=80)
    assert informed.candidates == 70
    assert informed.pairwise > 0.9


def test_what_the_log_has_is_not_measured_again() -> None:
    log, task = TuningLog(), synthetic_task()
    collect(task, SyntheticMeasurer(task), log, 30, seed=0)
    measurer = SyntheticMeasurer(task)
    _, costs = collect(task, measurer, log, 40, seed=1)
    assert len(costs) == 40 and measurer.count == 10


def test_the_prim_is_the_product_of_its_operands() -> None:
    prim = matmul_prim(3, 4, 5)
    assert "float32[3, 4]" in str(prim) and prim.params[1].constant


@pytest.mark.parametrize("seconds", ["0.001", "1e-9"])
def test_too_little_time_is_said(seconds: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--seconds", seconds]) == 1
    told = capsys.readouterr().out
    assert "nan" not in told
    assert told.endswith(
        "too few candidates were measured to judge the model: give it more --seconds\n"
    )
    assert "pairwise accuracy unknown (bar 0.85), recall@30 unknown" in told or "0." in told


def test_a_quality_without_candidates_is_words() -> None:
    for costs in ([], [1.0], [1.0, 1.0], [np.inf, np.inf]):
        ordered = np.array(costs)
        quality = ModelQuality(
            len(costs), pairwise_accuracy(ordered, ordered), recall_at(ordered, ordered, 30), 30
        )
        assert str(quality) == f"not judged: {len(costs)} unseen candidates have no order"


def test_the_command_measures_real_kernels(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = str(tmp_path / "log")
    assert main(["--records", "30", "--held-out", "6", "--log", log]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("matmul float32 i=256 j=256 k=64: pairwise accuracy ")
    assert lines[2].endswith("on 6 unseen candidates, after 30 records of other products")
    assert lines[3].startswith("pairwise accuracy ") and lines[3].endswith("(bar 0.62)")
    assert "(bar 0.85), recall@30 " in lines[3]
    assert len(TuningLog(log)) == 8 * 3 + 3 * 6
