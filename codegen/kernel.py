"""A PrimFunc and a schedule become one native kernel.

The native interface: ``void @NAME(ptr operand, ..., ptr workspace)`` with the operands in order
(parameters, packed ones in the place of what they pack, then outputs), dense and row-major, without
the parameters that outputs begin as, whose values are in these outputs; and
``void @NAME.packed(ptr args)``, where ``args`` is an array of those pointers. A parallel kernel
calls ``lw_parallel_for`` of the runtime. Outputs start on a multiple of 64 bytes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ..ir.dataclass import dataclass
from ..ir.dims import as_int
from ..ir.dtype import Array
from ..ir.loop.block_sums import block_sums
from ..ir.loop.nest import Nest, Operand
from ..ir.loop.prim import Buffer, PrimFunc
from ..ir.loop.procedure import Procedure, executions
from ..ir.schedule.apply import apply_schedule
from ..ir.schedule.steps import Schedule
from .emit.memory import Place
from .emit.nests import NestEmitter
from .emit.parallel import ParallelWriter
from .emit.writer import FunctionWriter, Value
from .limits import check_limits, check_text, text_limit
from .module_text import ModuleText
from .target import Target

__all__ = [
    "Kernel",
    "compile_kernel",
    "compile_nest",
    "packed_entry",
    "parameter_places",
    "prepare_operands",
    "stored_kernel",
]

ALIGN = 64  # bytes; where buffers in the workspace start


@dataclass(frozen=True, slots=True)
class Kernel:
    """A kernel as LLVM module text, and what it must be handed.

    ``library`` is what computes its product of matrices, if that is not ``nest``; see
    ``library.py``.
    """

    name: str
    code: ModuleText
    operands: tuple[Operand, ...]
    workspace_bytes: int
    nest: Nest
    parallel: bool
    library: str = ""

    @property
    def text(self) -> str:
        """The LLVM text of the module."""
        return self.code.text

    @property
    def stores(self) -> int:
        """Number of stores that a call executes, those of a vector counted one by one."""
        return executions(self.nest.body)


def compile_kernel(
    prim: PrimFunc, schedule: Schedule, target: Target, name: str | None = None
) -> Kernel:
    """The kernel of ``prim`` under ``schedule`` for ``target``; ScheduleError if it is illegal, or
    beyond the limits of ``ir/schedule/limits.py``.

    Its symbol is ``name``, else ``lw_`` and the PrimFunc's: a kernel called plain ``ceil`` would
    take the place of the C library's in its own module.
    """
    return compile_nest(prim, apply_schedule(prim, schedule), target, name)


def compile_nest(prim: PrimFunc, nest: Nest, target: Target, name: str | None = None) -> Kernel:
    """The kernel of a loop nest of ``prim``, as ``compile_kernel`` makes it of its schedule."""
    check_limits(prim, nest, target)
    blocked = _blocked(prim, nest, target)
    # What is left over behind whole blocks is written once more.
    most = text_limit(nest) * (2 if blocked is not nest else 1)
    return emit_kernel(blocked, target, name or f"lw_{prim.name}", most)


def _blocked(prim: PrimFunc, nest: Nest, target: Target) -> Nest:
    """Returns the nest with its long sums in blocks."""
    if isinstance(prim, Procedure):  # its sums have the order that it states
        return nest
    return block_sums(nest, target.vector_registers * target.vector_bytes // 4)


def stored_kernel(
    prim: PrimFunc, schedule: Schedule, target: Target, name: str, entry: str, code: bytes
) -> Kernel:
    """Returns what ``compile_kernel`` would, without writing its text: its object code, which is
    that ``entry`` of the disk cache, is known. ScheduleError if the schedule is illegal."""
    nest = _blocked(prim, apply_schedule(prim, schedule), target)
    text = ModuleText(entry, lambda: compile_kernel(prim, schedule, target, name).text, entry)
    space = sum(_workspace_bytes(buffer) for buffer in nest.workspace)
    return Kernel(name, text, nest.operands, space, nest, b"lw_parallel_for" in code)


def _workspace_bytes(buffer: Buffer) -> int:
    return -(-as_int(buffer.size) * buffer.dtype.bytes // ALIGN) * ALIGN


def emit_kernel(nest: Nest, target: Target, name: str, most: int | None = None) -> Kernel:
    """LLVM module text for a loop nest; of ``most`` values, if they are not estimated here."""
    count = len(nest.operands)
    params = ", ".join([*(f"ptr %a{n}" for n in range(count)), "ptr %workspace"])
    writer = FunctionWriter(name, params, most=most or text_limit(nest))
    places: dict[str, Place] = {}
    for n, operand in enumerate(nest.operands):
        base = Value(f"%a{n}", "ptr")
        places[operand.buffer.name] = Place(operand.buffer, base, operand.role.writes)
    offset = 0
    for buffer in nest.workspace:
        base = writer.offset(Value("%workspace", "ptr"), "i8", None, offset)
        places[buffer.name] = Place(buffer, base, True)
        offset += _workspace_bytes(buffer)
    functions: dict[str, str] = {}
    parallel = ParallelWriter(name)
    NestEmitter(target, writer, places, functions, parallel).roots(nest.body)
    writers = [writer, *parallel.functions]
    declared = {c.partition("(")[0]: c for w in writers for c in sorted(w.calls)}
    calls = sorted(declared.values())
    parts = [
        "@lw_nowhere = internal global [64 x i8] zeroinitializer, align 64\n",
        "!0 = !{i32 1}\n",
        "\n".join(calls) + "\n",
        *(w.text(linkage="internal ") for w in parallel.functions),
        writer.text(),
        packed_entry(name, count),
        *functions.values(),
    ]
    text = "\n".join(parts)
    check_text(text)
    return Kernel(name, ModuleText.of(text), nest.operands, offset, nest, bool(parallel.functions))


def packed_entry(name: str, count: int) -> str:
    """The text of ``@name.packed`` for a kernel of so many operands."""
    lines = [f"define void @{name}.packed(ptr %args) nounwind {{"]
    for n in range(count + 1):
        lines.append(f"  %p{n} = getelementptr ptr, ptr %args, i64 {n}")
        lines.append(f"  %a{n} = load ptr, ptr %p{n}, align 8")
    handed = ", ".join(f"ptr %a{n}" for n in range(count + 1))
    lines += [f"  call void @{name}({handed})", "  ret void", "}", ""]
    return "\n".join(lines)


def parameter_places(operands: Sequence[Operand]) -> list[int]:
    """Returns, for each parameter of a kernel, the position of the operand that holds its value
    when the kernel is called: that of a result, if one begins as it."""
    begun = {o.begins_as[0]: n for n, o in enumerate(operands) if o.begins_as is not None}
    rest = [n for n, o in enumerate(operands) if not o.role.writes]
    given = iter(rest)
    return [begun[p] if p in begun else next(given) for p in range(len(rest) + len(begun))]


def prepare_operands(kernel: Kernel, inputs: Mapping[str, Array]) -> list[Array]:
    """The arrays to hand to a kernel, in order: ``inputs`` by parameter name, packed where the
    kernel wants it so, and fresh outputs, some of which begin as a copy of an input."""
    arrays: list[Array] = []
    for operand in kernel.operands:
        buffer = operand.buffer
        if operand.pack is not None:
            arrays.append(operand.pack.array(inputs[operand.pack.source]))
        elif operand.role.writes:
            made = np.empty([as_int(s) for s in buffer.shape], buffer.dtype.numpy)
            if operand.begins_as is not None:
                made[...] = inputs[operand.begins_as[1]]
            arrays.append(made)
        else:
            shape = [as_int(s) for s in buffer.shape]
            arrays.append(np.ascontiguousarray(inputs[buffer.name]).reshape(shape))
    return arrays
