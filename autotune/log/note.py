"""line ::= MeasureRecord                         {"v": 1, "workload": ..., ...}
           | Decision                              {"v": 2, "kind": "decision", ...}
           | Note                                  {"v": 2, "kind": WORD, ...}

A note is a word and an object. The writer of a kind of note defines its contents (``journal`` has
"run" and "end"); kinds a reader does not know are kept and ignored. Versions older than notes take
the line for one of a later version: they skip it, and keep it when they prune.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import field
from typing import Any, TypeAlias

from ...ir.dataclass import dataclass
from ..record import MeasureRecord, record_from_data
from ..record_line import RecordError, check_version, data_of
from .decision import Decision, decision_from_data

NOTE_VERSION = 2

HEAD = re.compile(
    rb'\{"v": ?(?:1, ?|2, ?"kind": ?"decision", ?"about": ?"(?P<about>\w+)", ?)'
    rb'"workload": ?\{"hash": ?"(?P<hash>[!#-\[\]-~]{1,99})"'
)
"""The beginning of lines that the tuner writes: it names the workload."""

_WORD = re.compile(r"[a-z][a-z0-9_]{0,39}")


@dataclass(frozen=True)
class Note:
    """``data`` is plain JSON from a file: its readers have to check it.

    >>> print(Note("greeting", {"to": "all"}).to_json())
    {"v": 2, "kind": "greeting", "to": "all"}
    """

    kind: str
    data: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def to_json(self) -> str:
        """Returns one line without its line end."""
        return json.dumps(
            {"v": NOTE_VERSION, "kind": self.kind, **self.data},
            allow_nan=False,
            ensure_ascii=False,
        )

    def text(self, name: str) -> str:
        """Returns the text under a name, "" if there is none."""
        value = self.data.get(name)
        return value if isinstance(value, str) else ""

    def number(self, name: str) -> float:
        """Returns the number under a name, 0 if there is none."""
        value = self.data.get(name)
        return (
            0.0 if isinstance(value, bool) or not isinstance(value, int | float) else float(value)
        )

    def table(self, name: str) -> Mapping[str, Any]:
        """Returns the object under a name, an empty one if there is none."""
        value = self.data.get(name)
        return value if isinstance(value, dict) else {}

    def items(self, name: str) -> list[Mapping[str, Any]]:
        """Returns the objects of the list under a name."""
        value = self.data.get(name)
        return [v for v in value if isinstance(v, dict)] if isinstance(value, list) else []


Entry: TypeAlias = MeasureRecord | Decision | Note


def entry_of(line: str | bytes) -> Entry:
    """Reads one line. Raises RecordError, or FutureRecordError for a later version's line."""
    data = data_of(line)
    kind = data.get("kind")
    if kind is not None and kind != "decision":
        return _note(data, kind)
    entry = record_from_data(data) if kind is None else decision_from_data(data)
    head = None if isinstance(line, str) else HEAD.match(line)
    if head is not None and head["hash"].decode() != entry.workload.hash:
        raise RecordError("it names two workloads")
    return entry


def _note(data: dict[str, Any], kind: Any) -> Note:
    check_version(data, NOTE_VERSION)
    if not isinstance(kind, str) or not _WORD.fullmatch(kind):
        raise RecordError("kind is not a word")
    return Note(kind, {k: v for k, v in data.items() if k not in ("v", "kind")})
