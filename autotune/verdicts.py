"""What the check before the first use found, kept for later processes: one line per kernel.

::

    right <64 hexadecimal digits>
    wrong <64 hexadecimal digits> why, in a sentence

The file stands in the cache folder, and is only ever appended to, a whole line with one write, so
that processes may do so at the same time. A line that is torn or foreign says nothing. Where the
folder cannot be written the verdicts last as long as the process.
"""

from __future__ import annotations

import contextlib
import os
import re
import threading
from pathlib import Path

__all__ = ["Verdicts", "verdicts"]

_LINE = re.compile(rb"(right|wrong) ([0-9a-f]{64})(?: (.{0,300}))?")
_MOST_BYTES = 4 << 20
"""A longer file is begun anew: some 60,000 kernels are in it."""


class Verdicts:
    """Why kernels were refused by their keys, "" for those that were right."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._known: dict[str, str] = {}
        self._read: tuple[int, int, int] | None = None  # device, inode, bytes read so far
        self._lock = threading.Lock()

    def get(self, key: str) -> str | None:
        """The verdict on a kernel; None if there is none."""
        with self._lock:
            if key not in self._known:
                self._read_on()
            return self._known.get(key)

    def put(self, key: str, reason: str) -> None:
        """Remember a verdict."""
        reason = " ".join(reason.split())[:300]
        word = "wrong" if reason else "right"
        with self._lock:
            self._known[key] = reason
            with contextlib.suppress(OSError):
                self._append(f"{word} {key} {reason}".rstrip().encode(errors="replace") + b"\n")

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
                device, inode, done = self._read or (0, 0, 0)
                if (device, inode) != (state.st_dev, state.st_ino) or state.st_size < done:
                    done = 0
                if state.st_size == done:
                    return
                file.seek(done)
                data = file.read(2 * _MOST_BYTES)
            whole = data[: data.rfind(b"\n") + 1]  # a line under way is read when it is there
            self._read = state.st_dev, state.st_ino, done + len(whole)
            for line in whole.split(b"\n"):
                found = _LINE.fullmatch(line)
                if found is not None:
                    word, key, reason = found.groups()
                    text = (reason or b"it was wrong").decode(errors="replace")
                    self._known[key.decode()] = text if word == b"wrong" else ""


_stores: dict[Path, Verdicts] = {}
_lock = threading.Lock()


def verdicts(folder: Path) -> Verdicts:
    """The verdicts kept in a folder, one object per process."""
    with _lock:
        return _stores.setdefault(folder, Verdicts(folder / "first_use.txt"))
