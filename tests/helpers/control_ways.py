"""The ways in which a program with control flow runs: Python, graphs interpreted, compiled."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import loopwright as lw
import numpy as np
from loopwright.codegen.kernel import Kernel
from loopwright.codegen.target import Target
from loopwright.driver.built import Built
from loopwright.driver.pipeline import lower_module
from loopwright.face.compiled_function import CompiledFunction
from loopwright.ir.dims import as_int
from loopwright.ir.errors import UnsupportedError
from loopwright.ir.graph.evaluate import evaluate
from loopwright.ir.graph.nodes import Module
from loopwright.ir.loop.interpret import interpret
from loopwright.ir.program.interpret import interpret as interpret_program
from random_control import Program, function_of, mistake, outcome

__all__ = ["GRAPHS", "ISAS", "Compiler", "compilers", "failure"]

ISAS = ("host", "x86-64-v3", "x86-64")
MOST = 200  # characters of an error

Compiler = Callable[..., Callable[..., Any]]
"""Takes a function, and options of ``lw.compile``."""


class Interpreted(CompiledFunction):
    """A compiled function whose traced graph the interpreter runs."""

    def _build(self, traced: Any, *_: Any) -> Any:
        return Built(lambda arrays: _evaluated(traced.module, arrays))


class Lowered(CompiledFunction):
    """A compiled function whose graph the interpreter runs after all passes over graphs."""

    def _build(self, traced: Any, *_: Any) -> Any:
        lowered = lower_module(traced.module)
        return Built(lambda arrays: _evaluated(lowered, arrays))


class Stepped(CompiledFunction):
    """A compiled function whose program and loop nests the interpreters run, with its ranges."""

    def _build(self, traced: Any, *rest: Any) -> Any:
        parts = super()._build(traced, *rest).parts
        assert parts is not None
        kernels = {name: _interpreted(kernel) for name, kernel in parts.kernels.items()}
        return Built(lambda arrays: interpret_program(parts.program, arrays, kernels, deepest=400))


def _interpreted(kernel: Kernel) -> Callable[..., None]:
    def run(*arrays: Any) -> None:
        buffers = {
            operand.buffer.name: array.reshape([as_int(n) for n in operand.buffer.shape])
            for operand, array in zip(kernel.operands, arrays, strict=False)
        }
        for buffer in kernel.nest.workspace:
            buffers[buffer.name] = np.empty([as_int(n) for n in buffer.shape], buffer.dtype.numpy)
        interpret(kernel.nest, buffers)

    return run


def _evaluated(module: Module, arrays: Sequence[Any]) -> list[Any]:
    result = evaluate(module, *arrays)
    return [np.array(value) for value in (result if isinstance(result, tuple) else (result,))]


GRAPHS: dict[str, Compiler] = {"traced": Interpreted, "lowered": Lowered, "program": Stepped}


def compilers(isas: Sequence[str] = ISAS, threads: Sequence[int] = (1, 2)) -> dict[str, Compiler]:
    """Returns what compiles a function, by name."""
    host = Target.host()
    made: dict[str, Compiler] = {}
    for isa in isas:
        target = host if isa == "host" else host.with_isa(isa)
        for count in threads:
            made[f"{isa} on {count}"] = lambda f, t=target, n=count, **options: lw.compile(
                f, target=t, threads=n, **options
            )
    return made


def failure(program: Program, ways: dict[str, Compiler]) -> str:
    """Returns what is wrong with a program; "refused" and why, if it cannot be compiled."""
    expected = outcome(function_of(program), program)
    for name, compiler in ways.items():
        try:
            text = mistake(outcome(compiler(function_of(program)), program), expected)
        except UnsupportedError as error:
            return f"refused: {str(error).splitlines()[0]}"
        except Exception as error:
            text = f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"[:MOST]
        if text:
            return f"{name}: {text}"
    return ""
