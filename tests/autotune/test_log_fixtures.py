"""Logs of every schema version load for ever: the files here are frozen, only new ones are added.

``v1.jsonl`` holds measured runs as the first version wrote them, ``v2.jsonl`` a whole run with its
notes and a decision. If a test here fails, users' logs have just become worth less.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from loopwright.autotune.log.lookup import best_records
from loopwright.autotune.log.tuning_log import TuningLog
from loopwright.autotune.logtool.logged import logged_nest, logged_prim
from loopwright.autotune.logtool.tools import still_applies, verify
from loopwright.ir.loop.workload import workload_hash

FIXTURES = Path(__file__).parent / "fixtures"
FROZEN = {
    "v1.jsonl": "29ab205fd0d74b3a",
    "v2.jsonl": "bed39e29a4706deb",
}
WINNERS = {
    "v1.jsonl": {"d864f7703991337b": 4.1e-07, "f0dfdd143938c3f2": 4.9e-07},
    "v2.jsonl": {"d864f7703991337b": 4.1e-07, "f0dfdd143938c3f2": 4.6e-07},
}


def test_every_fixture_is_known() -> None:
    assert {path.name for path in FIXTURES.glob("*.jsonl")} == set(FROZEN)


@pytest.mark.parametrize("name", FROZEN)
def test_the_files_are_as_they_were_written(name: str) -> None:
    assert hashlib.sha256((FIXTURES / name).read_bytes()).hexdigest()[:16] == FROZEN[name]


@pytest.mark.parametrize("name", FROZEN)
def test_every_line_is_read(name: str) -> None:
    log = TuningLog(FIXTURES / name)
    lines = (FIXTURES / name).read_text().count("\n")
    assert log.skipped.total == 0
    assert len(list(log.entries())) == lines
    assert verify(FIXTURES / name, still_applies).ok


@pytest.mark.parametrize("name", FROZEN)
def test_kernels_keep_their_hashes_and_schedules_still_apply(name: str) -> None:
    for record in TuningLog(FIXTURES / name):
        prim = logged_prim(record.workload)
        assert workload_hash(prim) == record.workload.hash
        if record.ok:
            assert logged_nest(record).body


@pytest.mark.parametrize("name", FROZEN)
def test_the_same_schedules_win(name: str) -> None:
    found = {r.workload.hash: r.cost for r in best_records(TuningLog(FIXTURES / name))}
    assert found == pytest.approx(WINNERS[name], rel=0.03)


def test_a_run_and_a_decision_are_found_again() -> None:
    log = TuningLog(FIXTURES / "v2.jsonl")
    (run,) = (note for _, note in log.notes if note.kind == "run")
    assert [task["name"] for task in run.items("tasks")] == [
        "matmul_maximum",
        "max_subtract_exp_sum_divide",
    ]
    assert len(log.decisions) == 1
    assert [note.kind for _, note in log.notes] == ["run", "end", "remark"]
