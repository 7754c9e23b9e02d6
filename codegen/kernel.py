"""A PrimFunc and a schedule become one native kernel.

The native interface: ``void @NAME(ptr operand, ..., ptr workspace, i64 size, ...)`` with the
operands in order (parameters, packed ones in the place of what they pack, then outputs), dense and
row-major, without the parameters that outputs begin as, whose values are in these outputs; then the
values of symbolic sizes; and ``void @NAME.packed(ptr args)``, where ``args`` is an array of those
pointers and sizes, 8 bytes apart on every target. A parallel kernel calls ``lw_parallel_for`` of
the runtime. Outputs start on a multiple of 64 bytes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from ..ir import dims
from ..ir.dataclass import dataclass
from ..ir.dims import Dim, IntExpr, Symbol, as_int, ceildiv, evaluate, int_max, resolve, size
from ..ir.dtype import Array
from ..ir.errors import ScheduleError
from ..ir.loop.block_sums import block_sums
from ..ir.loop.nest import Nest, Operand
from ..ir.loop.prim import PrimFunc
from ..ir.loop.procedure import Procedure, executions
from ..ir.schedule.apply import apply_schedule
from ..ir.schedule.cases import Cases, on_one_thread
from ..ir.schedule.steps import Schedule
from .emit.memory import Env, Memory, Place
from .emit.nests import NestEmitter
from .emit.parallel import ParallelWriter
from .interleaved import interleaved
from .limits import check_limits, check_text, text_limit
from .llvm.writer import FunctionWriter, Value
from .lower.lowering import lowered
from .module_text import ModuleText
from .target import Target

ALIGN = 64  # bytes; where buffers in the workspace start


def workspace_bytes(nest: Nest) -> IntExpr:
    """Returns the bytes of the workspace of a nest."""
    total: IntExpr = 0
    for buffer in nest.workspace:
        total = total + ceildiv(buffer.size * buffer.dtype.bytes, ALIGN) * ALIGN
    return total


class KernelModule:
    """The module of the kernel ``name``, written function by function."""

    emitter = NestEmitter
    """Writes nests. One that notes what each line computes may take its place."""

    def __init__(self, name: str, target: Target) -> None:
        self.name, self.target = name, target
        self.writers: list[FunctionWriter] = []  # what is called stands before its callers
        self.parallel = False
        self._functions: dict[str, str] = {}  # helpers by name
        self._linkage: dict[str, str] = {}

    def add(self, nest: Nest, most: int) -> None:
        """Writes a nest of at most so many values as the kernel."""
        self._add(nest, self.name, most, None)

    def add_case(self, number: int, nest: Nest, most: int, switched: bool) -> None:
        """Writes a nest as the variant of that number."""
        serial = Value("%serial", "i1") if switched else None
        self._add(nest, f"{self.name}.case{number}", most, serial)
        self._linkage[f"{self.name}.case{number}"] = "internal "

    def _add(self, nest: Nest, symbol: str, most: int, serial: Value | None) -> None:
        count = len(nest.operands)
        params = _parameters(count, len(nest.sizes)) + (f", {serial}" if serial else "")
        writer = FunctionWriter(symbol, params, most=most)
        places: dict[str, Place] = {}
        for n, operand in enumerate(nest.operands):
            base = Value(f"%a{n}", "ptr")
            places[operand.buffer.name] = Place(operand.buffer, base, operand.role.writes)
        sizes = {size.name: Value(f"%s{n}", "i64") for n, size in enumerate(nest.sizes)}
        memory = Memory(writer, self.target)
        offset: IntExpr = 0
        for buffer in nest.workspace:
            at, constant = memory.index_value(offset, Env(sizes))
            base = writer.offset(Value("%workspace", "ptr"), "i8", at, constant)
            places[buffer.name] = Place(buffer, base, True)
            offset = offset + ceildiv(buffer.size * buffer.dtype.bytes, ALIGN) * ALIGN
        parallel = ParallelWriter(symbol, serial)
        emitter = self.emitter(self.target, writer, places, sizes, self._functions, parallel.write)
        emitter.body(lowered(nest, self.target).body, Env(sizes))
        self.writers += [*parallel.functions, writer]
        self._linkage.update((w.name, "internal ") for w in parallel.functions)
        self.parallel = self.parallel or bool(parallel.functions)
        if serial is not None and parallel.functions:
            self._functions[_SWITCHED_SYMBOL] = _SWITCHED

    def add_choice(
        self,
        expr: IntExpr,
        choices: Sequence[Choice],
        variants: Sequence[Variant],
        operands: int,
        sizes: Sequence[Symbol],
    ) -> None:
        """Writes the kernel as the decision between the variants by the value of a size."""
        writer = FunctionWriter(self.name, _parameters(operands, len(sizes)))
        values = {size.name: Value(f"%s{n}", "i64") for n, size in enumerate(sizes)}
        value = Memory(writer, self.target).index(expr, Env(values))
        pointers = [f"ptr %a{n}" for n in range(operands)]

        def call(choice: Choice) -> None:
            variant = variants[choice.variant]
            handed = [*pointers, "ptr %workspace", *(values[s.name] for s in variant.nest.sizes)]
            if variant.switched:
                handed.append(Value("true" if choice.serial else "false", "i1"))
            symbol = f"{self.name}.case{choice.variant}"
            writer.line(f"call void @{symbol}({', '.join(map(str, handed))})")

        def decide(left: Sequence[Choice]) -> None:
            choice, *others = left
            if not others:
                call(choice)
                return
            test = writer.op("icmp sle", value, writer.int(choice.at_most), type="i1")
            writer.branch(test, lambda: call(choice), lambda: decide(others))

        decide(choices)
        self.writers.append(writer)

    def text(self, operands: int, sizes: int) -> str:
        """Returns the text of the module of a kernel of so many operands and sizes."""
        declared = {c.partition("(")[0]: c for w in self.writers for c in sorted(w.calls)}
        functions = dict(self._functions)
        texts = (w.text(linkage=self._linkage.get(w.name, "")) for w in self.writers)
        bodies = [interleaved(text, functions) for text in texts]
        for symbol, text in functions.items():  # what is called once is inlined
            if " noinline " in text and sum(b.count(f"@{symbol}(") for b in bodies) == 1:
                functions[symbol] = text.replace(" noinline ", " alwaysinline ", 1)
        parts = [
            "@lw_nowhere = internal global [64 x i8] zeroinitializer, align 64\n",
            "!0 = !{i32 1}\n",
            "\n".join(sorted(declared.values())) + "\n",
            *bodies,
            packed_entry(self.name, operands, sizes),
            *functions.values(),
        ]
        return "\n".join(parts)


def _parameters(operands: int, sizes: int) -> str:
    pointers = (f"ptr %a{n}" for n in range(operands))
    return ", ".join([*pointers, "ptr %workspace", *(f"i64 %s{n}" for n in range(sizes))])


def packed_entry(name: str, count: int, sizes: int = 0) -> str:
    """The text of ``@name.packed`` for a kernel of so many operands and sizes."""
    lines = [f"define void @{name}.packed(ptr %args) nounwind {{"]
    types = ["ptr"] * (count + 1) + ["i64"] * sizes
    for n, type in enumerate(types):
        lines.append(f"  %p{n} = getelementptr i64, ptr %args, i64 {n}")
        lines.append(f"  %a{n} = load {type}, ptr %p{n}, align 8")
    handed = ", ".join(f"{type} %a{n}" for n, type in enumerate(types))
    lines += [f"  call void @{name}({handed})", "  ret void", "}", ""]
    return "\n".join(lines)


_SWITCHED_SYMBOL = "lw_loop_on"
_SWITCHED = """
define internal void @lw_loop_on(ptr %fn, ptr %context, i64 %n, i1 %serial) nounwind {
  br i1 %serial, label %here, label %pool
here:
  %some = icmp sgt i64 %n, 0
  br i1 %some, label %all, label %done
all:
  call void %fn(ptr %context, i64 0, i64 %n)
  br label %done
pool:
  call void @lw_parallel_for(ptr %fn, ptr %context, i64 %n)
  br label %done
done:
  ret void
}
"""


@dataclass(frozen=True, slots=True)
class Kernel:
    """A kernel as LLVM module text, and what it must be handed.

    ``workspace_bytes`` depends on the ``sizes``, whose values it is passed in this order.
    ``size_values`` are these values if the kernel is looked at for some (``at``). ``cases`` are the
    nests for values of the size ``chosen_by`` up to a number, if there is more than ``nest``.
    """

    name: str
    code: ModuleText
    operands: tuple[Operand, ...]
    workspace_bytes: IntExpr
    nest: Nest
    parallel: bool
    sizes: tuple[Symbol, ...] = ()
    size_values: tuple[int, ...] = ()
    cases: tuple[tuple[int, Nest], ...] = ()
    chosen_by: IntExpr = 0

    @property
    def text(self) -> str:
        """The LLVM text of the module."""
        return self.code.text

    @property
    def stores(self) -> int:
        """Number of stores that a call executes at typical sizes, those of a vector counted one by
        one."""
        return executions(self.nest.body)

    def nest_for(self, values: Mapping[str, int]) -> Nest:
        """The nest that runs at some sizes."""
        value = evaluate(self.chosen_by, values)
        return next((nest for at_most, nest in self.cases if value <= at_most), self.nest)

    def at(self, values: Mapping[str, int]) -> Kernel:
        """Returns the same code with what it must be handed for these sizes."""
        if not self.sizes:
            return self
        return replace(
            self,
            operands=tuple(operand.at(values) for operand in self.operands),
            workspace_bytes=evaluate(self.workspace_bytes, values),
            nest=self.nest_for(values).at(values),
            sizes=(),
            size_values=tuple(values[s.name] for s in self.sizes),
            cases=(),
            chosen_by=0,
        )


def compile_kernel(
    prim: PrimFunc, schedule: Schedule | Cases, target: Target, name: str | None = None
) -> Kernel:
    """The kernel of ``prim`` under ``schedule`` for ``target``; ScheduleError if it is illegal, or
    beyond the limits of ``ir/schedule/limits.py``.

    Its symbol is ``name``, else ``lw_`` and the PrimFunc's: a kernel called plain ``ceil`` would
    take the place of the C library's in its own module.
    """
    if isinstance(schedule, Cases):
        return _compile_cases(prim, schedule, target, name or f"lw_{prim.name}")
    return compile_nest(prim, apply_schedule(prim, schedule), target, name)


def compile_nest(prim: PrimFunc, nest: Nest, target: Target, name: str | None = None) -> Kernel:
    """The kernel of a loop nest of ``prim``, as ``compile_kernel`` makes it of its schedule."""
    check_limits(prim, nest, target)
    blocked = _blocked(prim, nest, target)
    return emit_kernel(blocked, target, name or f"lw_{prim.name}", _most(nest, blocked))


def _compile_cases(prim: PrimFunc, cases: Cases, target: Target, name: str) -> Kernel:
    """The kernel with a nest for each range of a size."""
    variants, choices = variants_of(prim, cases)
    module = KernelModule(name, target)
    nests: list[Nest] = []
    for number, variant in enumerate(variants):
        check_limits(variant.prim, variant.nest, target)
        blocked = _blocked(variant.prim, variant.nest, target)
        module.add_case(number, blocked, _most(variant.nest, blocked), variant.switched)
        nests.append(blocked)
    kernel = _case_kernel(prim, cases, nests, choices, name)
    module.add_choice(cases.size, choices, variants, len(kernel.operands), prim.sizes)
    text = module.text(len(kernel.operands), len(prim.sizes))
    check_text(text)
    return replace(kernel, code=ModuleText.of(text), parallel=module.parallel)


def _case_kernel(
    prim: PrimFunc, cases: Cases, nests: Sequence[Nest], choices: Sequence[Choice], name: str
) -> Kernel:
    """The interface of a kernel with these nests, which has no text yet."""
    whole = {size.name: Dim((((size,), 1),)) for size in prim.sizes}
    spaces = [dims.substitute(workspace_bytes(nest), whole) for nest in nests]
    space = spaces[0]
    for other in spaces[1:]:
        space = resolve(int_max(space, other), {})
    operands = tuple(
        operand if operand.pack else replace(operand, buffer=prim.buffers[operand.buffer.name])
        for operand in nests[-1].operands
    )
    choosing = tuple((choice.at_most, nests[choice.variant]) for choice in choices)
    return Kernel(
        name,
        ModuleText.of(""),
        operands,
        space,
        nests[choices[-1].variant],
        False,
        sizes=prim.sizes,
        cases=choosing,
        chosen_by=cases.size,
    )


def _blocked(prim: PrimFunc, nest: Nest, target: Target) -> Nest:
    """Returns the nest with its long sums in blocks."""
    if isinstance(prim, Procedure):  # its sums have the order that it states
        return nest
    if target.sums is not None:
        return block_sums(target.sums.continued(nest), None)
    return block_sums(nest, target.vector_registers * target.vector_bytes // 4)


def _most(nest: Nest, blocked: Nest) -> int:
    """Returns the limit of a nest's values: blocks write some again for their rest."""
    return text_limit(nest) * (2 if blocked is not nest else 1)


