"""``loopwright log diff``, ``export``, ``migrate`` and ``verify --run`` on real kernels, and
what a beginner may hand them."""

from __future__ import annotations

import csv
import io
import json
import shutil
import threading
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from loopwright.autotune.log.tuning_log import TuningLog
from loopwright.autotune.logtool.export import COLUMNS
from loopwright.autotune.measure.kernels import task_of
from loopwright.autotune.record import Check, MeasureRecord
from loopwright.cli import main
from loopwright.codegen.target import Target
from loopwright.ir.loop.workload import parse_workload

FIXTURES = Path(__file__).parents[1] / "autotune" / "fixtures"
OLD, NEW = FIXTURES / "v1.jsonl", FIXTURES / "v2.jsonl"
SCALE = "(x0: float32[64, 48]) -> out: float32[64, 48] { out[i, j] = x0[i, j] * 2.0 }"


def run(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, str]:
    code = main([str(w) for w in words])
    caught = capsys.readouterr()
    return code, caught.out + caught.err


def test_diff_shows_winners_that_changed_as_loop_nests(capsys) -> None:
    code, out = run(capsys, "log", "diff", OLD, NEW)
    assert code == 0
    assert "changed max_subtract_exp_sum_divide float32 i=24 k=48 j=48 r=48   493 ns -> 460" in out
    assert "    +  parallel i.0 in 3:" in out and "    -  for i.0 in 12:" in out
    assert out.endswith("1 with the same winner\n")
    _, out = run(capsys, "log", "diff", NEW, NEW, "--brief")
    assert out.splitlines()[0].startswith("2 kernels: 0 changed, 0 only in")


def test_diff_tells_what_one_of_them_has_not(tmp_path: Path, capsys) -> None:
    part = TuningLog(tmp_path / "part.jsonl")
    part.append(r for r in TuningLog(NEW) if r.workload.text.startswith("matmul"))
    _, out = run(capsys, "log", "diff", part.path, NEW)
    assert out.startswith("new     max_subtract_exp_sum_divide")
    _, out = run(capsys, "log", "diff", NEW, part.path, "--json")
    rows = [json.loads(line) for line in out.splitlines()]
    assert [row["kind"] for row in rows] == ["gone", "same"]
    assert rows[0]["after"] is None and rows[0]["seconds_before"] == pytest.approx(4.6e-7, rel=0.1)


def test_export_as_a_table(tmp_path: Path, capsys) -> None:
    code, out = run(capsys, "log", "export", NEW, "--format", "csv")
    assert code == 0
    rows = list(csv.DictReader(io.StringIO(out)))
    assert tuple(rows[0]) == COLUMNS and len(rows) == len(TuningLog(NEW))
    assert json.loads(rows[0]["schedule"]) == list(TuningLog(NEW).records[0].schedule)
    file = tmp_path / "log.csv"
    code, out = run(capsys, "log", "export", NEW, "--format", "csv", "--winners", "-o", file)
    assert code == 0 and out.startswith(f"{file}: ")
    assert len(list(csv.DictReader(io.StringIO(file.read_text())))) == 2


def test_export_as_json_and_as_text(capsys) -> None:
    _, out = run(capsys, "log", "export", NEW, "--format", "json")
    again = [MeasureRecord.from_json(json.dumps(row)) for row in json.loads(out)]
    assert again == TuningLog(NEW).records
    _, text = run(capsys, "log", "export", NEW, "--winners")
    assert "matmul_maximum float32 i=24 j=48 k=32   412 ns" in text and "vectorize j.2" in text
    _, best = run(capsys, "log", "best", NEW, "matmul", "--nests")
    assert best.strip() == text.split("\n\n")[0].strip()


def test_migrate_rewrites_and_loses_nothing(tmp_path: Path, capsys) -> None:
    log = tmp_path / "old.jsonl"
    record = json.loads(TuningLog(OLD).records[0].to_json())
    record["mood"] = "good"  # of a version that knew more
    record["workload"]["colour"] = "red"
    lines = [json.dumps(record, separators=(",", ":")), '{"v": 9, "new": 1}', "torn {"]
    log.write_text("\n".join(lines) + "\n")
    code, out = run(capsys, "log", "migrate", log, "--dry-run")
    assert code == 0 and "1 lines would be rewritten" in out
    assert log.read_text() == "\n".join(lines) + "\n"
    _, out = run(capsys, "log", "migrate", log)
    assert "1 lines rewritten, 0 are as they are written today, 2 left as they are" in out
    new = log.read_text().splitlines()
    assert new[1:] == lines[1:] and json.loads(new[0]) == record
    _, out = run(capsys, "log", "migrate", log)
    assert "0 lines rewritten, 1 are as they are written today" in out
    assert list(tmp_path.iterdir()) == [log]


