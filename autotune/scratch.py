"""Folders for a process's own use that disappear with it, however it ends.

A folder is held by a lock on it, which the system releases with the process: after ``kill -9`` the
next process that makes a folder finds it without a holder, and removes it.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

_PREFIX = "loopwright-scratch-"


class ScratchFolder:
    """A new empty folder at ``path``, until ``close`` or the end of the process.

    >>> with ScratchFolder() as folder:
    ...     there = folder.path.is_dir()
    >>> there, folder.path.exists()
    (True, False)
    """

    def __init__(self) -> None:
        parent = Path(tempfile.gettempdir())
        _sweep(parent)
        while True:
            self.path = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=parent))
            held = _hold(self.path)
            if held is not None:
                self._held: int | None = held
                return

    def close(self) -> None:
        """Removes the folder with everything in it."""
        if self._held is not None:
            shutil.rmtree(self.path, ignore_errors=True)
            os.close(self._held)
            self._held = None

    def __enter__(self) -> ScratchFolder:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _hold(path: Path) -> int | None:
    """Returns a descriptor that holds the folder; None if another process holds or has removed
    it."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(descriptor), path.stat()):
            return descriptor
    except OSError:
        pass
    os.close(descriptor)
    return None


def _sweep(parent: Path) -> None:
    """Removes folders of this user's killed processes."""
    for path in _abandoned(parent):
        held = _hold(path)
        if held is not None:
            shutil.rmtree(path, ignore_errors=True)
            os.close(held)


def _abandoned(parent: Path) -> Iterator[Path]:
    with contextlib.suppress(OSError):
        for path in parent.glob(f"{_PREFIX}*"):
            with contextlib.suppress(OSError):
                if path.stat().st_uid == os.getuid():
                    yield path
