"""Small kernels become a part of the entry: their calls are marked, and their texts merged into it.

In a loop a call costs as much as a few elements, and what a kernel reads and writes has to be in
memory. So a program with control flow holds the text of its small kernels, as functions that LLVM
inlines; scalars then stay in registers from one kernel, and one iteration, to the next.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import field, replace

from ..ir.dataclass import dataclass
from ..ir.program import analysis
from ..ir.program.analysis import calls, each_scope, has_control_flow, map_calls, places, scopes
from ..ir.program.nodes import Call, Program
from .module_text import KernelText, SizedKernel

MOST_STORES = 64
"""Stores that an inlined kernel executes at most: from there on the call costs little beside it."""

MOST_KERNEL_LINES = 400
"""Lines of the text of an inlined kernel at most, with its functions."""

MOST_INLINED_LINES = 8_000
"""Lines of all inlined calls at most: LLVM takes about a second for 100,000."""

STORES_PER_NANOSECOND = 4
LIBRARY_NANOSECONDS = 10_000


def inline_small_kernels(program: Program, kernels: Mapping[str, KernelText]) -> Program:
    """Marks the calls of small kernels, if the program has control flow.

    Before::

        while {
          call @not_equal(@in %x, @out %on)
        } %on do {
          call @next(@inout %x, @inout %x)
        }

    After::

        while {
          call inline @not_equal(@in %x, @out %on)
        } %on do {
          call inline @next(@inout %x, @inout %x)
        }
    """
    if not has_control_flow(program):
        return program
    small: set[str] = set()
    left = MOST_INLINED_LINES
    count = Counter(call.kernel for call in calls(program))
    for name in sorted(count):
        lines = count[name] * inlined_lines(kernels[name])
        if 0 < lines <= left:
            left -= lines
            small.add(name)

    def marked(call: Call) -> Call:
        return replace(call, inline=call.kernel in small)

    return each_scope(program, lambda scope: replace(scope, body=map_calls(scope.body, marked)))


def inlined_lines(kernel: KernelText) -> int:
    """Returns the lines of the text of a kernel that may be inlined; 0 for others."""
    if not isinstance(kernel, SizedKernel) or kernel.parallel:
        return 0
    if kernel.stores > MOST_STORES:
        return 0
    lines = kernel.code.text.count("\n")
    return lines if lines <= MOST_KERNEL_LINES else 0


def expected_costs(program: Program, kernels: Mapping[str, KernelText]) -> dict[str, int]:
    """Returns the nanoseconds that each kernel of a program with control flow may take."""
    names = {call.kernel for call in calls(program)} if has_control_flow(program) else ()
    costs: dict[str, int] = {}
    for name in names:
        kernel = kernels[name]
        if isinstance(kernel, SizedKernel):
            costs[name] = max(1, kernel.stores // STORES_PER_NANOSECOND)
    return costs


@dataclass
class Inlined:
    """The texts of inlined kernels as parts of one module. ``symbols`` are the kernels' functions,
    ``definitions`` what the module defines for them, by name."""

    symbols: dict[str, str] = field(default_factory=dict)
    definitions: dict[str, str] = field(default_factory=dict)
    declarations: set[str] = field(default_factory=set)

    @staticmethod
    def of(program: Program, kernels: Mapping[str, KernelText]) -> Inlined:
        """Returns the texts of the kernels that a program calls inline."""
        inlined, apart = Inlined(), operands_apart(program)
        for name in sorted(apart):
            inlined.add(name, kernels[name], apart[name])
        return inlined

    def add(self, name: str, kernel: KernelText, apart: Iterable[int] = ()) -> None:
        """Adds a kernel, with the numbers of operands that share no memory with what it writes.
        Functions that several kernels have are there once."""
        symbol = f"@{kernel.name}"
        parts: dict[str, str] = {}
        for part in _parts(kernel.code.text):
            if part.startswith("declare "):
                self.declarations.add(part)
            elif defined := _DEFINED.match(part):
                parts[defined[1]] = part
        parts.pop(f"{symbol}.packed", None)
        head = f"define void {symbol}("
        body = (
            parts[symbol].removeprefix(head).replace(" nounwind {", " alwaysinline nounwind {", 1)
        )
        for number in apart:
            body = body.replace(f"ptr %a{number}", f"ptr noalias %a{number}", 1)
        parts[symbol] = f"define internal void {symbol}({body}"
        if any(self.definitions.get(n, text) != text for n, text in parts.items()):
            suffix = f".{len(self.symbols)}"
            names = re.compile("|".join(rf"{re.escape(n)}(?![\w.$-])" for n in parts))
            parts = {
                n + suffix: names.sub(lambda match: match[0] + suffix, text)
                for n, text in parts.items()
            }
            symbol += suffix
        self.definitions |= parts
        self.symbols[name] = symbol

    @property
    def text(self) -> str:
        """All definitions."""
        parts = [*self.definitions.values()]
        if any(" !0" in part for part in parts):
            parts.append("!0 = !{i32 1}")
        return "".join(f"{part}\n" for part in parts)


def operands_apart(program: Program) -> dict[str, set[int]]:
    """The operands of each inlined kernel that share no memory with another one, unless both are
    read, in any call: LLVM is told so, and keeps in registers what a loop only reads."""
    apart: dict[str, set[int]] = {}
    for scope in scopes(program):
        where = places(scope)
        same = {u.source: u.target for u in scope.updates}
        if scope.name != program.name:  # what callers hand over may be the same memory
            same = dict.fromkeys((r.name for r in (*scope.inputs, *scope.outputs)), "")
        for call in (i for i in analysis.walk(scope.body) if isinstance(i, Call) and i.inline):
            roots = [where[o.name].root for o in call.operands]
            memory = [same.get(root, root) for root in roots]
            written = {m for m, o in zip(memory, call.operands, strict=True) if o.access.writes}
            alone = {n for n, m in enumerate(memory) if m not in written or memory.count(m) == 1}
            apart[call.kernel] = apart.get(call.kernel, alone) & alone
    return apart


_DEFINED = re.compile(r"(?:define [^@]*)?(@[\w.$-]+)(?=\(| = )")


def _parts(text: str) -> Iterable[str]:
    """The declarations and definitions of a module, without its metadata."""
    lines = iter(text.split("\n"))
    for line in lines:
        if line.startswith("define "):
            function = [line]
            while function[-1] != "}":
                function.append(next(lines))
            yield "\n".join(function)
        elif line and not line.startswith(("!", ";")):
            yield line
