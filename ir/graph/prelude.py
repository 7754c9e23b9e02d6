"""The prelude: types and functions that every text may use without defining them.

It stands in ``prelude.relay``, in the language's own text. What a text uses of it, and what that
needs, is read behind it; a text that defines something of such a name has its own.
"""

from __future__ import annotations

import functools
import re
from pathlib import Path

_WORD = re.compile(r"@?[A-Za-z_]\w*")
_DEFINED = re.compile(
    r"^\s*(?:def\s+(@\w+)|(?:extern\s+)?type\s+(\w+)|prim\s+(@\w+))", re.MULTILINE
)


@functools.cache
def prelude() -> dict[str, str]:
    """Returns the definitions of the prelude by what each defines.

    >>> print(prelude()["@length"])
    def @length[A](%xs: List[A]) -> int64 {
      match (%xs) {
        Nil => 0i64,
        Cons(_, %rest) => 1i64 + @length(%rest),
      }
    }
    """
    text = Path(__file__).with_name("prelude.relay").read_text(encoding="utf-8")
    definitions: dict[str, str] = {}
    for piece in text.strip().split("\n\n"):
        definition = piece[piece.index(_first_of(piece)) :]
        (names,) = _DEFINED.findall(definition)
        definitions[max(names)] = definition
        if definition.startswith("type"):
            definitions |= dict.fromkeys(re.findall(r"^  (\w+)", definition, re.M), definition)
    return definitions


def _first_of(piece: str) -> str:
    """The word with which a definition begins, behind its comment."""
    return "type " if re.search(r"^type ", piece, re.MULTILINE) else "def @"


@functools.cache
def _any_name() -> re.Pattern[str]:
    return re.compile("|".join(rf"(?<![@\w]){re.escape(name)}\b" for name in prelude()))


def with_prelude(text: str) -> str:
    """Returns a text with the definitions of the prelude behind it that it needs."""
    used = set(_any_name().findall(text))
    if not used:
        return text
    defined = {max(names) for names in _DEFINED.findall(text)}
    if any(not name.startswith("@") for name in defined):
        bodies = re.findall(r"^\s*type\s+\w+[^{]*\{([^}]*)\}", text, re.MULTILINE)
        defined |= {name for body in bodies for name in _WORD.findall(body)}
    pieces: dict[str, None] = {}
    work = sorted(used - defined)
    while work:
        definition = prelude()[work.pop()]
        if definition not in pieces:
            pieces[definition] = None
            inside = set(_WORD.findall(definition)) & prelude().keys()
            work += sorted(inside - defined)
    return "\n\n".join([text, *pieces])
