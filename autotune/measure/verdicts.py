"""What the check before the first use found, kept for later processes: one line per kernel.

::

    right KEY WORKLOAD SCHEDULE
    wrong KEY WORKLOAD SCHEDULE why, in a sentence

The key is 64 hexadecimal digits; the hash of the workload, and 16 digits of that of the schedule,
say what a log calls the same. The file stands in the cache folder, and is only ever appended to, a
whole line with one write, so that processes may do so at the same time. A line that is torn or
foreign says nothing. Where the folder cannot be written the verdicts last as long as the process.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import threading
from pathlib import Path

__all__ = ["Verdicts", "schedule_digest", "verdicts"]

_LINE = re.compile(
    rb"(right|wrong) ([0-9a-f]{64}) (\S{1,64}) ([0-9a-f]{16})(?: (.{0,300}))?", re.MULTILINE
)
_MOST_BYTES = 4 << 20
"""A longer file is begun anew: some 40,000 kernels are in it."""


class Verdicts:
    """Why kernels were refused by their keys, "" for those that were right."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._put: dict[str, str] = {}
        self._data = b"\n"  # the whole lines of the file
        self._read: tuple[int, int] | None = None  # its device and inode
        self._lock = threading.Lock()

    def get(self, key: str) -> str | None:
        """The verdict on a kernel; None if there is none."""
        with self._lock:
            if key in self._put:
                return self._put[key]
            found = self._find(key)
            if found is None:
                self._read_on()
                found = self._find(key)
            return found

    def put(self, key: str, workload: str, schedule: str, reason: str) -> None:
        """Remember a verdict, for a workload's hash and the text of a schedule."""
        reason = " ".join(reason.split())[:300]
        word = "wrong" if reason else "right"
        line = f"{word} {key} {workload} {schedule_digest(schedule)} {reason}"
        with self._lock:
            self._put[key] = reason
            with contextlib.suppress(OSError):
                self._append(line.rstrip().encode(errors="replace") + b"\n")

    def refused(self) -> dict[tuple[str, str], str]:
        """Why schedules are refused, by the hash of a workload and ``schedule_digest``."""
        found: dict[tuple[str, str], str] = {}
        with self._lock:
            self._read_on()
            lines = list(_LINE.finditer(self._data))
        for line in lines:
            name = line[3].decode(errors="replace"), line[4].decode()
            found.pop(name, None)
            if reason := _reason(line):
                found[name] = reason
        return found

    def _find(self, key: str) -> str | None:
        at = self._data.rfind(b" %b " % key.encode())
        line = _LINE.match(self._data, self._data.rfind(b"\n", 0, at) + 1) if at >= 0 else None
        return None if line is None else _reason(line)

    def _append(self, line: bytes) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileNotFoundError):
            if self._path.stat().st_size > _MOST_BYTES:
                self._path.unlink()
        descriptor = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            os.write(descriptor, line)
        finally:
            os.close(descriptor)

    def _read_on(self) -> None:
        """Take in what others appended since the last time."""
        with contextlib.suppress(OSError):
            # A pipe in its place must not be waited for.
            descriptor = os.open(self._path, os.O_RDONLY | os.O_NONBLOCK)
            with open(descriptor, "rb") as file:
                state = os.fstat(descriptor)
                done = len(self._data) - 1
                if self._read != (state.st_dev, state.st_ino) or state.st_size < done:
                    self._read, self._data, done = (state.st_dev, state.st_ino), b"\n", 0
                if state.st_size == done:
                    return
                file.seek(done)
                data = file.read(2 * _MOST_BYTES)
            self._data += data[: data.rfind(b"\n") + 1]  # a line under way is read when it is there


def _reason(line: re.Match[bytes]) -> str:
    if line[1] == b"right":
        return ""
    return (line[5] or b"it was wrong").decode(errors="replace")


def schedule_digest(schedule: str) -> str:
    """A hash of a schedule's text, as ``record.schedule_key`` writes it."""
    return hashlib.sha256(schedule.encode()).hexdigest()[:16]


_stores: dict[Path, Verdicts] = {}
_lock = threading.Lock()


def verdicts(folder: Path) -> Verdicts:
    """The verdicts kept in a folder, one object per process."""
    with _lock:
        return _stores.setdefault(folder, Verdicts(folder / "first_use.txt"))
