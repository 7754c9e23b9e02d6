"""Places in the user's program."""

from __future__ import annotations

from .dataclass import dataclass

FULL_PATHS: dict[str, str] = {}
"""The whole paths of files, by the short ones in spans."""


@dataclass(frozen=True, slots=True)
class Span:
    """A range of a source file: lines count from 1, columns from 0, ``end`` is exclusive.

    A column of -1 says that only the line is known.
    """

    file: str
    line: int
    column: int = -1
    end_line: int = -1
    end_column: int = -1
    function: str = ""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


def full_path(file: str) -> str:
    """Returns the whole path of a span's ``file``."""
    return FULL_PATHS.get(file, file)
