"""The native entry of a program, and its functions, as LLVM text.

::

    i32 @lw.entry(ptr args, ptr arena)       0: it has run; else see ``runtime/call_text.py``

``args`` points to the pointers of the inputs, outputs and constants, in the program's order. The
values of the sizes, i64, stand in the slots behind them; ``size_text`` says how they come there.
Kernels are called by number, so that programs which differ only in their kernels share an entry.

A function of the program is one of the module that nobody else sees. It returns a status, too, and
behind it results that are scalars::

    { i32, T... } @lw.function.f(ptr args, ptr state, ptr frames, ptr arena, operands..., sizes...)

``arena`` is its own memory, and ``frames`` where that of a function begins which it calls on the
stack. This is memory behind the program's arena. Before it calls others, a recursive function
checks how much is left of it and of the thread's own stack, and polls for signals.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..ir.dims import IntExpr, ceildiv
from ..ir.program import analysis as analysis
from ..ir.program.analysis import Place, calls, has_control_flow, instructions, recursive_functions
from ..ir.program.nodes import Access, For, Instr, Invoke, Program, SetSize
from ..ir.program.verify import ARENA_ALIGNMENT
from .body_memory import CLOCK, FRAMES_END, STACK_END, Interface, register_type
from .body_text import POLL_TEXT, BodyWriter
from .inlining import Inlined
from .library_calls import site_symbols
from .llvm.engine import WHOLE
from .runtime.call_text import TOO_DEEP
from .runtime.stack import stack_bytes
from .runtime.status import POLL_NANOSECONDS
from .size_text import INTRINSICS, sizes_text
from .update_entry import update_arena, update_text

ENTRY = "lw.entry"
"""The symbol of every entry."""

RETURNED = 2
"""Scalars that a function returns in registers; more are written to memory."""


def entry_text(
    program: Program,
    symbols: Mapping[str, str],
    costs: Mapping[str, int] | None = None,
    inlined: Inlined | None = None,
) -> str:
    """The LLVM text of the entry; ``symbols`` names the native function of each kernel, and
    ``costs`` has the nanoseconds that it is expected to take. ``inlined`` are those of ``inline``
    calls.

    The outputs that update inputs are the last ones.
    """
    text = EntryWriter(program, symbols, costs, inlined).text()
    if program.updates:
        text += update_text(program, ENTRY, has_control_flow(program))
    return text + sizes_of_call(program)


def sizes_of_call(program: Program) -> str:
    """The LLVM text of the function that finds and checks a call's sizes, if there are any."""
    if not program.sizes:
        return ""
    arenas = [arena_bytes(program), arena_bytes(program, update=True)]
    return sizes_text(program, arenas)


def arena_bytes(program: Program, update: bool = False) -> IntExpr:
    """Returns the bytes of the arena: of the program, with ``update`` of results that update
    inputs, and of the frames of recursive functions."""
    if recursive_functions(program):
        return frames_begin(program) + stack_bytes()
    return update_arena(program) if update else program.scratch


def frames_begin(program: Program) -> IntExpr:
    """Returns where the frames of recursive functions begin in the arena."""
    return ceildiv(update_arena(program), ARENA_ALIGNMENT) * ARENA_ALIGNMENT


class EntryWriter(BodyWriter):
    """Writes the entry of a program, instruction by instruction."""

    def __init__(
        self,
        program: Program,
        symbols: Mapping[str, str],
        costs: Mapping[str, int] | None = None,
        inlined: Inlined | None = None,
        more: int = 0,
    ) -> None:
        fixed = analysis.fixed_regions(program)
        super().__init__(
            program,
            {region.name: slot for slot, region in enumerate(fixed)},
            symbols,
            inlined or Inlined(),
            costs or {},
            {f.name: _interface(f) for f in program.functions},
            not has_control_flow(program),
        )
        self.places = {region.name: Place(region.name, 0, region.nbytes) for region in fixed}
        self.sites = site_symbols(program)
        for n, size in enumerate(program.sizes, len(fixed) + more):
            self.addresses += [
                f"  %size{n}.p = getelementptr i64, ptr %args, i64 {n}",
                f"  %size{n} = load i64, ptr %size{n}.p, align 8",
            ]
            self.sizes.values[size.name] = f"%size{n}"

    def text(self) -> str:
        """The whole module."""
        if self.functions:
            self.begin_state()
        self.body(self.program.body)
        functions = [_FunctionWriter(f, self) for f in self.program.functions]
        texts = [f.text() for f in functions]
        declared = dict(self.declared)
        for function in functions:
            declared |= function.declared
        declarations = [] if self.addresses is self.lines else [WHOLE]
        declarations += [
            f'declare void @"{symbol}"({", ".join(["ptr"] * pointers + ["i64"] * sizes)})'
            for symbol, (pointers, sizes) in declared.items()
        ]
        if self.program.sizes or any(isinstance(i, SetSize) for i in instructions(self.program)):
            declarations += INTRINSICS
        declarations += [f'@"{site}" = external global i8' for site in self.sites.values()]
        if self.sites:
            declarations.append("declare i32 @lw_library(ptr, ptr)")
            declarations.append("declare i32 @lw_library_sized(ptr, ptr, ptr)")
        if self.polls or any(f.polls for f in functions):
            declarations.append(POLL_TEXT)
        if any(call.ranges for call in calls(self.program)) or any(
            isinstance(i, For) and i.places for i in instructions(self.program)
        ):
            declarations.append("declare void @llvm.assume(i1)")
        if self.functions:
            declarations.append("declare ptr @lw_stack_end()")
            declarations.append("declare ptr @llvm.stacksave.p0()")
        before: list[str] = []
        if self.addresses is not self.lines:
            before = [*self.addresses, "  br label %start", "start:"]
        memcpy = "declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)"
        return "\n".join(
            [
                *declarations,
                *sorted(self.inlined.declarations - {memcpy, *declarations}),
                memcpy,
                f'define i32 @"{ENTRY}"(ptr %args, ptr %arena) {{',
                *before,
                *self.lines,
                "  ret i32 0",
                *self.failed(),
                "}",
                *texts,
                self.inlined.text,
            ]
        )

    def begin_state(self) -> None:
        """Fills in what all functions share."""
        begin = frames_begin(self.program)
        words = {
            0: f"i64 {POLL_NANOSECONDS}",
            CLOCK: "i64 0",
            FRAMES_END: "ptr %frames.end",
            STACK_END: "ptr %stack.end",
        }
        self.addresses += [
            f"  %state = alloca [{len(words)} x i64], align 8",
            f"  %frames = getelementptr i8, ptr %arena, i64 {self.sizes.value(begin)}",
            "  %frames.end = getelementptr i8, ptr %arena, i64 "
            + self.sizes.value(arena_bytes(self.program)),
            "  %stack.end = call ptr @lw_stack_end()",
        ]
        for word, value in words.items():
            self.addresses += [
                f"  %state.{word} = getelementptr i64, ptr %state, i64 {word}",
                f"  store {value}, ptr %state.{word}, align 8",
            ]


