"""The program IR's text read back: ``parse_program(str(p)) == p``."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from ..dims import Dim, IntExpr, Symbol, bounds, ceildiv, size, substitute, symbols
from ..dims_parser import parse_dim
from ..dtype import DTYPES, DType
from ..errors import ParseError
from ..size_table import SizeCheck
from ..window import Window
from . import nodes

_TOKEN = re.compile(
    r"[ \t\r]*(?:(?P<comment>#[^\n]*)"
    r'|(?P<token>"(?:[^"\\\n]|\\.)*"|[%@]?[\w.]+|//|[!=<]=|[-(){}\[\]:,=+<*%]|\n))'
)

_KEYWORDS = {"free", "call", "library", "invoke", "copy", "swap", "size", "if", "while", "for"}


def parse_program(text: str) -> nodes.Program:
    """A program from its text. Constants come back without values.

    Raises ParseError with the number of the line where the text leaves the grammar.

    >>> p = parse_program("program @f(@in %x: int8[4], @out %y: int8[4]) { copy @in %x, @out %y }")
    >>> print(p, end="")
    program @f(@in %x: int8[4], @out %y: int8[4]) {
      copy @in %x, @out %y
    }
    """
    parser = _Parser(text)
    program = parser.program()
    if parser.peek():
        raise parser.wrong("the end")
    return program


class _Parser:
    def __init__(self, text: str) -> None:
        self.tokens: list[tuple[str, int]] = []
        self.position = 0
        line, position, end = 1, 0, len(text.rstrip())
        while position < end:
            match = _TOKEN.match(text, position)
            if match is None:
                raise ParseError(f"line {line}: unexpected {text[position:].strip()[:1]!r}")
            token = match["token"]
            if token == "\n":
                line += 1
            elif token is not None:
                self.tokens.append((token, line))
            position = match.end()
        self.last_line = line
        self.sizes: dict[str, Dim] = {}  # of the program or function that is read

    def peek(self) -> str:
        return self.tokens[self.position][0] if self.position < len(self.tokens) else ""

    def wrong(self, wanted: str) -> ParseError:
        token = repr(self.peek()) if self.peek() else "the end"
        return ParseError(f"line {self.line()}: expected {wanted}, found {token}")

    def line(self) -> int:
        at_end = self.position >= len(self.tokens)
        return self.last_line if at_end else self.tokens[self.position][1]

    def take(self, token: str) -> bool:
        if self.peek() != token:
            return False
        self.position += 1
        return True

    def expect(self, token: str) -> None:
        if not self.take(token):
            raise self.wrong(repr(token))

    def listed(self, close: str) -> Iterator[None]:
        """Runs once before each item of a list; takes the commas, and ``close`` behind them."""
        while not self.take(close):
            yield
            if self.peek() != close:
                self.expect(",")

    def word(self, pattern: str, wanted: str) -> str:
        token = self.peek()
        if not re.fullmatch(pattern, token):
            raise self.wrong(wanted)
        self.position += 1
        return token

    def number(self) -> int:
        return int(self.word(r"\d+", "a number"))

    def signed(self) -> int:
        return -self.number() if self.take("-") else self.number()

    def int_expr(self, *ends: str) -> IntExpr:
        """An expression over sizes, up to one of ``ends`` outside of parentheses, or the end of the
        line."""
        first, depth, line = self.position, 0, self.line()
        while self.peek() and self.line() == line and (depth or self.peek() not in ends):
            depth += {"(": 1, ")": -1}.get(self.peek(), 0)
            self.position += 1
        text = " ".join(token for token, _ in self.tokens[first : self.position])
        if not text:
            raise self.wrong("a size")
        try:
            expr = parse_dim(text)
        except ParseError as error:
            raise ParseError(f"line {line}: {error.message}") from None
        unknown = symbols(expr) - self.sizes.keys()
        if unknown:
            raise ParseError(f"line {line}: there is no size {min(unknown)}")
        return substitute(expr, self.sizes)

    def int_exprs(self) -> tuple[IntExpr, ...]:
        """Expressions in parentheses."""
        self.expect("(")
        return tuple(self.int_expr(",", ")") for _ in self.listed(")"))

    def ranges(self) -> tuple[Symbol, ...]:
        """Sizes with their ranges."""
        sizes: list[Symbol] = []
        while self.take("," if sizes else "for"):
            name = self.word(r"[A-Za-z_][\w.]*", "the name of a size")
            self.expect("in")
            low, _, high = self.word(r"\d+\.\.\d+", "a range").partition("..")
            sizes.append(Symbol(name, int(low), int(high)))
        return tuple(sizes)

    def name(self) -> str:
        return self.word(r"%[\w.]+", "a %name")[1:]

    def global_name(self) -> str:
        return self.word(r"@[\w.]+", "an @name")[1:]

    def program(self) -> nodes.Program:
        self.expect("program")
        one = self.unit()
        functions: list[nodes.Program] = []
        while self.take("function"):
            self.expect("program")
            functions.append(self.unit())
        return replace(one, functions=tuple(functions))

    def unit(self) -> nodes.Program:
        name = self.global_name()
        # The parameters stand before the ranges of the sizes in their shapes.
        first = self.position
        while self.peek() and self.peek() not in ("for", "arena", "{"):
            self.position += 1
        sizes = self.ranges()
        self.sizes = {s.name: size(s.name, s.low or 0, s.high or 0) for s in sizes}
        behind = self.position
        self.find_set_sizes()
        self.position = first
        inputs, outputs, inout = self.params()
        self.position = max(self.position, behind)
        arena = None
        if self.take("arena"):
            arena = self.int_expr("bytes")
            self.expect("bytes")
        self.expect("{")
        constants: list[nodes.Constant] = []
        if self.take("const"):
            constants.append(nodes.Constant(self.region()))
            while self.take(","):
                constants.append(nodes.Constant(self.region()))
        checks: list[SizeCheck] = []
        while self.take("requires"):
            left = self.int_expr("==", "!=", "<", "<=")
            relation = self.word("==|!=|<|<=", "a relation")
            checks.append(SizeCheck(left, relation, self.int_expr()))
        body: list[nodes.Instr] = []
        updates: list[nodes.Update] = []
        while not self.take("}"):
            if self.take("update"):
                updates.append(self.update())
            elif updates:
                raise self.wrong("an update, or the end of the program")
            else:
                body.append(self.instr())
        return nodes.Program(
            name,
            inputs,
            outputs,
            tuple(constants),
            tuple(body),
            arena,
            tuple(updates),
            sizes=sizes,
            checks=tuple(checks),
            inout=inout,
        )

    def find_set_sizes(self) -> None:
        """Declares the sizes that instructions set; the shapes of outputs may have them."""
        while self.peek() and self.peek() != "function":
            if self.take("size"):
                self.set_size()
            else:
                self.position += 1

    def set_size(self) -> nodes.SetSize:
        name = self.word(r"[A-Za-z_][\w.]*", "the name of a size")
        self.expect("=")
        count = self.name()
        self.expect("at")
        self.expect("most")
        most = self.int_expr()
        inside = bounds(most, {})
        assert inside is not None
        size = Symbol(name, 0, max(0, inside[1]))
        self.sizes[name] = size.expr
        return nodes.SetSize(size, count, most)

    def update(self) -> nodes.Update:
        target = self.name()
        window = self.window() if self.take("[") else None
        self.expect("with")
        source = self.name()
        in_place = self.take("in")
        if in_place:
            self.expect("place")
        return nodes.Update(target, source, window, in_place)

    def window(self) -> Window:
        axes: list[tuple[IntExpr, int, IntExpr]] = []
        for _ in self.listed("]"):
            begin = self.int_expr(":")
            self.expect(":")
            end = self.int_expr(":", ",", "]")
            step = self.number() if self.take(":") else 1
            length = end - begin
            if step < 1 or (isinstance(length, int) and length < 1):
                raise ParseError(f"line {self.line()}: the slice {begin}:{end}:{step} is empty")
            axes.append((begin, step, ceildiv(length, step)))
        return tuple(axes)

    def params(
        self,
    ) -> tuple[tuple[nodes.Region, ...], tuple[nodes.Region, ...], tuple[str, ...]]:
        """The inputs, the outputs, and the names of the inputs that are written."""
        inputs: list[nodes.Region] = []
        inout: list[str] = []
        outputs: list[nodes.Region] = []
        self.expect("(")
        for _ in self.listed(")"):
            access = self.word("@in|@inout|@out", "@in, @inout or @out")
            if access != "@out" and outputs:
                raise ParseError(f"line {self.line()}: inputs stand before outputs")
            (outputs if access == "@out" else inputs).append(self.region())
            inout += [inputs[-1].name] if access == "@inout" else []
        return tuple(inputs), tuple(outputs), tuple(inout)

    def region(self) -> nodes.Region:
        name = self.name()
        self.expect(":")
        return nodes.Region(name, *self.array_type())

    def array_type(self) -> tuple[tuple[IntExpr, ...], DType]:
        dtype = DTYPES[self.word("|".join(DTYPES), "a dtype")]
        self.expect("[")
        return tuple(self.int_expr(",", "]") for _ in self.listed("]")), dtype

    def block(self) -> tuple[nodes.Instr, ...]:
        self.expect("{")
        body: list[nodes.Instr] = []
        while not self.take("}"):
            body.append(self.instr())
        return tuple(body)

    def instr(self) -> nodes.Instr:
        keyword = self.peek()
        if keyword.startswith("%"):
            return self.declaration()
        if keyword not in _KEYWORDS:
            raise self.wrong("an instruction")
        self.position += 1
        match keyword:
            case "free":
                return nodes.Free(self.name())
            case "call":
                return self.call()
            case "library":
                return self.library()
            case "invoke":
                return self.invoke()
            case "copy":
                return self.copy()
            case "swap":
                return self.swap()
            case "size":
                return self.set_size()
            case "if":
                condition, then = self.name(), self.block()
                return nodes.If(condition, then, self.block() if self.take("else") else ())
            case "while":
                head, condition = self.block(), self.name()
                self.expect("do")
                return nodes.While(head, condition, self.block())
            case _:
                index = self.region()
                self.expect("<")
                extent = self.name() if self.peek().startswith("%") else self.number()
                most = None
                if self.take("at"):
                    self.expect("most")
                    most = self.number()
                places: list[nodes.InRange] = []
                while self.take("," if places else "places"):
                    place = self.sum()
                    self.expect("<")
                    places.append(nodes.InRange(place, self.int_expr(",", "{")))
                return nodes.For(index, extent, self.block(), places=tuple(places), most=most)

    def sum(self) -> nodes.Sum:
        """A sum of scalars and numbers."""
        if not self.take("("):
            return self.name() if self.peek().startswith("%") else self.signed()
        one, sign = self.sum(), self.word(r"[-+*]", "+, - or *")
        other = self.sum()
        self.expect(")")
        return sign, one, other

    def copy(self) -> nodes.Copy:
        self.expect("@in")
        source = self.name()
        self.expect(",")
        self.expect("@out")
        return nodes.Copy(source, self.name())

    def swap(self) -> nodes.Swap:
        one = self.name()
        self.expect(",")
        return nodes.Swap(one, self.name())

    def declaration(self) -> nodes.Alloc | nodes.Alias:
        name = self.name()
        self.expect("=")
        if self.take("alloc"):
            region = nodes.Region(name, *self.array_type())
            if self.take("in"):
                self.expect("registers")
                return nodes.Alloc(region, in_registers=True)
            return nodes.Alloc(region, self.int_expr("}") if self.take("at") else None)
        self.expect("alias")
        source = self.name()
        self.expect("as")
        region = nodes.Region(name, *self.array_type())
        return nodes.Alias(region, source, self.int_expr("}") if self.take("+") else 0)

    def call(self) -> nodes.Call:
        inline = self.take("inline")
        kernel, operands = self.global_name(), self.operands()
        sizes = self.int_exprs() if self.take("sizes") else ()
        workspace = self.name() if self.take("workspace") else None
        ranges: list[nodes.ScalarRange] = []
        while self.take("," if ranges else "where"):
            name = self.name()
            self.expect("in")
            self.expect("[")
            low = self.signed()
            self.expect(",")
            ranges.append(nodes.ScalarRange(name, low, self.signed()))
            self.expect("]")
        return nodes.Call(
            kernel, operands, workspace, inline=inline, ranges=tuple(ranges), sizes=sizes
        )

    def library(self) -> nodes.Library:
        function, operands = self.string(), self.operands()
        options = self.json() if self.take("with") else ()
        return nodes.Library(function, operands, options)

    def string(self) -> str:
        return json.loads(self.word(r'".*"', "a string"))

    def json(self) -> Any:
        """A value as JSON has it; arrays become tuples."""
        if self.take("["):
            return tuple(self.json() for _ in self.listed("]"))
        if self.peek().startswith('"'):
            return self.string()
        sign = "-" if self.take("-") else ""
        text = sign + self.word(r"[\w.]+", "a value")
        if text[-1:] == "e" and (self.take("-") or self.take("+")):  # of a small float
            text += "-" + self.word(r"\d+", "an exponent")
        try:
            return json.loads(text)
        except ValueError:
            raise ParseError(f"line {self.line()}: {text} is not a value of JSON") from None

    def invoke(self) -> nodes.Invoke:
        function, operands = self.global_name(), self.operands()
        sizes = self.int_exprs() if self.take("sizes") else ()
        if self.take("frame"):
            return nodes.Invoke(function, operands, self.name(), sizes=sizes)
        self.expect("on")
        self.expect("stack")
        return nodes.Invoke(function, operands, sizes=sizes)

    def operands(self) -> tuple[nodes.Operand, ...]:
        operands: list[nodes.Operand] = []
        self.expect("(")
        for _ in self.listed(")"):
            access = self.word("@in|@out|@inout", "@in, @out or @inout")
            operands.append(nodes.Operand(nodes.Access(access[1:]), self.name()))
        return tuple(operands)
