"""The file of a tuning log: opened only if it is a regular file, locked briefly, read in pieces."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ...ir.errors import LoopwrightOSError
from ...ir.files import open_named
from .line import MAX_LINE

LOCK_SECONDS = 10.0
"""Longest wait for the lock. Appending holds it for a millisecond, pruning for as long as it takes
to read and write the file."""
_READ_BYTES = 1 << 22


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
