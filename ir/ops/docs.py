"""The form of an operator's documentation: a sentence, the rules, an example in graph IR."""

from __future__ import annotations

import textwrap

__all__ = ["operator_doc"]


def operator_doc(text: str, rules: str, example: str) -> str:
    """Documentation of an operator whose text is put together from parts.

    The first sentence of ``text`` is the summary; the rest of it stands before ``rules``.

    >>> print(operator_doc("Sum. It wraps.", "Any shape.", "%0 = add(%x, %y);"))
    Sum.
    <BLANKLINE>
    It wraps. Any shape.
    <BLANKLINE>
        %0 = add(%x, %y);
    <BLANKLINE>
    """
    summary, dot, rest = text.partition(". ")
    body = textwrap.fill(" ".join(filter(None, (rest, " ".join(rules.split())))), width=96)
    return f"{summary}{dot.strip()}\n\n{body}\n\n    {example}\n"
