from __future__ import annotations

import math
import os
import signal
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from loopwright.autotune.log.tuning_log import TuningLog
from loopwright.autotune.measure.elsewhere import dask_cluster, station
from loopwright.autotune.measure.elsewhere.dask_cluster import DaskCluster, connect
from loopwright.autotune.measure.elsewhere.remote import RemoteMeasurer, RunnerError
from loopwright.autotune.measure.kernels import task_of
from loopwright.autotune.protocols import Candidate
from loopwright.autotune.record import MeasureRecord
from loopwright.autotune.settings import DEFAULT_SETTINGS
from loopwright.cli import main
from loopwright.codegen.target import Target

from tools.evaluate_model import matmul_prim

distributed = pytest.importorskip("distributed", reason="needs Dask: pip install loopwright[dask]")
SETTINGS = replace(DEFAULT_SETTINGS, measure_seconds=0.002)
TASK = task_of(matmul_prim(33, 40, 24), Target.host(), 1)


@pytest.fixture(scope="module")
def cluster() -> Iterator[DaskCluster]:
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=":0", processes=True
        ) as local,
        connect(local.scheduler_address.replace("tcp://", "dask://")) as connected,
    ):
        yield connected


def good(count: int) -> list[Candidate]:
    import numpy as np

    rows = TASK.space.sample(count, np.random.default_rng(0))
    return [Candidate(tuple(TASK.space.schedule(r).to_json()), TASK.sketch_of(r)) for r in rows]


def measured(cluster: DaskCluster, candidates: list[Candidate]) -> list[MeasureRecord]:
    measurer = cluster.measurer(TASK, cluster.machines[0], SETTINGS, 0)
    found = dict(measurer.measure(candidates, math.inf))
    assert sorted(found) == list(range(len(candidates)))
    return [found[i] for i in range(len(candidates))]


def test_candidates_are_measured_on_the_workers(cluster: DaskCluster) -> None:
    (machine,) = cluster.machines
    assert machine.target == Target.host() and len(machine.hosts) == 1
    candidates = good(6)
    records = measured(cluster, [*candidates, Candidate((["split", "no such axis", [2, 2]],))])
    assert [r.error for r in records] == [None] * 6 + ["schedule_error"]
    assert all(r.target == TASK.key and r.workload == TASK.workload for r in records)
    assert [r.schedule_key for r in records[:6]] == [c.key for c in candidates]
    measurer = cluster.measurer(TASK, machine, SETTINGS, 0)
    raced = measurer.race(candidates[:2], 3)
    assert [len(r.seconds) for r in raced] == [3, 3]


def test_lost_workers_are_survived(cluster: DaskCluster) -> None:
    def kill_after_the_first(records: Iterator[tuple[int, MeasureRecord]]) -> list[MeasureRecord]:
        found = [next(records)[1]]
        os.kill(next(iter(cluster.client.run(os.getpid).values())), signal.SIGKILL)
        return found + [record for _, record in records]

    measurer = cluster.measurer(TASK, cluster.machines[0], SETTINGS, 0)
    records = kill_after_the_first(measurer.measure(good(16), math.inf))
    assert len(records) == 16
    assert all(r.ok for r in records)


class Failing(RemoteMeasurer):
    """Loses the workers of every request for one candidate."""

    def _result(self, future, count):
        jobs = [j for entry in self._asked if entry[0] is future for j in entry[1]]
        future.result()
        return {} if any(j.index == 2 for j in jobs) else super()._result(future, count)

    def _submit(self, jobs, best, rounds=0, cache="warm"):
        future = super()._submit(jobs, best, rounds, cache)
        self._asked.append((future, list(jobs)))
        return future


