"""A program with its kernels as C: a function for each, and one that runs it all.

::

    static int32_t run(const int64_t *sizes, void *const *args, char *arena)

``args`` are the inputs, the outputs, then the constants; the result is 0, or one of ``STATUS``.
Scratch memory has its offset in the arena, behind which are the frames of functions that call
themselves.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from ...ir.dataclass import dataclass
from ...ir.dims import IntExpr, as_int, ceildiv, substitute
from ...ir.errors import RAISE_FAILED, UnsupportedError
from ...ir.loop.nest import Nest
from ...ir.program import nodes
from ...ir.program.analysis import fixed_regions, instructions, regions, scopes
from ...ir.program.nodes import Program, Region
from ...ir.program.verify import ARENA_ALIGNMENT
from ..bundle.wrapper import STATUSES
from ..entry import arena_bytes, frames_begin
from ..kernel import ALIGN, Kernel
from ..target import Target
from .nests import function_head, function_text
from .scalars import LARGEST_INDEX, IndexText, Names

RUN = "run"
STATUS = {word: number for number, (word, _) in enumerate(STATUSES)}
"""Statuses of ``run``, which are those of the bundle."""
MOST_DEPTH = 10_000
"""Calls of functions inside of each other: each takes some hundred bytes of the thread's stack."""


def helpers_text(file: str = "helpers.h") -> str:
    """Returns a file beside this one, by default what every file of C begins with."""
    return Path(__file__).with_name(file).read_text()


def program_text(
    program: Program, kernels: Mapping[str, Kernel], target: Target | None = None
) -> str:
    """Returns the C text of a program: its kernels, its functions, and ``run``. With ``target`` it
    has vectors as long as those of that machine, which GCC and Clang compile.

    Raises UnsupportedError for library calls, and for what kernels cannot have in C.
    """
    called = sorted({i.kernel for i in instructions(program) if isinstance(i, nodes.Call)})
    names = Names([RUN])
    symbols = _Symbols(
        {name: names.of(f"kernel_{name}") for name in called},
        {f.name: names.of(f"function_{f.name}") for f in program.functions},
        program,
    )
    defined: dict[str, str] = {}
    texts = [
        _kernel_text(kernels[name], symbol, target, defined)
        for name, symbol in symbols.kernels.items()
    ]
    functions = [_FunctionText(f, symbols) for f in scopes(program)[1:]]
    texts += [f"{function.head};" for function in functions]
    texts += [function.text() for function in functions]
    return "\n\n".join([*defined.values(), *texts, _MainText(program, symbols).text()]) + "\n"


@dataclass(frozen=True, slots=True)
class _Symbols:
    """The C functions of kernels and of the program's functions, by name."""

    kernels: Mapping[str, str]
    functions: Mapping[str, str]
    program: Program

    def frame(self, function: Program) -> IntExpr:
        """The bytes of a function's own memory."""
        return ceildiv(function.scratch, ARENA_ALIGNMENT) * ARENA_ALIGNMENT


def _kernel_text(
    kernel: Kernel, symbol: str, target: Target | None, defined: dict[str, str]
) -> str:
    """The function of a kernel; one with a nest for each range of a size chooses. What it needs is
    added to what is ``defined``."""

    def written(nest: Nest, symbol: str) -> str:
        text, needed = function_text(nest, symbol, target)
        defined.update(needed)
        return text

    if not kernel.cases:
        return written(kernel.nest, symbol)
    nests = dict.fromkeys(nest for _, nest in kernel.cases) | {kernel.nest: None}
    numbers = {nest: n for n, nest in enumerate(nests)}
    texts = [written(nest, f"{symbol}_case{n}") for nest, n in numbers.items()]
    index = IndexText(Names(["workspace"]), {s.name: s.range or (0, 0) for s in kernel.sizes})
    params = [f"const int64_t {index.names.of(s.name)}" for s in kernel.sizes]
    operands = [f"void *p{n}" for n, _ in enumerate(kernel.operands)]
    lines = [function_head(symbol, [*params, *operands, "void *workspace"]) + " {"]
    chosen_by = index.text(kernel.chosen_by)

    def call(nest: object) -> str:
        number = next(n for other, n in numbers.items() if other is nest or other == nest)
        sizes = [index.names.of(s.name) for s in list(nests)[number].sizes]
        pointers = [f"p{n}" for n, _ in enumerate(kernel.operands)]
        return f"{symbol}_case{number}({', '.join([*sizes, *pointers, 'workspace'])});"

    for at_most, nest in kernel.cases:
        if nest != kernel.nest or at_most < LARGEST_INDEX:
            lines.append(f"  if ({chosen_by} <= {at_most}) {{")
            lines += [f"    {call(nest)}", "    return;", "  }"]
    lines += [f"  {call(kernel.nest)}", "}"]
    return "\n\n".join([*texts, "\n".join(lines)])


