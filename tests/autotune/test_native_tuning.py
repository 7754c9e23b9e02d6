from __future__ import annotations

from dataclasses import replace

import numpy as np
import planted_kernels as planted
from loopwright.autotune.log.tuning_log import TuningLog
from loopwright.autotune.program.native_tuning import suggested_rows, tune_tasks
from loopwright.autotune.record import MeasureRecord, Workload
from loopwright.autotune.request import TuneRequest

from bench.standins import SyntheticSchedule, SyntheticSpace, synthetic_task


class Delays(SyntheticSpace):
    """Rows are good planted kernels, slower by what two knobs say."""

    def schedule(self, row: np.ndarray) -> SyntheticSchedule:
        return _Planted(int(row[0]) * 300 + int(row[1]))

    def row_of(self, schedule: object) -> None:
        return None


class _Planted(SyntheticSchedule):
    def __init__(self, delay: int) -> None:
        object.__setattr__(self, "row", (delay,))

    def to_json(self) -> list[object]:
        return [["plant", "good", self.row[0] + 1]]


def test_tasks_share_processes_and_one_log() -> None:
    first = replace(planted.make_task(), space=Delays(), parse=list, weight=2)
    second = replace(first, workload=Workload("other", "other"), name="other", weight=1)
    log = TuningLog()
    result = tune_tasks(
        [first, second], planted.TOOLCHAIN, log, TuneRequest("64 trials", settings=planted.SETTINGS)
    )
    assert result.trials == 64 and not result.errors
    assert {r.workload.hash for r in log} == {"planted", "other"}
    for task in result.tasks:
        assert task.best is not None and task.best.ok
        assert task.after < 1e-3


def test_logs_suggest_rows() -> None:
    near, far = synthetic_task((250, 256, 256)), synthetic_task((8, 8, 8))
    task = synthetic_task()
    row = [3, 7, 7, 1, 1, 1, 2, 1]

    def log_of(owner, schedule=(["tile", row],), target=task.key) -> TuningLog:
        log = TuningLog()
        log.append(MeasureRecord(owner.workload, target, schedule, seconds=(1.0,)))
        return log

    other_cpu = replace(task.key, cpu="another")
    for log in (log_of(task), log_of(task, target=other_cpu), log_of(near), log_of(far)):
        assert [r.tolist() for r in suggested_rows(task, [log])] == [row]
    assert suggested_rows(task, [TuningLog()]) == []
    assert suggested_rows(task, [log_of(near, (["spell", row],))]) == []
