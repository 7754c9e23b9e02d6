"""A PrimFunc and a schedule become one native kernel.

The native interface: ``void @NAME(ptr operand, ..., ptr workspace, i64 size, ...)`` with the
operands in order (parameters, packed ones in the place of what they pack, then outputs), dense and
row-major, without the parameters that outputs begin as, whose values are in these outputs; then the
values of symbolic sizes; and ``void @NAME.packed(ptr args)``, where ``args`` is an array of those
pointers and sizes. A parallel kernel calls ``lw_parallel_for`` of the runtime. Outputs start on a
multiple of 64 bytes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from ..ir.dataclass import dataclass
from ..ir.dims import IntExpr, Symbol, as_int, ceildiv, evaluate
from ..ir.dtype import Array
from ..ir.loop.block_sums import block_sums
from ..ir.loop.nest import Nest, Operand
from ..ir.loop.prim import Buffer, PrimFunc
from ..ir.loop.procedure import Procedure, executions
from ..ir.schedule.apply import apply_schedule
from ..ir.schedule.steps import Schedule
from .emit.memory import Env, Memory, Place
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

    ``workspace_bytes`` depends on the ``sizes``. ``size_values`` are their values in a kernel that
    is looked at for certain sizes (``at``), which has none otherwise. ``library`` is what computes
    its product of matrices, if that is not ``nest``; see ``library.py``.
    """

    name: str
    code: ModuleText
    operands: tuple[Operand, ...]
    workspace_bytes: IntExpr
    nest: Nest
    parallel: bool
    library: str = ""
    size_values: tuple[int, ...] = ()

    @property
    def text(self) -> str:
        """The LLVM text of the module."""
        return self.code.text

    @property
    def sizes(self) -> tuple[Symbol, ...]:
        """The symbolic sizes whose values it is passed, in this order."""
        return self.nest.sizes

    @property
    def stores(self) -> int:
        """Number of stores that a call executes at typical sizes, those of a vector counted one by
        one."""
        return executions(self.nest.body)

    def at(self, values: Mapping[str, int]) -> Kernel:
        """Returns the same code with what it must be handed for these sizes."""
        if not self.sizes:
            return self
        nest = self.nest.at(values)
        return replace(
            self,
            operands=nest.operands,
            workspace_bytes=evaluate(self.workspace_bytes, values),
            nest=nest,
            size_values=tuple(values[s.name] for s in self.sizes),
        )


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
    space: IntExpr = 0
    for buffer in nest.workspace:
        space = space + _workspace_bytes(buffer)
    return Kernel(name, text, nest.operands, space, nest, b"lw_parallel_for" in code)


def _workspace_bytes(buffer: Buffer) -> IntExpr:
    return ceildiv(buffer.size * buffer.dtype.bytes, ALIGN) * ALIGN


def emit_kernel(nest: Nest, target: Target, name: str, most: int | None = None) -> Kernel:
    """LLVM module text for a loop nest; of ``most`` values, if they are not estimated here."""
    count = len(nest.operands)
    params = _signature(count, len(nest.sizes))
    writer = FunctionWriter(name, params, most=most or text_limit(nest))
    places: dict[str, Place] = {}
    for n, operand in enumerate(nest.operands):
        base = Value(f"%a{n}", "ptr")
        places[operand.buffer.name] = Place(operand.buffer, base, operand.role.writes)
    sizes = {size.name: Value(f"%s{n}", "i64") for n, size in enumerate(nest.sizes)}
    memory = Memory(writer, target)
    offset: IntExpr = 0
    for buffer in nest.workspace:
        at, constant = memory.index_value(offset, Env(sizes))
        base = writer.offset(Value("%workspace", "ptr"), "i8", at, constant)
        places[buffer.name] = Place(buffer, base, True)
        offset = offset + _workspace_bytes(buffer)
    functions: dict[str, str] = {}
    parallel = ParallelWriter(name)
    NestEmitter(target, writer, places, sizes, functions, parallel).roots(nest.body)
    writers = [writer, *parallel.functions]
    declared = {c.partition("(")[0]: c for w in writers for c in sorted(w.calls)}
    calls = sorted(declared.values())
    parts = [
        "@lw_nowhere = internal global [64 x i8] zeroinitializer, align 64\n",
        "!0 = !{i32 1}\n",
        "\n".join(calls) + "\n",
        *(w.text(linkage="internal ") for w in parallel.functions),
        writer.text(),
        packed_entry(name, count, len(nest.sizes)),
        *functions.values(),
    ]
    text = "\n".join(parts)
    check_text(text)
    return Kernel(name, ModuleText.of(text), nest.operands, offset, nest, bool(parallel.functions))


def _signature(count: int, sizes: int) -> str:
    """The parameters of a kernel of so many operands and sizes."""
    operands = (f"ptr %a{n}" for n in range(count))
    return ", ".join([*operands, "ptr %workspace", *(f"i64 %s{n}" for n in range(sizes))])


def packed_entry(name: str, count: int, sizes: int = 0) -> str:
    """The text of ``@name.packed`` for a kernel of so many operands and sizes."""
    lines = [f"define void @{name}.packed(ptr %args) nounwind {{"]
    types = ["ptr"] * (count + 1) + ["i64"] * sizes
    for n, type in enumerate(types):
        lines.append(f"  %p{n} = getelementptr ptr, ptr %args, i64 {n}")
        lines.append(f"  %a{n} = load {type}, ptr %p{n}, align 8")
    handed = ", ".join(f"{type} %a{n}" for n, type in enumerate(types))
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
