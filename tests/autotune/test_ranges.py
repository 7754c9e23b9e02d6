"""Kernels with symbolic sizes: the points of a range, their records."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from loopwright.autotune.log.decision import Decision, Option
from loopwright.autotune.log.log_index import LogIndex
from loopwright.autotune.log.tuning_log import TuningLog
from loopwright.autotune.logtool.logged import logged_kernel, logged_prim
from loopwright.autotune.ranges import MOST_BYTES, checked_points, fitted, points, specialised
from loopwright.autotune.record import MeasureRecord, Workload, hash_at, target_key
from loopwright.autotune.record_line import RecordError
from loopwright.autotune.selection.default_cases import default_cases
from loopwright.autotune.selection.select import Origin, choose_schedule
from loopwright.autotune.selection.size_cases import CASES, cases_from_logs, learnt_cases, threshold
from loopwright.autotune.workload import workload_at, workload_of
from loopwright.codegen.target import Target
from loopwright.ir.errors import LoopwrightError
from loopwright.ir.loop.parser import parse_prim
from loopwright.ir.loop.prim import PrimFunc
from loopwright.ir.loop.work import prim_bytes
from loopwright.ir.schedule.cases import Cases, on_one_thread
from loopwright.ir.schedule.steps import Schedule, cut, pack, split, vectorize

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


def test_neighbours_share_a_schedule_unless_it_costs_them() -> None:
    near = CASES.least_gain / 2
    alike = [{"a": 1.0, "b": 1.0 + near}, {"a": 3.0 + near, "b": 3.0}]
    assert learnt_cases(alike) == (("a", "a"), pytest.approx(0.0))
    chosen = learnt_cases([{"a": 1.0, "b": 2.0}, {"a": 2.0, "b": 1.0}, {"b": 1.0}])
    assert chosen is not None and chosen[0] == ("a", "b", "b")
    assert learnt_cases([{"a": 1.0}, {"b": 1.0}]) == (("a", "b"), pytest.approx(CASES.least_gain))
    assert learnt_cases([{"a": 1.0}, {}]) is None


def test_cases_pack_constants_alike_and_weigh_points() -> None:
    times = [{"a": 1.0, "b": 1.5, "c": 1.6}, {"a": 9.0, "b": 2.0, "c": 1.9}]
    layouts = {"a": "narrow", "b": "wide", "c": "wide"}
    assert (learnt_cases(times, (), layouts) or ())[0] == ("b", "b")
    assert (learnt_cases(times, (0.99, 0.01), layouts) or ())[0] == ("a", "a")


def test_the_border_of_two_cases_is_where_their_times_cross() -> None:
    assert threshold(1, 16, (1.0, 2.0), (10.0, 5.0)) == 1
    assert threshold(16, 256, (1.0, 2.0), (10.0, 5.0)) == 56
    assert threshold(16, 256, (1.0, math.inf), (10.0, 5.0)) == 64
    assert threshold(16, 256, (1.0, 1.01), (10.0, 1.0)) == 16
    assert threshold(16, 17, (1.0, 9.0), (1.0, 1.0)) == 16


def test_a_kernel_of_all_sizes_runs_on_one_thread_where_it_is_short() -> None:
    chosen = choose_schedule(dense(), TARGET, 2, [])
    assert chosen.origin == Origin.RULES and isinstance(chosen.schedule, Cases)
    ((at_most, short),) = chosen.schedule.cases
    assert 1 < at_most < 512 and short == on_one_thread(chosen.schedule.otherwise)
    assert isinstance(choose_schedule(dense("n0 in 1..8"), TARGET, 2, []).schedule, Schedule)
    # What is refused makes way: for the parallel code alone, then for that of typical sizes.
    refused: list[Schedule | Cases] = [chosen.schedule]
    for _ in range(2):
        schedule, _ = default_cases(dense(), TARGET, refused)
        assert schedule not in refused
        refused.append(schedule)


def test_schedules_that_differ_in_the_size_alone_are_one() -> None:
    prim = dense()
    eight = Schedule.of(split("i", (2, 8)), split("j", (6, 16)))
    sixteen = Schedule.of(split("i", (16, 8)), split("j", (6, 16)))
    assert fitted(eight, prim) == fitted(sixteen, prim) != eight
    assert fitted(sixteen, prim.at({"n0": 16})) == eight
    pieces = Schedule.of(cut("i", (1, 15)), cut("j", (1, 95)))
    assert fitted(pieces, prim) == Schedule.of(cut("j", (1, 95)))
    assert fitted(pieces, prim.at({"n0": 16})) == pieces


def test_cases_are_learnt_from_the_records_of_each_point() -> None:
    prim, log = dense(), TuningLog()
    assert cases_from_logs(prim, workload_of(prim).hash, [log], KEY) is None
    ways = {rows: Schedule.of(split("i", (1, rows)), vectorize("j")) for rows in (1, 4, 8)}
    seconds = {1: {1: 1e-7, 4: 3e-7}, 16: {1: 9e-7, 4: 4e-7, 8: 6e-7}, 2048: {4: 9e-5, 8: 6e-5}}
    for n, times in seconds.items():
        there = workload_at(prim, {"n0": n})
        for rows, cost in times.items():
            steps = tuple(fitted(ways[rows], prim.at({"n0": n})).to_json())
            log.append(MeasureRecord(there, KEY, steps, f"rows/{rows}", (cost,)))
    log.append(MeasureRecord(there, KEY, (["split", "nothing", [1, 2]],), "bad", (1e-9,)))
    learnt = cases_from_logs(prim, workload_of(prim).hash, [log], KEY)
    assert learnt is not None and isinstance(learnt.schedule, Cases)
    assert learnt.sketch == "rows/1, rows/4, rows/8"
    # One row is a case of its own; between 16 and 2048 the times cross at 29 rows.
    ends = [(interval.low, interval.high) for interval in learnt.schedule.intervals()]
    assert ends == [(0, 0), (1, 1), (2, 29), (30, 4096)]
    assert [learnt.schedule.pick(n) for n in (1, 2, 300)] == [ways[1], ways[4], ways[8]]
    chosen = choose_schedule(prim, TARGET, 1, [log])
    assert (chosen.schedule, chosen.origin) == (learnt.schedule, Origin.EXACT)
    # Under another range the same records tell of near shapes only.
    other = choose_schedule(dense("n0 in 0..5000"), TARGET, 1, [log])
    assert other.origin != Origin.EXACT


def test_sizes_whose_programs_kept_other_layouts_share_one() -> None:
    prim, log = dense(), TuningLog()
    layouts = {tile: Schedule.of(pack("x1", "j", tile), vectorize("j")) for tile in (24, 48)}
    seconds = {1: {24: 2e-7, 48: 1e-7}, 16: {24: 4e-7, 48: 5e-7}}
    for n, times in seconds.items():
        there = workload_at(prim, {"n0": n})
        options = []
        for tile, cost in times.items():
            steps = tuple(layouts[tile].to_json())
            log.append(MeasureRecord(there, KEY, steps, f"tile/{tile}", (cost,)))
            options.append(Option(f"tile/{tile}", (cost,), steps))
        taken = min(range(2), key=lambda place: options[place].cost)
        log.append(Decision("schedule", there, KEY, tuple(options), taken, "main"))
    learnt = cases_from_logs(prim, workload_of(prim).hash, [log], KEY)
    assert learnt is not None and learnt.schedule == layouts[48]
    assert learnt.seconds == {(1,): 1e-7, (16,): 5e-7} and learnt.sketch == "tile/48"


def test_a_batch_of_one_is_shared_among_threads_as_well() -> None:
    batch = parse_prim(
        """prim @mm(x0: float32[n0, 64, 64], x1: float32[64, 96] const) -> out: float32[n0, 64, 96] for n0 in 1..64 {
  out[i, j, l] = sum(k: 64) x0[i, j, k] * x1[k, l]
}""",  # noqa: E501 - one header
        "<test>",
    )
    schedule, _ = default_cases(batch, TARGET)
    large = schedule.otherwise if isinstance(schedule, Cases) else schedule
    shared = next(step.args[0] for step in large.steps if step.name == "parallel")
    assert len(shared.split("*")) >= 2 and "i" in shared


def test_all_groups_of_a_batch_of_images_are_shared() -> None:
    """The padded copy, the sums and what follows them; and no store is non-temporal."""
    images = parse_prim(
        """prim @images(x0: float32[n0, n1, n2, 32], x1: float32[3, 3, 32, 32] const) -> out: float32[n0, 32, n1, n2] for n0 in 0..64, n1 in 17..512, n2 in 17..512 {
  t0[n, o, p, q]: float32[n0, n1 + 2, n2 + 2, 32] = where(((0 <= index(o - 1)) and (index(o - 1) <= index(n1 - 1))) and ((0 <= index(p - 1)) and (index(p - 1) <= index(n2 - 1))), x0[n, o - 1, p - 1, q], 0.0)
  t1[i, j, l, m]: float32[n0, 32, n1, n2] = sum(k: 3, r: 3, s: 32) t0[i, k + l, m + r, s] * x1[k, r, s, j]
  out[i, j, l, m] = maximum(t1[i, j, l, m], 0.0)
}""",  # noqa: E501 - one header
        "<test>",
    )
    schedule, _ = default_cases(images, TARGET)
    large = schedule.otherwise if isinstance(schedule, Cases) else schedule
    shared = [step.args[0] for step in large.steps if step.name == "parallel"]
    assert len(shared) >= 2 and all("*" in loop for loop in shared)
    assert all(step.name != "stream" for step in large.steps)