def test_a_tuner_at_work_loses_nothing_to_migrate_and_prune(tmp_path: Path) -> None:
    log = TuningLog(tmp_path / "log.jsonl")
    first = TuningLog(OLD).records[0]
    done = threading.Event()

    def tidy() -> None:
        while not done.is_set():
            assert main(["log", "migrate", str(log.path)]) == 0
            assert main(["log", "prune", str(log.path), "--keep", "1000"]) == 0

    log.append(first)
    tidier = threading.Thread(target=tidy)
    tidier.start()
    for number in range(200):
        log.append(replace(first, schedule=(["split", "i", [number, 1]],)))
    done.set()
    tidier.join()
    assert len(TuningLog(log.path)) == len(log) == 201


def test_verify_says_which_schedules_do_not_apply(tmp_path: Path, capsys) -> None:
    log = TuningLog(tmp_path / "log.jsonl")
    good = TuningLog(OLD).records[0]
    log.append([good, replace(good, schedule=(["vectorize", "nowhere"],))])
    code, out = run(capsys, "log", "verify", log.path)
    assert code == 1
    assert ":2: its schedule does not apply: " in out and "1 good, 1 suspicious" in out


def test_verify_runs_the_winners(tmp_path: Path, capsys) -> None:
    task = task_of(parse_workload(SCALE, "scale"), Target.host(), 1)
    schedule = tuple(task.space.schedule(task.space.default()[0]).to_json())
    record = MeasureRecord(task.workload, task.key, schedule, seconds=(1e-6,), checked=Check(0, 1))
    log = TuningLog(tmp_path / "log.jsonl")
    foreign = replace(record, target=replace(task.key, isa="armv9"))
    log.append([record, foreign])
    code, out = run(capsys, "log", "verify", log.path, "--run")
    assert code == 0
    assert "scale float32 i=64 j=48: right, error" in out
    assert "not run, this machine has no armv9" in out
    log.append(replace(record, schedule=(["split", "i", [7, 7, 7]],), seconds=(1e-9,)))
    code, out = run(capsys, "log", "verify", log.path, "--run")
    assert code == 1 and "WRONG: schedule_error" in out


def test_verify_tells_what_kernels_gain_from_each_other(tmp_path: Path, capsys) -> None:
    log = TuningLog(tmp_path / "log.jsonl")
    for columns in (48, 56):
        prim = parse_workload(SCALE.replace("48", str(columns)), "scale")
        task = task_of(prim, Target.host(), 1)
        default = task.space.default()[0]
        others = task.space.sample(64, np.random.default_rng(0))
        rows = (default, next(row for row in others if not np.array_equal(row, default)))
        log.append(
            MeasureRecord(
                task.workload,
                task.key,
                tuple(task.space.schedule(row).to_json()),
                seconds=(seconds,),
                checked=Check(0, 1),
            )
            for row, seconds in zip(rows, (2e-6, 1e-6))
        )
    code, out = run(capsys, "log", "verify", log.path, "--transfer")
    assert code == 0
    *_, first, second, summary = out.splitlines()
    assert first.startswith("scale float32 i=64 j=48: ") and "x tuned" in second
    assert summary.startswith("2 kernels by the records of others: ") and "regret" in summary
    one = TuningLog(tmp_path / "one.jsonl")
    one.append(log.records[:2])
    _, out = run(capsys, "log", "verify", one.path, "--transfer")
    assert out.endswith("no winner has records of others that can be carried to it here\n")


def test_stats_per_kernel_and_machine(capsys) -> None:
    _, out = run(capsys, "log", "stats", NEW)
    assert "1 runs, 1 decisions" in out
    assert "machine Intel(R) Xeon(R) Processor, x86-64-v4, 1 thread: 32" in out
    assert "kernel matmul_maximum float32 i=24 j=48 k=32: " in out


@pytest.mark.parametrize("action", ["list", "best", "stats", "export", "diff", "prune", "migrate"])
def test_what_is_no_log_is_said_in_one_line(action: str, tmp_path: Path, capsys) -> None:
    picture, text = tmp_path / "cat.png", tmp_path / "net.py"
    picture.write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(range(256)))
    text.write_text("import numpy as np\n")
    for path, message in (
        (tmp_path / "nothing.jsonl", "no tuning log at"),
        (tmp_path, "a folder, not a file"),
        (picture, "is not a tuning log: none of its lines can be read"),
        (text, "is not a tuning log: none of its lines can be read"),
    ):
        words = [str(path)] * (2 if action == "diff" else 1)
        code, out = run(capsys, "log", action, *words)
        assert code == 2 and message in out and out.count("\n") == 1
    assert picture.stat().st_size == 264 and text.read_text() == "import numpy as np\n"


def test_an_empty_log_is_no_error(tmp_path: Path, capsys) -> None:
    path = tmp_path / "empty.jsonl"
    path.touch()
    assert run(capsys, "log", "list", path) == (0, f"{path}: no records yet\n")
    for action in ("best", "stats", "verify", "prune", "migrate", "export"):
        assert run(capsys, "log", action, path)[0] == 0
    shutil.copy(NEW, tmp_path / "new.jsonl")
    assert run(capsys, "log", "merge", path, "--into", tmp_path / "new.jsonl")[0] == 0
    assert (tmp_path / "new.jsonl").read_bytes() == NEW.read_bytes()
