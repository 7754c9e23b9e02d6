"""Profiles, explanations, tuning and comparison of functions with loops, branches and recursion."""

from __future__ import annotations

import importlib
import json
from collections import OrderedDict
from dataclasses import replace
from pathlib import Path
from typing import Any

import loopwright as lw
import numpy as np
import pytest
from loopwright.autotune.workload import workload_of
from loopwright.codegen import kernel as kernel_module
from loopwright.codegen.machine import estimated_machine
from loopwright.codegen.module_text import ModuleText
from loopwright.driver import kernels, pipeline
from loopwright.inspect.tasks import list_tasks
from loopwright.ir.program.nodes import Alloc, Program, nested_bodies, with_nested_bodies
from loopwright.tuning.reuse import bytes_between, results_in_place

compare_module = importlib.import_module("loopwright.debug.compare")
RNG = np.random.default_rng(5)
X = RNG.standard_normal((12, 40), np.float32)
W = (RNG.standard_normal((40, 40)) / 6).astype(np.float32)


def recurrent(x: Any) -> Any:
    def step(h: Any, row: Any) -> Any:
        h = np.tanh(row + h @ W)
        return h, h * 2

    return lw.scan(step, np.zeros(40, np.float32), x)


def settle(x: Any) -> Any:
    def body(state: Any) -> Any:
        v, n = state
        v = lw.cond(np.sum(v) > 0, lambda: v @ W, lambda: np.cos(v) @ W)
        return v, n + 1

    return lw.while_loop(lambda state: state[1] < 9, body, (x[0], 0))


def power(x: Any) -> Any:
    @lw.function
    def times(v: Any, n: Any) -> Any:
        return lw.cond(n > 0, lambda: np.exp(times(v @ W, n - 1)) * 0.5, lambda: v)

    return times(x[0], np.sum(x[1] > 10) + 5)


@pytest.fixture(autouse=True)
def _machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("loopwright.codegen.machine.measured_machine", estimated_machine)
    monkeypatch.setattr(kernels, "_kernels", OrderedDict())  # some have planted defects


