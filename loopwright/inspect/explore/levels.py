"""The levels of a build as lines, each with the lines of the user's program that it comes from.

::

    graph, kernels   by the comments of their text, which name the user's lines
    loops, vector    by the stage whose buffer a line writes, and the operators of that stage
    llvm, asm        by the line of the nest in vectors that they compute (``origins``)
"""

from __future__ import annotations

import linecache
import re
from collections.abc import Iterator, Sequence
from dataclasses import field
from difflib import SequenceMatcher

from ...codegen.lower.lowering import lowered
from ...driver.built import Parts, Source
from ...ir.dataclass import dataclass
from ...ir.graph.fusion.to_prim import _Lowering
from ...ir.graph.nodes import Function, Module
from ...ir.graph.operator import Pattern
from ...ir.graph.printer import as_text
from ...ir.graph.walk import called_by
from ...ir.loop.nest import Accumulate, Alloc, Nest, Prefetch, Sort, Stmt, Store, statements
from ...ir.program.analysis import calls
from ...ir.span import Span, full_path
from .origins import Steps, assembly, llvm_steps

Sources = list[list[int]]
"""For each line, the numbers of the user's lines that it comes from."""

CONTEXT = 3
"""Lines of the user's that are shown around those that something comes from."""

LONGEST_WHOLE_FILE = 300
"""Lines up to which a file of the user's is shown whole."""


@dataclass(frozen=True, slots=True)
class Level:
    """A text, line by line. ``steps`` are the lines of the nest in vectors that a line belongs to,
    ``llvm`` the line of the LLVM text that a line of assembly computes, -1 for none."""

    lines: list[str]
    sources: Sources
    steps: Steps | None = None
    llvm: list[int] | None = None


@dataclass
class Places:
    """The user's lines, numbered as they are met."""

    numbers: dict[tuple[str, int], int] = field(default_factory=dict[tuple[str, int], int])

    def number(self, span: Span | None) -> list[int]:
        """Returns the number of a line, in a list; an empty one if it is not known."""
        if span is None:
            return []
        return [self.numbers.setdefault((span.file, span.line), len(self.numbers))]

    def all(self, spans: Iterator[Span | None]) -> list[int]:
        """Returns the numbers of several lines, each once."""
        return sorted({n for span in spans for n in self.number(span)})

    def source(self) -> list[tuple[str, list[tuple[int, str, int]]]]:
        """Returns the files, and of each its lines as they are shown: the number of the line in
        the file (0 for a gap), its text, and the number of the place, -1 for none."""
        files: dict[str, dict[int, int]] = {}
        for (file, line), number in self.numbers.items():
            files.setdefault(file, {})[line] = number
        read = linecache.getlines
        return [(file, [*_shown(read(full_path(file)), at)]) for file, at in files.items()]


def _shown(lines: Sequence[str], places: dict[int, int]) -> Iterator[tuple[int, str, int]]:
    last = 0
    for n, text in enumerate(lines, 1):
        near = any(abs(n - place) <= CONTEXT for place in places)
        if not near and len(lines) > LONGEST_WHOLE_FILE:
            continue
        if n > last + 1:
            yield 0, "", -1
        yield n, text.rstrip(), places.get(n, -1)
        last = n


_COMMENT = re.compile(r" +/\* (.+):(\d+)(?:  .*)? \*/$")


def located(text: str, places: Places) -> Level:
    """Returns the text of a graph without its comments, which name the user's lines."""
    lines, sources = [], list[list[int]]()
    for line in text.rstrip().split("\n"):
        comment = _COMMENT.search(line)
        lines.append(line[: comment.start()] if comment else line)
        sources.append(places.number(Span(comment[1], int(comment[2]))) if comment else [])
    return Level(lines, sources)


def program_level(parts: Parts, sources_by_kernel: dict[str, list[int]], places: Places) -> Level:
    """Returns the program, in which calls of kernels have the lines that these are from."""
    lines = str(parts.program).rstrip().split("\n")
    spans = [call.span for call in calls(parts.program)]
    called = [re.match(r" *call (?:inline )?@([\w.]+)\(", line) for line in lines]
    if sum(1 for match in called if match) != len(spans):
        spans = []
    each = iter(spans)
    sources: Sources = []
    for match in called:
        span = next(each, None) if match else None
        whole = sources_by_kernel.get(match[1], []) if match else []
        sources.append(sorted({*places.number(span), *(whole if len(whole) <= 8 else ())}))
    return Level(lines, sources)


def kernel_sources(source: Source, name: str, places: Places) -> tuple[list[int], bool]:
    """Returns the lines of the user's that a kernel is from, and whether one call needs it."""
    group = source.lowered.functions.get(name)
    spans = [call.span for called, call in called_by(source.lowered) if called == name]
    single = len({(s.file, s.line) for s in spans if s is not None}) <= 1
    inside: list[Span | None] = []
    if isinstance(group, Function):
        inside = [getattr(b.value, "span", None) for b in group.body.bindings]
    return places.all(iter([*spans, *inside])), single