class _FunctionWriter(BodyWriter):
    """Writes a function of a program."""

    def __init__(self, function: Program, entry: EntryWriter) -> None:
        slots = {c.region.name: entry.slots[c.region.name] for c in entry.program.constants}
        super().__init__(
            function, slots, entry.symbols, entry.inlined, entry.costs, entry.functions
        )
        self.constants = entry.program.constants
        self.sites = entry.sites
        self.meter = entry.meter
        self.checked: set[int] = set()
        self.is_recursive = function.name in recursive_functions(entry.program)
        regions = (*(c.region for c in self.constants), *function.inputs, *function.outputs)
        self.places = {region.name: Place(region.name, 0, region.nbytes) for region in regions}

    def text(self) -> str:
        """The definition of the function."""
        function, interface = self.program, self.functions[self.program.name]
        params = ["ptr %args", "ptr %state", "ptr %frames", "ptr %arena"]
        returned: list[tuple[str, str]] = []
        for n, ((region, access), type) in enumerate(zip(function.params, interface.types)):
            if type is None:
                params.append(f"ptr %p{n}")
                self.given[region.name] = f"%p{n}"
                continue
            memory = self.given[region.name] = self.registers(region)
            if access is Access.IN:
                params.append(f"{type} %p{n}")
                self.addresses.append(f"  store {type} %p{n}, ptr {memory}")
            else:
                returned.append((type, memory))
        for n, size in enumerate(function.sizes):
            params.append(f"i64 %size{n}")
            self.sizes.values[size.name] = f"%size{n}"
        self.results = [type for type, _ in returned]
        if self.is_recursive:
            self.addresses += [
                "  %stack = call ptr @llvm.stacksave.p0()",
                f"  %stack.end.at = getelementptr i64, ptr %state, i64 {STACK_END}",
            ]
        self.body(function.body)
        value, type = "0", self.result_type
        if returned:
            value = f"{{ i32 0{''.join(f', {t} undef' for t, _ in returned)} }}"
        for n, (result, memory) in enumerate(returned, 1):
            self.lines += [
                f"  %result{n} = load {result}, ptr {memory}",
                f"  %returned{n} = insertvalue {type} {value}, {result} %result{n}, {n}",
            ]
            value = f"%returned{n}"
        return "\n".join(
            [
                f"define internal {type} @{interface.symbol}({', '.join(params)}) nounwind {{",
                *self.addresses,
                "  br label %start",
                "start:",
                *self.lines,
                f"  ret {type} {value}",
                *self.failed(),
                "}",
            ]
        )

    def body(self, body: Sequence[Instr]) -> None:
        """Some instructions in order. Where they call functions, the first call is preceded by
        checks: what calls nothing takes no more of the stack, and no long time."""
        first = next((i for i in body if isinstance(i, Invoke)), None)
        if self.is_recursive and first is not None:
            self.checked.add(id(first))
        super().body(body)

    def invoke(self, invoke: Invoke) -> None:
        """The call of a function, behind the checks."""
        if id(invoke) in self.checked:
            self.check()
        super().invoke(invoke)

    def check(self) -> None:
        """Leaves if the thread's stack is nearly full, or there is a signal."""
        name = self.fresh("stack")
        self.lines += [
            f"  %{name}.end = load ptr, ptr %stack.end.at, align 8",
            f"  %{name}.full = icmp ult ptr %stack, %{name}.end",
            f"  br i1 %{name}.full, label %{self.failure(TOO_DEEP)}, label %{name}.fits",
            f"{name}.fits:",
        ]
        self.poll(str(max(1, self.cost(self.program.body))))


def _interface(function: Program) -> Interface:
    """Returns how a function is called; a few of its scalar results are returned as values."""
    types: list[str | None] = []
    results: list[str] = []
    for region, access in function.params:
        type = register_type(region)
        if access is Access.INOUT or (access is Access.OUT and len(results) == RETURNED):
            type = None
        types.append(type)
        results += [type] if access is Access.OUT and type is not None else []
    result_type = f"{{ {', '.join(['i32', *results])} }}" if results else "i32"
    arena = ceildiv(function.scratch, ARENA_ALIGNMENT) * ARENA_ALIGNMENT
    sizes = tuple(size.name for size in function.sizes)
    return Interface(f'"lw.function.{function.name}"', arena, tuple(types), result_type, sizes)
