"""Finds which statements of a kernel's nest each line of its LLVM text and assembly computes.

::

    nest -> written again, each value named after its statement -> LLVM line -> statements
    LLVM text with line numbers as debug information            -> assembly line -> LLVM line

A kernel whose text does not come out the same when it is written again has no such lines.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ...codegen.emit.nests import NestEmitter
from ...codegen.kernel import Kernel, KernelModule
from ...codegen.limits import text_limit
from ...codegen.llvm.engine import disassemble
from ...codegen.target import Target
from ...ir.errors import LoopwrightError
from ...ir.loop.nest import Loop, Stmt, statement_lines

Steps = list[list[int]]
"""For each line, the numbers of the lines of the nest in vectors that it belongs to."""


def _emitter(first: int) -> type[NestEmitter]:
    """Returns an emitter of one nest, whose values are named after the statement that they are
    written for: the number of its line, of which that of the first statement is ``first``."""
    numbers: dict[int, int] = {}
    body_of_nest: list[Sequence[Stmt]] = []  # held, so that no identity is used twice

    class Marking(NestEmitter):
        @contextmanager
        def _marked(self, stmt: Stmt) -> Iterator[None]:
            before, number = self.w.prefix, numbers.get(id(stmt))
            self.w.prefix = before if number is None else f"v.L{number}."
            yield
            self.w.prefix = before

        def body(self, stmts: Sequence[Stmt], env: Any) -> None:
            if not body_of_nest:
                body_of_nest.append(stmts)
                for number, (_, stmt) in enumerate(statement_lines(tuple(stmts), 1), first):
                    if stmt is not None:
                        numbers[id(stmt)] = number
            super().body(stmts, env)

        def loop(self, stmt: Loop, env: Any) -> None:
            with self._marked(stmt):
                super().loop(stmt, env)

        def store(self, stmt: Any, env: Any, memo: Any = None) -> None:
            with self._marked(stmt):
                super().store(stmt, env, memo)

        def accumulate(self, stmt: Any, env: Any) -> None:
            with self._marked(stmt):
                super().accumulate(stmt, env)

    return Marking


_DEFINE = re.compile(r"define .*@([\w.]+)\(.*\{$")
_MARK = re.compile(r"%v\.L(\d+)\.(?=\d)")


def llvm_steps(kernel: Kernel, target: Target) -> Steps | None:
    """Returns the steps of each line of a kernel's LLVM text; None if they are not known."""
    nest = kernel.nest
    module = KernelModule(kernel.name, target)
    module.emitter = _emitter(1 + len(nest.workspace))
    try:
        module.add(nest, 4 * text_limit(nest))
        text = module.text(len(nest.operands), len(nest.sizes))
    except LoopwrightError:
        return None
    if _MARK.sub("%v", text) != kernel.text:
        return None
    steps: Steps = []
    for line in text.split("\n"):
        names, _, used = line.partition(" = ") if line.startswith("  %") else ("", "", line)
        marks = _MARK.findall(names) or _MARK.findall(used)[-1:]
        if not marks and line.startswith("  ") and " = " not in line and steps:
            marks = steps[-1] if line.startswith("  br") else []
        steps.append([int(m) for m in marks])
    return _with_helpers(text.split("\n"), steps)


def _with_helpers(lines: Sequence[str], steps: Steps) -> Steps:
    """Returns steps in which functions that a kernel calls belong to the steps that call them."""
    callers: dict[str, set[int]] = {}
    for line, each in zip(lines, steps, strict=True):
        called = re.search(r" call .*?@([\w.]+)\(", line)
        if called:
            callers.setdefault(called[1], set()).update(each)
    inside: list[int] = []
    whole: Steps = []
    for line, each in zip(lines, steps, strict=True):
        define = _DEFINE.match(line)
        inside = sorted(callers.get(define[1], ())) if define else [] if line == "}" else inside
        whole.append(each or (inside if line.startswith("  ") else []))
    return whole


def with_lines(text: str) -> str:
    """Returns LLVM text with the numbers of its lines, from 1, as debug information."""
    lines: list[str] = []
    scope, extra = 0, [
        "!llvm.dbg.cu = !{!900}",
        "!llvm.module.flags = !{!901}",
        "!900 = distinct !DICompileUnit(language: DW_LANG_C99, file: !902, "
        "emissionKind: LineTablesOnly)",
        '!901 = !{i32 2, !"Debug Info Version", i32 3}',
        '!902 = !DIFile(filename: "kernel.ll", directory: "/")',
        "!903 = !DISubroutineType(types: !{})",
    ]  # fmt: skip
    for number, line in enumerate(text.split("\n"), 1):
        define = _DEFINE.match(line)
        if define:
            scope = 1000 + 2 * number
            line = f"{line[:-1]}!dbg !{scope} {{"
            extra.append(
                f'!{scope} = distinct !DISubprogram(name: "{define[1]}", scope: !902, file: !902, '
                f"line: {number}, type: !903, unit: !900, spFlags: DISPFlagDefinition)"
            )
        elif line == "}":
            scope = 0
        elif scope and line.startswith("  ") and not line.endswith(("[", ",")) and line[2:] != "]":
            line += f", !dbg !{1001 + 2 * number}"
            extra.append(f"!{1001 + 2 * number} = !DILocation(line: {number}, scope: !{scope})")
        lines.append(line)
    return "\n".join([*lines, *extra, ""])


_HIDDEN = re.compile(r"\s*\.(loc|file|cfi_\w+|ident|type|size|text|p2align)\b|\.L(tmp|func_)\w+:")


def assembly(text: str, target: Target) -> tuple[list[str], list[int]]:
    """Returns the assembly of LLVM text, and of each line the LLVM line from 0 that it computes;
    -1 where that is not known."""
    try:
        code = disassemble(with_lines(text), target)
    except LoopwrightError:
        plain = disassemble(text, target).rstrip().split("\n")
        return plain, [-1] * len(plain)
    lines: list[str] = []
    numbers: list[int] = []
    current = -1
    for line in code.split("\n"):
        if re.match(r"\s*\.section\s+\.debug", line):
            break
        place = re.match(r"\s*\.loc\s+\d+\s+(\d+)", line)
        if place:
            current = int(place[1]) - 1
        if not _HIDDEN.match(line) and line.strip():
            label = line.endswith(":")
            current = -1 if label and not line.startswith(".L") else current
            plain = re.sub(r"\s+#.*", "", line).rstrip()
            lines.append(plain.replace("\t", "    ", 1).expandtabs(12))
            numbers.append(-1 if label or line.lstrip().startswith(".") else current)
    return lines, numbers
