"""``loopwright log`` on a log with good, failed, torn, foreign and future lines."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from loopwright.autotune.log.tuning_log import TuningLog
from loopwright.autotune.record import Check, MeasureRecord, TargetKey, Workload
from loopwright.cli import main

TARGET = TargetKey("x86-64-v4", "a processor", 2, 1, 32768, 1048576, 33554432)


def record(tile: int, seconds: float | None, text: str = "matmul i=64") -> MeasureRecord:
    return MeasureRecord(
        Workload(text[:6] + "-hash", text),
        TARGET,
        (("split", "i", (tile,)),),
        sketch="contraction.register_tile/1",
        seconds=() if seconds is None else (seconds, seconds),
        error="crash" if seconds is None else None,
        checked=None if seconds is None else Check(1e-7, 1e-5),
        time=f"2026-01-0{tile}T00:00:00Z",
    )


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "log.jsonl"
    TuningLog(path).append(
        [record(1, 0.002), record(2, 0.001), record(3, None), record(4, 3e-6, "softmax 128")]
    )
    with path.open("a") as file:
        file.write('{"v": 1, "workl\n{"shopping": ["milk"]}\n{"v": 9, "workload": {}}\n')
    return path


def run(capsys, *words: object) -> tuple[int, str]:
    code = main([str(w) for w in words])
    return code, capsys.readouterr().out


def test_list(log: Path, capsys) -> None:
    code, out = run(capsys, "log", "list", log)
    assert code == 0
    assert out.splitlines()[1].split("  ")[0] == "matmul i=64"
    assert "1 ms" in out and "3 us" in out
    assert "skipped lines: 1 torn, 1 foreign, 1 of a later version" in out
    _, out = run(capsys, "log", "list", log, "--json")
    assert [json.loads(line)["tried"] for line in out.splitlines()] == [3, 1]


def test_best(log: Path, capsys) -> None:
    code, out = run(capsys, "log", "best", log, "matmul")
    assert code == 0
    assert '["split", "i", [2]]' in out and "softmax" not in out
    _, out = run(capsys, "log", "best", log, "--json")
    assert [json.loads(line)["seconds"][0] for line in out.splitlines()] == [0.001, 3e-6]
    assert main(["log", "best", str(log), "conv"]) == 2


def test_the_environment_names_the_log(log: Path, capsys, monkeypatch) -> None:
    monkeypatch.setenv("LOOPWRIGHT_LOG", str(log))
    assert run(capsys, "log", "list")[0] == 0


def test_merge_adds_what_is_new(log: Path, tmp_path: Path, capsys) -> None:
    other = tmp_path / "other.jsonl"
    TuningLog(other).append([record(1, 0.002), record(5, 0.003)])
    code, out = run(capsys, "log", "merge", log, other, "--into", tmp_path / "all.jsonl")
    assert code == 0
    assert "5 records added, 1 known already, 3 lines could not be read" in out


def test_prune_keeps_the_fastest(log: Path, capsys) -> None:
    before = log.read_bytes()
    code, out = run(capsys, "log", "prune", log, "--keep", 1, "--dry-run")
    assert (code, log.read_bytes()) == (0, before)
    assert "3 lines kept, 2 records and 2 unreadable lines would go" in out
    run(capsys, "log", "prune", log, "--keep", 1)
    assert [r.schedule[0][2] for r in TuningLog(log)] == [[2], [4]]


def test_stats(log: Path, capsys) -> None:
    code, out = run(capsys, "log", "stats", log)
    assert code == 0
    assert "4 records, 2 workloads, 1 machines" in out and "failed crash: 1" in out
    assert json.loads(run(capsys, "log", "stats", log, "--json")[1])["torn"] == 1


def test_verify_names_the_lines(log: Path, tmp_path: Path, capsys) -> None:
    code, out = run(capsys, "log", "verify", log)
    assert code == 1
    assert [line.split(":")[1] for line in out.splitlines()[:3]] == ["5", "6", "7"]
    clean = tmp_path / "clean.jsonl"
    TuningLog(clean).append([record(1, 0.002)])
    assert run(capsys, "log", "verify", clean) == (
        0,
        f"{clean}: 1 good, 0 suspicious, 0 torn, 0 foreign, 0 of a later version\n",
    )