def stored_kernel(
    prim: PrimFunc, schedule: Schedule | Cases, target: Target, name: str, entry: str, code: bytes
) -> Kernel:
    """Returns what ``compile_kernel`` would, without writing its text: its object code, which is
    that ``entry`` of the disk cache, is known. ScheduleError if the schedule is illegal."""
    text = ModuleText(entry, lambda: compile_kernel(prim, schedule, target, name).text, entry)
    parallel = b"lw_parallel_for" in code
    if isinstance(schedule, Cases):
        variants, choices = variants_of(prim, schedule)
        nests = [_blocked(v.prim, v.nest, target) for v in variants]
        kernel = _case_kernel(prim, schedule, nests, choices, name)
        return replace(kernel, code=text, parallel=parallel)
    nest = _blocked(prim, apply_schedule(prim, schedule), target)
    space = workspace_bytes(nest)
    return Kernel(name, text, nest.operands, space, nest, parallel, sizes=nest.sizes)


def emit_kernel(nest: Nest, target: Target, name: str, most: int | None = None) -> Kernel:
    """LLVM module text for a loop nest; of ``most`` values, if they are not estimated here."""
    module = KernelModule(name, target)
    module.add(nest, most or text_limit(nest))
    text = module.text(len(nest.operands), len(nest.sizes))
    check_text(text)
    code, space = ModuleText.of(text), workspace_bytes(nest)
    return Kernel(name, code, nest.operands, space, nest, module.parallel, sizes=nest.sizes)


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


