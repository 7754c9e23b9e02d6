"""What an error says besides its message: the user's line, the operands, a way out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType

from ..ir.errors import LoopwrightError
from ..ir.graph.nodes import Atom, Constant
from ..ir.graph.types import TensorType
from .hints import suggest
from .spans import caret_lines, operand_texts, segment, user_frame
from .trace import Trace

__all__ = ["Operand", "cut_traceback", "explain", "is_ours", "locate"]


@dataclass(frozen=True, slots=True)
class Operand:
    """An operand as the user sees it."""

    label: str
    type: TensorType | None  # None: not an array
    origin: str = ""


def locate(error: LoopwrightError, trace: Trace) -> None:
    """Give ``error`` the user's line if it has none yet."""
    if error.span is None:
        error.span = trace.span if trace.span is not None else trace.here()
    if error.span is not None and not error.source:
        error.source = caret_lines(error.span)


def explain(
    error: LoopwrightError, trace: Trace, operation: str, values: Sequence[Atom | None]
) -> None:
    """Complete ``error``, raised by ``operation`` on ``values`` (None: an operand without atom).

    Without an ``operation``, the user's line is not a call with these operands, but something that
    happened to one of them.
    """
    locate(error, trace)
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
    if not text and value.span is not None:
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
    shown: list[tuple[str, str, str]] = []
    for operand in operands:
        if operand.type is not None:
            row = (operand.label, operand.type.short, operand.origin)
            if row not in shown:
                shown.append(row)
    widths = [max((len(row[c]) for row in shown), default=0) for c in range(2)]
    return tuple(
        f"{label:<{widths[0]}} : {type:<{widths[1]}}   {origin}".rstrip()
        for label, type, origin in shown
    )


def is_ours(traceback: TracebackType | None) -> bool:
    """Whether the innermost frame of ``traceback`` is one of Loopwright's."""
    while traceback is not None and traceback.tb_next is not None:
        traceback = traceback.tb_next
    return traceback is not None and _package(traceback) == "loopwright"


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
