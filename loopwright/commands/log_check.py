"""``loopwright log verify --run``: the winners of a log, built and run here, and their results;
``--transfer``: what the log would be worth to each of its kernels if that had no record itself."""

from __future__ import annotations

import math

from ..autotune.log.lookup import best_records
from ..autotune.log.tuning_log import TuningLog
from ..autotune.logtool.logged import logged_kernel
from ..autotune.measure.kernels import TOOLCHAIN, task_of
from ..autotune.measure.measurer import NativeMeasurer, Workers
from ..autotune.protocols import Candidate
from ..autotune.record import MeasureRecord
from ..autotune.selection.select import Origin, choose_schedule
from ..autotune.space.space import default_schedule
from ..codegen.target import ISA_LEVELS, Target
from ..driver.kernels import checked_kernels
from ..ir.errors import LoopwrightError
from ..text import seconds_text

OF_USE = 1.03
"""Times as fast as the default schedule as a winner has to be to count as a gain."""
TRANSFER_ROUNDS = 10


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


def check_transfer(log: TuningLog) -> None:
    """Prints for each winner how fast the kernel would be with the records of others alone: those
    of near shapes, and its own of other targets.

    In the end the share of the winners of which others have a record of use that took one, the
    share of the gain reached, and the regret: the time of what was taken over the best one's.
    """
    rows: list[tuple[bool, float, float]] = []
    for winner in best_records(log):
        row = _carried(log, winner)
        if row is not None:
            rows.append(row)
    if not rows:
        print("no winner has records of others that can be carried to it here")
        return
    of_use = [taken for taken, _, tuned in rows if tuned >= OF_USE]
    regrets = [max(1.0, tuned, carried) / carried for _, carried, tuned in rows]
    whole = sum(math.log(max(1.0, tuned)) for _, _, tuned in rows)
    reached = sum(math.log(carried) for _, carried, _ in rows) / whole if whole else 1.0
    mean = math.exp(sum(map(math.log, regrets)) / len(regrets))
    print(
        f"{len(rows)} kernels by the records of others: {sum(of_use)} of the {len(of_use)} that "
        f"tuning makes {100 * (OF_USE - 1):.0f} % faster took one; {100 * reached:.0f} % of the "
        f"gain reached, regret {mean:.3f}x, at worst {max(regrets):.2f}x"
    )


def _carried(log: TuningLog, winner: MeasureRecord) -> tuple[bool, float, float] | None:
    """Prints a line; returns whether a record was taken, and how many times as fast as the default
    schedule that and the winner are. None without a record of others, or if it does not run."""
    workload, key, host = winner.workload, winner.target, Target.host()
    others = TuningLog()
    for alike in log.alike(workload):
        of_others = (
            r for r in log.of(alike.hash) if alike.hash != workload.hash or r.target != key
        )
        others.append(of_others)
    level = ISA_LEVELS.get(key.isa)
    runs = level is not None and level.cpu_flags <= host.level.cpu_flags
    if not len(others) or not runs or key.threads > host.cores or workload.range:
        return None
    target = host.with_isa(key.isa)
    try:
        prim, _ = logged_kernel(workload)
    except LoopwrightError:
        return None
    way = choose_schedule(prim, target, key.threads, [others], (), True)
    _, used = checked_kernels({prim.name: prim}, {prim.name: way}, target, key.threads, [others])
    way = used[prim.name]
    default, sketch = default_schedule(prim, target.with_threads(key.threads))
    entrants = [
        Candidate(tuple(default.to_json()), sketch),
        Candidate(tuple(way.schedule.to_json()), way.sketch),
        Candidate(winner.schedule, winner.sketch),
    ]
    distinct = list({entrant.key: entrant for entrant in entrants}.values())
    with NativeMeasurer(task_of(prim, target, key.threads), TOOLCHAIN) as measurer:
        cost = {r.schedule_key: r.cost for r in measurer.race(distinct, TRANSFER_ROUNDS) if r.ok}
    if len(cost) < len(distinct):
        return None
    before, carried, tuned = (cost[entrant.key] for entrant in entrants)
    passed = f" ({'; '.join(way.passed)})" if way.passed else ""
    source = f"a {way.source}" if way.origin != Origin.RULES else "no record"
    print(
        f"{workload.text or workload.hash}: {seconds_text(before)} by default, "
        f"{before / carried:.2f}x with {source}, {before / tuned:.2f}x tuned{passed}"
    )
    return way.origin != Origin.RULES, before / carried, before / tuned
