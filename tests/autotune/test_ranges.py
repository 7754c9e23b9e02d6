"""Kernels with symbolic sizes: the points of a range, their records."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from loopwright.autotune.log.line import RecordError
from loopwright.autotune.log.log_index import LogIndex
from loopwright.autotune.log.logged import logged_kernel, logged_prim
from loopwright.autotune.log.record import MeasureRecord, Workload, hash_at, target_key
from loopwright.autotune.log.tuning_log import TuningLog
from loopwright.autotune.ranges import MOST_BYTES, checked_points, points, specialised
from loopwright.autotune.space.analysis import prim_bytes
from loopwright.autotune.workload import workload_at, workload_of
from loopwright.codegen.target import Target
from loopwright.ir.errors import LoopwrightError
from loopwright.ir.loop.parser import parse_prim
from loopwright.ir.loop.prim import PrimFunc

TARGET = Target("x86-64-v3", "some CPU", 2, 32768, 1 << 20, 1 << 25)
KEY = target_key(TARGET, 1)


def dense(sizes: str = "n0 in 0..4096", rows: str = "n0") -> PrimFunc:
    return parse_prim(
        f"""prim @dense(x0: float32[{rows}, 64], x1: float32[64, 96] const) -> out: float32[{rows}, 96] for {sizes} {{
  out[i, j] = sum(k: 64) x0[i, k] * x1[k, j]
}}""",  # noqa: E501 - one header
        "<test>",
    )


def record_at(prim: PrimFunc, n: int, seconds: float = 1e-3) -> MeasureRecord:
    steps = (["vectorize", "j"],)
    return MeasureRecord(workload_at(prim, {"n0": n}), KEY, steps, "tile", (seconds,))


def test_points_stay_in_the_range_and_in_memory() -> None:
    assert [p["n0"] for p in points(dense())] == [1, 16, 128, 2048]
    assert [p["n0"] for p in points(dense("n0 in 8..40"))] == [8, 16, 40]
    wide = dense("n0 in 0..100000, n1 in 1..100000", "n0 * n1")
    assert all(prim_bytes(specialised(wide, p)) <= MOST_BYTES for p in points(wide))
    assert points(wide)[0] == {"n0": 1, "n1": 1}
    assert all(0 < p["n0"] <= 4096 for p in checked_points(dense()))


def test_a_range_is_a_workload_at_each_point() -> None:
    prim = dense()
    there = workload_at(prim, {"n0": 16})
    assert there.hash == f"{workload_of(prim).hash}@16" and there.at == (16,)
    assert there.prim == workload_of(prim.at({"n0": 16})).prim
    assert there.text == "dense float32 i=16 j=96 k=64 for n0 in 0..4096"
    assert logged_prim(there) == prim.at({"n0": 16}) and logged_kernel(there) == (prim, {"n0": 16})
    # What was measured of a range suggests schedules for near shapes, and the other way round.
    static = workload_of(dense().at({"n0": 64}))
    assert static.distance(there) == pytest.approx(math.log2(65 / 17))


def test_records_of_a_range_are_found_again(tmp_path: Path) -> None:
    prim, path = dense(), tmp_path / "log.jsonl"
    log = TuningLog(path)
    log.append([record_at(prim, 16), record_at(prim, 2048), record_at(dense("n0 in 0..9"), 4)])
    for view in (log, LogIndex(path), TuningLog(path)):
        assert view.points(workload_of(prim).hash) == {(16,), (2048,)}
        (record,) = view.of(workload_at(prim, {"n0": 16}).hash)
        assert record == record_at(prim, 16)
        assert view.of(workload_of(prim).hash) == []


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"at": []}, "at holds no sizes"),
        ({"at": [-1]}, "at holds no sizes"),
        ({"at": [True]}, "at holds no sizes"),
        ({"at": [2**63]}, "an integer of 64 bits"),
        ({"at": ["16"]}, "at holds no sizes"),
        ({"at": 16}, "at is not a list"),
        ({"at": None}, "at is not a list"),
        ({"at": [17]}, "at is not the point of the hash"),
        ({"hash": "0123456789abcdef"}, "at is not the point of the hash"),
        ({"hash": "0123456789abcdef@16,"}, "at is not the point of the hash"),
        ({"range": ""}, "at is not the point of the hash"),
        ({"range": ["n"]}, "range is not a text"),
    ],
)
def test_a_damaged_point_is_no_record(change: dict[str, object], why: str) -> None:
    data = json.loads(record_at(dense(), 16).to_json())
    data["workload"].update(change)
    with pytest.raises(RecordError, match=why):
        MeasureRecord.from_json(json.dumps(data))


@pytest.mark.parametrize(
    ("start", "point"), [("0123456789abcdef", (16,)), ("", (5000,)), ("", (1, 1))]
)
def test_a_range_of_another_kernel_is_refused(start: str, point: tuple[int, ...]) -> None:
    whole = workload_of(dense())
    name = hash_at(start or whole.hash, point)
    with pytest.raises(LoopwrightError):
        logged_kernel(Workload(name, "dense", "", whole.prim, point))