def test_what_is_lost_again_and_again_is_an_error(cluster: DaskCluster) -> None:
    measurer = Failing(TASK, cluster, cluster.machines[0].hosts, SETTINGS)
    measurer._asked = []
    records = dict(measurer.measure(good(5), math.inf))
    assert [records[i].error for i in range(5)] == [None, None, "crash", None, None]
    assert records[2].detail == "lost with its host, 3 times"
    tries = [jobs for _, jobs in measurer._asked if any(j.index == 2 for j in jobs)]
    assert [len(jobs) for jobs in tries] == [4, 1, 1]  # the others are no longer with it


def test_a_candidate_that_crashes_or_hangs_costs_the_worker_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import planted_kernels as planted

    monkeypatch.setattr(station, "TOOLCHAIN", planted.TOOLCHAIN)
    task = task_of(planted.make_prim(), Target.host(), 1)
    with (
        distributed.LocalCluster(
            n_workers=1, threads_per_worker=2, dashboard_address=":0", processes=False
        ) as local,
        distributed.Client(local, set_as_default=False) as client,
    ):
        cluster = connect(client)
        measurer = cluster.measurer(task, cluster.machines[0], planted.SETTINGS, 0)
        kinds = ["segfault", "good", "endless", "wrong", "good"]
        found = dict(measurer.measure([Candidate((("plant", k, 1),)) for k in kinds], 1e-3))
        words = [found[i].error for i in range(5)]
        assert words == ["out_of_bounds", None, "timeout", "wrong_result", None]
        station.STATION.close()
        cluster.close()
        assert client.status == "running"  # it is not ours to close


def test_one_may_stop_at_any_time(cluster: DaskCluster) -> None:
    measurer = cluster.measurer(TASK, cluster.machines[0], SETTINGS, 0)
    for _, record in measurer.measure(good(30), math.inf):
        assert record.ok
        break
    assert not measurer._under_way
    started = time.monotonic()
    assert all(r.ok for r in measured(cluster, good(2)))
    assert time.monotonic() - started < 20


@pytest.mark.parametrize(
    ("runner", "message"),
    [
        ("ssh://host", "runner 'ssh://host' is not understood; write tcp://host:port or dask"),
        ("dask://127.0.0.1:1", "there is no Dask scheduler at dask://127.0.0.1:1"),
    ],
)
def test_what_is_no_cluster_says_so(
    runner: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dask_cluster, "_CONNECT_SECONDS", 0.5)
    with pytest.raises(RunnerError, match=message):
        connect(runner)


def test_only_one_measures_on_a_host() -> None:
    held = threading.Event()
    inside: list[str] = []

    def measure() -> None:
        with station._alone_on_this_host():
            inside.append("in")
            held.set()
            time.sleep(0.2)
            inside.append("out")

    thread = threading.Thread(target=measure)
    thread.start()
    held.wait()
    with station._alone_on_this_host():
        assert inside == ["in", "out"]
    thread.join()


def test_a_function_is_tuned_on_the_cluster(
    cluster: DaskCluster,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "net.py").write_text(
        "import loopwright as lw\nimport numpy as np\n"
        "@lw.compile(threads=1)\ndef net(x, w):\n    return np.maximum(x @ w, 0)\n"
        "def net_inputs():\n    return lw.f32[20, 30], lw.f32[30, 25]\n"
    )
    address = cluster.client.scheduler.address.replace("tcp://", "dask://")
    log = tmp_path / "log.jsonl"
    arguments = ["tune", f"{tmp_path / 'net.py'}:net", "--trials", "12", "--log", str(log)]
    assert main([*arguments, "--runner", address]) == 0
    assert address in capsys.readouterr().out
    records = TuningLog(log).records
    assert len([r for r in records if not r.raced]) == 12
    assert {r.target for r in records} == {TASK.key}
    monkeypatch.setattr(dask_cluster, "_CONNECT_SECONDS", 0.5)
    assert main([*arguments, "--runner", "dask://127.0.0.1:1"]) == 2
    assert "there is no Dask scheduler at dask://127.0.0.1:1" in capsys.readouterr().err
