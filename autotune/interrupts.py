"""SIGTERM ends tuning as Ctrl-C does: in order, with everything kept."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

__all__ = ["terminable"]


@contextmanager
def terminable() -> Iterator[None]:
    """Within it SIGTERM raises KeyboardInterrupt (in the main thread; others get no signals)."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, _interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt
