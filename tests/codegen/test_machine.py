from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import asdict, replace

import loopwright as lw
import numpy as np
import pytest
from loopwright.codegen import machine
from loopwright.codegen.machine import (
    LEVELS,
    Contention,
    MachineModel,
    estimated_machine,
    known_machine,
    measured_machine,
)
from loopwright.codegen.probes import Probes, aligned_buffer
from loopwright.codegen.target import ISA_LEVELS, Target
from loopwright.ir.errors import RefusedFileWarning
from other_peoples_files import attacked

HOST = Target.host()
RUNNABLE = [n for n, level in ISA_LEVELS.items() if level.cpu_flags <= HOST.level.cpu_flags]


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch, tmp_path):
    """Measure for milliseconds, and keep nothing outside of the test."""
    quick = dict.fromkeys(("improving", "peak_patience", "stream_patience", "pause"), 0.005)
    monkeypatch.setattr(machine, "MEASURING", replace(machine.MEASURING, **quick))
    monkeypatch.setattr(machine, "_working_set", lambda target, level, threads: 3 * 16 * 64 * 4)
    monkeypatch.setenv("LOOPWRIGHT_CACHE", str(tmp_path))
    machine._model_of.cache_clear()
    yield tmp_path
    machine._model_of.cache_clear()


@pytest.fixture
def believed(quick, monkeypatch: pytest.MonkeyPatch):
    """The same, and what is measured is an estimate: for tests of what is kept."""
    model = replace(estimated_machine(HOST), measured=True)
    monkeypatch.setattr(machine, "_measure", lambda target: model)
    return quick


@pytest.mark.parametrize("isa", RUNNABLE)
def test_every_kernel_runs_on_every_isa(isa: str) -> None:
    probes = Probes(HOST.with_isa(isa))
    for kernel in ("fma32", "fma64", "read", "read_streams", "triad", "triad_stream"):
        for threads in (1, 2):
            buffers = [aligned_buffer(3 * 16 * 64 * 2) for _ in range(threads)]
            span, alone = probes.seconds(kernel, buffers, repeats=3, rounds=2)
            assert 0 < alone <= span < 10


def test_triad_computes_what_it_says() -> None:
    probes = Probes(HOST)
    for kernel in ("triad", "triad_stream"):
        buffer = aligned_buffer(3 * 16 * 64)
        third = len(buffer) // 3
        buffer[third : 2 * third] = 2
        buffer[2 * third :] = 8
        probes.seconds(kernel, [buffer], repeats=1, rounds=1)
        assert (buffer[:third] == 6).all()


def test_measures_once_and_then_reads_the_cache(quick) -> None:
    first = measured_machine(HOST)
    assert first.measured and first.isa == HOST.isa and first.threads == HOST.cores
    assert 1e9 < first.peak_flops_1 <= first.peak_flops_n < 1e14
    assert first.peak_flops64_1 < first.peak_flops_1
    assert set(first.bandwidth_1) == set(first.triad_n) == set(LEVELS)
    assert measured_machine(HOST) is first
    machine._model_of.cache_clear()
    assert measured_machine(HOST) == first == known_machine(HOST)


def test_a_broken_or_old_entry_is_measured_again(believed, monkeypatch) -> None:
    first = measured_machine(HOST)
    (path,) = (believed / "machine").iterdir()
    whole = path.read_bytes()
    edited = whole.replace(b'"threads": ', b'"threads": 1')
    assert edited != whole
    for content in (b"[]", b'{"isa": 1}', json.dumps(asdict(first)).encode(), whole[:-9], edited):
        path.write_bytes(content)
        assert known_machine(HOST).measured is False
        machine._model_of.cache_clear()
        assert measured_machine(HOST).measured
        assert len(path.read_bytes()) > len(whole) / 2
    monkeypatch.setattr(machine, "VERSION", machine.VERSION + 1)
    assert known_machine(HOST).measured is False


@pytest.mark.parametrize(
    "attack", ["fifo", "link", "writable", "foreign", "folder", "long", "open folder"]
)
def test_figures_of_others_are_refused(believed, tmp_path, attack: str) -> None:
    measured_machine(HOST)
    (path,) = (believed / "machine").iterdir()
    attacked(path, attack, tmp_path / "elsewhere")
    with pytest.warns(RefusedFileWarning, match=r"machine.*; it is done without"):
        assert known_machine(HOST) == estimated_machine(HOST)
    assert lw.compile(lambda x: x + 1)(np.zeros(4, np.float32)).sum() == 4