def kernel_levels(
    parts: Parts, source: Source, name: str, places: Places
) -> tuple[list[int], dict[str, Level]]:
    """Returns the lines that a kernel is from, and its levels by name."""
    whole, single = kernel_sources(source, name, places)
    prim, kernel, group = parts.prims[name], parts.kernels[name], source.lowered.functions[name]
    by_stage = _stage_sources(group, places) if single else []
    stages = {s.name: at for s, at in zip(prim.stages, by_stage)} if by_stage else {}
    prim_lines = str(prim).rstrip().split("\n")
    has_stages = len(by_stage) == len(prim.stages) == len(prim_lines) - 2
    levels = {"kernel": Level(prim_lines, [whole] * len(prim_lines))}
    if isinstance(group, Function):
        head = located(as_text(Module({name: group})), places)
        of_stages = [[], *by_stage, []] if has_stages else [whole] * len(prim_lines)
        sources = [*head.sources, [], *of_stages]
        sources = sources if single else [whole if each else [] for each in sources]
        levels["kernel"] = Level([*head.lines, "", *prim_lines], sources)
    stages = stages if has_stages else {}
    nest = lowered(kernel.nest, parts.target)
    vector = _nest_level(nest, name, stages, whole)
    loops = _nest_level(kernel.nest, name, stages, whole)
    llvm = kernel.text.rstrip().split("\n")
    steps = llvm_steps(kernel, parts.target)
    asm, numbers = assembly(kernel.text, parts.target)

    def of(steps: Steps | None, count: int) -> Sources:
        if steps is None:
            return [whole] * count
        return [sorted({n for s in each for n in vector.sources[s]}) for each in steps]

    symbol = kernel.name  # named after the kernel's text, which says nothing here
    llvm, asm = ([line.replace(symbol, f"lw_{name}") for line in text] for text in (llvm, asm))
    of_asm = None if steps is None else [steps[n] if n >= 0 else [] for n in numbers]
    steps = steps if steps is None else steps[: len(llvm)]
    levels["loops"] = Level(loops.lines, loops.sources, _aligned(loops.lines, vector.lines))
    levels["vector"] = Level(vector.lines, vector.sources, [[n] for n in range(len(vector.lines))])
    levels["llvm"] = Level(llvm, of(steps, len(llvm)), steps)
    levels["asm"] = Level(asm, of(of_asm, len(asm)), of_asm, numbers)
    return whole, levels


def _stage_sources(group: object, places: Places) -> Sources:
    """Returns the lines of the operators of each stage that a group becomes; none for a group that
    becomes a procedure."""
    lowering = _Lowering(group, frozenset()) if isinstance(group, Function) else None
    if not lowering or any(c.operator.pattern == Pattern.OPAQUE for _, c in lowering.calls):
        return []
    names = [stage.name for stage in lowering.prim("").stages]
    operators = {id(var): call for var, call in lowering.calls}
    stored = {key: lowering.stored.get(key, f"r{key}") for key in operators}
    spans: dict[str, list[Span | None]] = {name: [] for name in names}
    for end, name in stored.items():
        work = [end] if name in spans else []
        while work:
            call = operators[work.pop()]
            spans[name].append(call.span)
            inner = (id(a) for a in call.args if id(a) in operators)
            work += [key for key in inner if stored[key] not in spans]
    return [places.all(iter(spans[name])) for name in names]


def _nest_level(nest: Nest, name: str, stages: dict[str, list[int]], whole: list[int]) -> Level:
    """Returns a nest in which each line has the sources of the stages that it writes."""
    pairs = [*nest.lines()]
    lines = [line for line, _ in pairs]
    lines[0] = lines[0].replace(f"@{nest.name}(", f"@{name}(", 1)
    sources: Sources = []
    for _, stmt in pairs:
        roots = {buffer.partition(".")[0] for buffer in _written(stmt)} if stmt else set[str]()
        if roots and roots <= stages.keys():
            sources.append(sorted({n for root in roots for n in stages[root]}))
        else:
            sources.append(whole if stmt is not None else [])
    return Level(lines, sources)


def _written(stmt: Stmt) -> Iterator[str]:
    """Yields the buffers that a statement declares or writes, and those inside it do."""
    for each in statements((stmt,)):
        if isinstance(each, Alloc):
            yield each.buffer.name
        elif isinstance(each, Store | Accumulate | Sort):
            yield each.buffer
        elif isinstance(each, Prefetch):
            yield "prefetch"


def _aligned(loops: Sequence[str], vector: Sequence[str]) -> Steps:
    """Returns, for each line of a nest, that of the nest in vectors which it becomes."""

    def plain(line: str) -> str:
        return re.sub(r"^( *)(?:vectorize|reduce|stack|registers) |( by .*)?:?$", r"\1", line)

    steps: Steps = [[] for _ in loops]
    matcher = SequenceMatcher(None, [*map(plain, loops)], [*map(plain, vector)], autojunk=False)
    for tag, a0, a1, b0, b1 in matcher.get_opcodes():
        for n in range(a0, a1):
            if tag == "equal":
                steps[n] = [b0 + n - a0]
            elif tag == "replace":
                steps[n] = [*range(b0, b1)]
    return steps
