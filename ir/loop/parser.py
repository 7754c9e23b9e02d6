"""Reading PrimFuncs and loop nests back from their text.

The grammars are next to the nodes: expressions in ``expr.py``, PrimFuncs in ``prim.py``, nests in
``nest.py``. What prints parses back to an equal object; comments (``/* ... */``) are skipped.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from ..dims import IntExpr, Symbol, as_int, size, size_symbols, substitute, symbol
from ..dims_parser import parse_dim
from ..dtype import DTYPES, FLOAT32, INT64, DType
from ..errors import InternalError, ParseError
from ..scanner import Scanner
from .expr import Expr, IndexLike, cast, const, index, op, read
from .kinds import Instruction, LoopKind, Role, Scope
from .nest import (
    Accumulate,
    Alloc,
    At,
    If,
    Intrinsic,
    Let,
    Loop,
    Nest,
    Operand,
    Prefetch,
    Sort,
    Stmt,
    Store,
)
from .pack import SHIFTED, Pack
from .prim import Axis, Buffer, PrimFunc, Stage
from .procedure import procedure
from .scalar import COMBINERS, SCALAR_OPS

_NAME = re.compile(r"[A-Za-z_][\w.]*")
_AXIS = re.compile(r"(?=\s*(\)|[A-Za-z_][\w.]*\s*:))")  # of a combiner, no operand
_LOOP = re.compile(r"[A-Za-z_][\w.]*(?:\*[A-Za-z_][\w.]*)*")  # a fused loop is called i.0*j.0
_INT = re.compile(r"\d+")
_NUMBER = re.compile(r"(-?(?:\d+(\.\d*)?([eE][-+]?\d+)?|inf|nan))(?::([a-z]+\d+))?(?![\w.])")
_BOOL = re.compile(r"(True|False)\b")
_VALUE = re.compile(r"%\d+")
_SIGNS = {combiner.sign: name for name, combiner in COMBINERS.items()}
_SYMBOLS = {row.symbol: row.name for row in SCALAR_OPS.values() if row.symbol}
_SYMBOL = re.compile("|".join(re.escape(s) for s in sorted(_SYMBOLS, key=len, reverse=True)))
_SIGN = re.compile("|".join(re.escape(s) for s in sorted([*_SIGNS, "="], key=len, reverse=True)))
_KIND = re.compile(rf"({'|'.join(LoopKind)})\b(?!\s*[\[.])")
_SCOPE = re.compile(rf"({'|'.join(Scope)})\b(?!\s*[\[.])")
_WORD = re.compile(r"(let|if|else|at|prefetch|sort|stream)\b(?!\s*[\[.])")
_SIZE = re.compile(r"([A-Za-z_][\w.]*)\s+in\s+(\d+)\s*\.\.\s*(\d+)")
_SIZES = re.compile(rf"for\s+{_SIZE.pattern}(?:\s*,\s*{_SIZE.pattern})*")
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


class _Parser:
    def __init__(self, scan: Scanner) -> None:
        self.scan = scan
        self.dtypes: dict[str, DType] = {}  # of the buffers declared so far
        self.values: dict[str, Expr] = {}  # names bound by "let" in this expression
        self.fused: dict[str, str] = {}  # names with a "*" in them, by a plain substitute
        self.ranged: dict[str, IntExpr] = {}  # the symbolic sizes

    # -- headers -------------------------------------------------------------------------------

    def name(self, pattern: re.Pattern[str], what: str) -> str:
        match = self.scan.match(pattern)
        if match is None:
            self.scan.fail(f"expected {what}, found {self.scan.found()}")
        return match[0]

    def word(self, text: str) -> bool:
        """Take ``text`` if it is the next word."""
        return self.scan.match(re.compile(rf"{text}\b")) is not None

    def keyword(self, text: str) -> None:
        """Take ``text``, which has to be the next word."""
        if not self.word(text):
            self.scan.fail(f"expected {text!r}, found {self.scan.found()}")

    def integer(self) -> int:
        return int(self.name(_INT, "a number"))

    def dtype(self) -> DType:
        at = self.scan.skip()
        name = self.name(_NAME, "a dtype")
        if name not in DTYPES:
            self.scan.fail(f"no dtype {name!r}", at)
        return DTYPES[name]

    def buffer(self) -> Buffer:
        """``name: dtype[size, ...]``, which is declared."""
        name = self.name(_NAME, "the name of a buffer")
        self.scan.expect(":")
        dtype = self.dtype()
        buffer = Buffer(name, self.sizes(), dtype)
        self.dtypes[name] = dtype
        return buffer

    def sizes(self) -> tuple[IntExpr, ...]:
        """Sizes, or indices, in brackets."""
        self.scan.expect("[")
        return tuple(self.int_expr(",]") for _ in self.scan.listed("]"))

    def int_expr(self, stop: str) -> IntExpr:
        at = self.scan.skip()
        return self._dim(self.scan.balanced(stop), at)

    def _dim(self, text: str, at: int) -> IntExpr:
        names = sorted(self.fused, key=len, reverse=True)
        for plain in names:
            text = text.replace(self.fused[plain], plain)
        try:
            value = parse_dim(text)
        except ParseError as error:
            self.scan.fail(error.message, at)
        if not names and not self.ranged:
            return value
        return substitute(value, {**{p: symbol(n) for p, n in self.fused.items()}, **self.ranged})

    def header(self) -> str:
        self.scan.expect("prim")
        self.scan.expect("@")
        name = self.name(_NAME, "the name of a kernel")
        self.scan.expect("(")
        # Shapes stand before the ranges of their sizes, which are read first.
        here, self.ranged = self.scan.position, {}
        end = self.scan.text.find("{", here)
        declared = _SIZES.search(self.scan.text, here, max(here, end))
        for name_of_size, low, high in _SIZE.findall(declared[0]) if declared else ():
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
                start = self.name(_NAME, "the name of a parameter")
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
        name = self.name(_NAME, "the name of a stage")
        self.scan.expect("[")
        names = [self.name(_NAME, "an axis") for _ in self.scan.listed("]")]
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
                axis = self.name(_NAME, "an axis")
                self.scan.expect(":")
                over.append(Axis(axis, self.int_expr(",)")))
        expr = self.expression()
        self.dtypes[name] = buffer.dtype
        return Stage(buffer, axes, expr, tuple(over), combiner)

    def _combiner(self) -> str | None:
        """Returns the combiner, if one and its opening parenthesis follow; else None."""
        start = self.scan.skip()
        match = self.scan.match(_NAME)
        if (match is not None and match[0] in COMBINERS and self.scan.accept("(")) and (
            match[0] not in SCALAR_OPS or self.scan.follow(_AXIS)
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
        source = self.name(_NAME, "the name of a parameter")
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
            how = self.instruction() if by else None
            loop = Loop(LoopKind(kind[1]), var, extent, self.inner(lines, depth))
            return Intrinsic(loop.kind, var, extent, loop.body, how) if how else loop
        if scope := self.scan.match(_SCOPE):
            buffer = self.buffer()
            self.leave()
            return Alloc(buffer, Scope(scope[1]))
        word = self.scan.match(_WORD)
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
            name = self.name(_NAME, "the name of a buffer")
            indices = self.sizes()
            if later := self.word("in"):
                self.keyword("L2")
            self.leave()
            return Prefetch(name, indices, later)
        if word[1] == "sort":
            name = self.name(_NAME, "the name of a buffer")
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
        name = self.name(_NAME, "an instruction")
        if name not in tuple(Instruction):
            self.scan.fail(f"no instruction {name!r}; there are {', '.join(Instruction)}", at)
        return Instruction(name)

    def extent(self, stop: str) -> IntExpr:
        """The extent of a loop, behind which ``by`` may stand."""
        at = self.scan.skip()
        text, by, _ = self.scan.balanced(stop).partition(" by ")
        self.scan.position = at + len(text) + (1 if by else 0)
        return self._dim(text, at)

    def loop_name(self) -> str:
        name = self.name(_LOOP, "the name of a loop")
        if "*" in name:
            self.fused[f"fused_{len(self.fused)}_"] = name
        return name

    def store(self) -> Store | Accumulate:
        name = self.name(_NAME, "a statement")
        indices = self.sizes()
        sign = self.name(_SIGN, "'=' or a combiner such as '+='")
        value = self.expression()
        self.leave()
        if sign == "=":
            return Store(name, indices, value)
        return Accumulate(name, indices, _SIGNS[sign], value)

    # -- expressions ---------------------------------------------------------------------------

    def expression(self) -> Expr:
        """A whole right-hand side: ``let`` bindings, then an expression without parentheses."""
        self.values = {}
        while self.word("let"):
            name = self.name(_VALUE, "a name such as %0")
            self.scan.expect("=")
            self.values[name] = self.infix(self.expr())
            self.scan.expect(";")
        return self.infix(self.expr())

    def infix(self, left: Expr) -> Expr:
        """``left symbol expr``, or only ``left`` if no symbol follows."""
        at = self.scan.skip()
        match = self.scan.match(_SYMBOL)
        if match is None:
            return left
        return self.apply(_SYMBOLS[match[0]], (left, self.expr()), at)

    def expr(self) -> Expr:
        at = self.scan.skip()
        if number := self.scan.match(_NUMBER):
            return self.number(number, at)
        if truth := self.scan.match(_BOOL):
            return const(truth[1] == "True", DTYPES["bool"])
        if value := self.scan.match(_VALUE):
            if value[0] not in self.values:
                self.scan.fail(f"no value {value[0]}", at)
            return self.values[value[0]]
        if self.scan.accept("("):
            inside = self.infix(self.expr())
            self.scan.expect(")")
            return inside
        name = self.name(_NAME, "an expression")
        if self.scan.accept("["):
            return self.read(name, at)
        self.scan.expect("(")
        if name == "index":
            inner = self.int_expr(")")
            self.scan.expect(")")
            return index(inner)
        args = [self.infix(self.expr()) for _ in self.scan.listed(")")]
        if name in DTYPES and len(args) == 1:
            return cast(args[0], DTYPES[name])
        return self.apply(name, tuple(args), at)

    def apply(self, name: str, args: tuple[Expr, ...], at: int) -> Expr:
        if name not in SCALAR_OPS or name == "cast":
            self.scan.fail(f"no scalar operator {name!r}", at)
        try:
            return op(name, *args)
        except InternalError as error:
            self.scan.fail(error.message, at)

    def number(self, match: re.Match[str], at: int) -> Expr:
        text, point, exponent, name = match.groups()
        if name is not None and name not in DTYPES:
            self.scan.fail(f"no dtype {name!r}", at)
        whole = point is None and exponent is None and text.lstrip("-").isdigit()
        dtype = DTYPES[name] if name else INT64 if whole else FLOAT32
        if not whole and not dtype.is_float:
            self.scan.fail(f"{text} is not of dtype {dtype}", at)
        try:
            return const(int(text) if whole and not dtype.is_float else float(text), dtype)
        except OverflowError:
            self.scan.fail(f"{text} is not of dtype {dtype}", at)

    def read(self, name: str, at: int) -> Expr:
        if name not in self.dtypes:
            self.scan.fail(f"no buffer {name!r}", at)
        indices = [self.index() for _ in self.scan.listed("]")]
        return read(name, indices, self.dtypes[name])

    def index(self) -> IndexLike:
        """A plain index, or an expression: one that reads, applies an operator or names a value."""
        start = self.scan.skip()
        text = self.scan.balanced(",]")
        calls = set(re.findall(r"([\w.]+)\s*\(", text)) - {"min", "max"}
        if "[" not in text and "%" not in re.sub(r" % ", "", text) and not calls:
            return self._dim(text, start)
        self.scan.position = start
        return self.expr()
