from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from dataclasses import replace

import planted_kernels as planted
import pytest
from loopwright.autotune.measure.measurer import NativeMeasurer, Workers
from loopwright.autotune.measure.worker_process import WorkerError
from loopwright.autotune.protocols import Candidate
from loopwright.autotune.record import MeasureRecord
from loopwright.ir.dims import symbol
from loopwright.ir.dtype import FLOAT32
from loopwright.ir.loop.expr import read


def candidate(kind: str, delay: int = 1) -> Candidate:
    return Candidate((("plant", kind, delay),), sketch="planted/1")


@pytest.fixture(scope="module")
def measurer() -> Iterator[NativeMeasurer]:
    with NativeMeasurer(planted.make_task(), planted.TOOLCHAIN, planted.SETTINGS) as made:
        yield made


def measure(
    measurer: NativeMeasurer, candidates: list[Candidate], best: float = 1e-6
) -> list[MeasureRecord]:
    records: dict[int, MeasureRecord] = dict(measurer.measure(candidates, best))
    return [records[i] for i in range(len(candidates))]


def test_good_candidates_are_timed_and_checked(measurer: NativeMeasurer) -> None:
    delays = [1, 20_000, 20_000_000]  # a third of a microsecond up to milliseconds
    records = measure(measurer, [candidate("good", d) for d in delays])
    assert [r.error for r in records] == [None] * 3
    assert records[0].cost < records[1].cost < records[2].cost
    assert 1e-8 < records[0].cost < 1e-3
    for record in records:
        assert record.checked is not None
        assert record.checked.max_error <= record.checked.bound < 1e-5
        assert record.workload.hash == "planted"
        assert MeasureRecord.from_json(record.to_json()).schedule[0][1] == "good"
    assert len(records[0].seconds) > len(records[2].seconds) >= 1  # contenders get more samples


def test_every_kind_of_bad_candidate_is_one_record_with_its_word(
    measurer: NativeMeasurer,
) -> None:
    kinds = list(planted.ERRORS)
    assert len(kinds) == 23
    candidates = [c for kind in kinds for c in (candidate(kind), candidate("good"))]
    started = time.monotonic()
    records = measure(measurer, candidates, best=1e-3)
    assert {k: r.error for k, r in zip(kinds, records[::2])} == planted.ERRORS
    assert all(r.ok for r in records[1::2])
    assert all(r.detail for r in records[::2])
    assert time.monotonic() - started < 200


def test_kernels_on_all_cores_are_built_first_and_run_alone() -> None:
    task = planted.make_task(threads=len(os.sched_getaffinity(0)))
    with NativeMeasurer(task, planted.TOOLCHAIN, planted.SETTINGS) as measurer:
        records = measure(measurer, [candidate("good", d) for d in range(1, 9)])
        assert all(r.ok and r.target.threads == task.threads for r in records)
        assert measure(measurer, [candidate("compiler_killed")])[0].error == "out_of_memory"


def test_one_may_stop_in_the_middle_of_a_batch(measurer: NativeMeasurer) -> None:
    for _ in range(3):
        for _, record in measurer.measure([candidate("good", 1000)] * 5, 1e-3):
            assert record.ok
            break
    records = measure(measurer, [candidate("wrong"), candidate("good")])
    assert [r.error for r in records] == ["wrong_result", None]


def test_leaders_are_measured_in_turn(measurer: NativeMeasurer) -> None:
    field = [candidate("good", 1), candidate("good", 30_000), candidate("no_code")]
    fast, slow = measurer.race(field, rounds=5)
    assert len(fast.seconds) == len(slow.seconds) == 5
    assert fast.cost < slow.cost
    assert fast.checked is not None
    assert measurer.race([candidate("segfault"), candidate("good")], rounds=2) == []
    assert [r.error for r in measurer.race([candidate("wrong")], 2)] == ["wrong_result"]
    assert measurer.race([candidate("illegal")], 2) == []


def test_the_first_candidate_runs_first_however_long_it_is_built(
    measurer: NativeMeasurer,
) -> None:
    field = [candidate("slow_build"), *(candidate("good", d) for d in range(1, 6))]
    order = [index for index, _ in measurer.measure(field, 1e-3)]
    assert order[0] == 0 and sorted(order) == list(range(6))


