"""LLVM text of the functions of a bundle that C calls.

::

    int NAME(inputs..., outputs..., sizes..., weights, arena)
    int NAME_sizes(sizes..., int64_t *answers)                  with symbolic sizes
    int NAME_use_level(int level)                               with code for several levels

They check what they are handed before anything runs. A variant is the program for one level; its
symbols begin with its number, ``0.lw.entry``.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...ir.dataclass import dataclass
from ...ir.dims import IntExpr
from ...ir.errors import UnsupportedError
from ...ir.program.analysis import fixed_regions
from ...ir.program.nodes import Program
from ..entry import ENTRY, arena_bytes
from ..kernel import Kernel
from ..runtime.pool_text import MAX_THREADS
from ..size_text import INTRINSICS, SIZES, SizeWriter
from ..target import Target
from .interface import CACHE_LINE, Interface, arena_limit, filled
from .processor import processor_text, required
from .weights import Weights

STATUSES = (
    ("OK", "it has run"),
    ("NULL", "an address is null"),
    ("ALIGNMENT", "an address is not as aligned as it has to be"),
    ("OVERLAP", "memory that is written overlaps with other memory"),
    ("SIZE", "a size is out of its range, or sizes do not fit each other"),
    ("PROCESSOR", "the processor lacks instructions, or the system does not allow them"),
    ("WEIGHTS", "these are not the weights of this function"),
    ("DEPTH", "functions call each other too deeply"),
    ("BUSY", "another thread runs it, or its threads"),
    ("CHECK", "a check of the function failed, such as an index out of range"),
)
"""Names of the statuses from 0 on, and what they mean."""
_SIZE, _PROCESSOR, _WEIGHTS, _BUSY = 4, 5, 6, 8

RECURSION_BYTES = 4 << 20
"""Stack of the calling thread that recursive functions may use."""


@dataclass(frozen=True, slots=True)
class Variant:
    """A program for one target, and its kernels by name."""

    program: Program
    kernels: dict[str, Kernel]
    target: Target

    @property
    def arena(self) -> IntExpr:
        return arena_bytes(self.program)


def runtime_text(interface: Interface, target: Target) -> str:
    """Returns the text of what programs call: parallel loops, polls, checks, the processor."""
    files = {"none": "serial.ll", "callback": "callback.ll", "pool": "pooled.ll"}
    texts = (
        filled(file, STACK=RECURSION_BYTES, MAX=MAX_THREADS)
        for file in ("bundle.ll", files[interface.threads])
    )
    return "".join(texts).replace("@NAME_", f"@{interface.name}_") + processor_text(target)


def public_symbols(interface: Interface, variants: Sequence[Variant]) -> frozenset[str]:
    """Returns the symbols that others can call."""
    name, more = interface.name, [""]
    more += ["_sizes"] * bool(interface.sizes) + ["_use_level"] * (len(variants) > 1)
    more += {
        "none": [],
        "callback": ["_set_parallel_for"],
        "pool": ["_set_threads", "_stop_threads", "_after_fork"],
    }[interface.threads]
    return frozenset(name + suffix for suffix in more)


def wrapper_text(interface: Interface, variants: Sequence[Variant], weights: Weights) -> str:
    """Returns the text of the functions that C calls. ``variants`` stand from the least level to
    the highest."""
    writer = _Wrapper(interface, weights)
    return "\n".join(
        [
            "declare i32 @lw_check(ptr, ptr, ptr, i64, i64)",
            "declare i64 @lw_cpu()",
            *(INTRINSICS if interface.sizes else ()),
            "declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)",
            "@lw_allowed = internal global i64 -1",
            *writer.globals(variants),
            *(line for n, v in enumerate(variants) for line in writer.variant(n, v)),
            *writer.entry(variants),
            *(writer.sizes(variants) if interface.sizes else ()),
            *(_use_level(interface.name, variants) if len(variants) > 1 else ()),
            "",
        ]
    )


class _Wrapper:
    def __init__(self, interface: Interface, weights: Weights) -> None:
        self.interface = interface
        self.weights = weights
        # Words: addresses of inputs, weights, outputs and arena, then the sizes.
        self.weights_word = len(interface.inputs)
        self.arena_word = len(interface.operands) + 1
        self.size_word = self.arena_word + 1
        results = sum(1 + len(o.shape) for o in interface.outputs)
        self.answers = 2 + len(interface.inputs) + results

    def globals(self, variants: Sequence[Variant]) -> list[str]:
        interface = self.interface
        lines: list[str] = []
        if interface.linked_weights:
            lines.append(f"@{interface.weights_symbol} = external constant i8")
        if interface.static_memory:
            self.static = max(arena_limit(v.arena, interface.sizes) for v in variants)
            size = max(self.static, 1)
            lines += [
                f"@lw_arena = internal global [{size} x i8] zeroinitializer, align 4096",
                "@lw_busy = internal global i32 0",
            ]
        return lines

    def variant(self, number: int, variant: Variant) -> list[str]:
        """The function ``i32 @N.run(ptr words)``: it checks the words, and calls the entry."""
        interface, program = self.interface, variant.program
        lines: list[str] = []
        nbytes = [self._bytes(o.nbytes, f"%bytes{n}") for n, o in enumerate(interface.operands)]
        arena = self._bytes(variant.arena, "%arena.bytes")
        if interface.sizes:
            lines += [
                f"  %answers = alloca [{self.answers} x i64], align 8",
                f'  %unfit = call i32 @"{number}.solve"(ptr %words, ptr %answers)',
                "  %fits = icmp eq i32 %unfit, 0",
                "  br i1 %fits, label %fit, label %bad.size",
                "fit:",
            ]
            answers = [2 + n for n in range(len(interface.inputs))]
            at = 2 + len(answers)
            for output in interface.outputs:
                answers.append(at)
                at += 1 + len(output.shape)
            for operand, answer in enumerate(answers):
                lines += _load(f"%bytes{operand}", "%answers", answer)
            lines += _load("%arena.bytes", "%answers", 0)
            if interface.static_memory:
                lines += [
                    f"  %large = icmp ugt i64 %arena.bytes, {self.static}",
                    "  br i1 %large, label %bad.size, label %small",
                    "small:",
                ]
        nbytes.insert(self.weights_word, str(len(self.weights.data)))
        aligns = [operand.align for operand in interface.operands] + [CACHE_LINE]
        aligns.insert(self.weights_word, CACHE_LINE)
        count = self.size_word
        lines.append(f"  %bytes = alloca [{count} x i64], align 8")
        for n, size in enumerate((*nbytes, arena)):
            lines += _store(size, "%bytes", n, f"bytes{n}")
        lines += [
            f'  %checked = call i32 @lw_check(ptr %words, ptr %bytes, ptr @"{number}.aligns", '
            f"i64 {count}, i64 {self.weights_word + 1})",
            "  %fine = icmp eq i32 %checked, 0",
            "  br i1 %fine, label %sound, label %bad",
            "bad:",
            "  ret i32 %checked",
            "sound:",
            *_load("%weights.address", "%words", self.weights_word),
            "  %weights = inttoptr i64 %weights.address to ptr",
            *_load("%tag", "%weights", 1),
            f"  %same = icmp eq i64 %tag, {_signed(self.weights.tag)}",
            "  br i1 %same, label %known, label %foreign",
            "foreign:",
            f"  ret i32 {_WEIGHTS}",
            "known:",
            *self._args(program),
            *_load("%arena.address", "%words", self.arena_word),
            "  %arena = inttoptr i64 %arena.address to ptr",
            f'  %status = call i32 @"{number}.{ENTRY}"(ptr %args, ptr %arena)',
            "  %raised = icmp eq i32 %status, 1",
            "  %deep = icmp eq i32 %status, 2",
            "  %given.1 = select i1 %deep, i32 7, i32 %status",
            "  %given.2 = select i1 %raised, i32 9, i32 %given.1",
            "  ret i32 %given.2",
        ]
        if interface.sizes:
            lines += ["bad.size:", f"  ret i32 {_SIZE}"]
        return [
            f'@"{number}.aligns" = internal constant [{count} x i64] '
            f"[{', '.join(f'i64 {align}' for align in aligns)}]",
            f'declare i32 @"{number}.{ENTRY}"(ptr, ptr)',
            *(self.solve(number) if interface.sizes else ()),
            f'define internal i32 @"{number}.run"(ptr %words) noinline {{',
            "entry:",
            *lines,
            "}",
        ]

    @staticmethod
    def _bytes(nbytes: IntExpr, name: str) -> str:
        return str(nbytes) if isinstance(nbytes, int) else name

    def solve(self, number: int) -> list[str]:
        """The function ``i32 @N.solve(ptr words, ptr answers)``: it checks the sizes, and has the
        program's own function answer from the sizes of all axes."""
        interface, lines, values = self.interface, list[str](), dict[str, str]()
        for n, size in enumerate(interface.sizes):
            lines += _load(f"%n{n}", "%words", self.size_word + n)
            values[size.name] = f"%n{n}"
            for test, bound in ("slt", size.low), ("sgt", size.high):
                lines.append(f"  %n{n}.{test} = icmp {test} i64 %n{n}, {bound}")
                lines += _refuse(f"%n{n}.{test}")
        axes = [size for operand in interface.inputs for size in operand.shape]
        lines += [
            f"  %axes = alloca [{max(1, len(axes))} x i64], align 8",
            f"  %solved = alloca [{len(values)} x i64], align 8",
            f"  %found = alloca [{self.answers} x i64], align 8",
        ]
        writer = SizeWriter(lines, values, "axis")
        for n, size in enumerate(axes):
            lines += _store(writer.value(size), "%axes", n, f"axes{n}")
        lines += [
            f'  %fits = call i32 @"{number}.{SIZES}"(ptr %axes, ptr %solved, ptr %found)',
            "  %misfit = icmp eq i32 %fits, 0",
            *_refuse("%misfit"),
        ]
        for n, value in enumerate(values.values()):
            lines += _load(f"%solved{n}", "%solved", n)
            lines.append(f"  %other{n} = icmp ne i64 %solved{n}, {value}")
            lines += _refuse(f"%other{n}")
        return [
            f'declare i32 @"{number}.{SIZES}"(ptr, ptr, ptr)',
            f'define internal i32 @"{number}.solve"(ptr %words, ptr %answers) noinline {{',
            "entry:",
            *lines,
            "  call void @llvm.memcpy.p0.p0.i64(ptr %answers, ptr %found, "
            f"i64 {8 * self.answers}, i1 false)",
            "  ret i32 0",
            "bad.size:",
            f"  ret i32 {_SIZE}",
            "}",
        ]

    def _args(self, program: Program) -> list[str]:
        """Fills in what the entry reads: operands, constants, sizes."""
        fixed = fixed_regions(program)
        operands = len(self.interface.operands)
        lines = [f"  %args = alloca [{len(fixed) + len(program.sizes) + 1} x i64], align 8"]
        for n in range(operands):
            lines += _load(f"%operand{n}", "%words", n + (n >= self.weights_word))
            lines += _store(f"%operand{n}", "%args", n, f"args{n}")
        for n, constant in enumerate(program.constants, operands):
            assert constant.value is not None
            offset = self.weights.offset(constant.value)
            lines.append(f"  %constant{n} = add i64 %weights.address, {offset}")
            lines += _store(f"%constant{n}", "%args", n, f"args{n}")
        for n, _ in enumerate(program.sizes):
            lines += _load(f"%n{n}", "%words", self.size_word + n)
            lines += _store(f"%n{n}", "%args", len(fixed) + n, f"args{len(fixed) + n}")
        return lines

    def entry(self, variants: Sequence[Variant]) -> list[str]:
        """The function itself: it gathers its parameters, and chooses a variant."""
        interface = self.interface
        params = [f"ptr %p{n}" for n in range(len(interface.operands))]
        params += [f"i64 %s{n}" for n in range(len(interface.sizes))]
        params += ["ptr %weights"] * (not interface.linked_weights)
        params += ["ptr %arena"] * (not interface.static_memory)
        weights = f"@{interface.weights_symbol}" if interface.linked_weights else "%weights"
        arena = "@lw_arena" if interface.static_memory else "%arena"
        lines = [
            f"define i32 @{interface.name}({', '.join(params)}) {{",
            "entry:",
            f"  %words = alloca [{self.size_word + len(interface.sizes)} x i64], align 8",
        ]
        pointers = [f"%p{n}" for n in range(len(interface.operands))] + [arena]
        pointers.insert(self.weights_word, weights)
        for n, pointer in enumerate(pointers):
            lines.append(f"  %w{n}.word = ptrtoint ptr {pointer} to i64")
            lines += _store(f"%w{n}.word", "%words", n, f"w{n}")
        for n in range(len(interface.sizes)):
            lines += _store(f"%s{n}", "%words", self.size_word + n, f"w{self.size_word + n}")
        if interface.static_memory:
            lines += [
                "  %swap = cmpxchg ptr @lw_busy, i32 0, i32 1 acquire monotonic",
                "  %free = extractvalue { i32, i1 } %swap, 1",
                "  br i1 %free, label %begin, label %busy",
                "busy:",
                f"  ret i32 {_BUSY}",
                "begin:",
            ]

        lines.append("  %status = call i32 @lw_run(ptr %words)")
        lines += ["  store atomic i32 0, ptr @lw_busy release, align 4"] * interface.static_memory
        run = _dispatch(variants, "run", "ptr %words")
        return [*lines, "  ret i32 %status", "}", "define i32 @lw_run(ptr %words) {", *run]

    def sizes(self, variants: Sequence[Variant]) -> list[str]:
        """The function that answers with the bytes of arena, inputs and outputs."""
        interface = self.interface
        params = ", ".join(f"i64 %n{n}" for n in range(len(interface.sizes)))
        words = [f"  %words = alloca [{self.size_word + len(interface.sizes)} x i64], align 8"]
        for n in range(len(interface.sizes)):
            words += _store(f"%n{n}", "%words", self.size_word + n, f"w{n}")

        return [
            f"define i32 @{interface.name}_sizes({params}, ptr %out) {{",
            "entry:",
            "  %null = icmp eq ptr %out, null",
            "  br i1 %null, label %nowhere, label %there",
            "nowhere:",
            "  ret i32 1",
            "there:",
            *words,
            *_dispatch(variants, "solve", "ptr %words, ptr %out"),
        ]


