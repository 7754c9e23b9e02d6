"""The bench's arithmetic; nothing here depends on how fast this machine is."""

from __future__ import annotations

import fcntl
import json
import math
import os
import subprocess
import sys
import tempfile
import threading
import time
from xml.etree import ElementTree

import numpy as np
import pytest
from loopwright.codegen.machine import MachineModel
from loopwright.codegen.target import Target

from bench.allowance import Allowance
from bench.answers import time_round
from bench.families import FACTORS, KINDS, fixed_workloads, make, random_workloads
from bench.lock import MachineLock
from bench.namespaces.of_numpy import Numpy
from bench.plot import svg
from bench.report import markdown
from bench.row import Row, append, geomean, json_line, read
from bench.summary import bars_text, families_text
from bench.workload import Input, Workload, limit_seconds, wrongness

TARGET = Target(isa="x86-64-v3", l1=1 << 15, l2=1 << 20, l3=1 << 25)
RATES = {"l1": 4e12, "l2": 2e12, "l3": 1e12, "dram": 1e10}
MACHINE = MachineModel("x86-64-v3", "c", 2, 1e11, 2e11, 5e10, 1e11, RATES, RATES, RATES, RATES)
FIXED = {w.name: w for w in fixed_workloads()}


@pytest.mark.parametrize("kind", KINDS)
def test_workloads_are_what_their_numbers_say(kind: str) -> None:
    workload = make(kind, KINDS[kind].small)
    arrays = workload.arrays()
    out = workload.body(Numpy(), *arrays.values())
    assert out.dtype == workload.result_dtype
    assert out.nbytes == workload.written
    assert sum(a.nbytes for a in arrays.values()) >= workload.read
    assert wrongness(workload, np.asarray(out), workload.expected()) <= 1
    assert workload.family in FACTORS


def test_every_family_is_measured() -> None:
    assert {w.family for w in FIXED.values()} == set(FACTORS)
    assert len(FIXED) == sum(len(kind.fixed) for kind in KINDS.values()) >= 80


def test_other_shapes_are_the_same_for_the_same_seed() -> None:
    some = random_workloads(60, seed=3)
    assert [w.name for w in some] == [w.name for w in random_workloads(60, seed=3)]
    assert [w.name for w in some] != [w.name for w in random_workloads(60, seed=4)]
    assert len({w.name for w in some} - set(FIXED)) == 60
    assert len({w.kind for w in some}) > 25
    again = [make(w.kind, json.loads(json.dumps(w.params))) for w in some]
    assert [w.name for w in again] == [w.name for w in some]


def test_the_limit_is_set_by_flops_or_by_the_memory_the_data_sits_in() -> None:
    matmul = FIXED["matmul_1024"]
    assert limit_seconds(matmul, MACHINE, TARGET, 1) == (2 * 1024**3 / 1e11, "flops")
    assert limit_seconds(matmul, MACHINE, TARGET, 2)[0] == 1024**3 / 1e11
    seconds, level = limit_seconds(FIXED["chain_16M"], MACHINE, TARGET, 1)
    assert (level, seconds) == ("dram", 3 * 4 * (1 << 24) / 1e10)
    assert limit_seconds(FIXED["chain_1M"], MACHINE, TARGET, 1)[1] == "l3"
    double = make("matmul", {"m": 1024, "k": 1024, "n": 1024, "dtype": "float64"})
    assert limit_seconds(double, MACHINE, TARGET, 1)[0] == 2 * 1024**3 / 5e10
    tiny = Workload("tiny", "", {"x": Input((25,))}, Numpy.exp, 100, 100)
    assert limit_seconds(tiny, MACHINE, TARGET, 1)[1] == "l1"


def test_a_wrong_result_is_told() -> None:
    workload = make("matmul", KINDS["matmul"].small)
    right = workload.expected()
    assert wrongness(workload, right.astype(np.float32), right) < 1
    assert wrongness(workload, right * (1 + 1e-3), right) > 16
    assert wrongness(workload, right[:-1], right) == math.inf
    assert wrongness(workload, np.full_like(right, np.nan), right) == math.inf
    ints = make("matmul_int8", KINDS["matmul_int8"].small)
    assert wrongness(ints, ints.expected() + 1, ints.expected()) == math.inf


