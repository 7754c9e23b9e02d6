"""Instructions of programs as LLVM text: calls and copies, jumps, addresses, polls for signals.

A body without control flow is one basic block, whose addresses stand where they are used first. One
with control flow has all of its addresses in the entry block, from where they dominate every use,
and memory ``in registers`` is an ``alloca`` there, which LLVM promotes. Loops count down the
nanoseconds that their iterations are expected to take, and ask for signals when they are over
(``runtime/status.py``): ``while`` in each iteration, ``for`` between runs of iterations.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

from ..ir.dims import Dim, substitute
from ..ir.errors import RAISE_FAILED, InternalError
from ..ir.program import nodes
from ..ir.program.analysis import Place
from ..ir.program.updates import begins_as_input
from .body_memory import FRAMES_END, MemoryWriter
from .library_calls import unless_zero
from .runtime.call_text import RAISED, TOO_DEEP
from .runtime.status import POLL_NANOSECONDS

MOST_FRAME_BYTES = 1024
"""Bytes of scratch memory up to which inlined code has it in the frame of the entry: a recursive
function has it at every depth."""


_SUMS = {"+": "add i64", "-": "sub i64", "*": "mul i64"}

# It touches nothing that the code around it sees, but the clock.
POLL_TEXT = (
    "declare i64 @lw_poll(ptr captures(none)) nounwind "
    "memory(argmem: readwrite, inaccessiblemem: readwrite)\n"
    "declare {i64, i1} @llvm.usub.with.overflow.i64(i64, i64)"
)


class BodyWriter(MemoryWriter):
    """Writes the instructions of a program, or of one of its functions.

    ``slots`` are the places of regions in ``%args``, ``symbols`` names the functions of kernels
    outside of the module and ``inlined`` those inside of it; ``sites`` those of library calls, by
    the identity of the instruction; ``results`` are the types of the
    values that are returned behind the status.
    """

    def body(self, body: Sequence[nodes.Instr]) -> None:
        """Some instructions in order."""
        if self.meter is not None:
            self.meter.entered(self, body)
        for instr in body:
            if self.meter is not None:
                self.meter.before(self, instr)
            match instr:
                case nodes.Alloc(region):
                    self.places[region.name] = Place(region.name, 0, region.nbytes)
                    self.allocs[region.name] = instr
                    if region.name in self.swapped:
                        place = self.memory_of(region.name)
                        self.lines.append(f"  store ptr {place}, ptr {self.variable(region.name)}")
                case nodes.Alias(region, name, offset):
                    source = self.places[name]
                    begin = source.begin + offset
                    self.places[region.name] = Place(source.root, begin, begin + region.nbytes)
                case nodes.Call():
                    self.call(instr, self.symbol(instr))
                case nodes.Library():
                    self.library(instr)
                case nodes.Copy():
                    self.copy(instr)
                case nodes.Swap():
                    self.swap(instr)
                case nodes.SetSize():
                    self.set_size(instr)
                case nodes.If():
                    self.branch(instr)
                case nodes.While():
                    self.while_loop(instr)
                case nodes.For():
                    self.for_loop(instr)
                case nodes.Free():
                    pass
                case nodes.Invoke():
                    self.invoke(instr)
            if self.meter is not None:
                self.meter.after(self, instr)

    def symbol(self, call: nodes.Call) -> str:
        """The native function of a kernel, which is declared unless it is a part of the module."""
        if call.inline:
            return self.inlined.symbols[call.kernel]
        symbol, count = self.symbols[call.kernel], (len(call.operands) + 1, len(call.sizes))
        if self.declared.setdefault(symbol, count) != count:
            raise InternalError(f"kernel @{call.kernel} has two operand counts", notes=(str(call),))
        return f'@"{symbol}"'

    def call(self, call: nodes.Call, symbol: str) -> None:
        """The call of one kernel."""
        for stated in call.ranges:
            self.assume(stated)
        pointers = [self.pointer(o.name) for o in call.operands]
        pointers.append("null" if call.workspace is None else self.workspace(call))
        given = [f"ptr {p}" for p in pointers] + [f"i64 {self.size(s)}" for s in call.sizes]
        self.lines.append(f"  call void {symbol}({', '.join(given)})")

    def set_size(self, instr: nodes.SetSize) -> None:
        """Notes a size that data decides. What is not in its range would be an error of whoever
        counts; it is limited, so that no memory is touched that is not there."""
        name, count = self.fresh("set"), self.pointer(instr.count)
        most = self.size(instr.most)
        memory = self.set_sizes[instr.size.name] = self.alloca(f"size {instr.size}", "i64", 8)
        self.lines += [
            f"  %{name}.count = load i64, ptr {count}, align 8",
            f"  %{name}.some = call i64 @llvm.smax.i64(i64 %{name}.count, i64 0)",
            f"  %{name} = call i64 @llvm.smin.i64(i64 %{name}.some, i64 {most})",
            f"  store i64 %{name}, ptr {memory}, align 8",
        ]

    def assume(self, stated: nodes.ScalarRange) -> None:
        """Tells LLVM the range of a scalar."""
        name, pointer = self.fresh("stated"), self.pointer(stated.name)
        dtype = self.regions[stated.name].dtype
        type, sign = dtype.llvm, "s" if dtype.is_signed else "u"
        self.lines.append(f"  %{name} = load {type}, ptr {pointer}")
        for relation, bound in (f"{sign}ge", stated.low), (f"{sign}le", stated.high):
            test = self.fresh("stated")
            self.lines.append(f"  %{test} = icmp {relation} {type} %{name}, {bound}")
            self.lines.append(f"  call void @llvm.assume(i1 %{test})")

    def workspace(self, call: nodes.Call) -> str:
        """The address of a call's scratch memory. That of inlined code lies in the frame of the
        entry, so that LLVM keeps in registers what the code around does not see."""
        assert call.workspace is not None
        region = self.allocs[call.workspace].region
        if call.inline and isinstance(region.nbytes, int) and region.nbytes <= MOST_FRAME_BYTES:
            return self.registers(region)
        return self.pointer(call.workspace)

    def library(self, library: nodes.Library) -> None:
        """The call of a library function, and a way out if it raises."""
        name, site = self.fresh("library"), f'ptr @"{self.sites[id(library)]}"'
        pointers = [self.pointer(o.name) for o in library.operands]
        if library.function == RAISE_FAILED:
            # What the library reads is a copy: loops keep the number itself in a register.
            copy = self.alloca(f"{name}.copy", "i64", 8)
            lines = unless_zero(name, pointers[0])
            self.lines += [*lines, f"  store i64 %{name}.found, ptr {copy}, align 8"]
            pointers[0] = copy
        block = self.row(name, "ptr", pointers)
        call = f"@lw_library({site}, ptr {block})"
        axes = [size for o in library.operands for size in self.regions[o.name].shape]
        if any(isinstance(size, Dim) for size in axes):
            shapes = self.row(f"{name}.axis", "i64", [self.size(size) for size in axes])
            call = f"@lw_library_sized({site}, ptr {block}, ptr {shapes})"
        self.lines += [
            f"  %{name} = call i32 {call}",
            f"  %{name}.fine = icmp eq i32 %{name}, 0",
            f"  br i1 %{name}.fine, label %{name}.go, label %{self.failure(RAISED)}",
            f"{name}.go:",
        ]

    def row(self, name: str, type: str, values: Sequence[str]) -> str:
        """The address of values one after the other, of 8 bytes each."""
        block = self.alloca(f"{len(values)} x {type}", f"[{len(values)} x {type}]", 8)
        for n, value in enumerate(values):
            self.lines += [
                f"  %{name}.{n} = getelementptr {type}, ptr {block}, i64 {n}",
                f"  store {type} {value}, ptr %{name}.{n}, align 8",
            ]
        return block

    def copy(self, copy: nodes.Copy) -> None:
        """A copy of one region."""
        place = self.places[copy.target]
        target, source = self.pointer(copy.target), self.pointer(copy.source)
        size = nbytes = self.size(place.end - place.begin)
        if any(begins_as_input(copy, u, self.places) for u in self.program.updates if u.in_place):
            same, size = self.fresh("same"), f"%{self.fresh('bytes')}"
            self.lines += [
                f"  %{same} = icmp eq ptr {target}, {source}",
                f"  {size} = select i1 %{same}, i64 0, i64 {nbytes}",
            ]
        self.lines.append(
            f"  call void @llvm.memcpy.p0.p0.i64(ptr {target}, ptr {source}, i64 {size}, i1 false)"
        )

    def swap(self, swap: nodes.Swap) -> None:
        """Two allocations exchange their addresses."""
        one, other = self.pointer(swap.one), self.pointer(swap.other)
        self.lines.append(f"  store ptr {other}, ptr {self.variable(swap.one)}")
        self.lines.append(f"  store ptr {one}, ptr {self.variable(swap.other)}")

    def invoke(self, invoke: nodes.Invoke) -> None:
        """The call of a function, whose scalars are handed over by value."""
        function, name = self.functions[invoke.function], self.fresh("invoke")
        arena, frames = "%frames", "%frames"
        if invoke.frame is not None:
            arena = self.pointer(invoke.frame)
        elif function.arena != 0:
            frames = f"%{name}.frames"
            values = dict(zip(function.sizes, invoke.sizes, strict=True))
            nbytes = self.size(substitute(function.arena, values))
            self.lines += [
                f"  {frames} = getelementptr i8, ptr %frames, i64 {nbytes}",
                f"  %{name}.end.at = getelementptr i64, ptr %state, i64 {FRAMES_END}",
                f"  %{name}.end = load ptr, ptr %{name}.end.at, align 8",
                f"  %{name}.full = icmp ugt ptr {frames}, %{name}.end",
                f"  br i1 %{name}.full, label %{self.failure(TOO_DEEP)}, label %{name}.call",
                f"{name}.call:",
            ]
        values = ["ptr %args", "ptr %state", f"ptr {frames}", f"ptr {arena}"]
        returned: list[tuple[str, str]] = []
        for operand, type in zip(invoke.operands, function.types, strict=True):
            pointer = self.pointer(operand.name)
            if type is None:
                values.append(f"ptr {pointer}")
            elif operand.access.writes:
                returned.append((type, pointer))
            else:
                value = f"%{self.fresh('value')}"
                self.lines.append(f"  {value} = load {type}, ptr {pointer}")
                values.append(f"{type} {value}")
        values += [f"i64 {self.size(s)}" for s in invoke.sizes]
        self.lines.append(
            f"  %{name} = call {function.result_type} @{function.symbol}({', '.join(values)})"
        )
        status = f"%{name}"
        if returned:
            status = f"%{name}.status"
            self.lines.append(f"  {status} = extractvalue {function.result_type} %{name}, 0")
        self.lines += [
            f"  %{name}.fine = icmp eq i32 {status}, 0",
            f"  br i1 %{name}.fine, label %{name}.go, label %{name}.failed",
            f"{name}.failed:",
            *self.returned(status),
            f"{name}.go:",
        ]
        for n, (type, pointer) in enumerate(returned, 1):
            self.lines += [
                f"  %{name}.{n} = extractvalue {function.result_type} %{name}, {n}",
                f"  store {type} %{name}.{n}, ptr {pointer}",
            ]

    def returned(self, status: str) -> list[str]:
        """The lines that return a status that is a value."""
        if not self.results:
            return [f"  ret i32 {status}"]
        value, type = f"%{self.fresh('failed')}", self.result_type
        return [
            f"  {value} = insertvalue {type} zeroinitializer, i32 {status}, 0",
            f"  ret {type} {value}",
        ]

    # -- control flow --------------------------------------------------------------------------

    def branch(self, branch: nodes.If) -> None:
        """One of two bodies."""
        name = self.fresh("if")
        orelse = f"{name}.else" if branch.orelse else f"{name}.end"
        self.lines.append(
            f"  br i1 {self.condition(branch.condition)}, label %{name}.then, label %{orelse}"
        )
        self.lines.append(f"{name}.then:")
        self.body(branch.then)
        self.jump(f"{name}.end")
        if branch.orelse:
            self.lines.append(f"{name}.else:")
            self.body(branch.orelse)
            self.jump(f"{name}.end")
        self.lines.append(f"{name}.end:")

    def while_loop(self, loop: nodes.While) -> None:
        """The head, the test, the body, and back."""
        name = self.fresh("while")
        self.jump(f"{name}.head")
        self.lines.append(f"{name}.head:")
        self.body(loop.head)
        self.lines.append(
            f"  br i1 {self.condition(loop.condition)}, label %{name}.body, label %{name}.end"
        )
        self.lines.append(f"{name}.body:")
        self.poll(str(max(1, self.cost((*loop.head, *loop.body)))))
        self.body(loop.body)
        self.jump(f"{name}.head")
        self.lines.append(f"{name}.end:")

    def for_loop(self, loop: nodes.For) -> None:
        """A loop; one with places is there twice, for places that are in range and with checks."""
        name = self.fresh("for")
        index = loop.index
        self.places[index.name] = Place(index.name, 0, index.nbytes)
        self.allocs[index.name] = nodes.Alloc(index, in_registers=True)
        end = str(loop.extent)
        if isinstance(loop.extent, str):
            end = f"%{name}.extent"
            self.lines.append(f"  {end} = load i64, ptr {self.pointer(loop.extent)}, align 8")
        if not loop.places or self.meter is not None:
            self.iterations(name, loop, end)
            return
        self.lines.append(
            f"  br i1 {self.inside(loop, end)}, label %{name}.inside, label %{name}.checked"
        )
        for copy, places in ("inside", loop.places), ("checked", ()):
            self.lines.append(f"{name}.{copy}:")
            self.iterations(self.fresh(f"{name}.{copy}"), loop, end, places)
            self.jump(f"{name}.done")
        self.lines.append(f"{name}.done:")

    def inside(self, loop: nodes.For, end: str) -> str:
        """Returns whether all places of a loop are in range, of type i1. What moves does so no
        farther, and no more often, than its axis is long: nothing on its way overflows."""
        last, tests = self.value("sub i64", end, "1"), list[str]()
        for place in loop.places:
            tests.append(self.is_inside(place, loop, "0"))
            if loop.index.name in place.scalars:
                length = self.size(place.length)
                first, second = (self.sum(place.place, loop, index) for index in "01")
                step = self.value("add i64", self.value("sub i64", second, first), length)
                tests += [
                    self.value("icmp ule i64", step, self.value("shl i64", length, "1")),
                    self.value("icmp ule i64", end, length),
                    self.is_inside(place, loop, last),
                ]
        return functools.reduce(lambda one, other: self.value("and i1", one, other), tests)

    def is_inside(self, place: nodes.InRange, loop: nodes.For, index: str) -> str:
        """Returns whether one place is in range for an index of the loop, of type i1."""
        value = self.sum(place.place, loop, index)
        return self.value("icmp ult i64", value, self.size(place.length))

    def sum(self, value: nodes.Sum, loop: nodes.For, index: str) -> str:
        """The value of a sum of scalars."""
        match value:
            case (sign, one, other):
                pair = self.sum(one, loop, index), self.sum(other, loop, index)
                return self.value(_SUMS[sign], *pair)
            case loop.index.name:
                return index
            case str():
                return self.value(f"load i64, ptr {self.pointer(value)}, align 8")
            case _:
                return str(value)

    def iterations(
        self, name: str, loop: nodes.For, end: str, places: Sequence[nodes.InRange] = ()
    ) -> None:
        """The body for each index, which is counted beside the region that the body may read;
        ``places`` are in range.

        A loop that may take long runs some iterations, polls, and goes on::

            chunk:  if n >= extent: goto end
                    stop = min(n + run, extent); poll((stop - n) * cost)
            head:   if n >= stop: goto chunk
                    body; n += 1; goto head
        """
        index = loop.index
        counter = self.alloca(f"{name}.counter", "i64", 8)
        self.lines.append(f"  store i64 0, ptr {counter}, align 8")
        after = f"{name}.end"
        if not self.is_short(loop):
            after, end = f"{name}.chunk", self.chunk(name, counter, end, self.cost(loop.body))
        self.jump(f"{name}.head")
        self.lines += [
            f"{name}.head:",
            f"  %{name}.n = load i64, ptr {counter}, align 8",
            f"  %{name}.more = icmp slt i64 %{name}.n, {end}",
            f"  br i1 %{name}.more, label %{name}.body, label %{after}",
            f"{name}.body:",
            f"  store i64 %{name}.n, ptr {self.pointer(index.name)}, align 8",
        ]
        for place in places:
            test = self.is_inside(place, loop, f"%{name}.n")
            self.lines.append(f"  call void @llvm.assume(i1 {test})")
        self.body(loop.body)
        self.lines += [
            f"  %{name}.next = add nuw nsw i64 %{name}.n, 1",
            f"  store i64 %{name}.next, ptr {counter}, align 8",
        ]
        self.jump(f"{name}.head")
        self.lines.append(f"{name}.end:")

    def chunk(self, name: str, counter: str, end: str, cost: int) -> str:
        """The begin of a run of iterations; returns where it stops."""
        run = max(1, POLL_NANOSECONDS // max(1, cost))
        self.jump(f"{name}.chunk")
        self.lines += [
            f"{name}.chunk:",
            f"  %{name}.first = load i64, ptr {counter}, align 8",
            f"  %{name}.left = sub i64 {end}, %{name}.first",
            f"  %{name}.any = icmp sgt i64 %{name}.left, 0",
            f"  br i1 %{name}.any, label %{name}.run, label %{name}.end",
            f"{name}.run:",
            f"  %{name}.whole = icmp slt i64 {run}, %{name}.left",
            f"  %{name}.count = select i1 %{name}.whole, i64 {run}, i64 %{name}.left",
            f"  %{name}.stop = add nsw i64 %{name}.first, %{name}.count",
            f"  %{name}.cost = mul i64 %{name}.count, {max(1, cost)}",
        ]
        self.poll(f"%{name}.cost")
        return f"%{name}.stop"

    # -- addresses -----------------------------------------------------------------------------
