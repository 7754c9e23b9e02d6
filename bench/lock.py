"""One measurement at a time on this machine."""

from __future__ import annotations

import fcntl
import os
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType

__all__ = ["MachineLock"]

SILENT = 1.0
"""Seconds of waiting before a word about it."""


class MachineLock:
    """An exclusive lock on ``bench.lock`` in the temporary folder, shared by time slices.

    ``between`` gives it to whoever waits if it was held for ``slice`` seconds, and takes it again:
    a long run lets others in, but not after every workload. Waiting is said on stderr, with the
    process that holds the lock; RuntimeError if that one waits for us.
    """

    def __init__(self, slice: float = 30.0) -> None:
        self._slice = slice
        self._path = Path(tempfile.gettempdir()) / "bench.lock"
        self._file = os.open(self._path, os.O_CREAT | os.O_WRONLY, 0o666)
        self._since = 0.0

    def __enter__(self) -> MachineLock:
        self._take()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        os.close(self._file)

    def between(self) -> None:
        """Call it between two measurements."""
        if time.monotonic() - self._since > self._slice:
            fcntl.flock(self._file, fcntl.LOCK_UN)
            time.sleep(0.01)  # who waits has it now
            self._take()

    def _take(self) -> None:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if self._waits_for_us():
                raise RuntimeError(
                    f"{self._path} is held by {self._holder()}, which started this process and "
                    "waits for its end; start it without that lock"
                ) from None
            told = threading.Timer(SILENT, self._tell)
            told.start()
            try:
                fcntl.flock(self._file, fcntl.LOCK_EX)
            finally:
                told.cancel()
        self._since = time.monotonic()

    def _tell(self) -> None:
        sys.stderr.write(f"waiting for {self._path}, which is held by {self._holder()}\n")

    def _waits_for_us(self) -> bool:
        """True if a parent holds the lock, or handed it to us as an open file."""
        if self._holder_id() in set(_ancestors()):
            return True
        held = os.fstat(self._file)
        for name in os.listdir("/proc/self/fd"):
            try:
                other = os.stat(f"/proc/self/fd/{name}")
            except OSError:
                continue
            same = (other.st_ino, other.st_dev) == (held.st_ino, held.st_dev)
            if same and int(name) != self._file and os.get_inheritable(int(name)):
                return True
        return False

    def _holder_id(self) -> int:
        """The process that took the lock, 0 if the system does not say."""
        inode = str(os.fstat(self._file).st_ino)
        try:
            rows = [line.split() for line in Path("/proc/locks").read_text().splitlines()]
        except OSError:
            return 0
        held = [row for row in rows if "->" not in row and row[5].rpartition(":")[2] == inode]
        return int(held[0][4]) if held else 0

    def _holder(self) -> str:
        number = self._holder_id()
        try:
            command = Path(f"/proc/{number}/cmdline").read_bytes().replace(b"\0", b" ").decode()
        except OSError:
            return "another process"
        return f"process {number} ({command.strip()[:100]})"


def _ancestors() -> Iterator[int]:
    """The parent of this process, its parent, and so on."""
    number = os.getppid()
    while number > 1:
        yield number
        try:
            # The name of the command, in parentheses, may hold spaces; the parent comes after it.
            number = int(Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            return
