"""Repros: a compile that fails inside leaves a small program that fails alike, and nothing else."""

from __future__ import annotations

import errno
import os
import re
import subprocess
import sys
import types
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import loopwright as lw
import numpy as np
import pytest
from loopwright.codegen import kernel as kernel_module
from loopwright.codegen import program as program_module
from loopwright.codegen.module_text import ModuleText
from loopwright.debug.minimise import anonymous, minimised, random_values
from loopwright.debug.repro import Repro, failure_of
from loopwright.driver import failures, kernels, pipeline
from loopwright.ir.graph.fusion import to_prim
from loopwright.ir.graph.nodes import Call, Module

RNG = np.random.default_rng(6)
SECRET = RNG.standard_normal((21, 21)).astype(np.float32)


def floats(*shape: int) -> np.ndarray[Any, Any]:
    return RNG.standard_normal(shape, np.float32)


def network(x: Any, w: Any) -> Any:
    private_name = np.maximum(x @ w, 0) @ SECRET
    t = np.tanh(private_name) + private_name.mean(axis=1, keepdims=True)
    return np.exp(t) * 2, t.sum()


ARGS = (floats(35, 19), floats(19, 21))


@pytest.fixture(autouse=True)
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setattr(kernels, "_kernels", OrderedDict())
    monkeypatch.setattr(failures, "SECONDS", 60.0)
    monkeypatch.setenv("LOOPWRIGHT_REPRO", str(tmp_path / "repros"))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "repros"


def ours(function: Any) -> Any:
    """``function`` as if it stood in the package: what code of the user's raises is the user's."""
    scope = {**function.__globals__, "__name__": "loopwright.planted"}
    return types.FunctionType(
        function.__code__, scope, function.__name__, None, function.__closure__
    )


def plant(monkeypatch: pytest.MonkeyPatch, operator: str, error: Callable[[], Exception]) -> None:
    """Lowering an operator fails inside."""
    real = to_prim.apply_compute

    def apply(op: Any, *rest: Any) -> Any:
        if op.name == operator:
            raise error()
        return real(op, *rest)

    monkeypatch.setattr(to_prim, "apply_compute", ours(apply))


def failing() -> lw.InternalError:
    with pytest.raises(lw.InternalError) as caught:
        lw.compile(network)(*ARGS)
    return caught.value


def load(path: Path) -> Repro:
    scope: dict[str, Any] = {"__name__": "repro"}
    exec(compile(path.read_text(), str(path), "exec"), scope)
    found = scope["REPRO"]
    assert isinstance(found, Repro)
    return found


def test_a_failure_inside_leaves_one_small_program(
    monkeypatch: pytest.MonkeyPatch, folder: Path
) -> None:
    plant(monkeypatch, "tanh", lambda: KeyError("axis"))
    error = failing()
    (path,) = folder.iterdir()
    assert str(error).startswith("compiling network failed, by no fault of yours: KeyError: 'axis'")
    assert f"please report it with this program, which shows it: {path}" in str(error)
    assert isinstance(error.__cause__, KeyError)
    repro = load(path)
    assert repro.failure == "KeyError in planted.apply"
    (binding,) = repro.module().main.body.bindings
    assert isinstance(binding.value, Call) and binding.value.op.name == "tanh"
    (kind,) = (p.type for p in repro.module().main.params)
    assert str(kind) == "Tensor[(2, 2), float32]"
    with pytest.raises(KeyError):
        repro.build()
    assert repro.main() == 1
    failing()
    assert len([*folder.iterdir()]) == 1  # the same failure is the same file


