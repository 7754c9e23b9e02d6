"""One line on a terminal for work that takes longer than two seconds, and lines of logging.

Whoever begins such work opens a line; what is done inside reports how far it is, without knowing
who shows it::

    with progress("compiling resnet50"):
        report(34, 53, "kernels")           compiling resnet50: 34 of 53 kernels

Nothing is shown unless stderr is a terminal, and nothing is left behind.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from collections.abc import Iterator

PATIENCE = 2.0
"""Seconds of work that nobody needs to be told about."""
BETWEEN = 0.1
"""Seconds between two drawings of the line."""
COLUMNS = 80
"""Letters of the line where the terminal does not say how wide it is."""


class _Line:
    """The line of one thread's work; a timer draws it when the patience ends."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._state = ""
        self._last = 0.0
        self._begun = time.monotonic()
        self._lock = threading.Lock()
        self._open = True
        self._timer = threading.Timer(PATIENCE, self._draw)
        self._timer.daemon = True
        self._timer.start()

    def report(self, state: str) -> None:
        self._state = state
        now = time.monotonic()
        if now - self._begun >= PATIENCE and now - self._last >= BETWEEN:
            self._draw()

    def close(self) -> None:
        """Erases the line, if it was ever drawn."""
        self._timer.cancel()
        with self._lock:
            self._open = False
            if self._last:
                _write("\r\x1b[K")

    def _draw(self) -> None:
        with self._lock:
            if self._open:
                self._last = time.monotonic()
                text = f"{self._what}: {self._state}" if self._state else self._what
                _write(f"\r{text[: _columns() - 1]}\x1b[K")


_lines = threading.local()


@contextlib.contextmanager
def progress(what: str) -> Iterator[None]:
    """Shows a line for the work inside, unless a line is shown already; its reports go there."""
    if getattr(_lines, "line", None) is not None or not _is_terminal():
        yield
        return
    line = _lines.line = _Line(what)
    try:
        yield
    finally:
        _lines.line = None
        line.close()


def report(done: int, total: int, noun: str) -> None:
    """Says how much of the work is done, to the line that this thread has, if it has one."""
    line: _Line | None = getattr(_lines, "line", None)
    if line is not None:
        line.report(f"{done} of {total} {noun}")


def log(topic: str, text: str, *args: object) -> None:
    """Writes a line to the logger ``loopwright.<topic>`` of a program that uses ``logging``."""
    if (logging := sys.modules.get("logging")) is not None:
        logging.getLogger(f"loopwright.{topic}").info(text, *args)


def _is_terminal() -> bool:
    try:
        return sys.stderr.isatty()
    except (AttributeError, ValueError):  # there is none, or it is closed
        return False


def _columns() -> int:
    try:
        return os.get_terminal_size(sys.stderr.fileno()).columns or COLUMNS
    except (AttributeError, OSError, ValueError):
        return COLUMNS


def _write(text: str) -> None:
    with contextlib.suppress(AttributeError, OSError, ValueError):
        sys.stderr.write(text)
        sys.stderr.flush()
