"""Reading text piece by piece, with errors that point at the piece."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NoReturn

from .errors import ParseError
from .span import Span

_SPACE = re.compile(r"(?:\s+|/\*.*?\*/)*", re.DOTALL)
_REMARK = re.compile(r"[ \t]*/\*(.*?)\*/")
_OPEN, _CLOSE = "([{", ")]}"
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')


class Scanner:
    """A text and a place in it. Space and comments are skipped before every piece.

    What lies behind ``end`` is not seen; a language of lines moves it from line to line.
    """

    def __init__(self, text: str, file: str) -> None:
        self.text, self.file = text, file
        self.position, self.end = 0, len(text)

    def skip(self) -> int:
        """Skips to the next piece; returns its place."""
        match = _SPACE.match(self.text, self.position, self.end)
        assert match is not None
        self.position = match.end()
        return self.position

    def at_end(self) -> bool:
        return self.skip() == self.end

    def sees(self, piece: str) -> bool:
        """True if ``piece`` is next."""
        return self.text.startswith(piece, self.skip(), self.end)

    def accept(self, piece: str) -> bool:
        """Takes ``piece`` if it is next."""
        if not self.sees(piece):
            return False
        self.position += len(piece)
        return True

    def expect(self, piece: str) -> None:
        """Takes ``piece``, which has to be next."""
        if not self.accept(piece):
            self.fail(f"expected {piece!r}, found {self.found()}")

    def listed(self, close: str) -> Iterator[None]:
        """Runs once before each item of a list; takes the commas, and ``close`` behind them."""
        while not self.accept(close):
            yield
            if not self.sees(close):
                self.expect(",")

    def match(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        """Takes what ``pattern`` matches here, if it does."""
        match = pattern.match(self.text, self.skip(), self.end)
        if match is not None:
            self.position = match.end()
        return match

    def follow(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        """Takes what ``pattern`` matches right behind the last piece, without space between."""
        match = pattern.match(self.text, self.position, self.end)
        if match is not None:
            self.position = match.end()
        return match

    def balanced(self, stop: str) -> str:
        """Returns the text up to the first of ``stop`` outside of brackets and strings."""
        start = at = self.skip()
        depth = 0
        while at < self.end:
            char = self.text[at]
            if not depth and char in stop:
                break
            if char == '"' and (string := _STRING.match(self.text, at)):
                at = string.end()
                continue
            if char == "/" and (space := _SPACE.match(self.text, at)) and space.end() > at:
                at = space.end()
                continue
            depth += (char in _OPEN) - (char in _CLOSE)
            if depth < 0:
                break
            at += 1
        self.position = at
        return self.text[start:at]

    def remark(self) -> str | None:
        """Returns the comment that follows on the same line, if there is one."""
        match = _REMARK.match(self.text, self.position)
        if match is None:
            return None
        self.position = match.end()
        return match[1]

    def found(self) -> str:
        """Returns the next piece of text, for messages."""
        rest = self.text[self.skip() : self.end]
        word = re.match(r"[%@]?[\w.]+|.", rest)
        if word is not None:
            return repr(word[0])
        return "the end of the text" if self.end == len(self.text) else "the end of the line"

    def span(self, position: int | None = None) -> Span:
        """Returns the place as a line and a column of the text."""
        at = self.position if position is None else position
        before = self.text[:at]
        return Span(self.file, before.count("\n") + 1, at - (before.rfind("\n") + 1))

    def fail(self, message: str, position: int | None = None) -> NoReturn:
        """Raises ParseError with the line, the column and a mark under it."""
        span = self.span(position)
        raise ParseError(
            f"line {span.line}, column {span.column + 1}: {message}",
            span=span,
            notes=self.marked(span),
        )

    def marked(self, span: Span) -> tuple[str, ...]:
        """Returns the line of a span, and a mark under its column."""
        return self.text.split("\n")[span.line - 1], " " * span.column + "^"
