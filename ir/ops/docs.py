"""The form of an operator's documentation: a sentence, the rules, an example in graph IR."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["elementwise_doc", "operator_doc"]

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


_DTYPES = {
    "biuf": "any dtype",
    "iuf": "integers or floats",
    "iu": "integers",
    "f": "float32 or float64",
    "biu": "integers or bool",
    "b": "bool",
}


def elementwise_doc(
    name: str, text: str, params: Sequence[str], kinds: str, *, to_bool: bool = False
) -> str:
    """Documentation of an elementwise operator, of which ``text`` says what it computes."""
    dtype = "bool" if kinds == "b" else "float32" if "f" in kinds else "int32"
    shape = "``x`` of any shape; the result has the same shape."
    errors = ""
    if len(params) > 1:
        shape = "Operands are broadcast as in NumPy and have equal dtypes."
        errors = ", different dtypes, or shapes that do not broadcast"
    if params[0] == "condition":
        shape += " ``condition`` is bool."
    typed = [f"%{p}: Tensor[(7), {'bool' if p == 'condition' else dtype}]" for p in params]
    signature = ", ".join(typed)
    if len(params) > 2:
        signature = "\n      " + ",\n      ".join(typed) + "\n    "
    result = "bool" if to_bool else "the operands' dtype"
    return operator_doc(
        text,
        f"{shape} Dtypes: {_DTYPES[kinds]}; result: {result}. "
        f"LoopwrightTypeError for another dtype{errors}.",
        f"fn ({signature}) -> Tensor[(7), {'bool' if to_bool else dtype}]",
        f"{name}({', '.join(f'%{p}' for p in params)})",
    )


def _wrapped(text: str) -> str:
    lines = [""]
    for word in text.split():
        if len(lines[-1]) + len(word) > _WIDTH:
            lines.append("")
        lines[-1] += f" {word}" if lines[-1] else word
    return "\n".join(lines)
