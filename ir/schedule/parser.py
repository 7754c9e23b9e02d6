"""Read a schedule from text: its steps as they print, in braces.

::

    schedule ::= "{" step* "}"
    step     ::= primitive "(" value, ... ")"
    value    ::= 'name' | integer | "(" value, ... ")"
"""

from __future__ import annotations

import re
from typing import Any

from ..errors import ScheduleError
from ..scanner import Scanner
from .schedule import primitives
from .steps import Schedule  # which knows all primitives

_WORD = re.compile(r"\w+")
_STRING = re.compile(r"'([^'\n]*)'|\"([^\"\n]*)\"")
_INT = re.compile(r"\d+")


def read_schedule(scan: Scanner) -> Schedule:
    """Returns the schedule that starts at the place of ``scan``.

    Raises ParseError, with line and column, for text that is not a schedule.

    >>> print(read_schedule(Scanner("{ split('i', (16, 4)) vectorize('i.1') }", "<text>")))
    Schedule.of(
        split('i', (16, 4)),
        vectorize('i.1'),
    )
    """
    steps: list[list[Any]] = []
    scan.expect("{")
    while not scan.accept("}"):
        start = scan.skip()
        word = scan.match(_WORD)
        if word is None:
            scan.fail(f"expected a schedule step, found {scan.found()}")
        scan.expect("(")
        args = _values(scan)
        kinds = declared.kinds if (declared := primitives().get(word[0])) else ("",)
        if kinds[-1] == "names":
            args = [*args[: len(kinds) - 1], args[len(kinds) - 1 :]]
        steps.append([word[0], *args])
        try:
            Schedule.from_json(steps[-1:])
        except ScheduleError as error:
            scan.fail(error.message, start)
    return Schedule.from_json(steps)


def _values(scan: Scanner) -> list[Any]:
    """Reads the values up to and including the closing bracket."""
    values: list[Any] = []
    for _ in scan.listed(")"):
        if match := scan.match(_STRING):
            values.append(match[1] or match[2] or "")
        elif match := scan.match(_INT):
            values.append(int(match[0]))
        else:
            scan.expect("(")
            values.append(_values(scan))
    return values
