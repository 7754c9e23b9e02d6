"""Runs of the bench: with a process that stands in for the libraries', and with the real ones."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import numpy as np
import pytest
import repo_sources as sources

from bench import libraries, measure, process
from bench.families import KINDS, make, random_workloads
from bench.libraries import LIBRARIES, Library
from bench.row import read
from bench.run import main

FAKE = [sys.executable, str(sources.ROOT / "tests/helpers/fake_bench_worker.py")]


@pytest.fixture
def fake_libraries(monkeypatch) -> None:
    monkeypatch.setattr(process, "COMMAND", FAKE)
    known = {n: Library(libraries._numpy, patience=0.5) for n in LIBRARIES}
    monkeypatch.setattr(measure, "LIBRARIES", known)


@pytest.mark.usefixtures("fake_libraries")
def test_a_run_writes_rows_and_a_table_and_goes_on_where_it_was(tmp_path, capsys) -> None:
    chosen = "untuned,tuned,onnxruntime,openvino,jax"
    line = ["sigmoid_4K", "gemv_1000", "--threads", "1", "--libraries", chosen, "--budget", "2s"]
    assert main([*line, "--out", str(tmp_path)]) == 0
    (file,) = tmp_path.glob("*.jsonl")
    rows = read(file)
    assert [r.workload for r in rows] == ["gemv_1000x777x1", "sigmoid_4K"]
    assert rows[0].seconds == {"untuned": 2e-3, "tuned": 1e-3, "onnxruntime": 1.5e-3}
    assert rows[0].tuning == 2.0
    assert "ended with code 3" in rows[0].failed["openvino"]
    assert "No module named" in rows[0].failed["jax"]
    assert "| 1.50x |" in capsys.readouterr().out
    file.write_text("\n".join(file.read_text().splitlines()[:2]) + "\n")
    assert main([*line, "--resume", str(file)]) == 0
    assert [r.workload for r in read(file)] == ["gemv_1000x777x1", "sigmoid_4K"]


@pytest.mark.usefixtures("fake_libraries")
def test_a_library_that_hangs_is_a_dash(tmp_path) -> None:
    line = f"sigmoid_4K --threads 1 --untuned --libraries untuned,torch --out {tmp_path}"
    assert main(line.split()) == 0
    (row,) = read(next(tmp_path.glob("*.jsonl")))
    assert row.failed == {"torch": "took longer than 0.5 s"}
    assert list(row.seconds) == ["untuned"]


# Those that are left out differ in variables of the environment alone.
@pytest.mark.parametrize(
    "library", [n for n in LIBRARIES if n not in ("tuned", "numpy-skylakex", "torch-mkl512")]
)
def test_all_namespaces_agree(library: str, tmp_path) -> None:
    commands = []
    for kind in KINDS.values():
        if library == "inductor" and kind.name != "rotary":
            continue  # a C++ compiler for each
        np.save(tmp_path / f"{kind.name}.npy", make(kind.name, kind.small).expected())
        command = {"do": "prepare", "kind": kind.name, "params": kind.small, "threads": 1}
        expected = str(tmp_path / f"{kind.name}.npy")
        commands.append(command | {"expected": expected, "options": {}})
    done = subprocess.run(
        [sys.executable, "-m", "bench.worker", library],
        input="".join(json.dumps(c) + "\n" for c in commands),
        cwd=sources.ROOT,
        env={**os.environ, **LIBRARIES[library].variables()},
        capture_output=True,
        text=True,
    )
    answers = dict(zip((c["kind"] for c in commands), map(json.loads, done.stdout.splitlines())))
    failed = {kind: a["failed"] for kind, a in answers.items() if "failed" in a}
    if any("No module named" in reason for reason in failed.values()):
        pytest.skip(f"{library} is not installed")
    if library == "openvino":  # it computes float64 in float32
        failed.pop("matmul_f64")
    if library == "inductor":
        failed = {k: f for k, f in failed.items() if "CppCompiler" not in f and "C++" not in f}
    assert not failed
    assert len(answers) == len(commands)


def test_a_worker_answers_and_says_what_it_cannot_do(tmp_path) -> None:
    np.save(tmp_path / "wrong.npy", np.zeros((5, 9)))
    params = {"m": 5, "k": 7, "n": 9}
    wrong = str(tmp_path / "wrong.npy")
    prepare = {"do": "prepare", "params": params, "threads": 1, "options": {}, "expected": wrong}
    commands = [{**prepare, "kind": "matmul"}, {**prepare, "kind": "nonsense"}]
    done = subprocess.run(
        [sys.executable, "-m", "bench.worker", "numpy-haswell"],
        input="".join(json.dumps(c) + "\n" for c in commands),
        cwd=sources.ROOT,
        capture_output=True,
        text=True,
    )
    first, second = map(json.loads, done.stdout.splitlines())
    assert first["failed"].startswith("ValueError: wrong result: (5, 9), off by ")
    assert second == {"failed": "KeyError: 'nonsense'"}


@pytest.mark.parametrize("line", ["--libraries tensorflow", "fft"])
def test_unknown_names_are_told(line: str, capsys) -> None:
    assert main(line.split()) == 2
    assert "there are" in capsys.readouterr().err


@pytest.mark.usefixtures("fake_libraries")
def test_other_shapes_are_measured_and_drawn(tmp_path) -> None:
    line = f"--random 3 --seed 1 --threads 1 --threads 2 --libraries untuned --out {tmp_path}"
    assert main(line.split()) == 0
    (file,) = tmp_path.glob("*.jsonl")
    names = [w.name for w in random_workloads(3, 1)]
    assert [(r.workload, r.threads) for r in read(file)] == [(n, t) for t in (1, 2) for n in names]
    for threads in (1, 2):
        picture = file.with_suffix(f".{threads}.svg").read_text()
        assert all(name in picture for name in names)
