"""Integer expressions over sizes as LLVM text, and the native function that checks a call's sizes.

::

    i32 @lw.sizes(ptr axes, ptr sizes, ptr answers)        1: the arguments fit, else 0

``axes`` has the sizes of all axes of all arguments. The function writes the program's sizes and the
``answers``: the bytes of the arena, those of the arena with updates, the bytes of each input, and
for each output its bytes and its shape. All numbers are int64. What might overflow is checked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..ir.dims import IntExpr
from ..ir.program.analysis import largest, size_table
from ..ir.program.nodes import Program
from ..ir.size_table import ADDRESSABLE_BYTES, axis_name
from .llvm.indices import Env, IndexWriter
from .llvm.writer import FunctionWriter, Value

SIZES = "lw.sizes"
"""The symbol of the function."""

INTRINSICS = tuple(
    f"declare {{ i64, i1 }} @llvm.{op}.with.overflow.i64(i64, i64)" for op in ("sadd", "smul")
) + tuple(f"declare i64 @llvm.{op}.i64(i64, i64)" for op in ("smin", "smax"))


class SizeWriter(IndexWriter):
    """Writes expressions as instructions of one block, each once. ``values`` has what stands for
    each size."""

    def __init__(
        self,
        lines: list[str],
        values: Mapping[str, str],
        prefix: str = "size",
        writer: FunctionWriter | None = None,
    ) -> None:
        super().__init__(writer or FunctionWriter("", ""))
        self.w.levels[0].code = lines
        self.w.prefix = f"{prefix}."
        self.values = dict(values)

    def value(self, expr: IntExpr) -> str:
        """The value of an expression."""
        values = {name: Value(value, "i64") for name, value in self.values.items()}
        return self.index(expr, Env(values)).name


class _CheckedWriter(FunctionWriter):
    """Computes with checks what may leave int64. ``refused`` are their results, i1; such a value
    may be any."""

    def __init__(self, refused: list[str]) -> None:
        super().__init__("", "")
        self.refused = refused

    def op(self, opcode: str, *args: Value, type: str | None = None) -> Value:
        if opcode not in ("add", "mul"):
            return super().op(opcode, *args, type=type)
        one, other = args
        pair = f"call {{ i64, i1 }} @llvm.s{opcode}.with.overflow.i64({one}, {other})"
        both = self.pure(pair, "{ i64, i1 }", 1, 0)
        self.refuse(f"extractvalue {both}, 1")
        return self.pure(f"extractvalue {both}, 0", "i64", 1, 0)

    def positive(self, value: Value) -> Value:
        self.refuse(f"icmp slt {value}, 1")
        return super().positive(value)

    def refuse(self, test: str) -> None:
        """Refuses sizes for which a test, an instruction, is true."""
        self.refused.append(self.pure(test, "i1", 1, 0).name)


_FAILS = {"==": "ne", "!=": "eq", "<": "sge", "<=": "sgt"}


def sizes_text(program: Program, arenas: Sequence[IntExpr]) -> str:
    """The LLVM text of the function for a program with sizes: ``arenas`` are the bytes of its arena
    without and with updates."""
    table = size_table(program, arenas[-1])
    assert table is not None
    lines: list[str] = []
    axes: dict[str, str] = {}
    for n, shape in enumerate(table.inputs):
        for axis, _ in enumerate(shape):
            at = f"%axis{len(axes)}"
            lines.append(f"  {at}.p = getelementptr i64, ptr %axes, i64 {len(axes)}")
            lines.append(f"  {at} = load i64, ptr {at}.p, align 8")
            axes[axis_name(n, axis)] = at
    refused: list[str] = []
    solver = _CheckedWriter(refused)
    solving = SizeWriter(lines, axes, "from", solver)
    sizes: dict[str, str] = {}
    for n, (size, expr) in enumerate(zip(table.sizes, table.solution.values(), strict=True)):
        value = sizes[size.name] = solving.value(expr)
        for relation, bound in ("slt", size.low), ("sgt", size.high):
            solver.refuse(f"icmp {relation} i64 {value}, {bound}")
        lines.append(f"  %size{n}.p = getelementptr i64, ptr %sizes, i64 {n}")
        lines.append(f"  store i64 {value}, ptr %size{n}.p, align 8")
    checks = _CheckedWriter(refused)
    writer = SizeWriter(lines, sizes, "size", checks)
    for n, shape in enumerate(table.inputs):
        for axis, expected in enumerate(shape):
            given = axes[axis_name(n, axis)]
            checks.refuse(f"icmp ne i64 {given}, {writer.value(expected)}")
    for check in table.checks:
        left, right = writer.value(check.left), writer.value(check.right)
        checks.refuse(f"icmp {_FAILS[check.relation]} i64 {left}, {right}")
    answers: list[IntExpr] = [*arenas, *(r.nbytes for r in program.inputs)]
    for region in largest(program, program.outputs):
        answers += [region.nbytes, *region.shape]
    for nbytes in table.byte_counts:
        checks.refuse(f"icmp uge i64 {writer.value(nbytes)}, {ADDRESSABLE_BYTES}")
    for n, answer in enumerate(answers):
        value = writer.value(answer)
        lines.append(f"  %answer{n}.p = getelementptr i64, ptr %answers, i64 {n}")
        lines.append(f"  store i64 {value}, ptr %answer{n}.p, align 8")
    bad = "false"
    for test in dict.fromkeys(refused):
        bad = checks.pure(f"or i1 {bad}, {test}", "i1", 1, 0).name
    fits = checks.pure(f"xor i1 {bad}, true", "i1", 1, 0).name
    return "\n".join(
        [
            f'define i32 @"{SIZES}"(ptr %axes, ptr %sizes, ptr %answers) nounwind {{',
            *lines,
            f"  %fits = zext i1 {fits} to i32",
            "  ret i32 %fits",
            "}",
            "",
        ]
    )