@dataclass(frozen=True, slots=True)
class Variant:
    """A nest of a PrimFunc whose size has a narrower range. ``switched``: some calls run its
    parallel loops on the calling thread."""

    prim: PrimFunc
    nest: Nest
    switched: bool


@dataclass(frozen=True, slots=True)
class Choice:
    """The variant, by number, for sizes up to ``at_most``."""

    at_most: int
    variant: int
    serial: bool


def variants_of(prim: PrimFunc, cases: Cases) -> tuple[list[Variant], list[Choice]]:
    """Returns the variants, and the choices in ascending order, the last of which has no limit.

    Raises ScheduleError if a schedule is illegal, or packs operands in another way than others.

    ::

        n <= 1: A          =>   @k.0    A for n = 1, whose code has no size
        n <= 40: B              @k.1    C for n in 2..4096, called with serial = (n <= 40)
        otherwise: C

    where B is C without its parallel loops.
    """
    intervals = list(cases.intervals())
    schedules = {interval.schedule for interval in intervals}
    shared = {on_one_thread(s): s for s in schedules if on_one_thread(s) != s}
    ends: dict[Schedule, tuple[int, int]] = {}  # the sizes for which a nest is used
    for interval in intervals:
        schedule = shared.get(interval.schedule, interval.schedule)
        low, _ = ends.get(schedule, (interval.low, 0))
        ends[schedule] = low, interval.high
    order = list(ends)
    choices = [
        Choice(i.high, order.index(shared.get(i.schedule, i.schedule)), i.schedule in shared)
        for i in intervals
    ]
    variants: list[Variant] = []
    for number, (schedule, (low, high)) in enumerate(ends.items()):
        narrowed = _narrowed(prim, cases.size, low, high)
        switched = any(c.serial for c in choices if c.variant == number)
        variants.append(Variant(narrowed, apply_schedule(narrowed, schedule), switched))
    layouts = {tuple(o.pack and o.pack.layout for o in v.nest.operands) for v in variants}
    if len(layouts) > 1:
        raise ScheduleError("the schedules for a range of sizes pack operands in different ways")
    return variants, choices


def _narrowed(prim: PrimFunc, expr: IntExpr, low: int, high: int) -> PrimFunc:
    """Returns the PrimFunc for values of a size in a range."""
    atoms = expr.terms[0][0] if isinstance(expr, Dim) and len(expr.terms) == 1 else ()
    if len(atoms) != 1 or not isinstance(atoms[0], Symbol) or expr != Dim(((atoms, 1),)):
        return prim
    name = atoms[0].name
    return prim.at({name: low if low == high else size(name, low, high)})
