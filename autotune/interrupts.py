"""How signals end tuning.

Ctrl-C, SIGTERM and the hang-up of a terminal end it in order: what was measured is in the log
already, the workers end, the best so far is used. A second one ends it at once, wherever it is;
workers end with the tuner. A terminal's new size and a stop (Ctrl-Z) change nothing.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

__all__ = ["terminable"]

_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def terminable() -> Iterator[None]:
    """Within it a signal that ends programs raises KeyboardInterrupt, once; the next one kills.

    Signals that are ignored stay so (``nohup``). In the main thread: others get no signals.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {n: signal.getsignal(n) for n in _ENDING}
    taken = {n: old for n, old in before.items() if old not in (signal.SIG_IGN, None)}
    for number in taken:
        signal.signal(number, _interrupt)
    try:
        yield
    finally:
        for number, old in taken.items():
            signal.signal(number, old)


def _interrupt(number: int, frame: FrameType | None) -> None:
    for other in _ENDING:
        if signal.getsignal(other) is _interrupt:
            signal.signal(other, _at_once)
    raise KeyboardInterrupt


def _at_once(number: int, frame: FrameType | None) -> None:
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
