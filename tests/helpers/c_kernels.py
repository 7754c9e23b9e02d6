"""Kernels written as C, compiled by the machine's C compiler, and called."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import compiled
import numpy as np
from loopwright.codegen.c_source.nests import function_text
from loopwright.codegen.c_source.programs import helpers_text
from loopwright.codegen.kernel import Kernel, prepare_operands
from loopwright.codegen.target import Target
from loopwright.ir.dims import as_int
from loopwright.ir.dtype import Array
from loopwright.ir.errors import UnsupportedError
from loopwright.ir.graph.nodes import Module
from loopwright.ir.ops import all_operators
from operators import array_type, reduction_length, samples_of

NAMES = sorted(all_operators())
COMPILER = shutil.which("cc")
SECONDS = 120


class Prepared(NamedTuple):
    """A sample's operands, its lowered module, the reference's result, and the terms summed."""

    args: Sequence[Any]
    module: Module
    wanted: Any
    length: int


def prepared(name: str, most: int | None = None) -> list[Prepared]:
    """Returns the samples of an operator."""
    op = all_operators()[name]
    samples: list[Prepared] = []
    for sample in samples_of(op)[:most]:
        attrs = op.complete_attrs(sample.attrs)
        with np.errstate(all="ignore"):
            wanted = op.reference(sample.args, attrs)
        length = reduction_length(op, [array_type(a) for a in sample.args], attrs)
        module = compiled.lower(compiled.operator_module(op, sample.args, sample.attrs))
        samples.append(Prepared(sample.args, module, wanted, length))
    return samples


class CKernels:
    """Kernels that are collected first, and then compiled together, for ``vectors`` of a target."""

    def __init__(self, vectors: Target | None) -> None:
        self.vectors = vectors
        self._defined: dict[str, str] = {}
        self._functions: dict[str, tuple[str, str]] = {}
        self._library: ctypes.CDLL | None = None

    def collect(self, kernel: Kernel, target: Target, inputs: Mapping[str, Array]) -> list[Array]:
        """Notes a kernel, and runs it as machine code."""
        self._symbol(kernel)
        return compiled.run_kernel(kernel, target, inputs)

    def compile(self, folder: Path, *options: str) -> None:
        """Compiles all kernels that were noted. Raises CalledProcessError, with what was said."""
        texts = [helpers_text(), *self._defined.values()]
        texts += [text for _, text in self._functions.values()]
        (folder / "kernels.c").write_text("\n\n".join(texts) + "\n")
        flags = [
            "-std=c11",
            "-Wall",
            "-Werror",
            "-Wno-uninitialized",
            "-ffp-contract=off",
            *options,
        ]
        made = ["-shared", "-fPIC", "-o", "kernels.so", "kernels.c", "-lm"]
        command = [COMPILER or "cc", *flags, *made]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=SECONDS)
        assert done.returncode == 0, done.stderr[:4000]
        self._library = ctypes.CDLL(str(folder / "kernels.so"))

    def run(self, kernel: Kernel, target: Target, inputs: Mapping[str, Array]) -> list[Array]:
        """Calls a kernel that was compiled; returns its outputs."""
        assert self._library is not None
        operands = prepare_operands(kernel, inputs)
        workspace = np.full(as_int(kernel.workspace_bytes) + 64, 1, np.uint8)
        places = [a.ctypes.data for a in (*operands, workspace)]
        sizes = [int(value) for value in kernel.size_values] or [0]
        getattr(self._library, self._symbol(kernel))(
            (ctypes.c_int64 * len(sizes))(*sizes), (ctypes.c_void_p * len(places))(*places)
        )
        pairs = zip(operands, kernel.operands, strict=True)
        return [array for array, operand in pairs if operand.role.writes]

    def _symbol(self, kernel: Kernel) -> str:
        """The function of a kernel, which takes its sizes and operands as two arrays."""
        if kernel.cases:
            raise UnsupportedError("kernels with a nest for each range of sizes")
        key = str(kernel.nest)
        if key not in self._functions:
            number = len(self._functions)
            text, needed = function_text(kernel.nest, f"kernel{number}", self.vectors)
            self._defined |= needed
            given = [f"sizes[{n}]" for n, _ in enumerate(kernel.nest.sizes)]
            given += [f"operands[{n}]" for n in range(len(kernel.nest.operands) + 1)]
            head = f"void call{number}(const int64_t *sizes, void *const *operands)"
            text += f"\n\n{head} {{\n  kernel{number}({', '.join(given)});\n}}"
            self._functions[key] = f"call{number}", text
        return self._functions[key][0]
