"""Statuses of native entries as exceptions, and the function by which long loops ask for signals.

An entry runs without the GIL. So that it can be interrupted, and Python's own handlers of signals
run, its loops count down the nanoseconds that their iterations are expected to take, and call
``lw_poll`` when ``POLL_NANOSECONDS`` are over. That reads the clock, and asks Python once in
``SIGNAL_NANOSECONDS``: other threads of Python may keep the GIL for 5 ms each time.

An exception that a handler raises (KeyboardInterrupt, as a rule) stays with the thread; the entry
returns ``RAISED``.
"""

from __future__ import annotations

import ctypes
import functools
import threading
from collections.abc import Mapping

from ..llvm.clock import CLOCK_TEXT
from .call_text import RAISED, TOO_DEEP, TOO_DEEP_TEXT
from .native_call import available, load_forever
from .stack import STACK_TEXT

POLL_NANOSECONDS = 1_000_000
SIGNAL_NANOSECONDS = 50_000_000

_PYTHON_SYMBOLS = ("PyErr_CheckSignals", "PyGILState_Ensure", "PyGILState_Release")

# i64 @lw_poll(ptr clock): nanoseconds until the next call, or -1 to leave. ``clock`` is the time
# from which on Python is asked, 0 at first.
_TEXT = (
    CLOCK_TEXT
    + STACK_TEXT
    + f"""
declare i32 @PyGILState_Ensure()
declare void @PyGILState_Release(i32)
declare i32 @PyErr_CheckSignals()

define i64 @lw_poll(ptr %clock) {{
entry:
  %now = call i64 @now()
  %due = load i64, ptr %clock
  %first = icmp eq i64 %due, 0
  br i1 %first, label %again, label %look
look:
  %early = icmp slt i64 %now, %due
  br i1 %early, label %go, label %ask
ask:
  %state = call i32 @PyGILState_Ensure()
  %raised = call i32 @PyErr_CheckSignals()
  call void @PyGILState_Release(i32 %state)
  %leave = icmp ne i32 %raised, 0
  br i1 %leave, label %left, label %again
again:
  %then = call i64 @now()
  %next = add i64 %then, {SIGNAL_NANOSECONDS}
  store i64 %next, ptr %clock
  br label %go
go:
  ret i64 {POLL_NANOSECONDS}
left:
  ret i64 -1
}}
"""
)

_raised = threading.local()


def called_symbols(entry: bytes) -> Mapping[str, int]:
    """Returns the functions that an entry's object code may call, and their addresses: none for one
    without control flow, which then loads none."""
    return symbols() if b"lw_poll" in entry or b"lw_stack_end" in entry else {}


@functools.cache
def symbols() -> Mapping[str, int]:
    """Returns the functions that entries may call, and their addresses; they are never unloaded."""
    code = load_forever(_TEXT, "polls of loops", _PYTHON_SYMBOLS)
    ctypes.CFUNCTYPE(None)(code.address("lw_stack_begin"))()
    poll = code.address("lw_poll")
    if not available():
        poll = ctypes.cast(_portable_poll, ctypes.c_void_p).value or 0
    return {"lw_poll": poll, "lw_stack_end": code.address("lw_stack_end")}


@ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)
def _portable_poll(_clock: int) -> int:
    """The same for interpreters whose calls go through ctypes, where Python's own evaluation loop
    runs the handlers."""
    try:
        for _ in range(2):
            pass
    except BaseException as error:
        keep_error(error)
        return -1
    return POLL_NANOSECONDS


def keep_error(error: BaseException) -> None:
    """Keeps what the entry that runs in this thread is to raise, when it is called by ctypes."""
    _raised.error = error


def raise_status(status: int) -> None:
    """Raises what an entry called through ctypes ended with."""
    if status == RAISED:
        error, _raised.error = _raised.error, None
        raise error
    if status == TOO_DEEP:
        raise RecursionError(TOO_DEEP_TEXT)