def test_a_profile_has_loops_and_iterations(tmp_path: Path) -> None:
    f = lw.compile(recurrent, threads=1)
    measured = f.profile(X, seconds=0.01)
    (loop,) = measured.loops
    assert loop.iterations == 12 and loop.entered == 1 and loop.span is not None
    assert {call.calls for call in measured.calls} <= {1, 12}
    (product,) = [call for call in measured.calls if "matmul" in call.name]
    assert product.calls == 12 and product.nbytes > W.nbytes
    assert product.seconds <= loop.in_kernels <= loop.seconds <= 1.5 * measured.seconds + 1e-3
    text = str(measured)
    assert "12 iterations" in text and " x12 of " in text and "lw.scan(step" in text
    measured.save(tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    loops = [event for event in events if event.get("cat") == "loop"]
    assert len(loops) == len(measured.recorded) and "lw.scan(step" in loops[0]["name"]
    explained = f.explain(X, seconds=0.01)
    (kernel,) = [k for k in explained.kernels if "matmul" in k.name]
    assert kernel.calls == 12 and "12 iterations" in str(explained)


def test_a_profile_has_the_loops_inside_of_loops() -> None:
    def triangle(a: Any) -> Any:
        total = 0.0
        for i in range(a.shape[0]):
            for j in range(i):
                total = total * 0.5 + a[i, j]
        return total

    measured = lw.compile(triangle, threads=1).profile(np.ones((50, 50)), seconds=0.01)
    outer, inner = measured.loops[:2]
    assert [outer.iterations, inner.iterations] == [50, 50 * 49 // 2]
    assert (outer.depth, inner.depth, outer.entered, inner.entered) == (0, 1, 1, 50)
    assert 0 < inner.seconds <= outer.seconds and inner.place == -1
    lines = str(measured).splitlines()
    assert lines[1].startswith("loop at") and "  for i in " in lines[1]
    assert lines[2].startswith("  loop at") and ": 1,225 iterations" in lines[2]


def test_memory_of_a_loop() -> None:
    memory = lw.compile(recurrent, threads=1).memory(X)
    assert memory.arena < 20 * X.nbytes and all(b.begin <= b.end for b in memory.buffers)
    assert str(lw.compile(power, threads=1).memory(X)).count("frame of @") == 1


def test_kernels_in_loops_are_tasks_with_their_iterations() -> None:
    built = lw.compile(recurrent, threads=1).lower(X).built
    tasks = list_tasks(built, [X], 0.01)
    assert [task.calls for task in tasks if "matmul" in task.name] == [12]
    assert built.parts is not None
    (name,) = [name for name in built.parts.prims if "matmul" in name]
    between = bytes_between(built.parts)[workload_of(built.parts.prims[name]).hash]
    assert max(between.values()) < 2 * W.nbytes  # weights are used in the iteration before


def test_tasks_know_which_results_are_written_over_a_parameter() -> None:
    def residual(x: Any) -> Any:
        y = np.tanh(x @ W)
        return (np.maximum(y @ W, 0) @ W + y) @ W

    parts = lw.compile(residual, threads=1).lower(X).built.parts
    assert parts is not None
    ((name, pairs),) = [(n, p) for n, p in results_in_place(parts).items() if p]
    (prim,) = [prim for prim in parts.prims.values() if workload_of(prim).hash == name]
    ((result, parameter),) = pairs.items()
    assert result == prim.output_buffers[0].name and "add" in prim.name
    assert parameter == prim.params[-1].name  # what is added


def test_tuning_runs_the_loops(tmp_path: Path) -> None:
    f = lw.compile(recurrent, threads=1, log=tmp_path / "log.jsonl")
    report = f.tune(X, budget=None, trials=2)
    (product,) = [t for t in report.tasks if "matmul" in t.task.name]
    assert product.task.weight == 12 and "x12" in str(report)
    wanted = recurrent(X)
    for got, right in zip(f(X), wanted, strict=True):
        np.testing.assert_allclose(got, right, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("function", [recurrent, settle, power])
def test_no_difference_where_there_is_none(function: Any) -> None:
    found = lw.debug.compare(lw.compile(function, threads=1), X)
    assert not found.differs, str(found)
    assert found.results and not found.left_out


def late(x: Any) -> Any:
    def step(i: Any, v: Any) -> Any:
        inner = lw.fori_loop(0, 2, lambda j, w: np.maximum(w, 0.25), v)
        return lw.cond(i >= 3, lambda: inner - 1, lambda: inner * 2)

    return lw.fori_loop(0, 6, step, x)


def test_the_first_iteration_that_differs_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch, "fsub <", "fadd <")
    finding = lw.debug.compare(lw.compile(late, threads=1), X).finding
    assert finding is not None and finding.operator == "subtract"
    (iteration,) = finding.iterations
    assert iteration.number == 3 and iteration.span is not None
    assert iteration.span.line == late.__code__.co_firstlineno + 5
    assert "in iteration 3 of the loop at" in str(finding) and "inner - 1" in str(finding)


def test_memory_that_a_loop_shares_wrongly(monkeypatch: pytest.MonkeyPatch) -> None:
    real = pipeline.optimise

    def optimise(program: Program, *rest: Any) -> Program:
        planned = real(program, *rest)

        def at_zero(body: Any) -> Any:
            made = [
                replace(i, offset=0) if isinstance(i, Alloc) and i.offset is not None else i
                for i in body
            ]
            return tuple(with_nested_bodies(i, [*map(at_zero, nested_bodies(i))]) for i in made)

        return replace(planned, body=at_zero(planned.body))

    monkeypatch.setattr(pipeline, "optimise", optimise)

    def two(x: Any) -> Any:
        def step(state: Any, row: Any) -> Any:
            a, b = state
            t = np.tanh(a @ W)
            return (t @ W + b, np.exp(b @ W) @ W + t), row

        zero = np.zeros(40, np.float32)
        return lw.scan(step, (zero, zero), x)[0]

    finding = lw.debug.compare(lw.compile(two, threads=1), X).finding
    assert finding is not None and "was written over" in finding.what


def test_what_is_not_looked_at_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compare_module, "MOST_JUDGED", 5)
    found = lw.debug.compare(lw.compile(recurrent, threads=1), X)
    assert not found.differs and "only the first 5 kernel calls" in str(found)


def test_repros_of_loops(tmp_path: Path) -> None:
    path = lw.debug.write_repro(
        lw.compile(late, threads=1), X, path=tmp_path / "slow.py", seconds=1.0
    )
    scope: dict[str, Any] = {"__name__": "repro"}
    exec(compile(path.read_text(), str(path), "exec"), scope)
    assert "for (" in path.read_text() and scope["REPRO"].main() == 0


def plant(monkeypatch: pytest.MonkeyPatch, old: str, new: str) -> None:
    real = kernel_module.emit_kernel

    def emit(nest: Any, *rest: Any) -> Any:
        made = real(nest, *rest)
        return replace(made, code=ModuleText.of(made.text.replace(old, new)))

    monkeypatch.setattr(kernel_module, "emit_kernel", emit)
