"""Logs that hold anything at all: every line is an entry or has a reason, and nothing raises."""

from __future__ import annotations

import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hostile_compiles import PROGRAMS, arrays_of, damaged, records_of, run
from hostile_lines import hostile_lines, mutated, mutated_steps, random_steps
from loopwright.autotune.log.note import entry_of
from loopwright.autotune.log.tuning_log import TuningLog
from loopwright.autotune.logtool import tools as logtool
from loopwright.autotune.logtool.replay import replay
from loopwright.autotune.record_line import REASONS, RecordError
from loopwright.autotune.space.space import ScheduleSpace
from loopwright.cli import main
from loopwright.codegen.target import Target
from loopwright.ir.errors import LoopwrightError, ParseError, ScheduleError
from loopwright.ir.loop.workload import parse_workload
from loopwright.ir.schedule.apply import apply_schedule
from loopwright.ir.schedule.state import State
from loopwright.ir.schedule.steps import Schedule
from prims import KINDS, make_prim

FIXTURES = Path(__file__).parents[1] / "autotune" / "fixtures"
TEXTS = [(FIXTURES / f"{name}.jsonl").read_text() for name in ("v1", "v2")]
VALID = [json.loads(line) for text in TEXTS for line in text.splitlines()]
KINDS_OF_LINES = [VALID[0], *[v for v in VALID if v["v"] == 2][:3]]


def lines_of(seed: int, count: int) -> list[bytes]:
    """Lines by hand, ``count`` at most, and as many mutated ones."""
    rng = random.Random(seed)
    lines = [line for line in hostile_lines(KINDS_OF_LINES) if len(line) < 20_000]
    return [*rng.sample(lines, count), *(mutated(rng, VALID) for _ in range(count))]


def test_a_line_is_an_entry_or_has_a_reason() -> None:
    lines = [line for line in hostile_lines(KINDS_OF_LINES) if len(line) < 200_000][::3]
    assert len(lines) > 1000
    reasons: Counter[str] = Counter()
    for line in lines:
        try:
            entry = entry_of(line)
        except RecordError as error:
            reasons[error.reason] += 1
            continue
        written = entry.to_json().encode()
        assert entry_of(written).to_json().encode() == written
    assert set(reasons) == set(REASONS)


def test_a_line_of_20_megabytes_is_counted_unread(tmp_path: Path) -> None:
    path, line = tmp_path / "log", json.dumps(VALID[0]).encode()
    path.write_bytes(b'{"v": 1, "pad": "' + b"x" * 20_000_000 + b'"}\n' + line + b"\n")
    log = TuningLog(path)
    assert len(log) == 1 and log.skipped.oversized == 1


@pytest.mark.parametrize("head", [b"\xef\xbb\xbf", b"\r\n\r\n", b" "])
def test_what_editors_add_is_no_damage(tmp_path: Path, head: bytes) -> None:
    path = tmp_path / "log"
    path.write_bytes(head + b"\r\n".join(json.dumps(v).encode() for v in VALID) + b"\r\n")
    log = TuningLog(path)
    assert log.skipped.total == 0 and len(list(log.entries())) == len(VALID)