def test_the_table() -> None:
    taken = {"tuned": 0.0125, "untuned": 0.02, "numpy-haswell": 0.02}
    row = Row("matmul", 1, 0.010, "flops", seconds=taken, tuning=3.0)
    others = {"numpy-haswell": 0.005, "numpy-skylakex": 0.004}
    lone = Row("other", 2, 0.001, "dram", seconds=others)
    libraries = ["tuned", "untuned", "numpy-haswell", "numpy-skylakex", "torch"]
    lines = markdown([row, lone], libraries).splitlines()
    assert lines[2] == "| matmul | 1 | 10 | flops | 12.5 | 20 | 20 | 3.0 | 80 | numpy | 1.60x |"
    assert lines[3] == "| other | 2 | 1 | dram | - | - | 4 | - | - | numpy | - |"
    assert "torch" not in lines[0]


def _row(name: str, family: str, tuned: float, peer: float, limit: float = 1e-3, **more) -> Row:
    taken = {"tuned": tuned, "untuned": 2 * tuned, "numpy-haswell": peer, "jax": 2 * peer}
    return Row(name, 1, limit, "flops", family, flops=10**9, seconds=taken, tuning=60.0, **more)


def test_the_summary_says_which_bars_are_met() -> None:
    rows = [_row("a", "matmul", 1e-3, 2e-3), _row("b<c", "softmax", 2e-3, 1e-3)]
    text = families_text(rows)
    assert "| matmul | 1 | 2.00x | 1.05x met | 1.00x | 100 | - |" in text
    assert "| softmax | 1 | 0.50x | 2x missed | 0.25x | 50 | b<c 0.50x |" in text
    assert bars_text(rows).splitlines() == [
        "- MISSED: tuned, ahead of the fastest peer in 90%: 50% (b<c 0.50x)",
        "- MISSED: tuned, none below 0.9x: 1 below (b<c 0.50x)",
        "- MISSED: tuned, geometric mean of leads at least 1.5x: 1.00x",
        "- MISSED: contractions of 0.1 GFLOP and more at 95% of the limit, 1 thread: 1 of 2"
        " (b<c 50%)",
        "- MISSED: untuned, geometric mean of leads at least 1.0x: 0.50x",
        "- MISSED: untuned, none slower than NumPy: 1 slower (b<c 0.25x)",
        "- MISSED: untuned within 1.3x of tuned: 2.00x",
        "- met: every workload runs, with right results: 0 failed",
        "- met: tuning takes at most 20 minutes: 2.0 minutes",
    ]
    bad = Row("d", 2, 1e-3, "dram", "softmax", failed={"tuned": "wrong", "jax": "missing"})
    assert "- MISSED: every workload runs, with right results: 1 failed (d/2 tuned)" in bars_text(
        [*rows, bad]
    )


def test_the_picture_has_a_line_per_workload() -> None:
    rows = [_row("a", "matmul", 1e-3, 2e-3), _row("b<c", "softmax", 2e-3, 1e-3)]
    root = ElementTree.fromstring(svg(rows, 1))
    space = "{http://www.w3.org/2000/svg}"
    texts = [t.text for t in root.iter(f"{space}text")]
    assert {"a", "b<c", "matmul", "softmax", "2.00x", "0.50x", "Loopwright, tuned"} <= set(texts)
    bars = [r for r in root.iter(f"{space}rect") if r.find(f"{space}title") is not None]
    assert len(bars) == 4
    # Twice the limit is further right than the limit, at which tuned "a" ends.
    ends = {r.findtext(f"{space}title"): float(r.get("width", 0)) for r in bars}
    assert ends["b<c, tuned: 2 ms"] > ends["a, tuned: 1 ms"] > 0
    assert len(list(root.iter(f"{space}circle"))) == 4 + 2


