"""A log looked through by the beginnings of its lines holds what it holds when all are read."""

from __future__ import annotations

import json
import os
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hostile_lines import hostile_lines, mutated
from loopwright.autotune.log import log_index as module
from loopwright.autotune.log.log_index import LogIndex, log_index
from loopwright.autotune.log.lookup import best_of, own_records, related
from loopwright.autotune.log.tuning_log import TuningLog
from loopwright.autotune.record import MeasureRecord, TargetKey, Workload
from loopwright.codegen.llvm.store import store

FIXTURES = Path(__file__).parent / "fixtures"
TEXTS = [(FIXTURES / f"{name}.jsonl").read_text() for name in ("v1", "v2")]
VALID = [json.loads(line) for text in TEXTS for line in text.splitlines()]
TARGET = TargetKey("x86-64-v4", "cpu", 2, 1, 1, 2, 3)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of indices, and every log long enough for one."""
    monkeypatch.setenv("LOOPWRIGHT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(module, "WORTH_SAVING", 1)
    return tmp_path / "cache" / "logs"


def record(number: int, workload: str = "w", prim: str = "") -> MeasureRecord:
    return MeasureRecord(
        Workload(workload, workload, prim), TARGET, (["tile", number],), seconds=(1.0,)
    )


def lines(*records: MeasureRecord) -> str:
    return "".join(r.to_json() + "\n" for r in records)


def numbers(index: LogIndex, workload: str = "w") -> list[int]:
    return [r.schedule[0][1] for r in index.of(workload)]


def same(index: LogIndex, log: TuningLog) -> None:
    """The index answers as the log does."""
    for name in {*(r.workload.hash for r in log), *(d.workload.hash for d in log.decisions), "no"}:
        assert index.of(name) == log.of(name)
        assert index.decided(name) == log.decided(name)
    assert index.choices() == log.choices()
    for workload in log.workloads():
        assert {w.hash for w in index.alike(workload)} == {w.hash for w in log.alike(workload)}


def test_it_answers_as_the_whole_log_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CONTENDERS", 10_000)
    rng = random.Random(0)
    some = [line for line in hostile_lines(VALID[:1]) if len(line) < 20_000]
    found = [*rng.sample(some, 150), *(mutated(rng, VALID) for _ in range(150))]
    styles: list[dict[str, Any]] = [{}, {"separators": (",", ":")}, {"indent": None}]
    styles += [{"sort_keys": True}, {"ensure_ascii": False}]
    found += [json.dumps(v, **style).encode() for style in styles for v in VALID]
    rng.shuffle(found)
    path = tmp_path / "log"
    path.write_bytes(b"\n".join(found) + b"\n")
    log = TuningLog(path)
    assert len(log) > 50 and len(log.decisions) >= 5
    for _ in range(2):  # the second goes by what the first has saved
        same(LogIndex(path), log)


def test_a_process_goes_on_from_what_another_has_saved(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "log"
    path.write_text(lines(record(1), record(2, "other")))
    LogIndex(path)
    scanned: list[bytes] = []
    real = LogIndex._scan
    monkeypatch.setattr(
        LogIndex, "_scan", lambda self, at, data: (scanned.append(data), real(self, at, data))
    )
    assert numbers(LogIndex(path)) == [1] and not scanned
    with path.open("a") as file:
        file.write(lines(record(3)))
    assert numbers(LogIndex(path)) == [1, 3]
    assert b"".join(scanned).decode() == lines(record(3))


def test_what_is_appended_is_seen_and_a_torn_end_waits(tmp_path: Path) -> None:
    path = tmp_path / "log"
    index = log_index(path)
    assert index.of("w") == []
    TuningLog(path).append(record(1))
    assert numbers(log_index(path)) == [1] and log_index(path) is index
    line = lines(record(2))
    with path.open("a") as file:
        file.write(line[:50])
    assert numbers(log_index(path)) == [1]
    with path.open("a") as file:
        file.write(line[50:-1])
    assert numbers(log_index(path)) == [1, 2]  # an editor's last line
    TuningLog(path).append(record(3))
    assert numbers(log_index(path)) == [1, 2, 3]


@pytest.mark.parametrize("saved", [False, True])
def test_a_file_that_changed_is_read_anew(tmp_path: Path, saved: bool) -> None:
    path = tmp_path / "log"

    def found() -> list[int]:
        return numbers(LogIndex(path) if saved else log_index(path))

    path.write_text(lines(record(1), record(2), record(3)))
    assert found() == [1, 2, 3]
    path.write_text(lines(record(2)))  # cut off
    assert found() == [2]
    os.utime(path, ns=(0, 0))
    path.write_text(lines(record(4)))  # as long as before
    assert found() == [4]
    (tmp_path / "new").write_text(lines(record(5), record(6), record(7)))
    (tmp_path / "new").replace(path)
    assert found() == [5, 6, 7]


def test_an_index_that_is_wrong_costs_time_only(tmp_path: Path, cache: Path) -> None:
    path = tmp_path / "log"
    path.write_text(lines(record(1), record(2, "other"), record(3)))
    LogIndex(path)
    (file,) = cache.iterdir()
    content = store("logs").get(file.name)
    assert content is not None
    good = json.loads(content)
    wrong: list[dict[str, Any]] = [
        {"lines": {"w": [5, 10**30, -1]}},
        {"lines": {"w": [0, good["lines"]["other"][0]]}},
        {"choices": [1, 2]},
        {"offset": 3},
    ]
    whole = file.read_bytes()
    damaged = [b"", b"{", b'{"version": 1, "lines": {}}', whole[:-20], whole.replace(b"w", b"v")]
    for data in [*wrong, *damaged]:
        if isinstance(data, bytes):
            file.write_bytes(data)
        else:
            store("logs").put(file.name, "log index", json.dumps({**good, **data}).encode())
        index = LogIndex(path)
        assert numbers(index) == [1, 3], data
        assert index.choices() == []
        assert index.alike(Workload("w", prim="x[4]")) == []


def test_a_cache_folder_that_cannot_be_written_is_done_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "taken").write_text("")
    monkeypatch.setenv("LOOPWRIGHT_CACHE", str(tmp_path / "taken"))
    path = tmp_path / "log"
    path.write_text(lines(record(1)))
    assert numbers(LogIndex(path)) == [1]


def test_a_log_that_is_removed_is_told_of_once(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text(lines(record(1)))
    index = log_index(path)
    path.unlink()
    with pytest.warns(UserWarning, match="was removed or emptied: .* without its schedules"):
        assert log_index(path).of("w") == []
    path.write_text(lines(record(2)))
    assert numbers(log_index(path)) == [2] and log_index(path) is index
    path.unlink()
    TuningLog(path).check_writable()
    with pytest.warns(UserWarning, match="goes into a new file"):
        assert log_index(path).of("w") == []


def test_shapes_of_a_kind_are_found_whatever_their_names(tmp_path: Path) -> None:
    path = tmp_path / "log"
    near, far = "f(p0: float32[64, 3]) 1.5", "f(p0: float32[64, 3]) 2.5"
    path.write_text(
        lines(record(1, "a"), record(2, "a", near), record(3, "b", far))
        + json.dumps(json.loads(lines(record(4, "c", near.replace("64", "100")))), indent=None)
        + "\n"
    )
    wanted = Workload("w", prim=near.replace("64", "77"))
    for _ in range(2):
        assert [w.hash for w in LogIndex(path).alike(wanted)] == ["a", "c"]


@pytest.mark.parametrize("seed", range(4))
def test_the_best_of_many_records_is_the_best_of_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    monkeypatch.setattr(module, "CONTENDERS", 10)
    rng = random.Random(seed)
    targets = [TARGET, replace(TARGET, threads=2), replace(TARGET, cpu="another")]
    records: list[MeasureRecord] = []
    for number in range(300):
        ran = rng.random() < 0.9
        error = None if ran else rng.choice(["timeout", "wrong_result", "out_of_bounds"])
        schedule = rng.randrange(40)
        samples = tuple((1 + 0.02 * schedule) * rng.uniform(1, 1.15) for _ in range(4))
        records.append(
            replace(
                record((7 * schedule) % 40),
                target=rng.choice(targets),
                seconds=samples if ran else (),
                error=error,
                raced=ran and seed % 2 == 0 and rng.random() < 0.1,
                seed=number,
            )
        )
    path = tmp_path / "log"
    path.write_text(lines(*records))
    log, index = TuningLog(path), LogIndex(path)
    assert len(index.of("w")) < 0.8 * len(records)
    for target in targets:
        assert best_of([index], "w", target) == best_of([log], "w", target)
        assert own_records([index], "w", target)[0] == own_records([log], "w", target)[0]
    other = replace(TARGET, l1=64)
    assert related([index], Workload("w"), other) == related([log], Workload("w"), other)
