"""The work of a builder process: it compiles schedules to object code."""

from __future__ import annotations

import gc
import pickle
import time
from typing import Any, ClassVar

from ...codegen.llvm.engine import compile_object
from ...codegen.target import Target
from ...ir.dataclass import dataclass
from ...ir.dims import as_int
from ...ir.errors import ScheduleError
from ...ir.loop.nest import Operand
from ..settings import TuneSettings
from .toolchain import Toolchain
from .transport import Frame

_DETAIL = 300


@dataclass(frozen=True, slots=True)
class BuiltKernel:
    """The message from builder to runner: the kernel's interface and its object code."""

    name: str
    operands: tuple[Operand, ...]
    workspace_bytes: int
    parallel: bool
    code: bytes
    size_values: tuple[int, ...] = ()


@dataclass
class BuildService:
    """Compiles schedules (JSON data) to pickled BuiltKernels, which only runners open."""

    prim: Any
    target: Target
    toolchain: Toolchain
    settings: TuneSettings
    fault: ClassVar[str] = "crash"

    @property
    def memory(self) -> int:
        return self.settings.build_memory

    def open(self) -> None:
        """Compiles a function now: the first compilation loads LLVM."""
        compile_object("define void @nothing() { ret void }", self.target)

    def close(self) -> None:
        """Releases nothing."""

    def handle(self, request: Any) -> Frame:
        gc.disable()  # a kernel is a hundred thousand small objects, nearly all of them alive
        try:
            return self._build(request)
        finally:
            gc.enable()

    def _build(self, request: Any) -> Frame:
        started = time.perf_counter()
        kernel = None
        try:
            kernel = self.toolchain.compile(self.prim, request, self.target, "candidate")
            code = compile_object(kernel.text, self.target)
        except ScheduleError as error:
            word = "schedule_error" if kernel is None else "build_error"  # LLVM refuses the code
            return Frame({"error": word, "detail": str(error)[:_DETAIL]})
        except MemoryError:
            return Frame({"error": "out_of_memory", "detail": "while building"})
        except Exception as error:  # an error of the compiler is one failed candidate
            detail = f"{type(error).__name__}: {error}"
            return Frame({"error": "build_error", "detail": detail[:_DETAIL]})
        parallel = "lw_parallel_for" in kernel.text
        operands, workspace = tuple(kernel.operands), as_int(kernel.workspace_bytes)
        built = BuiltKernel(kernel.name, operands, workspace, parallel, code, kernel.size_values)
        return Frame({"seconds": time.perf_counter() - started}, pickle.dumps(built))