def test_rows_are_read_again_and_torn_lines_are_not(tmp_path) -> None:
    row = Row("matmul", 1, 0.01, "flops", seconds={"tuned": 0.02, "jax": 0.03})
    file = tmp_path / "rows.jsonl"
    append(file, json.dumps({"machine": {}}))
    append(file, json_line(row))
    with file.open("a") as out:
        out.write(json_line(row)[:-10])
    assert read(file) == [row]
    assert row.lead() == pytest.approx(1.5)
    assert row.lead("untuned") is None
    assert row.share() == 0.5


def test_tuning_time_goes_where_there_is_something_to_find() -> None:
    allowance = Allowance(104.5, [1.0, 3.0, 1.0])  # 1.5 seconds beyond what is asked for, each
    near = allowance.seconds_for(1.0, share=0.95)
    assert near == pytest.approx(100 * 0.1 / (0.1 + 0.5 * 4))
    allowance.spent(near + 1.5)
    far = allowance.seconds_for(3.0, share=0.5)
    assert far == pytest.approx((100 - near) * 0.75)
    allowance.spent(far + 1.5)
    assert allowance.seconds_for(1.0, share=None) == pytest.approx(100 - near - far)
    allowance.spent(1000.0)
    assert allowance.seconds_for(1.0, share=0.5) == 0.5


def test_what_tuning_takes_beyond_its_seconds_is_set_aside() -> None:
    needs = [3.0] * 20 + [1.0] * 60
    allowance, total = Allowance(400.0, needs), 0.0
    for need in needs:
        taken = allowance.seconds_for(need, share=0.3) + 2.5
        allowance.spent(taken)
        total += taken
    assert total == pytest.approx(400.0, rel=0.05)


def test_a_round_is_the_best_of_its_samples() -> None:
    calls = []
    assert 0 < time_round(lambda: calls.append(0), 0.01) < 0.01
    assert len(calls) > 3
    assert geomean([1.0, 4.0]) == pytest.approx(2.0)


def test_the_lock_lets_others_in_between(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    def is_free() -> bool:
        with (tmp_path / "bench.lock").open("w") as other:
            try:
                fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
            return True

    seen: list[bool] = []
    monkeypatch.setattr(time, "sleep", lambda seconds: seen.append(is_free()))
    with MachineLock(slice=0.0) as lock:
        assert not is_free()
        lock.between()
        assert not is_free()
    with MachineLock(slice=1000.0) as lock:
        lock.between()
    assert is_free()
    assert seen == [True]


def test_waiting_for_the_lock_is_said(tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr("bench.lock.SILENT", 0.1)
    holding = "import fcntl, sys; f = open(sys.argv[1], 'w'); fcntl.flock(f, 2); print(flush=True)"
    command = [sys.executable, "-c", holding + "; sys.stdin.read()", str(tmp_path / "bench.lock")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None and other.stdin is not None
        other.stdout.readline()
        threading.Timer(0.5, other.stdin.close).start()
        with MachineLock():
            told = capsys.readouterr().err
    path = tmp_path / "bench.lock"
    assert told.startswith(f"waiting for {path}, which is held by process {other.pid} (")


def test_a_lock_of_the_process_that_started_us_is_an_error(tmp_path) -> None:
    path = tmp_path / "bench.lock"
    code = "from bench.lock import MachineLock; MachineLock().__enter__()"
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    python = f"{sys.executable} -c '{code}'"
    for command in (f"flock {path} {python}", f"exec 9>{path}; flock 9; {python}"):
        ended = subprocess.run(
            ["bash", "-c", command], env=environment, capture_output=True, text=True, timeout=60
        )
        assert ended.returncode != 0
        assert "waits for its end; start it without that lock" in ended.stderr


def test_a_convolution_of_one_channel_is_not_depthwise() -> None:
    first = make("conv_first", {"c": 1, "size": 28, "out": 16, "kernel": 5})
    assert (first.name, first.family) == ("conv_1x28_k5_16", "conv")
    assert make("depthwise", KINDS["depthwise"].small).family == "depthwise"
