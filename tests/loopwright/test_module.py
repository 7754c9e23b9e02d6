"""Modules from text or a builder: built, called, tuned and shown without a Python function."""

from __future__ import annotations

from pathlib import Path

import loopwright as lw
import numpy as np
import pytest
from loopwright.cli import main

TEXT = """
def @main(%x: Tensor[(8, 16), float32], %w: Tensor[(16, 32), float32], outputs=["scaled", "sums"])
    -> (Tensor[(8, 32), float32], Tensor[(8), float32]) {
  %0 = nn.matmul(%x, %w);
  @scale_and_sum(%0)
}
prim @scale_and_sum(a: float32[8, 32]) -> y: float32[8, 32], z: float32[8] {
  y[row, col] = a[row, col] * 0.5
  z[row] = sum(c: 32) a[row, c]
}
schedule @scale_and_sum {
  split('col', (2, 16))
  vectorize('col.1')
}
"""


def arguments() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return (
        rng.standard_normal((8, 16), dtype=np.float32),
        rng.standard_normal((16, 32), dtype=np.float32),
    )


def test_a_module_of_text_runs_with_its_kernels_and_their_schedules() -> None:
    program = lw.build(TEXT)
    x, w = arguments()
    scaled, sums = program(x, w=w)
    np.testing.assert_allclose(scaled, x @ w / 2, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(sums, (x @ w).sum(axis=1), rtol=1e-4, atol=1e-4)
    assert program.lower().built.chosen["scale_and_sum"].origin == "given"
    assert "vectorize j.1 in 16" in program.as_text("loops")
    assert program.as_text("kernels").count("prim @scale_and_sum") == 1


def test_inputs_and_outputs_have_names() -> None:
    program = lw.build(TEXT)
    x, w = arguments()
    assert (program.inputs, program.outputs) == (("x", "w"), ("scaled", "sums"))
    found = program.run({"w": w, "x": x})
    np.testing.assert_array_equal(found["sums"], program(x, w)[1])
    with pytest.raises(lw.LoopwrightTypeError, match="main takes x, w, not x"):
        program.run({"x": x})


def test_a_module_prints_as_the_text_it_is_parsed_from() -> None:
    module = lw.parse(TEXT)
    assert str(lw.parse(str(module))) == str(module)
    assert lw.parse(str(module)).schedules == module.schedules


def test_tuning_tries_the_schedule_a_kernel_was_written_with(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    kernel = TEXT[TEXT.index("prim") :]
    text = "def @main(%x: Tensor[(8, 32), float32]) { @scale_and_sum(%x) }" + kernel
    program = lw.build(text, log=log, threads=1)
    report = program.tune(trials=2, budget=None)
    assert [result.task.name for result in report.tasks] == ["scale_and_sum"]
    assert '["split", "j", [2, 16]]' in log.read_text()
    again = lw.build(text, log=log, threads=1)
    assert again.lower().built.chosen["scale_and_sum"].origin == "exact"


def test_a_module_runs_under_another_number_of_threads_and_target() -> None:
    from loopwright.codegen.target import Target

    x, w = arguments()
    program = lw.build(TEXT, target=Target.host().with_isa("x86-64"), threads=1)
    np.testing.assert_array_equal(program(x, w, threads=2)[1], program(x, w)[1])
    assert program.with_threads(2).lower().built.source.threads == 2  # type: ignore[union-attr]


def test_a_builder_makes_modules() -> None:
    b = lw.ModuleBuilder()
    x = b.param("images/0", lw.f32[2, 3])
    doubled = b.kernel(
        "prim @doubled(a: float32[2, 3]) -> y: float32[2, 3] { y[i, j] = a[i, j] * 2.0 }"
    )
    total = b.emit("sum", [b.emit(doubled, [x])], {"axis": (1,)})
    shifted = b.emit("add", [total, np.float32([1, 2])])
    program = lw.build(b.module([shifted, total], outputs=("shifted", "total")))
    found = program.run({"images/0": np.ones((2, 3), np.float32)})
    assert found["shifted"].tolist() == [7, 8]
    assert found["total"].tolist() == [6, 6]
    assert program(images_0=np.ones((2, 3), np.float32))[0].tolist() == [7, 8]


def test_kernels_read_constants() -> None:
    text = """
    def @main(%x: Tensor[(4), float32]) { @dot(%x, meta[w]) }
    prim @dot(a: float32[4], b: float32[4, 3]) -> y: float32[3] { y[i] = sum(k: 4) a[k] * b[k, i] }
    """
    w = np.arange(12, dtype=np.float32).reshape(4, 3)
    program = lw.build(lw.parse(text, constants={"w": w}))
    np.testing.assert_allclose(program(np.ones(4, np.float32)), w.sum(axis=0))


def test_debugging_and_reference_know_kernels_of_a_module() -> None:
    program = lw.build(TEXT)
    x, w = arguments()
    assert not lw.debug.compare(program, x, w, each=True).differs
    np.testing.assert_allclose(program.function(x, w)[1], program(x, w)[1], rtol=1e-4, atol=1e-4)


def test_a_module_is_explained() -> None:
    found = lw.build(TEXT, name="net").explain(*arguments(), seconds=0.01)
    assert [kernel.name for kernel in found.kernels] == ["matmul", "scale_and_sum"]
    assert str(found).startswith("net ")
    assert "the one that the kernel was written with" in str(found)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("def @main(%x: float32) {\n  exp(%y)\n}", "line 2, column 7: %y is not bound here"),
        ("prim @k(x: float32[4]) -> y: float32[4] {\n  y[i] = x[i\n}", "line 3, column 1"),
        (
            "prim @k(x: float32[4]) -> y: float32[4] { y[i] = x[i] }\nschedule @k { split(4) }",
            "line 2, column 15: split takes 2 arguments, not 1",
        ),
        ("schedule @k { }", "line 1, column 1: there is no kernel @k before its schedule"),
        (
            "prim @k(x: float32[4]) -> y: float32[4] { y[i] = x[i] }\n"
            "prim @k(x: float32[4]) -> y: float32[4] { y[i] = x[i] }",
            "line 2, column 1: @k is defined twice",
        ),
    ],
)
def test_text_that_is_no_module_names_its_line(text: str, message: str) -> None:
    with pytest.raises(lw.LoopwrightError, match="line") as caught:
        lw.parse(text)
    assert message in str(caught.value)


