"""Reading integer expressions back from their text.

::

    sum    ::= term (("+" | "-") term)*
    term   ::= factor (("*" | "//" | "%") factor)*
    factor ::= INT | NAME | "-" factor | "(" sum ")" | ("min" | "max") "(" sum "," sum ")"
"""

from __future__ import annotations

import re

from .dims import IntExpr, floordiv, int_max, int_min, mod, symbol
from .errors import ParseError

_TOKEN = re.compile(r"\s*(?:(\d+)|([A-Za-z_][\w.]*)|(//|[-+*%(),]))")


def parse_dim(text: str) -> IntExpr:
    """Reads what ``str`` prints: ``parse_dim(str(d)) == d``. Raises ParseError.

    >>> parse_dim("4*n + 1") == 4 * symbol("n") + 1
    True
    """
    tokens: list[str] = []
    position = 0
    while position < len(text.rstrip()):
        match = _TOKEN.match(text, position)
        if match is None:
            raise ParseError(f"size {text!r}: unexpected {text[position:].strip()[:1]!r}")
        tokens.append(match.group().strip())
        position = match.end()
    parser = _DimParser(text, tokens)
    result = parser.sum()
    if parser.tokens:
        raise ParseError(f"size {text!r}: unexpected {parser.tokens[0]!r}")
    return result


class _DimParser:
    def __init__(self, text: str, tokens: list[str]) -> None:
        self.text, self.tokens = text, tokens

    def take(self, *expected: str) -> str | None:
        if self.tokens and self.tokens[0] in expected:
            return self.tokens.pop(0)
        return None

    def sum(self) -> IntExpr:
        value = self.term()
        while op := self.take("+", "-"):
            value = value + self.term() if op == "+" else value - self.term()
        return value

    def term(self) -> IntExpr:
        value = self.factor()
        while op := self.take("*", "//", "%"):
            right = self.factor()
            if op != "*" and right == 0:
                raise ParseError(f"size {self.text!r}: division by zero")
            value = value * right if op == "*" else (floordiv if op == "//" else mod)(value, right)
        return value

    def factor(self) -> IntExpr:
        if self.take("-"):
            return -self.factor()
        if self.take("("):
            value = self.sum()
            self.expect(")")
            return value
        if not self.tokens:
            raise ParseError(f"size {self.text!r}: ends too early")
        token = self.tokens.pop(0)
        if token.isdigit():
            return int(token)
        if token in ("min", "max") and self.take("("):
            left = self.sum()
            self.expect(",")
            right = self.sum()
            self.expect(")")
            return (int_min if token == "min" else int_max)(left, right)
        if not re.fullmatch(r"[A-Za-z_][\w.]*", token):
            raise ParseError(f"size {self.text!r}: unexpected {token!r}")
        return symbol(token)

    def expect(self, token: str) -> None:
        if not self.take(token):
            raise ParseError(f"size {self.text!r}: expected {token!r}")
