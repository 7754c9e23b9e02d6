"""What to write instead, where the operands' types show it."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import TypeAlias

from ..ir.dims import IntExpr
from ..ir.graph.types import TensorType

__all__ = ["suggest"]

Labelled: TypeAlias = tuple[str, TensorType | None]

_SYMBOLS = {
    "add": "+",
    "subtract": "-",
    "multiply": "*",
    "divide": "/",
    "true_divide": "/",
    "floor_divide": "//",
    "remainder": "%",
    "power": "**",
    "matmul": "@",
    "equal": "==",
    "not_equal": "!=",
    "less": "<",
    "less_equal": "<=",
    "greater": ">",
    "greater_equal": ">=",
    "bitwise_and": "&",
    "bitwise_or": "|",
    "bitwise_xor": "^",
}
_INTEGER_ONLY = ("bitwise_and", "bitwise_or", "bitwise_xor", "invert", "left_shift", "right_shift")


def suggest(operation: str, operands: Sequence[Labelled]) -> str | None:
    """A way out of a failed ``operation``, or None if there is no obvious one."""
    if operation in _INTEGER_ONLY:
        return _integer(operands)
    if len(operands) != 2:
        return None
    (left, a), (right, b) = operands
    if a is None or b is None or not left or not right:
        return None
    if operation in ("matmul", "dot"):
        return _matmul(left, a, right, b)
    return _broadcast(_SYMBOLS.get(operation), left, a, right, b)


def _integer(operands: Sequence[Labelled]) -> str | None:
    for label, type in operands:
        if type is not None and type.dtype.is_float:
            return f"{_atomic(label)}.astype(np.int64)"
    return None


def _matmul(left: str, a: TensorType, right: str, b: TensorType) -> str | None:
    if not a.rank or not b.rank:
        return f"{_atomic(left)} * {_atomic(right)}"
    if b.rank >= 2 and b.shape[-1] == a.shape[-1]:
        return f"{_atomic(left)} @ {_transposed(right, b.rank)}"
    if a.rank >= 2 and b.rank >= 2 and a.shape[-2] == b.shape[-2]:
        return f"{_transposed(left, a.rank)} @ {_atomic(right)}"
    return None


def _transposed(label: str, rank: int) -> str:
    attribute = ".T" if rank == 2 else ".mT"
    return (
        label.removesuffix(attribute) if label.endswith(attribute) else _atomic(label) + attribute
    )


def _broadcast(
    symbol: str | None, left: str, a: TensorType, right: str, b: TensorType
) -> str | None:
    """Put axes of size 1 behind the shorter operand where that makes the shapes fit."""

    def widened(long: TensorType, short: TensorType) -> str | None:
        for start in range(long.rank - short.rank - 1, -1, -1):
            behind = long.rank - start - short.rank
            if _fits(long.shape[start : start + short.rank], short.shape):
                return "[" + ", ".join([":"] * short.rank + ["None"] * behind) + "]"
        return None

    render: Callable[[str, str], str] = (
        (lambda x, y: f"{x} {symbol} {y}") if symbol else (lambda x, y: y if "[" in y else x)
    )
    if a.rank > b.rank and b.rank and (index := widened(a, b)):
        return render(_atomic(left), _atomic(right) + index)
    if b.rank > a.rank and a.rank and (index := widened(b, a)):
        return render(_atomic(left) + index, _atomic(right) if symbol else "")
    return None


def _fits(long: Sequence[IntExpr], short: Sequence[IntExpr]) -> bool:
    return all(p == q or q == 1 for p, q in zip(long, short, strict=True))


def _atomic(label: str) -> str:
    """``label`` with parentheses unless it is a name, call, attribute or index already."""
    try:
        node = ast.parse(label, mode="eval").body
    except SyntaxError:
        return label
    simple = isinstance(node, ast.Name | ast.Attribute | ast.Subscript | ast.Call | ast.Constant)
    return label if simple else f"({label})"
