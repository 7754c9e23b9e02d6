"""One line of a log as JSON data within limits, or the reason why it is not used.

Whatever reads logs reads lines through ``data_of``: what ``loopwright log verify`` counts is what a
compile sees. A line comes from a file, so nothing is assumed of it; what comes out can be walked,
compared, written again and computed with, without any further error.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import Any

__all__ = [
    "MAX_LINE",
    "REASONS",
    "FutureRecordError",
    "RecordError",
    "SkippedLines",
    "check_version",
    "data_of",
]

_BOM = b"\xef\xbb\xbf"

REASONS = {
    "torn": "it is no JSON: cut off, or of another kind of file",
    "foreign": "it is JSON, but no entry of a log",
    "oversized": "it is longer, deeper or larger than an entry can be",
    "future": "a later version wrote it",
}

MAX_LINE = 1 << 24  # bytes: the note of a run that tuned a thousand kernels has about 4 MB
MAX_DEPTH = 32  # of lists and objects in one another: entries have at most 7
INTEGERS = 1 << 63  # all are below it, so that their ratios and logarithms are floats


class RecordError(ValueError):
    """A line is no entry: the message says what is wrong with it, ``reason`` is a key of
    ``REASONS``."""

    def __init__(self, message: str, reason: str = "foreign") -> None:
        super().__init__(message)
        self.reason = reason


class FutureRecordError(RecordError):
    """A line of a later schema version."""

    def __init__(self, message: str) -> None:
        super().__init__(message, "future")


@dataclass(slots=True)
class SkippedLines:
    """Lines that were not used, by reason (see ``REASONS``)."""

    torn: int = 0
    foreign: int = 0
    oversized: int = 0
    future: int = 0

    @property
    def total(self) -> int:
        return self.torn + self.foreign + self.oversized + self.future

    def count(self, error: RecordError) -> None:
        setattr(self, error.reason, getattr(self, error.reason) + 1)

    def __str__(self) -> str:
        parts = [f"{self.torn} torn", f"{self.foreign} foreign"]
        parts += [f"{self.oversized} oversized"] if self.oversized else []
        return ", ".join([*parts, f"{self.future} of a later version"])


def data_of(line: str | bytes) -> dict[str, Any]:
    """The object that a line holds. RecordError for anything else.

    >>> data_of(b'{"v": 1}')
    {'v': 1}
    """
    if len(line) > MAX_LINE:
        raise RecordError(f"longer than {MAX_LINE >> 20} MiB", "oversized")
    try:
        text = line if isinstance(line, str) else line.removeprefix(_BOM).decode()
        data = json.loads(text)
    except RecursionError:
        raise RecordError("not JSON that can be read: nested too deep", "oversized") from None
    except ValueError as error:
        raise RecordError(f"not JSON: {error}", "torn") from None
    if not isinstance(data, dict):
        raise RecordError("not a tuning record")
    _check(data, "\\u" in text or isinstance(line, str))
    return data


def check_version(data: dict[str, Any], version: int) -> None:
    """RecordError unless a line says that it is of this schema version."""
    found = data.get("v")
    if type(found) is not int or found < version:
        raise RecordError(f"v is no integer from {version}")
    if found > version:
        raise FutureRecordError(f"schema version {found}; this one reads up to {version}")


def _check(data: dict[str, Any], escapes: bool) -> None:
    """RecordError for what JSON may hold and no later step can do with. Level by level: a recursion
    would end at Python's limit. Halves of surrogate pairs only come from escapes."""
    level: list[Any] = [data]
    for _ in range(MAX_DEPTH):
        inside: list[Any] = []
        for value in level:
            kind = type(value)
            if kind is list:
                inside += value
            elif kind is dict:
                inside += value.values()
                if escapes:
                    inside += value
            elif kind is str:
                if escapes and not _is_text(value):
                    raise RecordError("a text with half of a surrogate pair")
            elif kind is int:
                if not -INTEGERS < value < INTEGERS:
                    raise RecordError(f"an integer of {value.bit_length()} bits", "oversized")
            elif kind is float and not math.isfinite(value):
                raise RecordError(f"{value} is not a finite number")
        if not inside:
            return
        level = inside
    raise RecordError(f"nested more than {MAX_DEPTH} deep", "oversized")


def _is_text(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True
