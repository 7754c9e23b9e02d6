"""Runs random ONNX models: compiled, interpreted, and by ONNX Runtime."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from pathlib import Path

import loopwright as lw
import numpy as np
import random_onnx_cases
import random_onnx_domains  # noqa: F401  its rows
from loopwright.tracer.frontends.onnx.table import _ROWS
from random_onnx import ROWS, OnnxProgram, mistakes

__all__ = [
    "CONVERTED",
    "MISJUDGED",
    "SUPPORTED",
    "by_runtime",
    "failure",
    "is_mistake",
    "results_of",
    "smaller",
]

random_onnx_cases.enter_cases({name for _, name in _ROWS})
CONVERTED = {name: {d for d, n in _ROWS if n == name} for _, name in _ROWS}
"""Operators that have a converter, with their domains."""

SUPPORTED = {name: ROWS[name] for name in ROWS if name.strip("@") in CONVERTED}
"""Rows of operators that have a converter; an ``@`` marks another domain's operator of a name."""

MISJUDGED = {
    "BatchNormalization",
    "ConvTranspose",
    "GlobalMaxPool",
    "LRN",
    "LpNormalization",
    "MaxPool",
    "Resize",
}
"""Operators that the standard's evaluator computes wrongly for some opsets, ranks or attributes;
ONNX Runtime decides on them."""


def results_of(program: OnnxProgram, *, interpreted: bool = False) -> dict[str, np.ndarray]:
    """What compiled code, or the interpreter of graphs, computes."""
    compiled = lw.from_onnx(program.model, threads=1)
    feeds = [program.feeds[name] for name in compiled.inputs]
    result = (compiled.function if interpreted else compiled)(*feeds)
    return dict(zip(compiled.outputs, result if isinstance(result, tuple) else (result,)))


def by_runtime(program: OnnxProgram) -> dict[str, np.ndarray] | None:
    """What ONNX Runtime computes; None if it refuses the model or is not there."""
    try:
        import onnxruntime
    except ImportError:
        return None
    onnxruntime.set_default_logger_severity(4)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    try:
        session = onnxruntime.InferenceSession(
            program.model.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
        return dict(zip(program.wanted, session.run(list(program.wanted), program.feeds)))
    except Exception:
        return None


def failure(program: OnnxProgram) -> str:
    """What is wrong with a program: "refused: ..." if there is a clear error, or nothing."""
    try:
        results = results_of(program)
    except lw.InternalError as error:
        return f"InternalError: {error.message}".replace("\n", " ")
    except lw.LoopwrightError as error:
        notes = " ".join(error.notes)
        return f"refused: {error.message} {notes}".replace("\n", " ")
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        return f"{type(error).__name__}: {error} ({Path(last.filename).name}:{last.lineno})"
    return mistakes(program, results)


def is_mistake(text: str) -> bool:
    """True if a failure is a wrong result, not an exception."""
    return "Error" not in text.split()[0]


def smaller(
    program: OnnxProgram,
    other: Callable[[OnnxProgram], dict[str, np.ndarray] | None] | None = None,
) -> OnnxProgram:
    """The part of a program that computes its first wrong value, by the evaluator or by ``other``
    where that computes it."""
    for node in program.model.graph.node:
        for name in program.tensors.keys() & set(node.output):
            cut = program.up_to(name)
            right = other(cut) if other is not None else None
            cut = cut if right is None else cut.with_wanted(right)
            if failure(cut):
                return cut
    return program
