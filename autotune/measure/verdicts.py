"""right KEY WORKLOAD SCHEDULE
    wrong KEY WORKLOAD SCHEDULE why, in a sentence

The key is 64 hexadecimal digits; the hash of the workload and 16 digits of that of the schedule
connect it to logs. The file lies in the cache folder and is only ever appended to, a whole line
with one write, so that processes may do so at the same time. Torn and foreign lines are ignored.
Verdicts are believed, so folder and file have to be the user's own (``ir/files.py``). If they are
not, or cannot be written, the verdicts last as long as the process.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import threading
from pathlib import Path

from ...ir.errors import LoopwrightOSError
from ...ir.files import append, open_kept, refused

_LINE = re.compile(
    rb"(right|wrong) ([0-9a-f]{64}) (\S{1,64}) ([0-9a-f]{16})(?: (.{0,300}))?", re.MULTILINE
)
_FILE_BYTES = 4 << 20
"""A longer file is started anew: it holds some 40,000 kernels."""


class Verdicts:
    """The reasons for refusing kernels by their keys, "" for those that were right."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._put: dict[str, str] = {}
        self._data = b"\n"  # the whole lines of the file
        self._read: tuple[int, int] | None = None  # its device and inode
        self._lock = threading.Lock()

    def get(self, key: str) -> str | None:
        """Returns the verdict on a kernel; None if there is none."""
        with self._lock:
            if key in self._put:
                return self._put[key]
            reason = self._find(key)
            if reason is None:
                self._read_on()
                reason = self._find(key)
            return reason

    def put(self, key: str, workload: str, schedule: str, reason: str) -> None:
        """Remembers a verdict, for a workload's hash and the text of a schedule."""
        reason = " ".join(reason.split())[:300]
        word = "wrong" if reason else "right"
        line = f"{word} {key} {workload} {schedule_digest(schedule)} {reason}"
        with self._lock:
            self._put[key] = reason
            with contextlib.suppress(OSError):
                self._append(line.rstrip().encode(errors="replace") + b"\n")

    def refused(self) -> dict[tuple[str, str], str]:
        """Returns the reasons for refusing schedules, by workload hash and ``schedule_digest``."""
        reasons: dict[tuple[str, str], str] = {}
        with self._lock:
            self._read_on()
            lines = list(_LINE.finditer(self._data))
        for line in lines:
            name = line[3].decode(errors="replace"), line[4].decode()
            reasons.pop(name, None)
            if reason := _reason(line):
                reasons[name] = reason
        return reasons

    def _find(self, key: str) -> str | None:
        at = self._data.rfind(b" %b " % key.encode())
        line = _LINE.match(self._data, self._data.rfind(b"\n", 0, at) + 1) if at >= 0 else None
        return None if line is None else _reason(line)

    def _append(self, line: bytes) -> None:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
        with open_kept(self._path, flags, 2 * _FILE_BYTES) as descriptor:
            if os.fstat(descriptor).st_size <= _FILE_BYTES:
                append(descriptor, line)
                return
        self._path.unlink()  # the next verdict begins a new file

    def _read_on(self) -> None:
        """Reads the lines that were appended since the last time."""
        try:
            with open_kept(self._path, most_bytes=2 * _FILE_BYTES) as descriptor:
                state = os.fstat(descriptor)
                done = len(self._data) - 1
                if self._read != (state.st_dev, state.st_ino) or state.st_size < done:
                    self._read, self._data, done = (state.st_dev, state.st_ino), b"\n", 0
                data = os.pread(descriptor, state.st_size - done, done)
            self._data += data[: data.rfind(b"\n") + 1]  # a partial line is read later
        except FileNotFoundError:
            return
        except LoopwrightOSError as error:
            refused(error)


def _reason(line: re.Match[bytes]) -> str:
    if line[1] == b"right":
        return ""
    return (line[5] or b"it was wrong").decode(errors="replace")


def schedule_digest(schedule: str) -> str:
    """Returns a hash of a schedule's text, as ``record.schedule_key`` writes it."""
    return hashlib.sha256(schedule.encode()).hexdigest()[:16]


_stores: dict[Path, Verdicts] = {}
_lock = threading.Lock()


def verdicts(folder: Path) -> Verdicts:
    """Returns the verdicts kept in a folder, one object per process."""
    with _lock:
        return _stores.setdefault(folder, Verdicts(folder / "first_use.txt"))
