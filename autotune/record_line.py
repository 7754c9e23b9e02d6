"""Parses one line of a log as JSON data within limits, or gives the reason why it is not used.

Every reader of logs reads lines through ``data_of``, so ``loopwright log verify`` counts the same
lines that a compile sees. A line comes from a file, so nothing is assumed about it; the result can
be walked, compared, written again and computed with, without any further error.
"""

from __future__ import annotations

import json
import math
from typing import Any

from ..ir.dataclass import dataclass

_BOM = b"\xef\xbb\xbf"

REASONS = {
    "torn": "it is not JSON: cut off, or of another kind of file",
    "foreign": "it is JSON, but not an entry of a log",
    "oversized": "it is longer, deeper or larger than an entry can be",
    "future": "a later version wrote it",
}

MAX_LINE = 1 << 24  # bytes: the note of a run that tuned a thousand kernels has about 4 MB
MAX_DEPTH = 32  # levels of nested lists and objects: entries have at most 7
MAX_INTEGER = 1 << 63  # so that ratios and logarithms of integers are floats


class RecordError(ValueError):
    """A line is not an entry. The message describes the problem, ``reason`` is a key of
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
    """Counts of lines that were not used, by reason (see ``REASONS``)."""

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
    """Returns the object that a line holds. Raises RecordError for anything else.

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
    """Raises RecordError unless a line has this schema version."""
    v = data.get("v")
    if type(v) is not int or v < version:
        raise RecordError(f"v is not an integer from {version}")
    if v > version:
        raise FutureRecordError(f"schema version {v}; this one reads up to {version}")


def _check(data: dict[str, Any], escapes: bool) -> None:
    """Raises RecordError for JSON values that later steps cannot handle.

    It walks level by level, since a recursion would hit Python's limit. ``escapes``: the text has
    escapes, the only source of halves of surrogate pairs.
    """
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
                if not -MAX_INTEGER < value < MAX_INTEGER:
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
