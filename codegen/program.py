"""A planned program as one native entry with its kernels, linked.

Every kernel is an object file of its own, so that the code of a kernel does not depend on the
program around it. The entry is one more (``entry.py``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..ir.dataclass import dataclass
from ..ir.dtype import Array
from ..ir.errors import InternalError
from ..ir.program.analysis import calls, largest, size_table
from ..ir.program.nodes import Program, Region
from ..ir.progress_line import report
from .entry import ENTRY, arena_bytes, entry_text
from .inlining import Inlined, expected_costs, inline_small_kernels
from .library_calls import library_calls, linked_sites
from .llvm.link import LoadedObject, load_object
from .module_text import KernelText
from .objects import code_hash, loaded_code, object_code
from .places_in_range import note_places
from .runtime import status
from .runtime.buffers import ArraySpec
from .runtime.executable import Executable
from .scalar_ranges import bound_scalars
from .size_text import SIZES
from .target import Target
from .update_entry import UPDATE_ENTRY


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
    program = bound_scalars(inline_small_kernels(program, kernels), kernels)
    program = note_places(program, kernels)
    called = called_symbols(program, kernels)
    text = program_entry(program, kernels)
    code = object_code(text, target)
    executable = link_program(program, kernels, target, code, threads=threads)
    updating = None
    if program.updates:
        updating = link_program(program, kernels, target, code, threads=threads, update=True)
    objects = {name: object_code(kernels[name].code, target) for name in called}
    return CompiledProgram(program, text, code, objects, executable, updating)


def program_entry(program: Program, kernels: Mapping[str, KernelText]) -> str:
    """Returns the LLVM text of a program's entry, with the kernels that it calls inline."""
    costs = expected_costs(program, kernels)
    symbols = called_symbols(program, kernels)
    return entry_text(program, symbols, costs, Inlined.of(program, kernels))


def called_symbols(program: Program, kernels: Mapping[str, KernelText]) -> dict[str, str]:
    """The symbol by which the entry calls each kernel that is not a part of it; one for equal
    kernels."""
    called = sorted({call.kernel for call in calls(program) if not call.inline})
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
    is_ours = target.is_native  # code for another architecture is only looked at
    symbols = called_symbols(program, kernels) if is_ours else {}
    loaded: dict[str, LoadedObject] = {}
    for number, name in enumerate(symbols):
        report(number, len(symbols), "kernels linked")
        loaded[name] = loaded_code(kernels[name].code, target, replaced)
    places = {s: loaded[name].address(kernels[name].name) for name, s in symbols.items()}
    places |= status.called_symbols(entry)
    sites, kept = linked_sites(library_calls(program))
    code = load_object(entry, {**places, **sites}) if is_ours else None
    constants = [c.value for c in program.constants if c.value is not None]
    if len(constants) != len(program.constants):
        raise InternalError(f"a constant of program @{program.name} has no value")
    updates = program.updates if update else ()
    numbers = {region.name: n for n, region in enumerate(program.inputs)}
    results = largest(program, program.outputs[: len(program.outputs) - len(updates)])
    executable = Executable(
        code.address(UPDATE_ENTRY if update else ENTRY) if code else 0,
        [_spec(r) for r in program.inputs],
        [_spec(r) for r in results],
        [*constants, *more],
        arena_bytes(program, update),
        owner=(code, *loaded.values(), *kept),
        threads=threads,
        written=sorted({numbers[u.target] for u in updates}),
        hidden=len(updates),
        sizes=size_table(program, arena_bytes(program, update=True)),
        solver=code.address(SIZES) if code and program.sizes else 0,
    )
    if target.missing_here:
        executable.call = target.refuse
    return executable


def _spec(region: Region) -> ArraySpec:
    return ArraySpec(region.shape, region.dtype.numpy)
