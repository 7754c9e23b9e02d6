"""``lw.debug.compare``: planted bugs at every level are found, right code is left in peace."""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import loopwright as lw
import numpy as np
import pytest
from loopwright.codegen import kernel as kernel_module
from loopwright.codegen.module_text import ModuleText
from loopwright.debug.compare import compare_build
from loopwright.debug.difference import difference
from loopwright.debug.wide import flat, values_of
from loopwright.driver import kernels, pipeline
from loopwright.ir.graph import pipeline as graph_pipeline
from loopwright.ir.graph.builder import Builder
from loopwright.ir.graph.fusion import to_prim
from loopwright.ir.graph.nodes import Call, Module
from loopwright.ir.graph.operator import Operator
from loopwright.ir.loop.nest import Accumulate, Loop, Nest, statements
from loopwright.ir.ops import all_operators, get
from loopwright.ir.program.nodes import Alloc, Program
from operators import array_type, samples_of
from random_draw import RandomDraw
from random_steps import draw_program

RNG = np.random.default_rng(5)


def floats(*shape: int) -> np.ndarray[Any, Any]:
    return RNG.standard_normal(shape, np.float32)


@pytest.fixture(autouse=True)
def _nothing_is_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels with bugs in them must not stay for the next test."""
    monkeypatch.setattr(kernels, "_kernels", OrderedDict())


def compared(function: Callable[..., Any], *args: Any, **options: Any) -> lw.debug.Comparison:
    return lw.debug.compare(lw.compile(function), *args, **options)


def layer(x: Any, w: Any, b: Any) -> Any:
    return np.maximum(x @ w + b, 0) * 0.5


def softmax(x: Any) -> Any:
    return lw.nn.softmax(x)


LAYER = (floats(7, 19), floats(19, 21), floats(21))


def test_right_code_has_no_difference_and_tells_its_errors() -> None:
    found = compared(layer, *LAYER)
    assert not found.differs
    assert str(found).startswith("layer: no difference in 1 kernel; its results are within ")
    assert [e.operator for e in found.errors] == ["nn.matmul, add, maximum, multiply"]
    each = compared(layer, *LAYER, each=True)
    assert [e.operator for e in each.errors] == ["nn.matmul", "add", "maximum", "multiply"]
    assert all(0 <= e.difference.error <= e.difference.bound for e in each.errors)
    assert all(e.span is not None and e.span.function == "layer" for e in each.errors)


def test_what_jumps_and_what_is_not_a_number_is_no_false_alarm() -> None:
    x = floats(33, 17)
    x[0, 0], x[1, 1], x[2, 2] = np.nan, np.inf, -np.inf
    assert not compared(lambda x: np.log(x) / x + np.exp(100 * x), x).differs
    y = floats(33, 17) * 10
    assert not compared(lambda y: (np.floor(y * 3.7).astype(np.int32), np.argmax(y, 1)), y).differs
    assert not compared(lambda y: np.where(y.sum(1) > 0, y.mean(1), -1.0), y).differs
    b = RNG.integers(-9, 9, (9, 12)).astype(np.int8)
    assert not compared(lambda b: (b.astype(np.int32) @ b.T.astype(np.int32), b > 2), b).differs


@pytest.mark.parametrize("seed", range(8))
def test_random_programs_have_no_difference(seed: int) -> None:
    program = draw_program(RandomDraw(seed))
    found = compared(program, *program.inputs)
    assert not found.differs, str(found)


def test_every_operator_is_evaluated_in_float64() -> None:
    for op in all_operators().values():
        for sample in samples_of(op):
            b = Builder()
            params = [b.param(f"x{n}", array_type(a)) for n, a in enumerate(sample.args)]
            out = b.emit(op, params, op.complete_attrs(sample.attrs))
            values = values_of(b.function(out), sample.args, wide=True)
            for array in flat(values[out]):
                assert array.dtype != np.float32, op.name


# -- planted bugs ----------------------------------------------------------------------------------


def plant_in_code(monkeypatch: pytest.MonkeyPatch, old: str, new: str) -> None:
    """Machine code that does ``new`` in the place of ``old``."""
    real = kernel_module.emit_kernel

    def emit(nest: Nest, *rest: Any) -> Any:
        made = real(nest, *rest)
        return replace(made, code=ModuleText.of(made.text.replace(old, new)))

    monkeypatch.setattr(kernel_module, "emit_kernel", emit)


def plant_in_nests(monkeypatch: pytest.MonkeyPatch) -> None:
    """Schedules after which sums leave out the last of their terms."""
    real = kernel_module.apply_schedule

    def shorter(stmt: Any) -> Any:
        if not isinstance(stmt, Loop):
            return stmt
        body = tuple(map(shorter, stmt.body))
        sums = any(isinstance(s, Accumulate) for s in statements(body))
        cut = sums and stmt.var.startswith(("k", "r")) and stmt.extent > 1
        return replace(stmt, body=body, extent=stmt.extent - cut)

    def apply(prim: Any, schedule: Any) -> Nest:
        nest = real(prim, schedule)
        return replace(nest, body=tuple(map(shorter, nest.body)))

    monkeypatch.setattr(kernel_module, "apply_schedule", apply)


def test_wrong_machine_code_is_found_with_the_users_line(monkeypatch: pytest.MonkeyPatch) -> None:
    plant_in_code(monkeypatch, "fadd <", "fsub <")

    def three(x: Any, y: Any) -> Any:
        z = np.sqrt(np.abs(x))
        z = z + y
        return z * 3

    finding = compared(three, floats(5, 16), floats(5, 16)).finding
    assert finding is not None and finding.operator == "add"
    assert finding.span is not None and finding.span.line == three.__code__.co_firstlineno + 2
    assert finding.result == "float32[5, 16]" and "y: float32[5, 16]" in finding.operands
    assert finding.difference.wrong == 80 and finding.difference.places
    text = str(finding)
    for part in (
        "add is the first operation that is wrong",
        "z = z + y",
        "80 of 80 elements are wrong",
        "all of them in [0..4, 0..15]",
        "compiled",
        "abs, sqrt, add, multiply",
        "schedule  by the rules",
        "the loop nest is right, the LLVM text written of it is not",
    ):
        assert part in text, text


def test_a_wrong_loop_nest_is_found_in_the_middle_of_a_kernel(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plant_in_nests(monkeypatch)
    finding = compared(layer, *LAYER).finding
    assert finding is not None and finding.operator == "nn.matmul"
    assert "the loop nest is wrong" in str(finding)
    finding = compared(softmax, floats(9, 23)).finding
    assert finding is not None and finding.operator in ("max", "sum")


def test_a_wrong_kernel_behind_right_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    real = to_prim.apply_compute

    def apply(op: Operator, *rest: Any) -> Any:
        return real(get("minimum") if op.name == "maximum" else op, *rest)

    monkeypatch.setattr(to_prim, "apply_compute", apply)

    def two(x: Any, w: Any, v: Any) -> Any:
        h = np.tanh(x @ w)
        return np.maximum(h @ v, 0.25)

    finding = compared(two, floats(6, 10), floats(10, 14), floats(14, 8)).finding
    assert finding is not None and finding.operator == "maximum"
    assert "(2 of 2)" in str(finding)
    assert "lowering the operators to loops" in str(finding)
    assert "without a schedule it is wrong, too" in str(finding)


def test_a_schedule_from_a_log_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def product(x: Any, w: Any) -> Any:  # one kernel: tuning cannot choose another fusion
        return x @ w

    path = tmp_path / "a.jsonl"
    with lw.log(path):
        lw.compile(product).tune(*LAYER[:2], trials=1)
        assert json.loads(path.read_text().splitlines()[0])
        plant_in_nests(monkeypatch)
        monkeypatch.setattr(kernels, "refusals", lambda *_: {})  # the check sees such a mistake
        monkeypatch.setattr(kernels, "_kernels", OrderedDict())
        finding = lw.debug.compare(lw.compile(product), *LAYER[:2]).finding
    assert finding is not None
    assert f"schedule  tuned ({path}), sketch" in str(finding)


def test_nan_on_one_side_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    plant_in_code(monkeypatch, "fadd <", "fdiv <")
    zeros = np.zeros((3, 16), np.float32)
    finding = compared(lambda x, y: x + y, zeros, zeros).finding
    assert finding is not None and finding.difference.nans == 48
    assert "48 of 48 elements are wrong, 48 of them by NaN or infinity" in str(finding)


def test_a_wrong_pass_is_named_with_the_operation(monkeypatch: pytest.MonkeyPatch) -> None:
    def swap(module: Module, **_limits: Any) -> Module:
        main = module.main
        changed = tuple(
            replace(b, value=Call(b.value.op, b.value.args[::-1], b.value.attrs, b.value.span))
            if isinstance(b.value, Call) and b.value.op is get("subtract")
            else b
            for b in main.body.bindings
        )
        return module.with_function(
            "main", replace(main, body=replace(main.body, bindings=changed))
        )

    monkeypatch.setattr(graph_pipeline, "narrow_factors", swap)  # it runs once
    finding = compared(lambda x, y: np.exp(x) - y, floats(40), floats(40)).finding
    assert finding is not None and finding.operator == "subtract"
    assert finding.what.startswith("the pass swap changes what is computed")


def test_memory_that_is_shared_wrongly(monkeypatch: pytest.MonkeyPatch) -> None:
    real = pipeline.optimise

    def optimise(program: Program, *rest: Any) -> Program:
        planned = real(program, *rest)
        body = [replace(i, offset=0) if isinstance(i, Alloc) else i for i in planned.body]
        return replace(planned, body=tuple(body))

    monkeypatch.setattr(pipeline, "optimise", optimise)
    x, w = floats(6, 12), floats(12, 12)
    finding = compared(lambda x, v, w: lw.nn.softmax(x @ v) @ w.T @ (x @ w).T, x, w, w).finding
    assert finding is not None
    assert "was written over before it was read" in finding.what


def test_an_entry_that_is_wrong_by_itself() -> None:
    lowered, arrays = lw.compile(layer).in_use(*LAYER)
    wrong = replace(lowered.built, call=lambda given: [r + 1 for r in lowered.built.call(given)])
    finding = compare_build("layer", wrong, arrays).finding
    assert finding is not None
    assert finding.what == "result 0 of a whole call differs from its kernels called one by one"


def test_what_cannot_be_compared_says_so() -> None:
    with pytest.raises(lw.LoopwrightTypeError, match="needs arrays here"):
        compared(layer, lw.f32[7, 19], *LAYER[1:])
    with pytest.raises(lw.LoopwrightTypeError, match="takes a function, not 3"):
        lw.debug.compare(3)  # type: ignore[arg-type]
    with pytest.raises(lw.LoopwrightTypeError, match="inner sizes differ"):
        compared(lambda x, y: x @ y, floats(3, 4), floats(3, 4))


def test_methods_and_plain_functions_are_taken() -> None:
    assert not lw.debug.compare(layer, *LAYER).differs

    class Model:
        @lw.compile(static_argnames="self")
        def run(self, x: Any) -> Any:
            return x * 2

    assert not lw.debug.compare(Model().run, floats(4)).differs


def test_the_measure_of_a_difference() -> None:
    right = np.array([1.0, -2.0, np.nan, np.inf])
    same = difference(right.astype(np.float32), right, right, 1e-6)
    assert (same.differs, same.error) == (False, 0.0)
    assert str(same) == "greatest error 0, 1e-06 allowed"
    off = difference(np.array([1.0, -2.5, 0.0, -np.inf]), right, right, 1e-6)
    assert (off.wrong, off.nans, off.span) == (3, 2, ((1, 3),))
    assert {p.index for p in off.places} == {(1,), (2,), (3,)}
    narrow = np.array([1.0, -2.5, 0.0, -np.inf])  # what rounding makes of it is right as well
    assert not difference(narrow, right, narrow, 1e-6).differs
    assert difference(np.array([1, 2]), np.array([1, 3]), np.array([1, 3]), 0.0).wrong == 1


def test_symbolic_sizes_are_refused_with_a_way_out() -> None:
    with pytest.raises(lw.UnsupportedError, match=r"not at n\n  try: dynamic=False"):
        lw.debug.compare(lw.compile(lambda x: x + 1, dynamic={"x": {0: "n"}}), floats(4))


def test_a_size_that_data_decides_is_refused() -> None:
    with pytest.raises(lw.UnsupportedError, match="constant"):
        lw.debug.compare(lw.compile(lambda x: np.cumsum(x[x > 0])), floats(4))