def _dispatch(variants: Sequence[Variant], function: str, given: str) -> list[str]:
    """The last lines of a function, which call that of the highest variant that the processor can
    run."""
    lines = [
        "  %cpu.all = call i64 @lw_cpu()",
        "  %allowed = load atomic i64, ptr @lw_allowed monotonic, align 8",
        "  %cpu = and i64 %cpu.all, %allowed",
    ]
    for number in reversed(range(len(variants))):
        bits = bits_of(variants[number])
        lines += [
            f"  %has{number} = and i64 %cpu, {bits}",
            f"  %able{number} = icmp eq i64 %has{number}, {bits}",
            f"  br i1 %able{number}, label %use{number}, label %not{number}",
            f"use{number}:",
            f'  %status{number} = call i32 @"{number}.{function}"({given})',
            f"  ret i32 %status{number}",
            f"not{number}:",
        ]
    return [*lines, f"  ret i32 {_PROCESSOR}", "}"]


def bits_of(variant: Variant) -> int:
    """Returns the bits of ``lw_cpu`` that a variant needs. Raises UnsupportedError for instructions
    of which the function does not know how to find them."""
    bits = required(variant.target)
    if bits is None:
        raise UnsupportedError(
            f"code with {', '.join(sorted(variant.target.features))} cannot leave in a bundle",
            hint="name levels: targets=['x86-64-v4']",
        )
    return bits


