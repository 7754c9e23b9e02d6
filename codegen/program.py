"""A planned program as one native entry that calls its kernels in order.

Every kernel is an object file of its own, so that the code of a kernel does not depend on the
program around it. The entry is one more. It calls the kernels by number, so that programs which
differ only in their kernels (another schedule, another operator) share the code of their entry.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from ..ir.dtype import Array
from ..ir.errors import InternalError
from ..ir.program.analysis import Place, places
from ..ir.program.nodes import Alloc, Call, Copy, Program, Region
from ..ir.progress_line import report
from .llvm.link import LoadedObject, load_object
from .module_text import ModuleText
from .objects import code_hash, loaded_code, object_code
from .runtime.buffers import ArraySpec
from .runtime.executable import Executable
from .target import Target
from .update_entry import UPDATE_ENTRY, update_arena, update_text

__all__ = [
    "ENTRY",
    "CompiledProgram",
    "EntryWriter",
    "KernelText",
    "called_symbols",
    "compile_program",
    "entry_text",
    "link_program",
]

ENTRY = "lw.entry"
"""The symbol of every entry: ``void (ptr args, ptr arena)``."""


class KernelText(Protocol):
    """The part of a kernel that a program needs: the symbol ``name`` and the LLVM module of it."""

    @property
    def name(self) -> str: ...

    @property
    def code(self) -> ModuleText: ...


@dataclass(frozen=True)
class CompiledProgram:
    """A program with its object code: of the entry, and of each kernel by name.

    ``executable`` leaves its inputs as they are; ``updating`` gives those of the program's updates
    their new values instead of results, None if there are none.
    """

    program: Program
    entry_text: str
    entry: bytes
    objects: Mapping[str, bytes]
    executable: Executable
    updating: Executable | None = None

    @property
    def code_hash(self) -> str:
        """A hash of all object code; equal hashes mean the same machine code."""
        return code_hash(self.entry, *(self.objects[name] for name in sorted(self.objects)))


def compile_program(
    program: Program,
    kernels: Mapping[str, KernelText],
    target: Target,
    threads: int | None = None,
) -> CompiledProgram:
    """Compile the entry and the kernels (those not compiled before) and link them.

    ``kernels`` has every kernel the program calls, by the name it is called by; every constant of
    the program must have its value. It runs on ``threads`` threads, or as many as its caller has.
    """
    called = called_symbols(program, kernels)
    text = entry_text(program, called)
    code = object_code(text, target)
    executable = link_program(program, kernels, target, code, threads=threads)
    updating = None
    if program.updates:
        updating = link_program(program, kernels, target, code, threads=threads, update=True)
    objects = {name: object_code(kernels[name].code, target) for name in called}
    return CompiledProgram(program, text, code, objects, executable, updating)


def called_symbols(program: Program, kernels: Mapping[str, KernelText]) -> dict[str, str]:
    """The symbol by which the entry calls each kernel of the program; one for equal kernels."""
    called = sorted({i.kernel for i in program.body if isinstance(i, Call)})
    numbers: dict[str, int] = {}
    return {
        n: f"lw.kernel{numbers.setdefault(kernels[n].code.identity, len(numbers))}" for n in called
    }


def link_program(
    program: Program,
    kernels: Mapping[str, KernelText],
    target: Target,
    entry: bytes,
    more: Sequence[Array] = (),
    threads: int | None = None,
    update: bool = False,
    replaced: Mapping[str, int] | None = None,
) -> Executable:
    """The entry's object code with its kernels, ready to run; with ``update``, to write inputs.

    ``more`` are arrays that the entry finds behind the program's constants. ``replaced`` are
    functions that kernels call in place of the runtime's; see ``loaded_code``.
    """
    symbols = called_symbols(program, kernels)
    loaded: dict[str, LoadedObject] = {}
    for number, name in enumerate(symbols):
        report(number, len(symbols), "kernels linked")
        loaded[name] = loaded_code(kernels[name].code, target, replaced)
    code = load_object(
        entry,
        {symbol: loaded[name].address(kernels[name].name) for name, symbol in symbols.items()},
    )
    constants = [c.value for c in program.constants if c.value is not None]
    if len(constants) != len(program.constants):
        raise InternalError(f"a constant of program @{program.name} has no value")
    updates = program.updates if update else ()
    numbers = {region.name: n for n, region in enumerate(program.inputs)}
    results = program.outputs[: len(program.outputs) - len(updates)]
    return Executable(
        code.address(UPDATE_ENTRY if update else ENTRY),
        [_spec(r) for r in program.inputs],
        [_spec(r) for r in results],
        [*constants, *more],
        update_arena(program) if update else program.arena or 0,
        owner=(code, *loaded.values()),
        threads=threads,
        written=sorted({numbers[u.target] for u in updates}),
        hidden=len(updates),
    )


def _spec(region: Region) -> ArraySpec:
    return ArraySpec(region.shape, region.dtype.numpy)


def entry_text(program: Program, symbols: Mapping[str, str]) -> str:
    """The LLVM text of the entry; ``symbols`` names the native function of each kernel.

    ``args`` points to the pointers of the inputs, outputs and constants in the program's order. The
    outputs that update inputs are the last ones.
    """
    text = EntryWriter(program, symbols).text()
    return text + update_text(program, ENTRY) if program.updates else text


class EntryWriter:
    """Writes the entry of a program, instruction by instruction."""

    def __init__(self, program: Program, symbols: Mapping[str, str]) -> None:
        self.program = program
        self.symbols = symbols
        self.places = places(program)
        self.offsets = {i.region.name: i.offset for i in program.body if isinstance(i, Alloc)}
        fixed = (*program.inputs, *program.outputs, *(c.region for c in program.constants))
        self.slots = {region.name: slot for slot, region in enumerate(fixed)}
        self.lines: list[str] = []
        self.values: dict[tuple[str, int], str] = {}

    def text(self) -> str:
        """The whole module."""
        declared: dict[str, int] = {}
        for instr in self.program.body:
            if isinstance(instr, Call):
                symbol = self.symbols[instr.kernel]
                count = len(instr.operands) + 1
                if declared.setdefault(symbol, count) != count:
                    raise InternalError(
                        f"kernel @{instr.kernel} has two operand counts", notes=(str(instr),)
                    )
                self.call(instr, symbol)
            elif isinstance(instr, Copy):
                self.copy(instr)
        declarations = [
            f'declare void @"{symbol}"({", ".join(["ptr"] * count)})'
            for symbol, count in declared.items()
        ]
        return "\n".join(
            [
                *declarations,
                "declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)",
                f'define void @"{ENTRY}"(ptr %args, ptr %arena) {{',
                *self.lines,
                "  ret void",
                "}",
                "",
            ]
        )

    def call(self, call: Call, symbol: str) -> None:
        """The call of one kernel."""
        pointers = [self.pointer(o.name) for o in call.operands]
        pointers.append("null" if call.workspace is None else self.pointer(call.workspace))
        self.lines.append(f'  call void @"{symbol}"({", ".join(f"ptr {p}" for p in pointers)})')

    def copy(self, copy: Copy) -> None:
        """A copy of one region."""
        place = self.places[copy.target]
        self.lines.append(
            f"  call void @llvm.memcpy.p0.p0.i64(ptr {self.pointer(copy.target)}, "
            f"ptr {self.pointer(copy.source)}, i64 {place.end - place.begin}, i1 false)"
        )

    def pointer(self, name: str) -> str:
        """The address of a region."""
        place: Place = self.places[name]
        slot = self.slots.get(place.root)
        if slot is not None:
            return self.shifted(self.argument(place.root, slot), place.root, place.begin)
        offset = self.offsets[place.root]
        if offset is None:
            raise InternalError(f"program @{self.program.name}: %{place.root} is not planned")
        return self.shifted("%arena", "", offset + place.begin)

    def argument(self, root: str, slot: int) -> str:
        """The address in one slot of ``args``."""
        value = self.values.get((root, 0))
        if value is None:
            value = self.values[root, 0] = f"%arg{slot}"
            self.lines.append(f"  %slot{slot} = getelementptr ptr, ptr %args, i64 {slot}")
            self.lines.append(f"  {value} = load ptr, ptr %slot{slot}")
        return value

    def shifted(self, base: str, root: str, offset: int) -> str:
        """An address some bytes further on."""
        if offset == 0:
            return base
        value = self.values.get((root, offset))
        if value is None:
            value = self.values[root, offset] = f"%at{len(self.values)}"
            self.lines.append(f"  {value} = getelementptr i8, ptr {base}, i64 {offset}")
        return value
