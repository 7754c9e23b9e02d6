"""Reading PrimFuncs and loop nests back from their text.

The grammars are next to the nodes: expressions in ``expr.py``, PrimFuncs in ``prim.py``, nests in
``nest.py``. What prints parses back to an equal object; comments (``/* ... */``) are skipped.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from ..dims import Symbol, as_int, size, size_symbols
from ..scanner import Scanner
from . import nest as nests
from .expression_parser import AXIS, NAME, SIGN, SIGNS, SIZE, WORD, ExpressionParser
from .kinds import Instruction, LoopKind, Role, Scope
from .nest import Accumulate, Alloc, At, If, Intrinsic, Let, Loop, Nest, Operand, Sort, Stmt, Store
from .pack import SHIFTED, Pack
from .prim import Axis, Buffer, PrimFunc, Stage
from .procedure import procedure
from .scalar import COMBINERS, SCALAR_OPS

_KIND = re.compile(rf"({'|'.join(LoopKind)})\b(?!\s*[\[.])")
_SCOPE = re.compile(rf"({'|'.join(Scope)})\b(?!\s*[\[.])")
_SIZES = re.compile(rf"for\s+{SIZE.pattern}(?:\s*,\s*{SIZE.pattern})*")
INDENT = 2


def parse_prim(text: str, file: str = "<text>") -> PrimFunc:
    """The PrimFunc that ``text`` spells; raises ParseError with line and column.

    >>> prim = parse_prim("prim @f(x: float32[4]) -> y: float32[4] { y[i] = exp(x[i]) }")
    >>> print(prim)
    prim @f(x: float32[4]) -> y: float32[4] {
      y[i] = exp(x[i])
    }
    """
    parser = _Parser(Scanner(text, file))
    prim = parser.prim()
    parser.finish()
    return prim


def read_prim(scan: Scanner) -> PrimFunc:
    """Returns the PrimFunc at the position of ``scan``; text may follow it."""
    return _Parser(scan).prim()


def parse_nest(text: str, file: str = "<text>") -> Nest:
    """The loop nest that ``text`` spells; raises ParseError with line and column.

    >>> nest = parse_nest('''prim @f(x: float32[4]) -> y: float32[4] {
    ...   vectorize i in 4:
    ...     y[i] = exp(x[i])
    ... }''')
    >>> nest.body[0].kind
    'vectorize'
    """
    parser = _Parser(Scanner(text, file))
    nest = parser.nest()
    parser.finish()
    return nest


class _Parser(ExpressionParser):
    # -- headers -------------------------------------------------------------------------------

    def header(self) -> str:
        self.scan.expect("prim")
        self.scan.expect("@")
        name = self.name(NAME, "the name of a kernel")
        self.scan.expect("(")
        # Shapes stand before the ranges of their sizes, which are read first.
        here, self.ranged = self.scan.position, {}
        end = self.scan.text.find("{", here)
        declared = _SIZES.search(self.scan.text, here, max(here, end))
        for name_of_size, low, high in SIZE.findall(declared[0]) if declared else ():
            self.ranged[name_of_size] = size(name_of_size, int(low), int(high))
        return name

    def size_order(self) -> tuple[Symbol, ...]:
        """Takes "for n in 0..4096, ...", which ``header`` has read."""
        self.scan.match(_SIZES)
        return tuple(size_symbols(*self.ranged.values()).values())

    def results(self, *, numbered: bool = False) -> list[tuple[Buffer, tuple[int, str] | None]]:
        """The results, each with the name of the parameter that it begins as, and its position if
        that is ``numbered``."""
        self.scan.expect("->")
        results: list[tuple[Buffer, tuple[int, str] | None]] = []
        while not results or self.scan.accept(","):
            buffer, begins_as = self.buffer(), None
            if self.word("begins"):
                self.scan.expect("as")
                start = self.name(NAME, "the name of a parameter")
                if numbered:
                    self.scan.expect("at")
                begins_as = (self.integer() if numbered else 0, start)
            results.append((buffer, begins_as))
        return results

    def finish(self) -> None:
        if not self.scan.at_end():
            self.scan.fail(f"expected the end, found {self.scan.found()}")

    # -- PrimFuncs -----------------------------------------------------------------------------

    def prim(self) -> PrimFunc:
        name = self.header()
        params: list[Buffer] = []
        for _ in self.scan.listed(")"):
            param = self.buffer()
            if self.word("const"):
                param = Buffer(param.name, param.shape, param.dtype, True)
            params.append(param)
        results = self.results()
        outputs = {b.name: b for b, _ in results}
        begins = tuple((b.name, start[1]) for b, start in results if start is not None)
        order = self.size_order()
        at = self.scan.skip()
        for result, start in begins:
            if not any(p.name == start and p.shape == outputs[result].shape for p in params):
                self.scan.fail(
                    f"{result} cannot begin as {start}: no parameter has that name and shape", at
                )
        if self.word("procedure"):
            workspace, body = self.statements()
            results_of = tuple(outputs.values())
            made = procedure(name, tuple(params), results_of, workspace, body, begins)
            return replace(made, size_order=order)
        if begins:
            self.scan.fail("results of procedures alone begin as a parameter", at)
        self.scan.expect("{")
        stages: list[Stage] = []
        while not self.scan.accept("}"):
            stages.append(self.stage(outputs))
            self.scan.accept(";")
        made = {s.name for s in stages}
        for output in outputs:
            if output not in made:
                self.scan.fail(f"no stage makes the output {output}")
        return PrimFunc(name, tuple(params), tuple(outputs), tuple(stages), order)

    def stage(self, outputs: Mapping[str, Buffer]) -> Stage:
        at = self.scan.skip()
        name = self.name(NAME, "the name of a stage")
        self.scan.expect("[")
        names = [self.name(NAME, "an axis") for _ in self.scan.listed("]")]
        if self.scan.accept(":"):
            dtype = self.dtype()
            buffer = Buffer(name, self.sizes(), dtype)
        elif name in outputs:
            buffer = outputs[name]
        else:
            self.scan.fail(
                f"{name} is not an output, so its type must follow: {name}[...]: float32[...]", at
            )
        if len(names) != len(buffer.shape):
            self.scan.fail(f"{name} has {len(buffer.shape)} dimensions, not {len(names)}", at)
        self.scan.expect("=")
        axes = tuple(Axis(n, size) for n, size in zip(names, buffer.shape, strict=True))
        combiner = self._combiner()
        over: list[Axis] = []
        if combiner is not None:
            for _ in self.scan.listed(")"):
                axis = self.name(NAME, "an axis")
                self.scan.expect(":")
                over.append(Axis(axis, self.int_expr(",)")))
        expr = self.expression()
        self.dtypes[name] = buffer.dtype
        return Stage(buffer, axes, expr, tuple(over), combiner)

    def _combiner(self) -> str | None:
        """Returns the combiner, if one and its opening parenthesis follow; else None."""
        start = self.scan.skip()
        match = self.scan.match(NAME)
        if (match is not None and match[0] in COMBINERS and self.scan.accept("(")) and (
            match[0] not in SCALAR_OPS or self.scan.follow(AXIS)
        ):
            return match[0]
        self.scan.position = start
        return None

    # -- nests ---------------------------------------------------------------------------------

    def nest(self) -> Nest:
        name = self.header()
        operands = [self.operand() for _ in self.scan.listed(")")]
        for buffer, start in self.results(numbered=True):
            role = Role.OUT if start is None else Role.INOUT
            operands.append(Operand(buffer, role, begins_as=start))
        sizes = self.size_order()
        workspace, body = self.statements()
        return Nest(name, tuple(operands), workspace, body, sizes)

    def statements(self) -> tuple[tuple[Buffer, ...], tuple[Stmt, ...]]:
        """The workspace and the statements in braces, which stand a line each."""
        self.scan.expect("{")
        lines = self.lines()
        workspace: list[Buffer] = []
        while lines and self.enter(lines[0]) and self.word("workspace"):
            workspace.append(self.buffer())
            self.leave()
            lines.pop(0)
        body = self.body(lines, 1)
        if lines:
            self.enter(lines[0])
            self.scan.fail("this line is indented further than the one before allows")
        self.scan.position, self.scan.end = self.close, len(self.scan.text)
        self.scan.expect("}")
        return tuple(workspace), body

    def operand(self) -> Operand:
        buffer = self.buffer()
        if self.word("const"):
            return Operand(Buffer(buffer.name, buffer.shape, buffer.dtype, True), Role.CONST)
        if not self.word("packs"):
            return Operand(buffer, Role.IN)
        at = self.scan.skip()
        source = self.name(NAME, "the name of a parameter")
        shape = self.sizes()
        dim, group = self.integer(), None
        if self.word("by"):
            size = self.integer()
            self.scan.expect("of")
            group = (self.integer(), size)
        sizes = buffer.shape[:-1] if group else buffer.shape
        tile = as_int(sizes[-1]) if sizes else 0
        if dim >= len(shape) or tile < 1:
            self.scan.fail(f"{source} has no dimension {dim} to be packed", at)
        if group and (group[0] in (dim, -1) or group[0] >= len(shape) or group[1] < 1):
            self.scan.fail(f"{source} has no dimension {group[0]} to be grouped", at)
        shifted = self.word("shifted")
        if shifted and buffer.dtype not in SHIFTED:
            self.scan.fail(f"elements of {buffer.dtype} are not shifted", at)
        dtype = SHIFTED[buffer.dtype] if shifted else buffer.dtype
        pack = Pack.of(Buffer(source, shape, dtype), dim, tile, group)
        pack = pack.shift() if shifted else pack
        if pack.stage.buffer != buffer:
            self.scan.fail(f"packed so, {source} becomes {pack.stage.buffer}", at)
        buffer = Buffer(buffer.name, buffer.shape, buffer.dtype, True)
        return Operand(buffer, Role.PACKED, pack)

    def lines(self) -> list[tuple[int, int, int]]:
        """The lines up to the closing brace, as (depth, begin, end); empty ones are left out."""
        lines: list[tuple[int, int, int]] = []
        text = self.scan.text
        at = self.scan.position
        self.close = len(text)
        while at < len(text):
            end = text.find("\n", at)
            end = len(text) if end < 0 else end
            line = text[at:end]
            content = line.strip()
            if content == "}":
                self.close = at + line.index("}")
                return lines
            if content:
                indent = len(line) - len(line.lstrip())
                if indent % INDENT:
                    self.scan.fail(f"lines are indented by multiples of {INDENT}", at + indent)
                lines.append((indent // INDENT, at + indent, at + len(line.rstrip())))
            at = end + 1
        return lines

    def enter(self, line: tuple[int, int, int]) -> bool:
        self.scan.position, self.scan.end = line[1:]
        return True

    def leave(self) -> None:
        """The end of a line."""
        if not self.scan.at_end():
            self.scan.fail(f"expected the end of the line, found {self.scan.found()}")

    def body(self, lines: list[tuple[int, int, int]], depth: int) -> tuple[Stmt, ...]:
        """The statements at ``depth``, taken from the front of ``lines``."""
        stmts: list[Stmt] = []
        dtypes, fused = dict(self.dtypes), dict(self.fused)
        while lines and lines[0][0] == depth:
            self.enter(lines.pop(0))
            stmts.append(self.statement(lines, depth))
        self.dtypes, self.fused = dtypes, fused
        return tuple(stmts)

    def inner(self, lines: list[tuple[int, int, int]], depth: int) -> tuple[Stmt, ...]:
        self.scan.expect(":")
        self.leave()
        return self.body(lines, depth + 1)

    def statement(self, lines: list[tuple[int, int, int]], depth: int) -> Stmt:
        if kind := self.scan.match(_KIND):
            var = self.loop_name()
            self.keyword("in")
            extent = self.extent(":")
            by = self.word("by")
            listed = by and self.scan.text.startswith("[", self.scan.skip())
            widths = tuple(map(as_int, self.sizes())) if listed else ()
            together = bool(widths) and self.word("together")
            how = self.instruction() if by and not widths else None
            loop = LoopKind(kind[1]), var, extent, self.inner(lines, depth)
            if widths:
                return nests.Vectors(*loop, widths, together)
            return Intrinsic(*loop, how) if how else Loop(*loop)
        if scope := self.scan.match(_SCOPE):
            buffer, lanes, dim = self.buffer(), 1, None
            if self.word("by"):
                lanes = self.integer()
                self.scan.expect("of")
                dim = self.integer()
            self.leave()
            return Alloc(buffer, Scope(scope[1]), lanes, dim)
        word = self.scan.match(WORD)
        if word is None:
            return self.store()
        if word[1] == "at":
            var = self.loop_name()
            self.keyword("in")
            extent = self.extent("=")
            self.scan.expect("=")
            chosen = self.expression()
            return At(LoopKind.FOR, var, extent, self.inner(lines, depth), chosen)
        if word[1] == "let":
            var = self.loop_name()
            extent = self.extent("=") if self.word("in") else None
            self.scan.expect("=")
            value = self.int_expr("")
            self.leave()
            return Let(var, value, extent)
        if word[1] == "stream":
            at = word.start()
            stmt = self.store()
            if not isinstance(stmt, Store):
                self.scan.fail("only a plain store can be streamed", at)
            return replace(stmt, stream=True)
        if word[1] == "prefetch":
            name = self.name(NAME, "the name of a buffer")
            indices = self.sizes()
            if later := self.word("in"):
                self.keyword("L2")
            self.leave()
            return nests.Prefetch(name, indices, later)
        if word[1] == "sort":
            name = self.name(NAME, "the name of a buffer")
            indices = self.sizes()
            self.keyword("in")
            count = self.extent("")
            self.leave()
            return Sort(name, indices, count)
        if word[1] == "else":
            self.scan.fail("'else' without an 'if' before it", word.start())
        condition = self.expression()
        then = self.inner(lines, depth)
        orelse: tuple[Stmt, ...] = ()
        if lines and lines[0][0] == depth and self.enter(lines[0]) and self.word("else"):
            lines.pop(0)
            orelse = self.inner(lines, depth)
        return If(condition, then, orelse)

    def instruction(self) -> Instruction:
        at = self.scan.skip()
        name = self.name(NAME, "an instruction")
        if name not in tuple(Instruction):
            self.scan.fail(f"no instruction {name!r}; there are {', '.join(Instruction)}", at)
        return Instruction(name)

    def store(self) -> Store | Accumulate:
        name = self.name(NAME, "a statement")
        indices = self.sizes()
        sign = self.name(SIGN, "'=' or a combiner such as '+='")
        value = self.expression()
        self.leave()
        if sign == "=":
            return Store(name, indices, value)
        return Accumulate(name, indices, SIGNS[sign], value)

    # -- expressions ---------------------------------------------------------------------------
