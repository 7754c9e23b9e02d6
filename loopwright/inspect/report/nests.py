"""Highlights the words of loop nests. Everything is escaped: the text comes from a log."""

from __future__ import annotations

import re
from html import escape

_TOKEN = re.compile(
    r"(?P<kind>\b(?:parallel|vectorize|unroll)\b)"
    r"|(?P<word>\b(?:prim|for|in|let|if|else|registers|stack|prefetch|stream|packs|const)\b)"
    r"|(?P<type>\b(?:float|int|uint|bool|bfloat)\d*\b(?=\[|\b))"
    r"|(?P<number>(?<![\w.])\d+(?:\.\d+)?(?:e[-+]?\d+)?(?![\w.]))"
    r"|(?P<operator>\+=|=|->)"
)


def nest_html(text: str) -> str:
    """Returns the text as HTML, with every keyword in an element.

    >>> nest_html("for i in 4:")
    '<b class="word">for</b> i <b class="word">in</b> <b class="number">4</b>:'
    """
    return "\n".join(_line(line) for line in text.split("\n"))


def _line(line: str) -> str:
    parts: list[str] = []
    done = 0
    for match in _TOKEN.finditer(line):
        parts.append(escape(line[done : match.start()]))
        parts.append(f'<b class="{match.lastgroup}">{escape(match[0])}</b>')
        done = match.end()
    parts.append(escape(line[done:]))
    return "".join(parts)