class _BodyText:
    """Writes the instructions of a program, or of one of its functions."""

    def __init__(self, program: Program, symbols: _Symbols) -> None:
        self.program, self.symbols = program, symbols
        self.names = Names(["sizes", "args", "arena", "frames", "end", "depth", "status"])
        ranges = {s.name: s.range or (0, LARGEST_INDEX) for s in program.sizes}
        self.index = IndexText(self.names, ranges)
        self.regions = regions(program)
        self.aliases: dict[str, tuple[str, IntExpr]] = {}
        self.lines: list[str] = []

    def whole(self, head: str, arguments: Mapping[str, str]) -> str:
        """The definition of a function. ``arguments`` are the declarations of what it may use, by
        their names in C."""
        self._body(self.program.body, 1)
        used = set(re.findall(r"\w+", " ".join(self.lines)))
        declared = [f"  {line}" for name, line in arguments.items() if name in used]
        return "\n".join([f"{head} {{", *declared, *self.lines, "  return 0;", "}"])

    def fixed(self, declared: Sequence[Region], first: int) -> dict[str, str]:
        """The declarations of regions whose addresses are arguments, from number ``first`` on."""
        names = [self.names.of(region.name) for region in declared]
        return {name: f"void *{name} = args[{n}];" for n, name in enumerate(names, first)}

    def _body(self, body: Sequence[nodes.Instr], depth: int) -> None:
        for instr in body:
            self._instruction(instr, depth)

    def _instruction(self, instr: nodes.Instr, depth: int) -> None:
        match instr:
            case nodes.Alloc():
                self._allocate(instr, depth)
            case nodes.Alias(region, source, offset):
                self.aliases[region.name] = (source, offset)
            case nodes.Free():
                pass
            case nodes.Call():
                self._call(instr, depth)
            case nodes.Copy(source, target):
                pointers = f"{self._pointer(target)}, {self._pointer(source)}"
                nbytes = self.index.text(self.regions[target].nbytes)
                self._line(depth, f"memmove({pointers}, (size_t)({nbytes}));")
            case nodes.Swap(one, other):
                one, other = self.names.of(one), self.names.of(other)
                held = self.names.temporary()
                self._line(depth, f"void *{held} = {one};")
                self._line(depth, f"{one} = {other};")
                self._line(depth, f"{other} = {held};")
            case nodes.SetSize(size, count, most):
                value = f"lw_least(*(int64_t *){self._pointer(count)}, {self.index.text(most)})"
                name = self.names.of(size.name)
                self._line(depth, f"const int64_t {name} = lw_greatest(0, {value});")
                self.index.ranges[size.name] = size.range or (0, LARGEST_INDEX)
            case nodes.Library():
                self._check(instr, depth)
            case nodes.Invoke():
                self._invoke(instr, depth)
            case nodes.If(condition, then, orelse):
                self._line(depth, f"if (*(bool *){self._pointer(condition)}) {{")
                self._body(then, depth + 1)
                if orelse:
                    self._line(depth, "} else {")
                    self._body(orelse, depth + 1)
                self._line(depth, "}")
            case nodes.While(head, condition, body):
                self._line(depth, "for (;;) {")
                self._body(head, depth + 1)
                self._line(depth + 1, f"if (!*(bool *){self._pointer(condition)}) break;")
                self._body(body, depth + 1)
                self._line(depth, "}")
            case nodes.For():
                self._for(instr, depth)

    def _allocate(self, alloc: nodes.Alloc, depth: int) -> None:
        name = self.names.of(alloc.region.name)
        if alloc.in_registers:
            held = self.names.temporary()
            size = max(1, as_int(alloc.region.nbytes))
            self._line(depth, f"_Alignas({ALIGN}) char {held}[{size}];")
            self._line(depth, f"void *{name} = {held};")
            return
        offset = 0 if alloc.offset is None else alloc.offset
        self._line(depth, f"void *{name} = arena + {self.index.factor(offset)};")

    def _call(self, call: nodes.Call, depth: int) -> None:
        sizes = [self.index.text(s) for s in call.sizes]
        pointers = [self._pointer(o.name) for o in call.operands]
        pointers.append("NULL" if call.workspace is None else self._pointer(call.workspace))
        self._line(depth, f"{self.symbols.kernels[call.kernel]}({', '.join([*sizes, *pointers])});")

    def _check(self, library: nodes.Library, depth: int) -> None:
        if library.function != RAISE_FAILED:
            raise UnsupportedError(f"{library.function} is a function of a library of Python's")
        read = self._pointer(library.operands[0].name)
        self._line(depth, f"if (*(int64_t *){read} != 0) return {STATUS['CHECK']};")

    def _invoke(self, invoke: nodes.Invoke, depth: int) -> None:
        function = next(f for f in self.symbols.program.functions if f.name == invoke.function)
        values = dict(zip((s.name for s in function.sizes), invoke.sizes, strict=True))
        arena, frames = "frames", "frames"
        self._line(depth, "{")
        if invoke.frame is not None:
            arena = self._pointer(invoke.frame)
        elif self.symbols.frame(function) != 0:
            nbytes = self.index.factor(substitute(self.symbols.frame(function), values))
            status = f"return {STATUS['DEPTH']};"
            self._line(depth + 1, f"if (end - frames < {nbytes}) {status}")
            frames = f"frames + {nbytes}"
        given = ["args", arena, frames, "end", "depth + 1"]
        given += [self._pointer(o.name) for o in invoke.operands]
        given += [self.index.text(s) for s in invoke.sizes]
        called = f"{self.symbols.functions[invoke.function]}({', '.join(given)})"
        self._line(depth + 1, f"const int32_t status = {called};")
        self._line(depth + 1, "if (status != 0) return status;")
        self._line(depth, "}")

    def _for(self, loop: nodes.For, depth: int) -> None:
        name, held = self.names.of(loop.index.name), self.names.temporary()
        extent = str(loop.extent)
        if isinstance(loop.extent, str):
            extent = self.names.temporary()
            read = f"*(int64_t *){self._pointer(loop.extent)}"
            self._line(depth, f"const int64_t {extent} = {read};")
        self._line(depth, f"for (int64_t {held} = 0; {held} < {extent}; {held}++) {{")
        index = self.names.temporary()
        self._line(depth + 1, f"int64_t {index} = {held};")
        self._line(depth + 1, f"void *{name} = &{index};")
        self._body(loop.body, depth + 1)
        self._line(depth, "}")

    def _pointer(self, name: str) -> str:
        """The address of a region: an alias is an offset in another one."""
        offset: IntExpr = 0
        while name in self.aliases:
            name, more = self.aliases[name]
            offset = offset + more
        base = self.names.of(name)
        return base if offset == 0 else f"((char *){base} + {self.index.factor(offset)})"

    def _line(self, depth: int, text: str) -> None:
        self.lines.append("  " * depth + text)


