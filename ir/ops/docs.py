"""The form of an operator's documentation: a sentence, the rules, an example in graph IR."""

from __future__ import annotations

__all__ = ["operator_doc"]

_WIDTH = 96


def operator_doc(text: str, rules: str, signature: str, call: str) -> str:
    """Documentation of an operator whose text is put together from parts.

    The first sentence of ``text`` is the summary; the rest of it stands before ``rules``. The
    example is the function of ``signature`` whose body is ``call``.

    >>> print(operator_doc("Sum. It wraps.", "Any shape.", "fn (%x: int8) -> int8", "sum(%x)"))
    Sum.
    <BLANKLINE>
    It wraps. Any shape.
    <BLANKLINE>
        fn (%x: int8) -> int8 {
          sum(%x)
        }
    <BLANKLINE>
    """
    summary, dot, rest = text.partition(". ")
    body = _wrapped(f"{rest} {rules}")
    return f"{summary}{dot.strip()}\n\n{body}\n\n    {signature} {{\n      {call}\n    }}\n"


def _wrapped(text: str) -> str:
    lines = [""]
    for word in text.split():
        if len(lines[-1]) + len(word) > _WIDTH:
            lines.append("")
        lines[-1] += f" {word}" if lines[-1] else word
    return "\n".join(lines)
