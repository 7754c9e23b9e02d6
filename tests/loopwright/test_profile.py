"""Profiles: of real calls, as a table, as a trace that viewers accept, and on the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import loopwright as lw
import numpy as np
import pytest
from loopwright.cli import main
from loopwright.codegen.machine import estimated_machine
from loopwright.codegen.roofline import LEVELS, Roof, Traffic, Work
from loopwright.codegen.target import Target
from loopwright.inspect.kernel_calls import KernelCall
from loopwright.inspect.profile import Profile, trace_of
from loopwright.inspect.recording import recorded_program
from loopwright.ir.span import Span

W = np.ones((256, 256), np.float32)


def _layers(x):
    hidden = np.maximum(x @ W, 0)
    return lw.nn.softmax(hidden @ W)


@pytest.fixture(autouse=True)
def _machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("loopwright.codegen.machine.measured_machine", estimated_machine)


@pytest.fixture(scope="module")
def x() -> Any:
    return np.ones((256, 256), np.float32)


def test_every_kernel_call_has_its_line(x) -> None:
    measured = lw.compile(_layers, threads=1).profile(x, seconds=0.01)
    lines = [Path(call.span.file).name for call in measured.calls if call.span is not None]
    assert lines == ["test_profile.py"] * len(measured.calls)
    assert len(measured.calls) == 3
    operands = 3 * 256 * 256 * 4
    assert operands <= measured.calls[0].nbytes < 1.1 * operands  # panels of weights are padded
    assert measured.calls[0].work.flops >= 2 * 256**3
    assert 0 < measured.in_kernels <= measured.seconds
    assert "np.maximum(x @ W, 0)" in str(measured)


def test_the_code_in_use_is_profiled(x) -> None:
    f = lw.compile(_layers, threads=1)
    f(x)
    f.profile(x, seconds=0.01)
    assert f.cache_info().misses == 1


def test_modules_are_profiled() -> None:
    double = lw.build("def @main(%x: Tensor[(64), float32]) { add(%x, %x) }")
    assert [c.name for c in double.profile(np.ones(64, np.float32), seconds=0.01).calls] == ["add"]
    assert [c.name for c in double.profile(seconds=0.01).calls] == ["add"]


def test_explain_groups_the_calls_of_a_profile(x) -> None:
    f = lw.compile(lambda x: np.exp(np.exp(x).sum(axis=0) @ x) @ W, threads=1)
    measured, explained = f.profile(x, seconds=0.01), f.explain(x, seconds=0.01)
    assert sum(kernel.calls for kernel in explained.kernels) == len(measured.calls)
    assert {kernel.name for kernel in explained.kernels} == {c.name for c in measured.calls}


def test_parts_of_loops_are_recorded_by_thread() -> None:
    f = lw.compile(lambda x: np.exp(x) @ x, threads=2)
    x = np.ones((512, 512), np.float32)
    recorded = recorded_program(f.lower(x).built.parts)
    recorded.record([x])
    recording = recorded.record([x])
    begin, end = recording.kernels[:, 1], recording.kernels[:, 2]
    assert recording.begin <= begin[0] and end[-1] <= recording.end
    assert np.all(begin <= end) and np.all(end[:-1] <= begin[1:])
    assert len(recording.parts) >= 2
    assert recording.caller in recording.parts[:, 0] and len({*recording.parts[:, 0]}) <= 2
    for _, started, ended in recording.parts:
        assert np.any((begin <= started) & (started <= ended) & (ended <= end))


def _trace(measured: Profile) -> dict[str, Any]:
    return trace_of(
        measured.name, measured.calls, measured.recorded, measured.machine, measured.threads
    )


# -- the trace --------------------------------------------------------------------------------


def _check_trace(trace: dict[str, Any]) -> list[dict[str, Any]]:
    """Holds a trace against the rules of the Trace Event Format; returns its complete events."""
    assert isinstance(trace["traceEvents"], list)
    assert trace["displayTimeUnit"] in ("ms", "ns")
    named: set[int] = set()
    complete: list[dict[str, Any]] = []
    for event in trace["traceEvents"]:
        assert event["ph"] in ("M", "X", "C")
        assert isinstance(event["pid"], int) and isinstance(event["name"], str)
        assert isinstance(event.get("args", {}), dict)
        if event["ph"] == "M":
            assert event["name"] in ("process_name", "thread_name", "thread_sort_index")
            if event["name"] == "thread_name":
                named.add(event["tid"])
        else:
            assert event["ts"] >= 0
        if event["ph"] == "X":
            assert event["dur"] >= 0 and event["tid"] in named
            complete.append(event)
        if event["ph"] == "C":
            assert all(isinstance(v, int | float) for v in event["args"].values())
    # Complete events of one thread must nest: viewers draw them as a stack.
    for row in named:
        open_until = [float("inf")]
        for event in sorted(
            (e for e in complete if e["tid"] == row), key=lambda e: (e["ts"], -e["dur"])
        ):
            end = event["ts"] + event["dur"]
            while event["ts"] >= open_until[-1]:
                open_until.pop()
            assert end <= open_until[-1] + 1e-3
            open_until.append(end)
    return complete


def test_the_trace_has_calls_kernels_and_parts(tmp_path: Path, x) -> None:
    measured = lw.compile(_layers, threads=2).profile(x, seconds=0.01)
    measured.save(tmp_path / "trace.json")
    complete = _check_trace(json.loads((tmp_path / "trace.json").read_text()))
    kinds = [event["cat"] for event in complete]
    assert kinds.count("call") == len(measured.recorded) > 1
    assert kinds.count("kernel") == 3 * kinds.count("call")
    assert kinds.count("part") >= kinds.count("call")
    kernel = next(event for event in complete if event["cat"] == "kernel")
    assert "np.maximum(x @ W, 0)" in kernel["args"]["computes"]


def test_a_program_without_kernels_has_a_profile() -> None:
    measured = lw.compile(lambda x: x.T).profile(np.ones((2, 1)), seconds=0.01)
    _check_trace(_trace(measured))
    assert "between the kernels" in str(measured)


def test_names_of_any_kind_stay_json() -> None:
    span = Span('weights/"a"\n\\.onnx', 3)
    work = Work(0.0, {n: Traffic() for n in LEVELS})
    machine = estimated_machine(Target.host())
    call = KernelCall("k\u2028", 1, 1e-6, work, Roof(machine), 8, span, 0)
    measured = Profile("f", (call,), 0.0, machine, 1)
    assert json.loads(json.dumps(_trace(measured)))["traceEvents"]
    assert "  -  " in str(measured), "no operations, no rate"


def test_long_profiles_show_the_longest_calls() -> None:
    work = Work(1e3, {n: Traffic(read=64.0) for n in LEVELS})
    machine = estimated_machine(Target.host())
    calls = [
        KernelCall(f"k{n}", 1, n * 1e-6, work, Roof(machine), 8, None, 0) for n in range(1, 99)
    ]
    text = str(Profile("f", tuple(calls), 0.0, machine, 1))
    assert " k98" in text and " k3 " not in text and "(58 other calls)" in text


# -- the command ------------------------------------------------------------------------------


def test_the_command_prints_and_writes(tmp_path: Path, capsys, monkeypatch) -> None:
    (tmp_path / "net.py").write_text(
        "import numpy as np\n\ndef f(x):\n    return np.exp(x @ x).sum()\n"
    )
    monkeypatch.chdir(tmp_path)
    words = ["profile", "net.py:f", "--arg", "f32[64,64]", "--seconds", "0.01"]
    assert main([*words, "--trace", "out.json", "--memory", "--threads", "1"]) == 0
    out = capsys.readouterr().out
    assert "kernel call" in out and "net.py:4" in out and "arena in use" in out
    _check_trace(json.loads((tmp_path / "out.json").read_text()))
    assert main([*words, "--trace", "no/out.json"]) == 2
    assert "there is no folder no" in capsys.readouterr().err