def test_operands_that_do_not_fit_say_so() -> None:
    text = "def @main(%x: Tensor[(4), float32]) {\n  %0 = @k(%x);\n  %0\n}\n"
    text += "prim @k(x: float32[5]) -> y: float32[5] { y[i] = x[i] }"
    with pytest.raises(lw.LoopwrightTypeError, match=r"k takes \(Tensor\[\(5\), float32\]\)"):
        lw.parse(text)


def test_arrays_that_do_not_fit_say_so() -> None:
    program = lw.build("def @main(%x: Tensor[(4), float32]) { exp(%x) }", name="net")
    with pytest.raises(lw.LoopwrightTypeError) as caught:
        program(np.ones(4))
    assert "argument x of net is float64[4], but this code was compiled for float32[4]" in str(
        caught.value
    )
    with pytest.raises(lw.LoopwrightTypeError, match="missing a required argument: 'x'"):
        program()


@pytest.mark.parametrize(
    ("text", "kind", "message"),
    [
        ("def @f(%x: float32) { %x }", lw.LoopwrightTypeError, "needs a graph function @main"),
        (
            'def @main(%x: float32, outputs=["a", "b"]) { %x }',
            lw.LoopwrightTypeError,
            "returns 1 results, and its attribute outputs has 2 names",
        ),
        (
            "def @main(%x: Tensor[(4), float32]) { @k(%x) }\n"
            "prim @k(x: float32[4]) -> y: float32[4] { y[i] = z[i] }",
            lw.LoopwrightError,
            "z",
        ),
        (
            "def @main(%x: Tensor[(4), float32]) { @k(%x) }\n"
            "prim @k(x: float32[4]) -> y: float32[4] { y[n] = x[n] }\n"
            "schedule @k { vectorize('m') }",
            lw.LoopwrightError,
            "the schedule of @k is illegal",
        ),
    ],
)
def test_modules_that_cannot_be_built_say_why(
    text: str, kind: type[Exception], message: str
) -> None:
    with pytest.raises(kind, match=r"(?s).") as caught:
        lw.build(text)
    assert message in str(caught.value)
    assert not isinstance(caught.value, lw.InternalError)


def test_commands_take_the_text_of_a_module(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "net.txt"
    path.write_text("def @main(%x: Tensor[(4), float32]) { add(%x, meta[b]) }")
    np.savez(tmp_path / "net.npz", b=np.ones(4, np.float32))
    assert main(["show", str(path), "--level", "loops"]) == 0
    assert "vectorize" in capsys.readouterr().out
    assert main(["debug", str(path)]) == 0
    assert main(["bench", str(path), "--seconds", "0.05"]) == 0
    assert "results agree" in capsys.readouterr().out
    assert main(["show", str(path), "--arg", "x=f32[4]"]) == 2
    assert "says itself what its main takes" in capsys.readouterr().err
