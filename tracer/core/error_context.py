"""Completes an error with the user's line, the operands and a hint."""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Sequence
from types import TracebackType
from typing import TypeAlias

from ...ir.dataclass import dataclass
from ...ir.dims import IntExpr
from ...ir.errors import LoopwrightError, UnsupportedError
from ...ir.graph.nodes import Atom, Constant
from ...ir.graph.types import TensorType
from .spans import caret_lines, operand_texts, segment, span_of, user_frame
from .trace import Trace


@dataclass(frozen=True, slots=True)
class Operand:
    """An operand as the user sees it."""

    label: str
    type: TensorType | None  # None: not an array
    origin: str = ""


def locate(error: LoopwrightError, trace: Trace, ours: bool = False) -> None:
    """Gives ``error`` the user's line if it has none yet. If it is ``ours``, and not NumPy's, no
    handler in the traced function can make up for it."""
    if error.span is None:
        error.span = trace.span if trace.span is not None else trace.here()
    if error.span is not None and not error.source:
        error.source = caret_lines(error.span)
    if ours or isinstance(error, UnsupportedError):
        from .except_clauses import note_caught  # loaded when it is first needed

        note_caught(error, trace)


def complete(error: LoopwrightError, trace: Trace | None) -> LoopwrightError:
    """``error`` with the user's line, of the running ``trace`` or of a call outside of any."""
    if trace is not None:
        locate(error, trace)
    elif (frame := user_frame()) is not None:
        error.span = span_of(frame)
        error.source = caret_lines(error.span)
    return error


def explain(
    error: LoopwrightError,
    trace: Trace,
    operation: str,
    values: Sequence[Atom | None],
    ours: bool = False,
) -> None:
    """Completes ``error``, raised by ``operation`` on ``values`` (None: an operand without atom).

    Without an ``operation``, the user's line is not a call with these operands, but something that
    happened to one of them.
    """
    locate(error, trace, ours)
    source = segment(error.span) if error.span and operation else ""
    operands = describe(trace, values, source)
    if not error.notes:
        error.notes = notes_of(operands)
    error.hint = suggest(operation, [(o.label, o.type) for o in operands]) or error.hint


def describe(trace: Trace, values: Sequence[Atom | None], source: str) -> list[Operand]:
    """Labels and origins of the values; ``source`` is the text of the operation."""
    texts = operand_texts(source) if source else []
    if len(texts) == len(values) + 1:
        texts = texts[1:]  # the module or object before the dot
    if len(texts) != len(values):
        texts = [""] * len(values)
    return [_operand(trace, value, text) for value, text in zip(values, texts, strict=True)]


def _operand(trace: Trace, value: Atom | None, text: str) -> Operand:
    if value is None or not isinstance(value.type, TensorType):
        return Operand(text, None)
    name, origin = trace.origins.get(value, ("", ""))
    if not origin and value.type.rank == 0 and isinstance(value, Constant):
        return Operand(text or str(value.value[()]), None)
    if not origin and value.span is not None:
        origin = f"from {value.span}"
    if not _is_short(text):
        text = _local_name(value) or name
    if not text and value.span is not None and not isinstance(value, Constant):
        text = segment(value.span)
    return Operand(text if _is_short(text) else "(array)", value.type, origin)


def _is_short(text: str) -> bool:
    return 0 < len(text) <= 40


def _local_name(atom: Atom) -> str:
    frame = user_frame()
    if frame is None:
        return ""
    return next((n for n, v in frame.f_locals.items() if getattr(v, "atom", None) is atom), "")


def notes_of(operands: Sequence[Operand]) -> tuple[str, ...]:
    """One line per distinct array: label, type, origin, in columns."""
    rows: list[tuple[str, str, str]] = []
    for operand in operands:
        if operand.type is not None:
            row = (operand.label, operand.type.short, operand.origin)
            if row not in rows:
                rows.append(row)
    widths = [max((len(row[c]) for row in rows), default=0) for c in range(2)]
    return tuple(
        f"{label:<{widths[0]}} : {type:<{widths[1]}}   {origin}".rstrip()
        for label, type, origin in rows
    )


def is_ours(traceback: TracebackType | None, aside: Collection[str] = ()) -> bool:
    """True if the innermost frame of ``traceback`` that is of no package ``aside`` is one of
    Loopwright's."""
    innermost = ""
    while traceback is not None:
        if (package := _package(traceback)) not in aside:
            innermost = package
        traceback = traceback.tb_next
    return innermost == "loopwright"


def _package(traceback: TracebackType) -> str:
    return str(traceback.tb_frame.f_globals.get("__name__", "")).partition(".")[0]


def cut_traceback(traceback: TracebackType | None) -> TracebackType | None:
    """``traceback`` without the frames of Loopwright and NumPy."""
    kept: list[TracebackType] = []
    while traceback is not None:
        if _package(traceback) not in ("loopwright", "numpy"):
            kept.append(traceback)
        traceback = traceback.tb_next
    result: TracebackType | None = None
    for entry in reversed(kept):
        result = TracebackType(result, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    return result


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


_LOGICAL = {"negative": "~{0}", "subtract": "{0} ^ {1}"}
"""Forms for bools, which have no difference."""


def suggest(operation: str, operands: Sequence[Labelled]) -> str | None:
    """Suggests what to write instead of a failed ``operation``; None if nothing obvious helps."""
    if operation in _INTEGER_ONLY:
        return _integer(operands)
    if operation in _LOGICAL and operands and all(t and t.dtype.is_bool for _, t in operands):
        return _LOGICAL[operation].format(*(_atomic(label) for label, _ in operands))
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
    """Puts axes of size 1 behind the shorter operand where that makes the shapes fit."""

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
