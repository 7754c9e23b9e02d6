from __future__ import annotations

import json
import math

import pytest
from loopwright.autotune.record import (
    Check,
    MeasureRecord,
    TargetKey,
    Workload,
    robust_seconds,
    target_key,
)
from loopwright.autotune.record_line import FutureRecordError, RecordError
from loopwright.codegen.target import Target

TARGET = TargetKey("x86-64-v4", "some cpu", 2, 1, 49152, 1048576, 33554432)
RECORD = MeasureRecord(
    workload=Workload("3f9a", "matmul float32 i=1000 j=384 k=512", "x: float32[1000, 512]"),
    target=TARGET,
    schedule=(["split", "i", [125, 1, 8]], ["pack", "w", {"j": 48}, "root"]),
    sketch="contraction.register_tile/1",
    seconds=(0.00147, 0.00146, 0.00147),
    checked=Check(1.1e-6, 3.1e-5),
    seed=7,
    time="2026-11-20T10:00:00Z",
    version="0.1.0",
)

# A line as version 0.1.0 wrote it. It must be readable for ever: add lines here, change none.
LINE_OF_V1 = (
    '{"v": 1, "workload": {"hash": "3f9a", "text": "matmul float32 i=1000 j=384 k=512", '
    '"prim": "x: float32[1000, 512]"}, "target": {"isa": "x86-64-v4", "cpu": "some cpu", '
    '"cores": 2, "threads": 1, "l1": 49152, "l2": 1048576, "l3": 33554432}, "schedule": '
    '[["split", "i", [125, 1, 8]], ["pack", "w", {"j": 48}, "root"]], '
    '"sketch": "contraction.register_tile/1", "seconds": [0.00147, 0.00146, 0.00147], '
    '"error": null, "detail": "", "checked": {"max_error": 1.1e-06, "bound": 3.1e-05}, '
    '"seed": 7, "time": "2026-11-20T10:00:00Z", "loopwright": "0.1.0"}'
)


def test_the_line_is_the_documented_one() -> None:
    assert RECORD.to_json() == LINE_OF_V1
    assert MeasureRecord.from_json(LINE_OF_V1) == RECORD


def test_fields_that_are_not_known_are_ignored() -> None:
    data = json.loads(LINE_OF_V1) | {"mood": "good"}
    assert MeasureRecord.from_json(json.dumps(data)) == RECORD


def test_the_line_of_the_walkthrough_is_read() -> None:
    data = json.loads(LINE_OF_V1)
    del data["target"]["cores"], data["workload"]["prim"], data["detail"]
    record = MeasureRecord.from_json(json.dumps(data))
    assert record.cost == pytest.approx(0.001465, rel=1e-2)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"seconds": []}, "neither seconds nor an error"),
        ({"seconds": [-1.0]}, "a time of -1.0 seconds"),
        ({"seconds": ["fast"]}, "a time is not a number"),
        ({"seconds": [True]}, "a time is not a number"),
        ({"schedule": "fast"}, "schedule is not a list"),
        ({"target": None}, "target is not an object"),
        ({"workload": {"text": "no hash"}}, "hash is not a text"),
        ({"error": "Traceback (most recent"}, "error is not a word"),
        ({"checked": {"max_error": "small"}}, "checked holds no numbers"),
        ({"v": 0}, "v is not an integer from 1"),
        ({"seed": 1.5}, "seed is not an integer from 0"),
    ],
)
def test_numbers_are_validated(change: dict[str, object], complaint: str) -> None:
    with pytest.raises(RecordError, match=complaint):
        MeasureRecord.from_json(json.dumps(json.loads(LINE_OF_V1) | change))


def test_nan_and_infinite_times_are_refused() -> None:
    for word in ("NaN", "Infinity", "1e999"):
        with pytest.raises(RecordError, match="not a finite number"):
            MeasureRecord.from_json(LINE_OF_V1.replace("0.00146", word))


def test_torn_foreign_and_future_lines_are_told_apart() -> None:
    with pytest.raises(RecordError, match="not JSON"):
        MeasureRecord.from_json(LINE_OF_V1[:100])
    with pytest.raises(RecordError, match="not a tuning record"):
        MeasureRecord.from_json('{"level": "info"}')
    with pytest.raises(FutureRecordError, match="schema version 9"):
        MeasureRecord.from_json(LINE_OF_V1.replace('"v": 1', '"v": 9'))
    with pytest.raises(RecordError, match="not JSON"):
        MeasureRecord.from_json("[" * 100_000)


def test_a_failed_record_costs_infinitely_much() -> None:
    failed = MeasureRecord(RECORD.workload, TARGET, RECORD.schedule, error="timeout")
    assert failed.cost == math.inf
    assert not failed.ok
    assert MeasureRecord.from_json(failed.to_json()) == failed


def test_noise_does_not_make_a_candidate_slow() -> None:
    assert robust_seconds((1.0, 1.02, 50.0, 1.01)) == pytest.approx(1.005)
    assert robust_seconds((2.0,)) == 2.0


def test_workloads_of_a_kind_differ_in_sizes_alone() -> None:
    small = Workload("a", prim="prim(p0: float32[64, 32]) { t0[i0] = p0[i0, 3] * 1.5 }")
    large = Workload("b", prim="prim(p0: float32[512, 32]) { t0[i0] = p0[i0, 3] * 1.5 }")
    other = Workload("c", prim="prim(p0: float32[64, 32]) { t0[i0] = p0[i0, 3] * 2.5 }")
    assert small.sizes == (64, 32, 3)
    assert small.distance(large) == pytest.approx(math.log2(513 / 65))
    assert small.distance(other) == math.inf
    assert Workload("d").distance(Workload("d")) == math.inf


def test_the_key_of_a_target_holds_what_matters_for_speed() -> None:
    target = Target("x86-64-v3", "cpu", 4, 1, 2, 3)
    assert target_key(target) == TargetKey("x86-64-v3", "cpu", 4, 4, 1, 2, 3)
    assert target_key(target, 1).threads == 1