class _MainText(_BodyText):
    """The function that runs the whole program."""

    def text(self) -> str:
        """The definition."""
        sizes = [self.names.of(size.name) for size in self.program.sizes]
        arguments = {s: f"const int64_t {s} = sizes[{n}];" for n, s in enumerate(sizes)}
        arguments |= self.fixed(fixed_regions(self.program), 0)
        if self.symbols.functions:
            begin, end = frames_begin(self.program), arena_bytes(self.program)
            arguments["frames"] = f"char *frames = arena + {self.index.factor(begin)};"
            arguments["end"] = f"char *end = arena + {self.index.factor(end)};"
            arguments["depth"] = "const int32_t depth = 0;"
        head = f"static int32_t {RUN}(const int64_t *sizes, void *const *args, char *arena)"
        return self.whole(head, arguments)


class _FunctionText(_BodyText):
    """A function of a program: its memory, its operands and its sizes are arguments."""

    @property
    def head(self) -> str:
        """The declaration."""
        params = ["void *const *args", "char *arena", "char *frames", "char *end", "int32_t depth"]
        params += [f"void *{self.names.of(region.name)}" for region, _ in self.program.params]
        params += [f"const int64_t {self.names.of(s.name)}" for s in self.program.sizes]
        return function_head(self.symbols.functions[self.program.name], params, "int32_t")

    def text(self) -> str:
        """The definition."""
        main = self.symbols.program
        self._line(1, f"if (depth > {MOST_DEPTH}) return {STATUS['DEPTH']};")
        first = len(main.inputs) + len(main.outputs)
        return self.whole(self.head, self.fixed([c.region for c in main.constants], first))
