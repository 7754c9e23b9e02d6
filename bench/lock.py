"""One measurement at a time on this machine."""

from __future__ import annotations

import fcntl
import os
import tempfile
import time
from pathlib import Path
from types import TracebackType

__all__ = ["MachineLock"]


class MachineLock:
    """An exclusive lock on ``bench.lock`` in the temporary folder, held in turns.

    ``between`` gives it to whoever waits if it was held for ``turn`` seconds, and takes it again:
    a long run lets others in, but not after every workload.
    """

    def __init__(self, turn: float = 30.0) -> None:
        self._turn = turn
        path = Path(tempfile.gettempdir()) / "bench.lock"
        self._file = os.open(path, os.O_CREAT | os.O_WRONLY, 0o666)
        self._since = 0.0

    def __enter__(self) -> MachineLock:
        fcntl.flock(self._file, fcntl.LOCK_EX)
        self._since = time.monotonic()
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
        if time.monotonic() - self._since > self._turn:
            fcntl.flock(self._file, fcntl.LOCK_UN)
            time.sleep(0.01)  # who waits has it now
            fcntl.flock(self._file, fcntl.LOCK_EX)
            self._since = time.monotonic()
