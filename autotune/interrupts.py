"""Handling of signals that end tuning.

Ctrl-C, SIGTERM and the hang-up of a terminal end it in order: measurements are in the log already,
the workers end, and the best schedules so far are used. A second signal ends it at once; workers
end with the tuner. A terminal's new size and a stop (Ctrl-Z) change nothing.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def terminable() -> Iterator[None]:
    """Turns the first signal that ends programs into KeyboardInterrupt; the next one kills.

    Signals that are ignored stay ignored (``nohup``). It works in the main thread, which alone
    receives signals.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {n: signal.getsignal(n) for n in _ENDING}
    handled = {n: old for n, old in before.items() if old not in (signal.SIG_IGN, None)}
    for number in handled:
        signal.signal(number, _interrupt)
    try:
        yield
    finally:
        for number, old in handled.items():
            signal.signal(number, old)


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    for other in _ENDING:
        if signal.getsignal(other) is _interrupt:
            signal.signal(other, _at_once)
    raise KeyboardInterrupt


def _at_once(number: int, _frame: FrameType | None) -> None:
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
