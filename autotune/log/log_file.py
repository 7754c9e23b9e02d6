"""The file of a tuning log: opened only if it is a regular file, locked briefly, read in pieces,
and followed while others append to it."""

from __future__ import annotations

import fcntl
import os
import threading
import time
import warnings
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ...ir.dataclass import dataclass
from ...ir.errors import LoopwrightOSError
from ...ir.files import open_named
from ..record_line import MAX_LINE, RecordError, SkippedLines
from .note import entry_of

LOCK_SECONDS = 10.0
"""Longest wait for the lock. Appending holds it for a millisecond, pruning for as long as it takes
to read and write the file."""
_READ_BYTES = 1 << 22
_TAIL = 4096  # bytes before the position: they distinguish an appended file from a new one


class LogError(LoopwrightOSError):
    """The log cannot be read or written. The records of the call that failed are not in it."""

    def __init__(self, path: Path | None, reason: str) -> None:
        super().__init__(path, reason)
        self.message = (
            f"tuning log {path}: {reason} (log=, --log and LOOPWRIGHT_LOG say which log is used)"
        )
        self.path = path


@contextmanager
def as_log_error(path: Path) -> Iterator[None]:
    """Raises errors of the system as LogError."""
    try:
        yield
    except LogError:
        raise
    except OSError as error:
        raise LogError(path, error.strerror or str(error)) from error


@contextmanager
def opened(path: Path) -> Iterator[int]:
    """Yields a descriptor to read the log.

    Raises FileNotFoundError if there is none, LogError if it is not a regular file or not readable.
    Opening a FIFO without a writer does not block.
    """
    try:
        with open_named(path) as descriptor:
            yield descriptor
    except LoopwrightOSError as error:
        raise LogError(path, error.reason) from error


def problem_of(path: Path) -> str | None:
    """Returns the reason why the log at ``path`` cannot be read, in a few words.

    None if it can be read, or does not exist yet.
    """
    try:
        with opened(path):
            return None
    except FileNotFoundError:
        if not path.is_symlink():
            return None
        return f"a link to {os.readlink(path)}, which is not there"
    except LogError as error:
        return error.reason


@contextmanager
def locked_file(path: Path) -> Iterator[int]:
    """Yields a descriptor to append to ``path``, which no other process can change meanwhile.

    Raises LogError if another process holds the lock for ``LOCK_SECONDS``.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    while True:
        with open_named(path, os.O_RDWR | os.O_APPEND | os.O_CREAT) as descriptor:
            _lock(path, descriptor)
            if _is_same_file(descriptor, path):
                yield descriptor
                return


def _lock(path: Path, descriptor: int) -> None:
    end = time.monotonic() + LOCK_SECONDS
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() >= end:
                reason = f"another process has held its lock for {LOCK_SECONDS:.3g} seconds"
                raise LogError(path, reason) from None
        time.sleep(0.002)


def _is_same_file(descriptor: int, path: Path) -> bool:
    """True if the path still leads to the open file, and not to one that replaced it."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False


def pieces(descriptor: int, start: int, end: int) -> Iterator[tuple[int, int, bytes]]:
    """Yields (begin, end, bytes) of pieces of whole lines between two offsets.

    A last line without a line end is a piece of its own; so is a line that is too long, of which
    only the beginning is returned.
    """
    rest, at = b"", start
    while at < end:
        data = os.pread(descriptor, min(_READ_BYTES, end - at), at)
        if not data:
            break
        at += len(data)
        last = data.rfind(b"\n") + 1
        if last:
            whole = rest + data[:last]
            middle = at - len(data) + last
            yield middle - len(whole), middle, whole
            rest = data[last:]
            continue
        rest += data
        if len(rest) > MAX_LINE:
            begin = at - len(rest)
            at = _line_end(descriptor, at, end)
            yield begin, at, rest[: MAX_LINE + 1] + b"\n"
            rest = b""
    if rest:
        yield at - len(rest), at, rest


def _line_end(descriptor: int, at: int, end: int) -> int:
    """Returns the end of the line that continues at ``at``."""
    while at < end:
        data = os.pread(descriptor, min(_READ_BYTES, end - at), at)
        if not data:
            break
        length = data.find(b"\n") + 1
        if length:
            return at + length
        at += len(data)
    return at


@dataclass(slots=True)
class Position:
    """The place up to which a file was read: ``offset`` bytes, and a checksum of the last of them,
    ``tail``."""

    device: int = 0
    inode: int = 0
    modified: int = 0
    offset: int = 0
    tail: int = 0

    def is_in(self, descriptor: int, status: os.stat_result) -> bool:
        """True if a file is the one that was read, possibly with more lines at its end."""
        if self.inode != status.st_ino or status.st_size < self.offset:
            return False
        if status.st_size == self.offset and status.st_mtime_ns != self.modified:
            return False
        return self.tail == _tail(descriptor, self.offset)

    def mark(self, descriptor: int, offset: int) -> None:
        """Notes that a file was read up to an offset."""
        status = os.fstat(descriptor)
        self.device, self.inode, self.modified = status.st_dev, status.st_ino, status.st_mtime_ns
        self.offset, self.tail = offset, _tail(descriptor, offset)


def _tail(descriptor: int, offset: int) -> int:
    start = max(0, offset - _TAIL)
    return zlib.crc32(os.pread(descriptor, offset - start, start))


class FollowedLog:
    """A reader of a log file, which goes on from where it was. A last line that is not whole waits
    for its rest; a file that was replaced is read from its beginning."""

    def __init__(self, path: Path | None) -> None:
        """Without a path there is nothing to read."""
        self._followed = path
        self._position = Position()
        self.skipped = SkippedLines()
        self._lock = threading.RLock()

    def refresh(self) -> int:
        """Reads the lines that any process appended since the last time; returns their number."""
        if self._followed is None:
            return 0
        with self._lock:
            try:
                with opened(self._followed) as descriptor, as_log_error(self._followed):
                    return self._read_on(descriptor)
            except FileNotFoundError:
                self._tell_of_loss()
                self._forget()
                return 0

    def _read_on(self, descriptor: int) -> int:
        status, at = os.fstat(descriptor), self._position
        state = status.st_ino, status.st_size, status.st_mtime_ns
        if (at.inode, at.offset, at.modified) == state:
            return 0
        if at.inode and not at.is_in(descriptor, status):
            if not status.st_size:
                self._tell_of_loss()
            self._forget()  # the file was replaced, by prune for instance
        count, offset = 0, self._position.offset
        for start, end, data in pieces(descriptor, offset, status.st_size):
            if not data.endswith(b"\n"):
                if not _is_whole(data):
                    break  # it is still being written
                data += b"\n"
            self._scan(start, data)
            count, offset = count + data.count(b"\n"), end
        self._position.mark(descriptor, offset)
        return count

    def _scan(self, _offset: int, data: bytes) -> None:
        """Takes whole lines, which begin at an offset of the file."""
        raise NotImplementedError

    def _forget(self) -> None:
        """Forgets all that was read."""
        self._position, self.skipped = Position(), SkippedLines()

    def _loss(self) -> str:
        """Returns what it means that the file is gone, in words that follow its name."""
        raise NotImplementedError

    def _tell_of_loss(self) -> None:
        """Warns that a removed log continues in a new file, before anybody relies on the old
        one."""
        if self._position.offset:
            warnings.warn(f"tuning log {self._followed} {self._loss()}", stacklevel=4)


def _is_whole(line: bytes) -> bool:
    try:
        entry_of(line)
    except RecordError:
        return False
    return True