def test_fresh_replaces_what_is_kept(believed) -> None:
    measured_machine(HOST)
    (path,) = (believed / "machine").iterdir()
    before = path.stat().st_mtime_ns
    measured_machine(HOST, fresh=True)
    assert path.stat().st_mtime_ns > before


def test_a_folder_that_cannot_be_written_does_not_matter(believed, monkeypatch) -> None:
    (believed / "file").touch()
    monkeypatch.setenv("LOOPWRIGHT_CACHE", str(believed / "file" / "below"))
    assert measured_machine(HOST).measured


def test_rates_of_some_threads() -> None:
    model = MachineModel("x86-64-v3", "c", 4, 100.0, 300.0, 50.0, 150.0, {"l1": 8.0}, {"l1": 20.0})
    assert [model.peak_flops(t) for t in (1, 2, 3, 4)] == [100, 200, 300, 300]
    assert model.peak_flops(2, element_bytes=8) == 100
    assert [model.bandwidth("l1", t) for t in (1, 2, 4)] == [8, 16, 20]


def test_an_estimate_grows_with_the_vectors_and_the_cores() -> None:
    narrow = estimated_machine(Target(isa="x86-64", cores=1))
    wide = estimated_machine(Target(isa="x86-64-v4", cores=8))
    assert not wide.measured
    assert wide.peak_flops_1 == 4 * narrow.peak_flops_1
    assert wide.peak_flops_n == 8 * wide.peak_flops_1


def test_figures_of_a_busy_machine_are_measured_again(quick, monkeypatch) -> None:
    share, clock = [0.8], [1000.0]

    class Busy(machine.Contention):
        def __exit__(self, *error) -> None:
            self.share = share[0]

    monkeypatch.setattr(machine, "Contention", Busy)
    monkeypatch.setattr(machine.time, "time", lambda: clock[0])
    first = measured_machine(HOST)
    assert first.is_doubtful and known_machine(HOST) == first
    machine._model_of.cache_clear()
    assert measured_machine(HOST) == first  # not in every process
    clock[0] += 400
    share[0] = 0.0
    machine._model_of.cache_clear()
    second = measured_machine(HOST)
    assert not second.is_doubtful and second.at == 1400
    assert second.peak_flops_1 >= first.peak_flops_1  # others only make it slower
    assert all(second.triad_n[level] >= first.triad_n[level] for level in LEVELS)
    clock[0] += 1e6
    machine._model_of.cache_clear()
    assert measured_machine(HOST) == second  # for good


def test_others_are_noticed() -> None:
    burn = "import time; end = time.time() + 1.5\nwhile time.time() < end: pass"
    with subprocess.Popen([sys.executable, "-c", burn]), Contention() as others:
        time.sleep(1.0)
    assert others.share > 0.5 / len(os.sched_getaffinity(0))


def test_our_own_work_is_not_others() -> None:
    with Contention() as own:
        end = time.process_time() + 0.4
        while time.process_time() < end:
            pass
    begun = machine.Contention()
    with begun:
        time.sleep(0.4)
    assert own.share <= begun.share + 0.5  # whatever runs beside the tests runs in both


@pytest.mark.parametrize("held", [3 << 20, 24 << 20, 60 << 20, 300 << 20])
def test_the_last_cache_is_where_reading_becomes_slow(held: int, monkeypatch) -> None:
    target = replace(HOST, l2=2 << 20, l3=480 << 20)
    sizes: list[int] = []

    def rate(probes, kernel, buffers, work, patience) -> float:
        sizes.append(buffers[0].nbytes)
        return 40e9 if buffers[0].nbytes <= held else 11e9

    monkeypatch.setattr(machine, "_best_rate", rate)
    monkeypatch.setattr(machine, "aligned_buffer", lambda size: np.empty(size // 4, np.float32))
    found = machine._last_cache(None, target, {"l3": 40e9, "dram": 10e9})
    assert held / 1.4 <= found <= max(held, 4 << 20) and len(sizes) < 20
    model = replace(estimated_machine(target), last_cache=found, measured=True)
    assert model.seen_by(target).l3 == found and model.seen_by(HOST).l3 == min(found, HOST.l3)


def test_without_a_step_the_cpu_is_believed() -> None:
    assert machine._last_cache(None, HOST, {"l3": 10e9, "dram": 9.5e9}) == 0
    assert estimated_machine(HOST).seen_by(HOST) is HOST
