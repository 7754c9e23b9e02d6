"""``loopwright tune --replay``: a run of real kernels decided again, and what is asked wrongly."""

from __future__ import annotations

from pathlib import Path

from loopwright.autotune.log.note import Note
from loopwright.autotune.log.tuning_log import TuningLog
from loopwright.cli import main
from loopwright.codegen.machine import estimated_machine

PROGRAM = """
import numpy as np
import loopwright as lw

W = np.ones((32, 48), np.float32)


@lw.compile(threads=1)
def layer(x):
    return lw.nn.softmax(np.maximum(x @ W, 0))


example_inputs = (lw.f32[24, 32],)
"""


def test_a_run_is_repeated_without_hardware(tmp_path: Path, capsys, monkeypatch) -> None:
    monkeypatch.setattr("loopwright.commands.tune.measured_machine", estimated_machine)
    # Else these kernels may be at their limit, with nothing to gain.
    monkeypatch.setattr("loopwright.tuning.tune.known_machine", estimated_machine)
    file, log = tmp_path / "net.py", tmp_path / "net.jsonl"
    file.write_text(PROGRAM)
    assert main(["tune", f"{file}:layer", "--trials", "40", "--log", str(log)]) == 0
    before = log.read_bytes()
    capsys.readouterr()

    assert main(["tune", "--replay", str(log)]) == 0
    out = capsys.readouterr().out.splitlines()
    records = sum(bool(r.run) for r in TuningLog(log))  # others tell of choices in the graph
    assert out[0].endswith(f": {records} of {records} records decided again")
    (note,) = (e for e in TuningLog(log).entries() if isinstance(e, Note) and e.kind == "run")
    assert len(out) == 1 + len(note.data["tasks"]) >= 3 and all(
        "same winner" in line for line in out[1:]
    )
    assert log.read_bytes() == before

    # The same log with another seed in its note: other candidates would be drawn.
    changed = TuningLog(tmp_path / "changed.jsonl")
    for entry in TuningLog(log).entries():
        if isinstance(entry, Note) and entry.kind == "run":
            entry = Note("run", {**entry.data, "seed": 99})
        changed.append(entry)
    assert main(["tune", "--replay", str(changed.path)]) == 1
    out = capsys.readouterr().out
    assert "departs at record" in out and "the engine asks for" in out


def test_what_cannot_be_replayed_is_one_line(tmp_path: Path, capsys) -> None:
    empty = tmp_path / "empty.jsonl"
    empty.write_text("")
    for words, message in (
        (["--replay", str(tmp_path / "nowhere")], "no tuning log at"),
        (["--replay", str(empty)], "this log notes no run"),
        (["net.py:f", "--replay", str(empty)], "leave the function out"),
        (["--run", "12"], "give --replay LOG, too"),
        ([], "which function? give it as FILE.py:FUNCTION, or --replay LOG"),
    ):
        assert main(["tune", *words]) == 2
        err = capsys.readouterr().err
        assert message in err and err.count("\n") == 1
