"""Integer expressions over sizes as LLVM text, and the native function that checks a call's sizes.

::

    i32 @lw.sizes(ptr axes, ptr sizes, ptr answers)        1: the arguments fit, else 0

``axes`` has the sizes of all axes of all arguments. The function writes the program's sizes and the
``answers``: the bytes of the arena, those of the arena with updates, the bytes of each input, and
for each output its bytes and its shape. All numbers are int64. What might overflow is checked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import count

from ..ir.dims import Dim, FloorDiv, IntExpr, Max, Min, Mod, Symbol, bounds
from ..ir.program.analysis import largest, size_table
from ..ir.program.nodes import Program
from ..ir.size_table import ADDRESSABLE_BYTES, axis_name

SIZES = "lw.sizes"
"""The symbol of the function."""

INTRINSICS = tuple(
    f"declare {{ i64, i1 }} @llvm.{op}.with.overflow.i64(i64, i64)" for op in ("sadd", "smul")
) + tuple(f"declare i64 @llvm.{op}.i64(i64, i64)" for op in ("smin", "smax"))


class SizeWriter:
    """Writes expressions as instructions of one block, each once.

    ``values`` has what stands for each size. With ``overflows``, an expression that may leave int64
    is computed with checks, whose results (i1) are added there; such a value may be any.
    """

    def __init__(
        self,
        lines: list[str],
        values: Mapping[str, str],
        prefix: str = "size",
        overflows: list[str] | None = None,
    ) -> None:
        self.lines = lines
        self.values = dict(values)
        self.prefix = prefix
        self.overflows = overflows
        self.written: dict[object, str] = {}
        self.numbers = count()

    def value(self, expr: IntExpr) -> str:
        """The value of an expression."""
        if not isinstance(expr, Dim):
            return str(expr)
        text = self.written.get(expr)
        if text is None:
            text = self.written[expr] = self.sum(expr)
        return text

    def sum(self, expr: Dim) -> str:
        total = ""
        for monomial, coefficient in expr.terms:
            part = ""
            for atom in monomial:
                part = self.operation("mul", part, self.atom(atom)) if part else self.atom(atom)
            if not part:
                part = str(coefficient)
            elif coefficient != 1:
                part = self.operation("mul", part, str(coefficient))
            total = self.operation("add", total, part) if total else part
        return total

    def atom(self, atom: Symbol | FloorDiv | Mod | Min | Max) -> str:
        if isinstance(atom, Symbol):
            return self.values[atom.name]
        text = self.written.get(atom)
        if text is None:
            left, right = self.value(atom.left), self.value(atom.right)
            if isinstance(atom, Min | Max):
                name = "smin" if isinstance(atom, Min) else "smax"
                text = self.new(f"call i64 @llvm.{name}.i64(i64 {left}, i64 {right})")
            else:
                text = self.quotient(atom, left, right)
            self.written[atom] = text
        return text

    def quotient(self, atom: FloorDiv | Mod, left: str, right: str) -> str:
        """A quotient that is rounded to minus infinity, or its remainder. A divisor that is not
        positive is an overflow."""
        inside, divisor = bounds(atom.left, {}), bounds(atom.right, {})
        if divisor is None or divisor[0] < 1:
            bad = self.new(f"icmp slt i64 {right}, 1")
            right = self.new(f"select i1 {bad}, i64 1, i64 {right}")
            if self.overflows is not None:
                self.overflows.append(bad)
        is_quotient = isinstance(atom, FloorDiv)
        if inside is not None and inside[0] >= 0:
            return self.new(f"{'udiv' if is_quotient else 'urem'} i64 {left}, {right}")
        rest = self.new(f"srem i64 {left}, {right}")
        below = self.new(f"icmp slt i64 {rest}, 0")
        if is_quotient:
            quotient = self.new(f"sdiv i64 {left}, {right}")
            one = self.new(f"sext i1 {below} to i64")
            return self.new(f"add i64 {quotient}, {one}")
        more = self.new(f"select i1 {below}, i64 {right}, i64 0")
        return self.new(f"add i64 {rest}, {more}")

    def operation(self, name: str, left: str, right: str) -> str:
        if self.overflows is None:
            return self.new(f"{name} i64 {left}, {right}")
        both = self.new(
            f"call {{ i64, i1 }} @llvm.s{name}.with.overflow.i64(i64 {left}, i64 {right})"
        )
        self.overflows.append(self.new(f"extractvalue {{ i64, i1 }} {both}, 1"))
        return self.new(f"extractvalue {{ i64, i1 }} {both}, 0")

    def new(self, instruction: str) -> str:
        name = f"%{self.prefix}.{next(self.numbers)}"
        self.lines.append(f"  {name} = {instruction}")
        return name


_PREDICATES = {"==": "eq", "!=": "ne", "<": "slt", "<=": "sle"}


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
    solving = SizeWriter(lines, axes, "from", refused)
    sizes: dict[str, str] = {}
    for n, (size, expr) in enumerate(zip(table.sizes, table.solution.values(), strict=True)):
        value = sizes[size.name] = solving.value(expr)
        for relation, bound in ("slt", size.low), ("sgt", size.high):
            refused.append(solving.new(f"icmp {relation} i64 {value}, {bound}"))
        lines.append(f"  %size{n}.p = getelementptr i64, ptr %sizes, i64 {n}")
        lines.append(f"  store i64 {value}, ptr %size{n}.p, align 8")
    writer = SizeWriter(lines, sizes, "size", refused)
    for n, shape in enumerate(table.inputs):
        for axis, expected in enumerate(shape):
            given = axes[axis_name(n, axis)]
            refused.append(writer.new(f"icmp ne i64 {given}, {writer.value(expected)}"))
    for check in table.checks:
        left, right = writer.value(check.left), writer.value(check.right)
        holds = writer.new(f"icmp {_PREDICATES[check.relation]} i64 {left}, {right}")
        refused.append(writer.new(f"xor i1 {holds}, true"))
    answers: list[IntExpr] = [*arenas, *(r.nbytes for r in program.inputs)]
    for region in largest(program, program.outputs):
        answers += [region.nbytes, *region.shape]
    for nbytes in table.byte_counts:
        refused.append(writer.new(f"icmp uge i64 {writer.value(nbytes)}, {ADDRESSABLE_BYTES}"))
    for n, answer in enumerate(answers):
        value = writer.value(answer)
        lines.append(f"  %answer{n}.p = getelementptr i64, ptr %answers, i64 {n}")
        lines.append(f"  store i64 {value}, ptr %answer{n}.p, align 8")
    bad = "false"
    for test in dict.fromkeys(refused):
        bad = writer.new(f"or i1 {bad}, {test}")
    fits = writer.new(f"xor i1 {bad}, true")
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
