"""Parser of the words that PrimFuncs and loop nests share: names, sizes, buffers, expressions."""

from __future__ import annotations

import re

from ..dims import IntExpr, substitute, symbol
from ..dims_parser import parse_dim
from ..dtype import DTYPES, FLOAT32, INT64, DType, dtype_named
from ..errors import InternalError, ParseError
from ..scanner import Scanner
from .expr import Expr, IndexLike, cast, const, index, op, read
from .prim import Buffer
from .scalar import COMBINERS, SCALAR_OPS

NAME = re.compile(r"[A-Za-z_][\w.]*")
AXIS = re.compile(r"(?=\s*(\)|[A-Za-z_][\w.]*\s*:))")  # of a combiner, no operand
_LOOP = re.compile(r"[A-Za-z_][\w.]*(?:\*[A-Za-z_][\w.]*)*")  # a fused loop is called i.0*j.0
_INT = re.compile(r"\d+")
_NUMBER = re.compile(r"(-?(?:\d+(\.\d*)?([eE][-+]?\d+)?|inf|nan))(?::([a-z]+\d+))?(?![\w.])")
_BOOL = re.compile(r"(True|False)\b")
_VALUE = re.compile(r"%\d+")
SIGNS = {combiner.sign: name for name, combiner in COMBINERS.items()}
_SYMBOLS = {row.symbol: row.name for row in SCALAR_OPS.values() if row.symbol}
_SYMBOL = re.compile("|".join(re.escape(s) for s in sorted(_SYMBOLS, key=len, reverse=True)))
SIGN = re.compile("|".join(re.escape(s) for s in sorted([*SIGNS, "="], key=len, reverse=True)))
WORD = re.compile(r"(let|if|else|at|prefetch|sort|stream)\b(?!\s*[\[.])")
SIZE = re.compile(r"([A-Za-z_][\w.]*)\s+in\s+(\d+)\s*\.\.\s*(\d+)")


class ExpressionParser:
    """Reads what stands inside of a line."""

    def __init__(self, scan: Scanner) -> None:
        self.scan = scan
        self.dtypes: dict[str, DType] = {}  # of the buffers declared so far
        self.values: dict[str, Expr] = {}  # names bound by "let" in this expression
        self.fused: dict[str, str] = {}  # names with a "*" in them, by a plain substitute
        self.ranged: dict[str, IntExpr] = {}  # the symbolic sizes

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
        name = self.name(NAME, "a dtype")
        return dtype_named(name) or self.scan.fail(f"no dtype {name!r}", at)

    def buffer(self) -> Buffer:
        """``name: dtype[size, ...]``, which is declared."""
        name = self.name(NAME, "the name of a buffer")
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
        name = self.name(NAME, "an expression")
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