def test_nothing_of_the_users_is_in_it(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    def graph_fails(module: Module) -> Module:
        if len(module.main.body.bindings) > 3:
            raise AssertionError("four")
        return module

    monkeypatch.setattr("loopwright.ir.graph.pipeline.inline_calls", ours(graph_fails))
    failing()
    (path,) = folder.iterdir()
    text = path.read_text()
    for word in ("SECRET", "private_name", "network", "test_debug", os.path.basename(__file__)):
        assert word not in text
    assert not np.array_equal([*load(path).module().main.body.bindings][0:1], SECRET)
    assert len(load(path).module().main.body.bindings) == 4


def test_it_runs_by_itself_and_tells_when_it_is_mended(
    monkeypatch: pytest.MonkeyPatch, folder: Path
) -> None:
    plant(monkeypatch, "nn.matmul", lambda: ZeroDivisionError())
    failing()
    (path,) = folder.iterdir()
    done = subprocess.run(
        [sys.executable, path], capture_output=True, text=True, cwd=folder.parent, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.endswith("it compiles now\n")


def test_our_own_errors_keep_their_words(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    plant(monkeypatch, "exp", lambda: lw.InternalError("the nest is askew", notes=("see here",)))
    error = failing()
    assert error.message == "the nest is askew" and error.notes[0] == "see here"
    assert "which shows it" in error.notes[1]


def test_llvm_refuses(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    real = kernel_module.emit_kernel

    def emit(nest: Any, *rest: Any) -> Any:
        made = real(nest, *rest)
        return (
            made
            if "exp" not in str(nest)
            else type(made)(
                made.name,
                ModuleText.of(made.text + "\nno such thing"),
                *[getattr(made, f) for f in ("operands", "workspace_bytes", "nest", "parallel")],
            )
        )

    monkeypatch.setattr(kernel_module, "emit_kernel", emit)
    error = failing()
    assert "ScheduleError: LLVM refuses the code" in str(error)
    (path,) = folder.iterdir()
    calls = [b.value for b in load(path).module().main.body.bindings]
    assert [c.op.name for c in calls if isinstance(c, Call)] == ["exp"]


def test_a_schedule_that_fails_is_kept_with_its_kernel(
    monkeypatch: pytest.MonkeyPatch, folder: Path, tmp_path: Path
) -> None:
    x = floats(40)
    path = tmp_path / "a.jsonl"
    function = lw.compile(lambda x: np.sqrt(np.exp(x)) * 3, log=path)
    steps = [lw.schedule.split("i", (20, 2))]
    function.tune(x, trials=2, schedules={"exp_sqrt_multiply": steps})
    real = kernel_module.apply_schedule

    def apply(prim: Any, schedule: Any) -> Any:
        if schedule.steps:
            raise ArithmeticError("steps")
        return real(prim, schedule)

    monkeypatch.setattr(kernels, "_kernels", OrderedDict())
    monkeypatch.setattr(
        pipeline,
        "choose_schedule",
        lambda *a: pipeline.Chosen(lw.schedule.Schedule(tuple(steps)), "exact", "user"),
    )
    from loopwright.debug import write

    monkeypatch.setattr(write, "choose_schedule", pipeline.choose_schedule)
    monkeypatch.setattr(kernel_module, "apply_schedule", ours(apply))
    with pytest.raises(lw.InternalError):
        lw.compile(lambda x: np.sqrt(np.exp(x)) * 3, log=path)(x)
    (file,) = folder.iterdir()
    assert load(file).failure.startswith("ArithmeticError")


def test_a_full_disk_and_a_setting_are_survived(
    monkeypatch: pytest.MonkeyPatch, folder: Path, tmp_path: Path
) -> None:
    plant(monkeypatch, "tanh", lambda: KeyError("axis"))

    def full(*_: Any, **__: Any) -> Any:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("loopwright.debug.repro.tempfile.mkstemp", full)
    assert "there is no program in" in str(error := failing())
    assert "No space left on device" in str(error)
    monkeypatch.undo()
    plant(monkeypatch, "tanh", lambda: KeyError("axis"))
    monkeypatch.setenv("LOOPWRIGHT_REPRO", os.devnull)
    assert "no program that shows it was written" in str(failing())
    assert not [*tmp_path.glob("**/*.py")]


def test_what_does_not_happen_twice_is_not_shown(
    monkeypatch: pytest.MonkeyPatch, folder: Path
) -> None:
    errors = iter([KeyError("once")])
    real = to_prim.apply_compute

    def apply(op: Any, *rest: Any) -> Any:
        for error in errors:
            raise error
        return real(op, *rest)

    monkeypatch.setattr(to_prim, "apply_compute", ours(apply))
    assert "the same program did not fail a second time" in str(failing())
    assert not folder.exists()


def test_a_half_written_file_is_taken_back(tmp_path: Path) -> None:
    repro = Repro("time", "time", "1 us", "", {}, [], {}, 1)
    path = tmp_path / "r.py"
    with pytest.MonkeyPatch.context() as patch, pytest.raises(OSError, match="full"):
        patch.setattr(
            "loopwright.debug.repro.os.chmod", lambda *_: (_ for _ in ()).throw(OSError("full"))
        )
        repro.write(path)
    assert not [*tmp_path.iterdir()]
    assert repro.write(path) == path and [*tmp_path.iterdir()] == [path]


def test_what_is_not_ours_leaves_nothing(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    with pytest.raises(lw.LoopwrightTypeError, match="inner sizes differ"):
        lw.compile(lambda x: x @ x)(floats(2, 3))
    with pytest.raises(lw.LoopwrightValueError, match="a folder"):
        lw.compile(lambda x: x + 1, log=folder.parent)(floats(3))

    def of_the_users(*_: Any) -> Any:
        raise KeyError("mine")

    monkeypatch.setattr(program_module, "entry_text", of_the_users)
    with pytest.raises(KeyError, match="mine"):
        lw.compile(lambda x: x + 1)(floats(3))
    assert not folder.exists()


def test_wrong_results_by_hand(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    real = to_prim.apply_compute
    from loopwright.ir.ops import get

    def apply(op: Any, *rest: Any) -> Any:
        return real(get("minimum") if op.name == "maximum" else op, *rest)

    monkeypatch.setattr(to_prim, "apply_compute", apply)
    path = lw.debug.write_repro(network, *ARGS, path=tmp_path / "wrong.py")
    repro = load(path)
    assert (repro.shows, repro.main()) == ("results", 1)
    (binding,) = repro.module().main.body.bindings
    assert isinstance(binding.value, Call) and binding.value.op.name == "maximum"
    kept = load(lw.debug.write_repro(network, *ARGS, path=tmp_path / "kept.py", values=True))
    for given, array in zip(ARGS, kept.arrays(), strict=True):
        np.testing.assert_array_equal(given, array)


def test_slow_code_by_hand(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    repro = load(lw.debug.write_repro(network, *ARGS, path=tmp_path / "slow.py"))
    assert repro.shows == "time" and repro.main() == 0
    assert re.search(r"[\d.e-]+ us a call; [\d.e-]+ us a call when", capsys.readouterr().out)
    assert repro.build().code_hash  # with the schedules that it had


def test_a_failure_by_hand(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, folder: Path) -> None:
    monkeypatch.setenv("LOOPWRIGHT_REPRO", os.devnull)
    plant(monkeypatch, "tanh", lambda: KeyError("axis"))
    repro = load(lw.debug.write_repro(network, *ARGS, path=tmp_path / "fails.py"))
    assert (repro.shows, len(repro.module().main.body.bindings)) == ("compile", 1)
    with pytest.raises(lw.LoopwrightTypeError, match="takes a function"):
        lw.debug.write_repro(3, path="x.py")  # type: ignore[arg-type]


def test_minimising_keeps_what_is_asked_for_and_ends() -> None:
    module = lw.compile(network).trace(*ARGS).module
    asked: list[Module] = []

    def has(name: str) -> Callable[[Module], bool]:
        def fails(tried: Module) -> bool:
            asked.append(tried)
            calls = [b.value for b in tried.main.body.bindings]
            return any(isinstance(c, Call) and c.op.name == name for c in calls)

        return fails

    for name in ("nn.matmul", "tanh", "mean", "sum"):
        small = minimised(anonymous(module), has(name), 60.0).main
        assert [b.value.op.name for b in small.body.bindings if isinstance(b.value, Call)] == [name]
        assert all(s <= 3 for p in small.params for s in p.type.shape)  # type: ignore[union-attr]
    begun = len(asked)
    assert minimised(module, has("tanh"), 0.0).main.body.bindings == module.main.body.bindings
    assert len(asked) == begun


def test_values_are_the_same_for_the_same_seed() -> None:
    for dtype in (np.float32, np.int8, np.uint64, np.bool_):
        one, again = (random_values((3, 4), np.dtype(dtype), 7) for _ in range(2))
        assert one.dtype == dtype and np.array_equal(one, again)
    assert failure_of(ValueError()) == "ValueError"
