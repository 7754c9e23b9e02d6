"""Verdicts on machine code, kept by the hash of the code and its interface.

::

    label    WORKLOAD DIGEST why it is wrong, in a sentence; nothing more if it is right
    content  the reason alone

The hash of the workload and 16 digits of that of the schedule connect a verdict to logs. What the
store cannot keep lasts as long as the process.
"""

from __future__ import annotations

import functools
import hashlib
from pathlib import Path

from ...codegen.llvm.store import store


class Verdicts:
    """The reasons for refusing kernels by their keys, "" for those that were right."""

    def __init__(self, folder: Path) -> None:
        self._store = store("verdicts", folder)
        self._reasons: dict[str, str] = {}  # of this process

    def get(self, key: str) -> str | None:
        """Returns the verdict on a kernel; None if there is none."""
        if key not in self._reasons:
            content = self._store.get(key)
            if content is None:
                return None
            self._reasons[key] = content.decode(errors="replace")
        return self._reasons[key]

    def put(self, key: str, workload: str, schedule: str, reason: str) -> None:
        """Remembers a verdict, for a workload's hash and the text of a schedule."""
        self._reasons[key] = reason = " ".join(reason.split())[:300]
        label = f"{workload} {schedule_digest(schedule)} {reason}"
        self._store.put(key, label, reason.encode(errors="replace"))

    def refused(self) -> dict[tuple[str, str], str]:
        """Returns the reasons for refusing schedules, by workload hash and ``schedule_digest``. Of
        two verdicts on a schedule the one that was used last holds."""
        reasons: dict[tuple[str, str], str] = {}
        for entry in reversed(self._store.entries()):
            workload, digest, reason = entry.label.split(" ", 2)
            reasons[workload, digest] = reason
        return {name: reason for name, reason in reasons.items() if reason}


def schedule_digest(schedule: str) -> str:
    """Returns a hash of a schedule's text, as ``record.schedule_key`` writes it."""
    return hashlib.sha256(schedule.encode()).hexdigest()[:16]


@functools.cache
def verdicts(folder: Path) -> Verdicts:
    """Returns the verdicts kept in a folder, one object per process."""
    return Verdicts(folder)
