"""The commands that take FILE.py:FUNCTION: how it is found, its arguments, what can be wrong."""

from __future__ import annotations

from pathlib import Path

import pytest
from loopwright.autotune.log.tuning_log import TuningLog
from loopwright.cli import main
from loopwright.codegen.machine import estimated_machine

SOURCE = """
import numpy as np
import loopwright as lw

W = np.ones((4, 3), np.float32)

def layer(x, bias=0.0):
    return np.maximum(x @ W + bias, 0)

def layer_inputs():
    return (np.ones((2, 4), np.float32),)

@lw.compile
def named(x, y):
    return x * y

named_inputs = {"y": lw.f32[3], "x": lw.f32[3]}

def bare(x, *, scale):
    return x * scale

def member(x):
    return (1, 2).index(x)

def bad():
    return 1 / 0

def wrong():
    return 5

wrong_inputs = 7
number = 3

def typed(x: lw.f32[5, 4], y: lw.f32[4], factor: float = 2.0, other: "Missing" = None):
    return x * y * factor

def described(x: "lw.f32['n', 4]"):
    return x + 1
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "net.py").write_text(SOURCE)
    (tmp_path / "broken.py").write_text("import numpy\nx = 1 / 0\n")
    (tmp_path / "notes.txt").write_text("hello")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("LOOPWRIGHT_LOG", raising=False)
    return tmp_path


def shown(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(list(words)) == 0, capsys.readouterr().err
    return capsys.readouterr().out


def test_arguments_come_from_the_file(capsys) -> None:
    assert "%x: Tensor[(2, 4), float32]" in shown(capsys, "show", "net.py:layer")
    assert "%y: Tensor[(3), float32]" in shown(capsys, "show", "net.py:named")


def test_annotations_are_specs(capsys) -> None:
    assert "%x: Tensor[(n, 4), float32]" in shown(capsys, "show", "net.py:described")
    assert "Tensor[(3, 4), float32]" in shown(
        capsys, "show", "net.py:described", "--arg", "f32[3,4]"
    )
    out = shown(capsys, "show", "net.py:typed")
    assert "%x: Tensor[(5, 4), float32]" in out and "%y: Tensor[(4), float32]" in out


def test_specs_take_the_place_of_the_files_arguments(capsys) -> None:
    out = shown(capsys, "show", "net.py:layer", "--arg", "x=f32[7,4]", "--arg", "bias=f32[3]")
    assert "%x: Tensor[(7, 4), float32]" in out and "%bias: Tensor[(3), float32]" in out
    assert "Tensor[(5, 4), float32]" in shown(capsys, "show", "net.py:layer", "--arg", "f32[5,4]")


def test_sizes_have_names_and_ranges(capsys) -> None:
    words = ["net.py:layer", "--arg", "x=f32[n,4]", "--arg", "n=1..64"]
    out = shown(capsys, "show", *words)
    assert "def @main[n in 1..64](%x: Tensor[(n, 4), float32]" in out
    assert "float32[64, 3]" in shown(capsys, "run", *words)  # of a likely size


def test_every_line_of_the_graph_names_its_line_of_python(capsys) -> None:
    assert "net.py:8" in shown(capsys, "show", "net.py:layer", "--level", "graph")


def test_bench_compares_and_times(capsys) -> None:
    out = shown(capsys, "bench", "net.py:layer", "--seconds", "0.05")
    assert "results agree to" in out
    assert [line.split()[0] for line in out.splitlines()[2:]] == ["loopwright", "python"]


def test_explain_tells_of_every_kernel(folder: Path, capsys, monkeypatch) -> None:
    monkeypatch.setattr("loopwright.codegen.machine.measured_machine", estimated_machine)
    words = ["explain", "net.py:layer", "--seconds", "0.05", "--threads", "1"]
    out = shown(capsys, *words, "--loops", "--svg", "roof.svg")
    assert out.startswith("net.py:layer   ")
    assert "1 thread; estimated, not measured:" in out
    assert "by the rules, the logs have nothing like it" in out
    assert "prim @matmul" in out and "picture    roof.svg" in out
    assert "prim @" not in shown(capsys, *words)
    assert (folder / "roof.svg").read_text().startswith("<svg")


# A command line that cannot be carried out, and a part of the one line it is answered with.
MISTAKES = {
    "show nope.py:f": "there is no file nope.py",
    "show net:layer": "there is no file net; write it as FILE.py:FUNCTION",
    "show notes.txt:f": "notes.txt is not a Python file",
    "show net.py": "which function of net.py? (functions there: layer, layer_inputs, named, bare",
    "show net.py:lajer": "there is no lajer in net.py; did you mean layer?",
    "show net.py:number": "number in net.py is not a function",
    "show broken.py:f": "broken.py:2 fails when it is imported: ZeroDivisionError",
    "show net.py:bare": "bare(x, *, scale) needs arguments: give --arg 'x=f32[64,784]'",
    "show net.py:bare --arg x=f32[2]": "missing a required argument: 'scale'; give one --arg",
    "show net.py:bare --arg z=f32[2]": "--arg z=f32[2]: bare(x, *, scale) has no parameter 'z'",
    "show net.py:bare --arg x=f33[2]": "'f33' is not a dtype",
    "show net.py:bare --arg x=f32[2": "the closing ] is missing",
    "show net.py:wrong": "wrong_inputs gives a int",
    "show net.py:layer --log nope.jsonl": "no tuning log at nope.jsonl",
    "show net.py:layer --level soup": "invalid choice: 'soup'",
    "bench net.py:layer --threads 0": "--threads 0: there must be at least one",
    "bench net.py:layer --seconds 0": "--seconds 0: the time must be more than nothing",
    "show net.py:layer --arg x=f32[n,4] --arg n=5..2": "the size n has no values: 5 to 2",
    "explain net.py:layer --threads 0": "--threads 0: there must be at least one",
    "explain net.py:layer --seconds 0": "--seconds 0: the time must be more than nothing",
    "explain net.py:layer --svg a.png": "--svg a.png: the picture is an SVG; name it a.svg",
    "explain net.py:layer --svg no/a.svg": "--svg no/a.svg: there is no folder no",
    "explain net.py:layer --log nope.jsonl": "no tuning log at nope.jsonl",
    "tune net.py:layer --budget 1x --log a.jsonl": "budget '1x' is not understood; write seconds",
    "tune net.py:layer --trials 0 --log a.jsonl": "--trials 0: there must be at least one",
    "tune net.py:layer": "give --log FILE (it may be new), or set LOOPWRIGHT_LOG",
    "tune net.py:layer --log .": "--log . is a folder; name a file in it, as tuning.jsonl",
    "tune net.py:layer --log no/log.jsonl": "there is no folder no; make it first",
}


@pytest.mark.parametrize("line", MISTAKES)
def test_a_mistake_is_one_line_with_a_way_out(line: str, capsys) -> None:
    assert main(line.split()) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("loopwright") and err.count("\n") == 1, err
    assert MISTAKES[line] in err


def test_what_cannot_be_traced_is_told_with_the_users_line(capsys) -> None:
    assert main(["show", "net.py:member", "--arg", "x=f32[]"]) == 2
    err = capsys.readouterr().err
    assert "net.py:23" in err and "Traceback" not in err


def test_tune_writes_the_log_and_show_reads_it(folder: Path, capsys, monkeypatch) -> None:
    monkeypatch.setattr("loopwright.commands.tune.measured_machine", estimated_machine)
    words = ["tune", "net.py:layer", "--trials", "3", "--budget", "20s", "--log", "net.jsonl"]
    out = shown(capsys, *words)
    assert out.startswith("net.py:layer   x86-64")
    assert "candidates" in out
    records = TuningLog(folder / "net.jsonl").records
    assert len(records) >= 1
    assert all(r.ok for r in records)
    assert "registers" in shown(
        capsys, "show", "net.py:layer", "--level", "loops", "--log", "net.jsonl"
    )
    assert "matmul" in shown(capsys, "log", "list", "net.jsonl")
    fresh = shown(capsys, *words, "--no-resume")
    assert fresh.startswith("net.jsonl is set aside as net.jsonl.1\n")
    assert TuningLog(folder / "net.jsonl.1").records == records
    assert len(TuningLog(folder / "net.jsonl").records) >= 1


ADVISED = """
import numpy as np
import loopwright as lw

@lw.compile(dynamic="auto", threads=2)
def product(x, w):
    '''Two lines
    of text.'''
    return np.tanh(x @ w)

def product_inputs():
    return np.eye(200) / 3, np.eye(200) / 7
"""


def test_advice_is_measured_and_a_patch(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from loopwright.commands import advise

    (tmp_path / "net.py").write_text(ADVISED)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(advise, "_WELCOME_GAIN", -100.0)  # every change is advice
    assert main(["advise", "net.py:product", "--seconds", "0.05"]) == 0
    printed = capsys.readouterr().out
    assert "# as it is" in printed and "# in float32" in printed
    assert "--- net.py\n+++ net.py\n" in printed
    added = [line for line in printed.splitlines() if line[0] == "+" and line[:3] != "+++"]
    assert added[:2] == [f"+    {n} = {n}.astype(np.float32)" for n in "xw"]
    assert "+@lw.compile(dynamic='auto', threads=1)" in added
    assert "of text.'''\n+    x = x" in printed
