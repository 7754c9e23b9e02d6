"""The LLVM text of a kernel: the functions of its nests, and those by which it is called."""

from __future__ import annotations

from collections.abc import Sequence

from ..ir.dims import IntExpr, Symbol, ceildiv
from ..ir.loop.nest import Nest
from .emit.memory import Env, Memory, Place
from .emit.nests import NestEmitter
from .emit.parallel import ParallelWriter
from .emit.writer import FunctionWriter, Value
from .target import Target
from .variants import Choice, Variant

ALIGN = 64  # bytes; where buffers in the workspace start


def workspace_bytes(nest: Nest) -> IntExpr:
    """Returns the bytes of the workspace of a nest."""
    total: IntExpr = 0
    for buffer in nest.workspace:
        total = total + ceildiv(buffer.size * buffer.dtype.bytes, ALIGN) * ALIGN
    return total


class KernelModule:
    """The module of the kernel ``name``, written function by function."""

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
        emitter = NestEmitter(self.target, writer, places, sizes, self._functions, parallel)
        emitter.roots(nest.body)
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
        bodies = [w.text(linkage=self._linkage.get(w.name, "")) for w in self.writers]
        functions = dict(self._functions)
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
        lines.append(f"  %p{n} = getelementptr ptr, ptr %args, i64 {n}")
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
