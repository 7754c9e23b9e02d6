"""Commands on ONNX models."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from loopwright.cli import main
from onnx import helper
from onnx_models import model, value

RNG = np.random.default_rng(0)
W = RNG.standard_normal((8, 4)).astype(np.float32)
X = RNG.standard_normal((2, 8)).astype(np.float32)
ARGS = ("--arg", "x/in 1=f32[2,8]", "--arg", "n=i64[2,1]")


@pytest.fixture
def path(tmp_path: Path) -> str:
    """A model with inputs of open sizes, one of them with an odd name."""
    nodes = [
        helper.make_node("MatMul", ["x/in 1", "w"], ["h"], name="/l1/MatMul"),
        helper.make_node("Cast", ["n"], ["f"], to=1),
        helper.make_node("Add", ["h", "f"], ["y"]),
    ]
    inputs = [value("x/in 1", ["batch", 8]), value("n", ["batch", 1], np.int64)]
    proto = model(nodes, inputs, ["y", "h"], {"w": W})
    proto.ir_version = 8  # what released runtimes read
    file = tmp_path / "layer.onnx"
    file.write_bytes(proto.SerializeToString())
    return str(file)


def test_open_sizes_are_asked_for(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", path]) == 2
    assert capsys.readouterr().err == (
        "loopwright: TypeError: layer.onnx leaves sizes of its inputs open\n"
        "  x/in 1 : f32[batch, 8]\n"
        "  n : i64[batch, 1]\n"
        "  try: --arg 'x/in 1=f32[1,8]', or shapes={'x/in 1': (...)} of lw.from_onnx\n"
    )


@pytest.mark.parametrize(
    "command",
    [["show", "--level", "kernels"], ["explain"], ["debug"], ["bench", "--seconds", "0.1"]],
)
def test_commands_take_a_model(
    path: str, command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([command[0], path, *ARGS, *command[1:]]) == 0
    said = capsys.readouterr().out
    assert "DIFFER" not in said
    assert "layer" in said


def test_bench_says_why_nothing_stands_beside_a_model(
    path: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("loopwright.commands.bench.is_there", lambda: False)
    assert main(["bench", path, *ARGS, "--seconds", "0.05"]) == 0
    assert "onnxruntime is not installed" in capsys.readouterr().out


def test_run_reads_and_writes_arrays(path: str, tmp_path: Path) -> None:
    n = np.array([[1], [2]])
    np.save(tmp_path / "x.npy", X)
    np.save(tmp_path / "n.npy", n)
    both = ["--input", f"{tmp_path}/x.npy", "--input", f"n={tmp_path}/n.npy"]
    out = ["--output", f"{tmp_path}/y.npy", "--output", f"h={tmp_path}/h.npy"]
    assert main(["run", path, *both, *out, "--output", f"{tmp_path}/all.npz"]) == 0
    np.testing.assert_allclose(np.load(tmp_path / "y.npy"), X @ W + n, rtol=1e-5)
    np.testing.assert_allclose(np.load(tmp_path / "h.npy"), X @ W, rtol=1e-5)
    assert sorted(np.load(tmp_path / "all.npz")) == ["h", "y"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--input", "nothing.npy"], "--input nothing.npy cannot be read"),
        (["--input", "n={folder}/x.npy"], "input 'n' is i64[batch, 1]"),
        (["--input", "{folder}/x.npy"], "leaves sizes of its inputs open"),
        (["--arg", "n=i64[2,1]"], "the sizes are those of the arrays that --input gives"),
        (["--input", "{folder}/bad.npy"], "cannot be read"),
    ],
)
def test_run_says_what_is_wrong(
    path: str,
    tmp_path: Path,
    arguments: list[str],
    message: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    np.save(tmp_path / "x.npy", X)
    np.save(tmp_path / "bad.npy", np.array([{}], dtype=object))
    assert main(["run", path, *(a.format(folder=tmp_path) for a in arguments)]) == 2
    assert message in capsys.readouterr().err


def test_names_of_a_model_do_not_steer_the_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name, inputs = "y\x1b[31m\nz", [value("x\x1b[2J", [4])]
    node = helper.make_node("Relu", ["x\x1b[2J"], [name])
    (tmp_path / "m.onnx").write_bytes(model([node], inputs, [name]).SerializeToString())
    np.save(tmp_path / "x.npy", np.ones(4, np.float32))
    command = ["run", f"{tmp_path}/m.onnx"]
    given = ["--input", f"{tmp_path}/x.npy"]
    assert main([*command, *given]) == 0
    assert main([*command, *given, "--output", f"q={tmp_path}/y.npy"]) == 2
    assert main(command) == 2
    out, err = capsys.readouterr()
    assert "\x1b" not in out + err
    assert r"y\x1b[31m\nz  float32[4]" in out
    assert r"the results are y\x1b[31m" in err and r"takes x\x1b[2J" in err


@pytest.mark.parametrize("spec", ["f32[1]", "x/in 1=i32[2,8]", "z=f32[2]", "x/in 1=f32[2,"])
def test_a_spec_that_does_not_fit_is_refused(
    path: str, spec: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["show", path, "--arg", spec]) == 2
    assert capsys.readouterr().err.startswith("loopwright: ")


@pytest.mark.parametrize("command", ["run", "show", "tune", "bench", "profile", "save"])
@pytest.mark.parametrize("name", ["none.onnx", "none.txt", "none.py:f"])
def test_a_file_that_is_not_there_is_one_line(
    command: str, name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    needs = {"save": ["-o", str(tmp_path / "x.lw")], "tune": ["--log", str(tmp_path / "l.jsonl")]}
    assert main([command, str(tmp_path / name), *needs.get(command, [])]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert str(tmp_path / name.partition(":")[0]) in error
