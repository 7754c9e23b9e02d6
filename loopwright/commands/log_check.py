"""``loopwright log verify --run``: the winners of a log, built and run here, and their results."""

from __future__ import annotations

from ..autotune.log.lookup import best_records
from ..autotune.log.record import MeasureRecord
from ..autotune.log.tuning_log import TuningLog
from ..autotune.logtool.logged import logged_kernel
from ..autotune.measure.kernels import TOOLCHAIN, task_of
from ..autotune.measure.measurer import NativeMeasurer, Workers
from ..autotune.protocols import Candidate
from ..codegen.target import ISA_LEVELS, Target
from ..ir.errors import LoopwrightError
from ..text import seconds_text


def check_winners(log: TuningLog) -> bool:
    """Prints a line per winner. Returns False if the result of one is wrong.

    Winners of machines whose code does not run here are passed over.
    """
    right = True
    winners = best_records(log)
    for threads in sorted({w.target.threads for w in winners}):
        with Workers(threads) as workers:
            for winner in (w for w in winners if w.target.threads == threads):
                said, good = _checked(winner, workers)
                right &= good
                print(f"{winner.workload.text or winner.workload.hash}: {said}")
    return right


def _checked(winner: MeasureRecord, workers: Workers) -> tuple[str, bool]:
    host = Target.host()
    level = ISA_LEVELS.get(winner.target.isa)
    if level is None or not level.cpu_flags <= host.level.cpu_flags:
        return f"not run, this machine has no {winner.target.isa}", True
    try:
        prim, point = logged_kernel(winner.workload)
    except LoopwrightError as error:
        return f"not run, {error.message}", True
    target = host.with_isa(winner.target.isa)
    task = task_of(prim, target, winner.target.threads, point=point)
    with NativeMeasurer(task, TOOLCHAIN, workers=workers) as measurer:
        ((_, record),) = measurer.measure([Candidate(winner.schedule, winner.sketch)])
    if not record.ok:
        return f"WRONG: {record.error} {record.detail}".rstrip(), False
    check = record.checked
    error = f", error {check.max_error:.1e} of {check.bound:.1e}" if check else ""
    return f"right{error}; {seconds_text(record.cost)}, logged {seconds_text(winner.cost)}", True