def test_all_tools_survive_and_agree(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, good = tmp_path / "log", tmp_path / "good"
    lines = lines_of(1, 60)
    path.write_bytes(b"\n".join([*lines, *(json.dumps(v).encode() for v in VALID)]) + b"\n")
    good.write_text("".join(json.dumps(v) + "\n" for v in VALID))
    log, report = TuningLog(path), logtool.verify(path, logtool.still_applies)
    assert report.skipped == log.skipped and log.skipped.total > 20
    commands = [
        ["log", "list", path],
        ["log", "list", path, "--json"],
        ["log", "best", path],
        ["log", "best", path, "--nests"],
        ["log", "stats", path],
        ["log", "stats", path, "--json"],
        ["log", "diff", path, good],
        ["log", "export", path, "--format", "csv"],
        ["log", "export", path, "--format", "json"],
        ["log", "export", path, "--format", "text"],
        ["log", "merge", path, good, "--into", tmp_path / "all"],
        ["log", "prune", path, "--dry-run"],
        ["log", "migrate", path],
        ["log", "prune", path],
        ["report", path, "-o", tmp_path / "report.html"],
    ]
    for command in commands:
        assert main([str(part) for part in command]) == 0, command
    assert main(["log", "verify", str(path)]) == 1
    assert "Traceback" not in capsys.readouterr().err


def test_a_replay_of_a_damaged_run_is_refused_or_goes_on(tmp_path: Path) -> None:
    rng, path = random.Random(2), tmp_path / "log"
    valid = [v for v in VALID if v["v"] == 2 or v.get("run")]
    place = next(n for n, v in enumerate(valid) if v.get("kind") == "run")
    for _ in range(2):
        lines = [json.dumps(v).encode() for v in valid]
        lines[place] = mutated(rng, [valid[place]])
        path.write_bytes(b"\n".join(lines) + b"\n")
        try:
            replay(TuningLog(path))
        except LoopwrightError as error:
            assert str(error)


def test_any_step_with_any_arguments_applies_or_is_refused() -> None:
    rng = random.Random(3)
    spaces = [ScheduleSpace(make_prim(kind, 64, 33, 48), Target.host()) for kind in KINDS]
    legal: list[list[Any]] = []
    for space in spaces:
        rows = np.concatenate([space.default(), space.sample(2, np.random.default_rng(0))])
        legal.append([space.schedule(row).to_json() for row in rows] or [[]])
    deep = [[["split", axis, [1] + [2] * n]] for axis in "ijk" for n in (7, 30, 150)]
    outcomes: Counter[str] = Counter()
    for number in range(240):
        which = rng.randrange(len(spaces))
        space, prim = spaces[which], spaces[which].prim
        names = [*State.of(prim).order, *prim.buffers]
        steps = mutated_steps(rng, rng.choice(legal[which]), names)
        if number % 4 == 0:
            steps = random_steps(rng, names)
        elif number % 10 == 1:
            steps = rng.choice(deep) + steps
        try:
            schedule = Schedule.from_json(steps)
            space.row_of(schedule)
            fitted = space.refit(schedule)
            if fitted is not None:
                apply_schedule(prim, space.schedule(fitted))
            apply_schedule(prim, schedule)
            outcomes["applied"] += 1
        except ScheduleError:
            outcomes["refused"] += 1
    assert min(outcomes.values()) > 10


@pytest.mark.parametrize(
    "step",
    [
        ["reorder", ["nothing", "i"]],
        ["fuse", []],
        ["split", "i", []],
        ["split", "i", [2**39, 2**39]],
        ["split", "i", [1] + [2] * 150],
        ["unroll", "nothing"],
        ["compute_at", "t", "nothing"],
        ["prefetch", "out", "x", "i", 0],
    ],
)
def test_a_step_that_makes_no_sense_is_a_schedule_error(step: list[Any]) -> None:
    with pytest.raises(ScheduleError):
        apply_schedule(make_prim("matmul", 64, 33, 48), Schedule.from_json([step]))


def test_any_text_of_a_workload_is_read_or_refused() -> None:
    rng = random.Random(4)
    texts = [data["workload"]["prim"] for data in VALID if data.get("workload", {}).get("prim")]
    for _ in range(400):
        text = rng.choice(texts)
        at = rng.randrange(len(text))
        more = rng.choice(
            ["(", ")", "[", "9" * 20, "9" * 5000, "(" * 3000, "\0", "é", "\n", "-", ""]
        )
        try:
            parse_workload(text[:at] + more + text[at + rng.randrange(4) :])
        except ParseError as error:
            assert error.message


def test_compiles_beside_damaged_logs_are_right(tmp_path: Path) -> None:
    rng = random.Random(5)
    for number, (function, shapes) in enumerate(PROGRAMS):
        arrays = arrays_of(shapes)
        valid = records_of(function, arrays, 3)
        lines = [damaged(rng, valid) for _ in range(20)]
        for some in (lines[:1], lines):
            assert run(function, arrays, some, tmp_path / "log")[0] == "", some[0]
        if number < 3:
            assert run(function, arrays, lines_of(6, 100), tmp_path / "log")[0] == ""


def test_a_schedule_of_100_000_steps_is_counted_and_not_applied(tmp_path: Path) -> None:
    function, shapes = PROGRAMS[0]
    arrays, log = arrays_of(shapes), tmp_path / "log"
    long = records_of(function, arrays, 1)[0] | {"schedule": [["stream", "out"]] * 100_000}
    with pytest.raises(RecordError, match="100000 steps are more than 1000"):
        entry_of(json.dumps(long))
    with pytest.raises(ScheduleError, match="100000 steps are more than 1000"):
        Schedule.from_json(long["schedule"])
    assert run(function, arrays, [json.dumps(long).encode()], log)[0] == ""
    assert TuningLog(log).skipped.oversized == 1