def test_a_worker_killed_from_outside_is_replaced(measurer: NativeMeasurer) -> None:
    measure(measurer, [candidate("good")])
    killed = [worker.pid for worker in measurer.workers.all if worker.pid is not None]
    assert len(killed) >= 2  # a spare builder need not be there
    for pid in killed:
        os.kill(pid, 9)
    time.sleep(0.1)
    assert measure(measurer, [candidate("good")])[0].ok


def test_a_candidate_whose_process_was_killed_has_another_try(measurer: NativeMeasurer) -> None:
    measure(measurer, [candidate("good")])
    runner = measurer.workers.runner
    runner.start()
    pid = runner.pid
    assert pid is not None
    timer = threading.Timer(0.15, lambda: os.kill(pid, 9))
    timer.start()
    (record,) = measure(measurer, [candidate("good", 1_000_000_000)], best=0.3)
    timer.join()
    assert runner.pid != pid and record.error is None


def test_workers_that_cannot_start_say_why() -> None:
    task = planted.make_task()
    stage = task.prim.stages[0]
    outside = replace(stage, expr=read("x", (symbol("i") + 5,), FLOAT32))
    broken = replace(task, prim=replace(task.prim, stages=(outside,)))
    with (
        NativeMeasurer(broken, planted.TOOLCHAIN, planted.SETTINGS) as measurer,
        pytest.raises(WorkerError, match=r"do not start: .*uses an element outside its buffer"),
    ):
        measure(measurer, [candidate("good")])


def test_a_task_given_up_early_does_no_harm_to_the_next() -> None:
    broken = planted.make_task()
    outside = replace(broken.prim.stages[0], expr=read("x", (symbol("i") + 5,), FLOAT32))
    broken = replace(broken, prim=replace(broken.prim, stages=(outside,)))
    with Workers(1, planted.SETTINGS) as workers:
        for task in (planted.make_task(), broken):
            NativeMeasurer(task, planted.TOOLCHAIN, planted.SETTINGS, workers=workers).close()
        task = planted.make_task()
        with NativeMeasurer(task, planted.TOOLCHAIN, planted.SETTINGS, workers=workers) as measurer:
            assert measure(measurer, [candidate("good")])[0].ok


def test_workers_end_with_their_tuner() -> None:
    measurer = NativeMeasurer(planted.make_task(), planted.TOOLCHAIN, planted.SETTINGS)
    measure(measurer, [candidate("good")])
    pids = [w.pid for w in measurer.workers.all if w.pid is not None]
    assert len(pids) >= 2
    measurer.close()
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_workers_that_were_started_run() -> None:
    with Workers(1, planted.SETTINGS) as workers:
        for pid in workers.start():
            assert pid
            os.kill(pid, 0)


def test_beside_a_program_no_process_waits_for_a_core_of_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """At idle priority it would never run on the core that the program is on."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(4)))
    alone, beside, crowded = Workers(1), Workers(1, beside=1), Workers(2, beside=2)
    assert [w.cpus for w in alone.all] == [{3}, {0, 1, 2}, {0, 1, 2}]
    assert [w.cpus for w in (*beside.all, *crowded.all)] == [None] * 4
    assert (alone.overlap, beside.overlap, crowded.overlap) == (True, True, False)


def test_a_spare_builder_that_gets_nowhere_holds_nobody_up() -> None:
    with NativeMeasurer(planted.make_task(), planted.TOOLCHAIN, planted.SETTINGS) as measurer:
        spares = [b for b in measurer.workers.builders if b.spare]
        if not spares:
            pytest.skip("builders have cores of their own here")
        (spare,) = spares
        spare.start()
        assert spare.pid is not None
        assert os.sched_getscheduler(spare.pid) in (os.SCHED_IDLE, os.SCHED_RR, os.SCHED_FIFO)
        os.kill(spare.pid, signal.SIGSTOP)
        started = time.monotonic()
        field = [candidate("good", d) for d in (1, 2, 3, 20_000)]
        assert all(r.ok for r in measure(measurer, field))
        assert len(measurer.race(field[:2], rounds=2)) == 2
        assert time.monotonic() - started < 60  # not the two minutes it has to start
        assert spare.pid is None  # ended: it starts again when it is asked again
        assert all(r.ok for r in measure(measurer, field))
