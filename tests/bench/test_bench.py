"""The bench's arithmetic and its worker; nothing here depends on how fast this machine is."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest
import repo_sources as sources
from loopwright.codegen.machine import MachineModel
from loopwright.codegen.target import Target

from bench.namespaces import Numpy
from bench.report import Row, json_line, markdown
from bench.run import main
from bench.worker import time_round
from bench.workloads import WORKLOADS, Workload, limit_seconds

TARGET = Target(isa="x86-64-v3", l1=1 << 15, l2=1 << 20, l3=1 << 25)
RATES = {"l1": 4e12, "l2": 2e12, "l3": 1e12, "dram": 1e10}
MACHINE = MachineModel("x86-64-v3", "c", 2, 1e11, 2e11, 5e10, 1e11, RATES, RATES, RATES, RATES)


def test_workloads_are_what_their_numbers_say() -> None:
    small = [w for w in WORKLOADS.values() if w.read < 20e6]
    assert len(small) >= 5
    for workload in small:
        arrays = workload.arrays()
        out = workload.body(Numpy(), *arrays.values())
        assert out.nbytes == workload.written
        assert sum(a.nbytes for a in arrays.values()) == workload.read
        assert out.dtype == np.float32
        assert workload.constants <= set(arrays)


def test_the_limit_is_set_by_flops_or_by_the_memory_the_data_sits_in() -> None:
    assert limit_seconds(WORKLOADS["matmul_1024"], MACHINE, TARGET, 1) == (
        2 * 1024**3 / 1e11,
        "flops",
    )
    assert limit_seconds(WORKLOADS["matmul_1024"], MACHINE, TARGET, 2)[0] == 1024**3 / 1e11
    seconds, level = limit_seconds(WORKLOADS["chain_16M"], MACHINE, TARGET, 1)
    assert (level, seconds) == ("dram", 3 * 4 * (1 << 24) / 1e10)
    assert limit_seconds(WORKLOADS["chain_1M"], MACHINE, TARGET, 1)[1] == "l3"
    tiny = Workload("tiny", {}, Numpy.exp, 0, 100, 100)
    assert limit_seconds(tiny, MACHINE, TARGET, 1)[1] == "l1"


def test_the_table() -> None:
    row = Row(
        "matmul", 1, 0.010, "flops", {"tuned": 0.0125, "untuned": 0.02, "numpy-haswell": 0.02}
    )
    lone = Row("other", 2, 0.001, "dram", {"numpy-haswell": 0.005, "numpy-skylakex": 0.004})
    text = markdown([row, lone], ["tuned", "untuned", "numpy-haswell", "numpy-skylakex", "torch"])
    assert (
        text.splitlines()[2] == "| matmul | 1 | 10 | flops | 12.5 | 20 | 20 | 80 | numpy | 1.60x |"
    )
    assert text.splitlines()[3] == "| other | 2 | 1 | dram | - | - | 4 | - | numpy | - |"
    assert "torch" not in text
    assert json.loads(json_line(row))["seconds"]["tuned"] == 0.0125


def test_a_round_is_the_best_of_its_samples() -> None:
    calls = []
    assert 0 < time_round(lambda: calls.append(0), 0.01) < 0.01
    assert len(calls) > 3


def test_a_worker_answers_and_says_what_it_cannot_do() -> None:
    commands = [
        {"do": "prepare", "workload": "matmul_256", "threads": 1, "options": {}},
        {"do": "round", "seconds": 0.01},
        {"do": "prepare", "workload": "nonsense", "threads": 1, "options": {}},
    ]
    done = subprocess.run(
        [sys.executable, "-m", "bench.worker", "numpy-haswell"],
        input="".join(json.dumps(c) + "\n" for c in commands),
        cwd=sources.ROOT,
        capture_output=True,
        text=True,
    )
    ready, timed, refused = map(json.loads, done.stdout.splitlines())
    assert ready == {"error": 0.0, "tuning_seconds": 0.0}
    assert 0 < timed["seconds"] < 10
    assert refused == {"failed": "KeyError: 'nonsense'"}


@pytest.mark.parametrize("line", ["--libraries tensorflow", "fft"])
def test_unknown_names_are_told(line: str, capsys) -> None:
    assert main(line.split()) == 2
    assert "there are" in capsys.readouterr().err
