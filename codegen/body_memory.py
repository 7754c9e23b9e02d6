"""Text of what every instruction of a program needs: addresses, failures, and polls."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Protocol

from ..ir.dataclass import dataclass
from ..ir.dims import IntExpr, as_int, size_symbols, typical
from ..ir.errors import InternalError
from ..ir.program import nodes
from ..ir.program.analysis import Place, places, regions, swap_groups, written
from .inlining import LIBRARY_NANOSECONDS, Inlined
from .runtime.call_text import RAISED
from .runtime.status import POLL_NANOSECONDS
from .size_text import SizeWriter

CACHE_LINE = 64

CALL_NANOSECONDS = 10
"""Expected of a kernel that nothing is known of."""

COPIED_BYTES = 16
"""Bytes that a copy moves in a nanosecond."""

CLOCK, FRAMES_END, STACK_END = 1, 2, 3
"""Words of the state that functions share: the time at which Python is asked next, where the memory
of frames ends, and how far the native stack may go. The first word holds nanoseconds."""


@dataclass(frozen=True, slots=True)
class Interface:
    """A function of a program: its symbol, the bytes of its arena, the type of each operand that
    is handed over by value (None: by address), and the names of its sizes."""

    symbol: str
    arena: IntExpr
    types: tuple[str | None, ...]
    result_type: str
    sizes: tuple[str, ...] = ()


class Meter(Protocol):
    """Writes text around instructions, to measure them; ``entered`` stands at the begin of each
    body."""

    def entered(self, writer: MemoryWriter, body: Sequence[nodes.Instr]) -> None: ...

    def before(self, writer: MemoryWriter, instr: nodes.Instr) -> None: ...

    def after(self, writer: MemoryWriter, instr: nodes.Instr) -> None: ...


def unwritten_scalars(program: nodes.Program) -> frozenset[str]:
    """The inputs and constants that fit into a register, and that no instruction writes."""
    where = places(program)
    given = (*program.inputs, *(c.region for c in program.constants))
    fitting = {region.name for region in given if register_type(region) is not None}
    return frozenset(fitting - {where[name].root for name in written(program.body)})


def register_type(region: nodes.Region) -> str | None:
    """The type of a scalar that fits into a register; None for any other region."""
    if region.nbytes != region.dtype.bytes or region.dtype.bytes > 8:
        return None
    return region.dtype.llvm_memory if region.dtype.is_float else f"i{8 * region.dtype.bytes}"


class MemoryWriter:
    """Writes addresses of buffers, and what ends a call early."""

    def __init__(
        self,
        program: nodes.Program,
        slots: Mapping[str, int],
        symbols: Mapping[str, str],
        inlined: Inlined,
        costs: Mapping[str, int],
        functions: Mapping[str, Interface],
        straight: bool = False,
    ) -> None:
        self.program = program
        self.constants = program.constants
        self.functions = functions
        self.slots = slots
        self.symbols = symbols
        self.inlined = inlined
        self.costs = costs
        self.places: dict[str, Place] = {}
        self.kept = frozenset[str]() if straight else unwritten_scalars(program)
        self.allocs: dict[str, nodes.Alloc] = {}
        self.swapped = swap_groups(program)
        self.lines: list[str] = []
        # Where addresses are computed: in the entry block if there are others.
        self.addresses: list[str] = self.lines if straight else []
        self.values: dict[tuple[str, IntExpr], str] = {}
        self.declared: dict[str, tuple[int, int]] = {}
        self.sizes = SizeWriter(self.addresses, {})
        self.set_sizes: dict[str, str] = {}  # the memory of those that instructions have set
        self.count = 0
        self.given: dict[str, str] = {}  # addresses of parameters by name
        self.results: list[str] = []
        self.failures: set[int] = set()
        self.polls = False
        self.meter: Meter | None = None
        self.sites: Mapping[int, str] = {}

    @cached_property
    def regions(self) -> dict[str, nodes.Region]:
        """The regions of the program by name."""
        return regions(self.program)

    @property
    def result_type(self) -> str:
        """The type of what is returned: the status, and values of results behind it."""
        return f"{{ {', '.join(['i32', *self.results])} }}" if self.results else "i32"

    def failed(self) -> list[str]:
        """The blocks from which an error is returned."""
        rest = "".join(f", {type} zeroinitializer" for type in self.results)
        lines: list[str] = []
        for status in sorted(self.failures):
            value = f"{{ i32 {status}{rest} }}" if self.results else str(status)
            lines += [f"failed.{status}:", f"  ret {self.result_type} {value}"]
        return lines

    def failure(self, status: int) -> str:
        """The label from which a status is returned."""
        self.failures.add(status)
        return f"failed.{status}"

    def size(self, expr: IntExpr) -> str:
        """The value of an expression over sizes, of which instructions may have set some."""
        names = [name for name in size_symbols(expr) if name in self.set_sizes]
        if not names:
            return self.sizes.value(expr)
        prefix = self.fresh("of")
        values = dict(self.sizes.values)
        for n, name in enumerate(names):
            values[name] = f"%{prefix}.size{n}"
            self.lines.append(f"  {values[name]} = load i64, ptr {self.set_sizes[name]}, align 8")
        return SizeWriter(self.lines, values, prefix).value(expr)

    def poll(self, cost: str) -> None:
        """Lowers the nanoseconds that are left by ``cost``; asks for signals if none are left."""
        self.polls = True
        name = self.fresh("poll")
        left, clock = self.time()
        self.lines += [
            f"  %{name}.before = load i64, ptr {left}, align 8",
            f"  %{name}.pair = call {{i64, i1}} @llvm.usub.with.overflow.i64("
            f"i64 %{name}.before, i64 {cost})",
            f"  %{name}.left = extractvalue {{i64, i1}} %{name}.pair, 0",
            f"  store i64 %{name}.left, ptr {left}, align 8",
            f"  %{name}.over = extractvalue {{i64, i1}} %{name}.pair, 1",
            f"  br i1 %{name}.over, label %{name}.ask, label %{name}.go, "
            '!prof !{!"branch_weights", i32 1, i32 100000}',
            f"{name}.ask:",
            f"  %{name}.more = call i64 @lw_poll(ptr {clock})",
            f"  store i64 %{name}.more, ptr {left}, align 8",
            f"  %{name}.leave = icmp slt i64 %{name}.more, 0",
            f"  br i1 %{name}.leave, label %{self.failure(RAISED)}, label %{name}.go",
            f"{name}.go:",
        ]

    def time(self) -> tuple[str, str]:
        """The addresses of the nanoseconds that are left, and of the time to ask Python at."""
        if not self.functions:
            left = self.alloca("nanoseconds", "i64", 8, POLL_NANOSECONDS)
            return left, self.alloca("clock", "i64", 8, 0)
        return "%state", self.shifted("%state", "%state", 8 * CLOCK)

    def cost(self, body: Sequence[nodes.Instr]) -> int:
        """The nanoseconds that some instructions are expected to take, without loops that poll."""
        total = 0
        for instr in body:
            match instr:
                case nodes.Call():
                    total += self.costs.get(instr.kernel, CALL_NANOSECONDS)
                case nodes.Library():
                    total += LIBRARY_NANOSECONDS
                case nodes.Copy(_, target):
                    place = self.places.get(target)
                    total += 1 + typical(place.end - place.begin) // COPIED_BYTES if place else 1
                case nodes.If():
                    total += max(self.cost(instr.then), self.cost(instr.orelse))
                case nodes.For() if self.is_short(instr):
                    total += _most(instr) * self.cost(instr.body)
                case _:
                    pass
        return total

    def is_short(self, loop: nodes.For) -> bool:
        """True if a loop need not poll: one that polls around it counts it."""
        return _most(loop) * self.cost(loop.body) <= POLL_NANOSECONDS

    def condition(self, name: str) -> str:
        """The value of a bool scalar, of type i1."""
        value = f"%{self.fresh('test')}"
        self.lines.append(f"  {value}.byte = load i8, ptr {self.pointer(name)}, align 1")
        self.lines.append(f"  {value} = icmp ne i8 {value}.byte, 0")
        return value

    def value(self, opcode: str, *operands: str) -> str:
        """A new value."""
        name = f"%{self.fresh('value')}"
        self.lines.append(f"  {name} = {opcode} {', '.join(operands)}")
        return name

    def jump(self, label: str) -> None:
        self.lines.append(f"  br label %{label}")

    def fresh(self, name: str) -> str:
        """A name that is not taken; labels and values share them."""
        self.count += 1
        return f"{name}{self.count}"

    def pointer(self, name: str) -> str:
        """The address of a region."""
        place = self.places[name]
        if place.root in self.swapped:
            value = f"%{self.fresh('swapped')}"
            self.lines.append(f"  {value} = load ptr, ptr {self.variable(place.root)}, align 8")
            if place.begin == 0:
                return value
            begin = self.sizes.value(place.begin)
            self.lines.append(f"  {value}.at = getelementptr i8, ptr {value}, i64 {begin}")
            return f"{value}.at"
        return self.memory_of(place.root, place.begin)

    def memory_of(self, root: str, begin: IntExpr = 0) -> str:
        """The address of a byte of an input, an output, a constant, or what was allocated."""
        if root in self.given:
            return self.shifted(self.given[root], root, begin)
        slot = self.slots.get(root)
        if slot is not None:
            address = self.argument(root, slot)
            if root in self.kept:
                address = self.kept_scalar(self.regions[root], address)
            return self.shifted(address, root, begin)
        alloc = self.allocs[root]
        if alloc.in_registers:
            return self.shifted(self.registers(alloc.region), root, begin)
        if alloc.offset is None:
            raise InternalError(f"program @{self.program.name}: %{root} is not planned")
        return self.shifted("%arena", "", alloc.offset + begin)

    def kept_scalar(self, region: nodes.Region, address: str) -> str:
        """The memory in registers of a scalar that nothing writes, so that no write elsewhere is
        thought to change it. Of constants LLVM sees the values."""
        if (region.name, -1) not in self.values:
            memory, type, value = self.registers(region), register_type(region), ""
            for constant in self.constants:
                if constant.region is region and constant.value is not None:
                    type = f"i{8 * region.dtype.bytes}"
                    value = str(int.from_bytes(constant.value.tobytes(), sys.byteorder))
            if not value:
                value = f"{memory}.kept"
                self.addresses.append(f"  {value} = load {type}, ptr {address}")
            self.addresses.append(f"  store {type} {value}, ptr {memory}")
        return self.registers(region)

    def argument(self, root: str, slot: int) -> str:
        """The address in one slot of ``args``."""
        value = self.values.get((root, 0))
        if value is None:
            value = self.values[root, 0] = f"%arg{slot}"
            self.addresses.append(f"  %slot{slot} = getelementptr i64, ptr %args, i64 {slot}")
            self.addresses.append(f"  {value} = load ptr, ptr %slot{slot}")
        return value

    def shifted(self, base: str, root: str, offset: IntExpr) -> str:
        """An address some bytes further on."""
        if offset == 0:
            return base
        value = self.values.get((root, offset))
        if value is None:
            value = self.values[root, offset] = f"%at{len(self.values)}"
            nbytes = self.sizes.value(offset)
            self.addresses.append(f"  {value} = getelementptr i8, ptr {base}, i64 {nbytes}")
        return value

    def registers(self, region: nodes.Region) -> str:
        """The memory of a few bytes; kernels want more than one element on a cache line."""
        nbytes = as_int(region.nbytes)
        align = region.dtype.bytes if nbytes <= region.dtype.bytes else CACHE_LINE
        return self.alloca(region.name, f"[{nbytes} x i8]", align)

    def variable(self, root: str) -> str:
        """The memory that holds the address of an allocation that is swapped."""
        return self.alloca(f"{root}.address", "ptr", 8)

    def alloca(self, name: str, type: str, align: int, initial: int | None = None) -> str:
        """Memory in the frame of the entry."""
        value = self.values.get((name, -1))
        if value is None:
            value = self.values[name, -1] = f"%in{len(self.values)}"
            self.addresses.append(f"  {value} = alloca {type}, align {align}")
            if initial is not None:
                self.addresses.append(f"  store {type} {initial}, ptr {value}, align {align}")
        return value


def _most(loop: nodes.For) -> int:
    """The iterations that a loop has at most."""
    most = loop.extent if isinstance(loop.extent, int) else loop.most
    return POLL_NANOSECONDS + 1 if most is None else most
