from __future__ import annotations

from dataclasses import replace

from loopwright.autotune.log.lookup import best_records, lookup, shipped_logs
from loopwright.autotune.log.record import MeasureRecord, TargetKey, Workload
from loopwright.autotune.log.tuning_log import TuningLog

HERE = TargetKey("x86-64-v4", "this cpu", 2, 1, 32768, 1 << 20, 32 << 20)
MATMUL = Workload("m512", "matmul 512", "matmul(p0: float32[512, 512])")


def record(
    seconds: float,
    *,
    workload: Workload = MATMUL,
    target: TargetKey = HERE,
    tile: int = 0,
    error: str | None = None,
) -> MeasureRecord:
    return MeasureRecord(
        workload, target, (["tile", tile],), seconds=() if error else (seconds,), error=error
    )


def log_of(*records: MeasureRecord) -> TuningLog:
    log = TuningLog()
    log.append(records)
    return log


def test_the_fastest_exact_record_wins() -> None:
    log = log_of(record(2.0, tile=1), record(1.0, tile=2), record(0.5, tile=3, error="timeout"))
    found = lookup(log, MATMUL, HERE)
    assert (found.kind, found.record) == ("exact", log.records[1])
    assert lookup(log, "m512", HERE).kind == "exact"


def test_a_slow_exact_record_beats_a_fast_foreign_one() -> None:
    elsewhere = replace(HERE, cpu="another cpu")
    log = log_of(record(1.0, target=elsewhere), record(2.0))
    assert lookup(log, MATMUL, HERE).record is log.records[1]
    found = lookup(log_of(log.records[0]), MATMUL, HERE)
    assert found.kind == "compatible"
    assert str(found) == "compatible record, 1000 ms, measured on another cpu"


def test_the_closest_machine_is_preferred_and_its_level_must_be_known() -> None:
    older = record(0.1, target=replace(HERE, isa="x86-64-v3"))
    threads = record(0.2, target=replace(HERE, threads=2))
    caches = record(3.0, target=replace(HERE, l1=65536))
    assert lookup(log_of(older, threads, caches), MATMUL, HERE).record is caches
    assert lookup(log_of(older, threads), MATMUL, HERE).record is threads
    assert lookup(log_of(older), MATMUL, HERE).record is older
    assert lookup(log_of(record(1.0)), MATMUL, replace(HERE, isa="x86-64-v3")).kind == "compatible"
    assert not lookup(log_of(record(1.0, target=replace(HERE, isa="alien"))), MATMUL, HERE)


def test_the_nearest_shape_of_the_same_kind_is_next() -> None:
    def shape(n: int) -> Workload:
        return Workload(f"m{n}", f"matmul {n}", f"matmul(p0: float32[{n}, {n}])")

    other_kind = Workload("c", "conv", "conv(p0: float32[500, 500])")
    log = log_of(
        record(1.0, workload=shape(64)),
        record(1.0, workload=shape(500)),
        record(1.0, workload=other_kind),
    )
    found = lookup(log, MATMUL, HERE)
    assert (found.kind, found.record) == ("near", log.records[1])
    assert 0 < found.distance < 0.2
    assert str(found) == "near record of matmul 500, 1000 ms, measured on this cpu"
    assert not lookup(log, "m512", HERE)  # a hash alone knows no sizes


def test_a_schedule_that_was_ever_refused_is_not_used() -> None:
    log = log_of(record(1.0, tile=1), record(0, tile=1, error="wrong_result"), record(2.0, tile=2))
    assert lookup(log, MATMUL, HERE).record is log.records[2]
    assert lookup(log_of(*log.records[:2]), MATMUL, HERE).kind == "none"
    assert best_records(log) == [log.records[2]]


def test_runs_of_one_schedule_are_pooled() -> None:
    lucky, later = record(0.9, tile=1), record(3.0, tile=1)
    also = replace(later, seed=1)
    steady = record(1.0, tile=2)
    assert lookup(log_of(lucky, later, also, steady), MATMUL, HERE).record is steady


def test_what_was_tried_first_is_kept_unless_something_is_clearly_faster() -> None:
    favourite = record(1.0, tile=1)
    assert lookup(log_of(favourite, record(0.99, tile=2)), MATMUL, HERE).record is favourite
    better = record(0.97, tile=2)
    assert lookup(log_of(favourite, better), MATMUL, HERE).record is better
    assert lookup(log_of(better, favourite), MATMUL, HERE).record is better


def test_several_logs_are_one() -> None:
    first, second = log_of(record(2.0, tile=1)), log_of(record(1.0, tile=2))
    assert lookup([first, second], MATMUL, HERE).record is second.records[0]


def test_the_shipped_logs_can_be_read() -> None:
    for log in shipped_logs():
        assert TuningLog(log.path).skipped.total == 0
