"""Measures what the log lacks: winners with one decision reverted."""

from __future__ import annotations

from ...autotune.budget import Budget, BudgetClock
from ...autotune.log.lookup import best_records
from ...autotune.log.tuning_log import TuningLog
from ...autotune.logtool.logged import logged_kernel
from ...autotune.measure.kernels import TOOLCHAIN, task_of
from ...autotune.measure.measurer import NativeMeasurer, Workers
from ...autotune.protocols import Candidate
from ...autotune.record import target_key
from ...autotune.space.space import ScheduleSpace
from ...codegen.target import Target
from ...ir.errors import LoopwrightError
from .worth import reverted_schedules


def measure_decisions(log: TuningLog, budget: Budget) -> int:
    """Measures the winners of ``log`` on this machine with each decision reverted, where the log
    has no measurement, and appends the records. Returns their number. Raises LogError if the log
    cannot be written.

    Winners are measured again beside them, so that both were timed under the same circumstances.
    """
    log.check_writable()
    clock = BudgetClock(budget)
    for winner in best_records(log):
        target, threads = Target.host(), winner.target.threads
        if clock.spent or target_key(target, threads) != winner.target:
            continue
        try:
            prim, point = logged_kernel(winner.workload)
            task = task_of(prim, target, threads, point=point)
        except LoopwrightError:
            continue
        assert isinstance(task.space, ScheduleSpace)
        records = log.of(winner.workload.hash, winner.target)
        keys = {record.schedule_key for record in records}
        asked = [Candidate(winner.schedule, winner.sketch)]
        for row, schedule in reverted_schedules(task.space, records, winner):
            candidate = Candidate(tuple(schedule.to_json()), task.sketch_of(row))
            if candidate.key not in keys:
                keys.add(candidate.key)
                asked.append(candidate)
        if len(asked) == 1:
            continue
        with Workers(threads) as workers, NativeMeasurer(task, TOOLCHAIN, workers=workers) as by:
            for _, record in by.measure(asked, winner.cost):
                log.append(record)
                clock.trials += 1
                if clock.spent:
                    break
    return clock.trials
