"""The file of a tuning log: opened only if it is one, locked for a while only, read in pieces."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .line import MAX_LINE

__all__ = ["LogError", "as_log_error", "locked_file", "opened", "pieces", "problem_of"]

LOCK_SECONDS = 10.0
"""Time to wait for the lock. Who appends holds it for a millisecond, who prunes for as long as it
takes to read and write the file."""
_PIECE = 1 << 22  # bytes read at once

_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a FIFO",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFSOCK: "a socket",
}


class LogError(OSError):
    """The log cannot be read or written. The records of a call that failed are not in it."""

    def __init__(self, path: Path | None, reason: str) -> None:
        super().__init__(
            f"tuning log {path}: {reason} (log=, --log and LOOPWRIGHT_LOG say which log is used)"
        )
        self.path = path
        self.reason = self.strerror = reason


@contextmanager
def as_log_error(path: Path) -> Iterator[None]:
    """Raise what the system refuses as a LogError."""
    try:
        yield
    except LogError:
        raise
    except OSError as error:
        raise LogError(path, error.strerror or str(error)) from error


@contextmanager
def opened(path: Path) -> Iterator[int]:
    """A descriptor to read the log. FileNotFoundError if there is none, LogError if it is no file
    or may not be read. Opening a FIFO that nobody writes to does not wait."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise LogError(path, _reason(error)) from error
    try:
        _require_file(path, descriptor)
        yield descriptor
    finally:
        os.close(descriptor)


def problem_of(path: Path) -> str | None:
    """Why there is no log to be read at ``path``, in a few words; None if there is one, or none
    yet."""
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
    """A descriptor to append to ``path``, which no one else may change meanwhile.

    LogError if another process holds the lock for ``LOCK_SECONDS``.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NONBLOCK | os.O_CLOEXEC
    while True:
        descriptor = os.open(path, flags, 0o644)
        try:
            _require_file(path, descriptor)
            _lock(path, descriptor)
            if _is_same_file(descriptor, path):
                yield descriptor
                return
        finally:
            os.close(descriptor)


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


def _require_file(path: Path, descriptor: int) -> None:
    kind = stat.S_IFMT(os.fstat(descriptor).st_mode)
    if kind != stat.S_IFREG:
        raise LogError(path, f"{_KINDS.get(kind, 'something else')}, not a file of JSON lines")


def _reason(error: OSError) -> str:
    if error.errno == errno.ENXIO:
        return "a socket, not a file of JSON lines"
    return error.strerror or str(error)


def _is_same_file(descriptor: int, path: Path) -> bool:
    """Whether the path still leads to the open file, and not to one that replaced it."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False


def pieces(descriptor: int, start: int, end: int) -> Iterator[tuple[int, int, bytes]]:
    """The bytes from ``start`` to ``end`` in pieces of whole lines, each with where it begins and
    ends. A last line without its end is a piece of its own; so is a line that is too long, of
    which there is only the beginning."""
    rest, at = b"", start
    while at < end:
        data = os.pread(descriptor, min(_PIECE, end - at), at)
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
    """Where the line ends that goes on at ``at``."""
    while at < end:
        data = os.pread(descriptor, min(_PIECE, end - at), at)
        if not data:
            break
        found = data.find(b"\n") + 1
        if found:
            return at + found
        at += len(data)
    return at