def _use_level(name: str, variants: Sequence[Variant]) -> list[str]:
    """The function that lowers the level for later calls: 1 is the least, 0 the best there is."""
    rows = [(0, -1), *((n, bits_of(v)) for n, v in enumerate(variants, 1))]
    cases = " ".join(f"i32 {level}, label %level{level}" for level, _ in rows)
    lines = [
        f"define i32 @{name}_use_level(i32 %level) {{",
        "entry:",
        "  %cpu = call i64 @lw_cpu()",
        f"  switch i32 %level, label %unknown [ {cases} ]",
        "unknown:",
        f"  ret i32 {_SIZE}",
        "lacking:",
        f"  ret i32 {_PROCESSOR}",
    ]
    for level, bits in rows:
        wanted = max(bits, 0)
        lines += [
            f"level{level}:",
            f"  %has{level} = and i64 %cpu, {wanted}",
            f"  %able{level} = icmp eq i64 %has{level}, {wanted}",
            f"  br i1 %able{level}, label %set{level}, label %lacking",
            f"set{level}:",
            f"  store atomic i64 {bits}, ptr @lw_allowed monotonic, align 8",
            "  ret i32 0",
        ]
    return [*lines, "}"]


def _refuse(condition: str) -> list[str]:
    """The lines that go to ``bad.size`` if a condition holds."""
    return [
        f"  br i1 {condition}, label %bad.size, label {condition}.not",
        f"{condition[1:]}.not:",
    ]


def _load(name: str, base: str, index: int) -> list[str]:
    return [
        f"  {name}.p = getelementptr i64, ptr {base}, i64 {index}",
        f"  {name} = load i64, ptr {name}.p, align 8",
    ]


def _store(value: str, base: str, index: int, name: str) -> list[str]:
    return [
        f"  %{name}.to = getelementptr i64, ptr {base}, i64 {index}",
        f"  store i64 {value}, ptr %{name}.to, align 8",
    ]


def _signed(word: int) -> int:
    return word - (1 << 64) if word >> 63 else word
