from __future__ import annotations

from dataclasses import replace

from loopwright.autotune.log.lookup import (
    LookupResult,
    best_of,
    best_records,
    related,
    shipped_logs,
)
from loopwright.autotune.log.tuning_log import TuningLog
from loopwright.autotune.record import MeasureRecord, TargetKey, Workload

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


def winner(*logs: TuningLog) -> MeasureRecord | None:
    best = best_of(logs, MATMUL.hash, HERE)
    return None if best is None else best[1]


def first(log: TuningLog, workload: Workload = MATMUL, key: TargetKey = HERE) -> LookupResult:
    return related([log], workload, key)[0]


def test_the_fastest_record_wins() -> None:
    log = log_of(record(2.0, tile=1), record(1.0, tile=2), record(0.5, tile=3, error="timeout"))
    assert winner(log) is log.records[1]


def test_a_record_of_another_machine_is_no_winner_here() -> None:
    elsewhere = replace(HERE, cpu="another cpu")
    log = log_of(record(1.0, target=elsewhere), record(2.0))
    assert winner(log) is log.records[1]
    found = first(log_of(log.records[0]))
    assert (found.kind, found.source) == (
        "compatible",
        "record of another cpu, x86-64-v4, 1 thread",
    )


def test_the_closest_machine_is_preferred_and_its_level_must_be_known() -> None:
    older = record(0.1, target=replace(HERE, isa="x86-64-v3"))
    threads = record(0.2, target=replace(HERE, threads=2))
    caches = record(3.0, target=replace(HERE, l1=65536))
    assert first(log_of(older, threads, caches)).record is caches
    assert first(log_of(older, threads)).record is threads
    assert first(log_of(older)).record is older
    assert first(log_of(record(1.0)), key=replace(HERE, isa="x86-64-v3")).kind == "compatible"
    assert not related([log_of(record(1.0, target=replace(HERE, isa="alien")))], MATMUL, HERE)


def test_the_nearest_shape_of_the_same_kind_is_next() -> None:
    def shape(n: int) -> Workload:
        return Workload(f"m{n}", f"matmul {n}", f"matmul(p0: float32[{n}, {n}])")

    other_kind = Workload("c", "conv", "conv(p0: float32[500, 500])")
    log = log_of(
        record(1.0, workload=shape(64)),
        record(1.0, workload=shape(500)),
        record(1.0, workload=other_kind),
    )
    nearest, further = related([log], MATMUL, HERE)
    assert (nearest.kind, nearest.record) == ("near", log.records[1])
    assert 0 < nearest.distance < 0.2 and nearest.source == "record of a near shape"
    assert further.record is log.records[0]
    assert not related([log], Workload("m512"), HERE)  # a hash alone knows no sizes


def test_a_mean_over_another_length_is_of_the_same_kind() -> None:
    def mean(n: int) -> Workload:
        factor = f"* {1 / n}" if n & (n - 1) == 0 else f"/ {n}.0"
        return Workload(
            f"m{n}",
            prim=f"(x: float32[8, {n}]) {{ t[i] = sum(k: {n}) x[i, k]; "
            f"y[i] = t[i] {factor} + 1e-05 }}",
        )

    (near,) = related([log_of(record(1.0, workload=mean(576)))], mean(768), HERE)
    assert near.distance < 0.5
    assert mean(512).distance(mean(1024)) < 1.1


def test_records_of_other_threads_and_of_near_shapes_are_found_together() -> None:
    near = Workload("m500", prim="matmul(p0: float32[500, 500])")
    log = log_of(record(1.0, target=replace(HERE, threads=2)), record(1.0, workload=near))
    assert [found.kind for found in related([log], MATMUL, HERE)] == ["compatible", "near"]


def test_a_schedule_that_was_ever_refused_is_not_used() -> None:
    log = log_of(record(1.0, tile=1), record(0, tile=1, error="wrong_result"), record(2.0, tile=2))
    assert winner(log) is log.records[2]
    assert winner(log_of(*log.records[:2])) is None
    assert best_records(log) == [log.records[2]]


def test_runs_of_one_schedule_are_pooled() -> None:
    lucky, later = record(0.9, tile=1), record(3.0, tile=1)
    also = replace(later, seed=1)
    steady = record(1.0, tile=2)
    assert winner(log_of(lucky, later, also, steady)) is steady


def test_what_was_tried_first_is_kept_unless_something_is_clearly_faster() -> None:
    favourite = record(1.0, tile=1)
    assert winner(log_of(favourite, record(0.99, tile=2))) is favourite
    better = record(0.97, tile=2)
    assert winner(log_of(favourite, better)) is better
    assert winner(log_of(better, favourite)) is better


def test_several_logs_are_one() -> None:
    one, second = log_of(record(2.0, tile=1)), log_of(record(1.0, tile=2))
    assert winner(one, second) is second.records[0]


def test_the_shipped_logs_can_be_read() -> None:
    for log in shipped_logs():
        assert TuningLog(log.path).skipped.total == 0
