"""Runs a session of calls, compiled and as it is, one call after another and in threads at once."""

from __future__ import annotations

import re
import sys
import threading
import warnings
from collections import Counter
from collections.abc import Callable
from typing import Any

import loopwright as lw
import numpy as np
from loopwright.ir.errors import InternalError, LoopwrightError
from random_inputs import Call, Session, described, difference, numbers

__all__ = ["failures", "refusals"]

THREADS = 3
refusals: Counter[str] = Counter()
"""What was refused that NumPy computes, by the message without its names and figures."""


def _run(function: Callable[..., Any], call: Call) -> Any:
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        return function(*call.args, **call.kwargs)


def _outcome(function: Callable[..., Any], call: Call) -> tuple[Any, Exception | None]:
    try:
        return _run(function, call), None
    except Exception as error:
        return None, error


class _Round:
    """One walk through the calls of a session; what it returned is looked at again at the end."""

    def __init__(self, session: Session, compiled: Callable[..., Any], first: int) -> None:
        self.session, self.compiled, self.first = session, compiled, first
        self.kept: list[tuple[int, Any, Any]] = []
        self.found: list[str] = []

    def __call__(self) -> None:
        for step in range(self.session.calls):
            number = (step + self.first) % self.session.calls
            try:
                text = self._mistake(number)
            except Exception as error:
                text = f"the check failed: {error!r}"
            if text:
                self.found.append(f"call {number}: {text}\n    {self._arguments(number)}")
        for number, result, expected in self.kept:
            if text := difference(result, expected):
                self.found.append(f"call {number}, changed later: {text}")

    def _arguments(self, number: int) -> str:
        call = self.session.call(number)
        return described([*call.args, call.kwargs])

    def _mistake(self, number: int) -> str:
        theirs, ours = self.session.call(number), self.session.call(number)
        expected, refused = _outcome(self.session.function(), theirs)
        result, error = _outcome(self.compiled, ours)
        if error is None and refused is None:
            self.kept.append((number, result, expected))
            text = difference(result, expected)
            return text or self._arguments_differ(ours, theirs)
        if error is None and _writes_nothing(theirs):
            return ""  # NumPy refuses to write no elements into a read-only array; nobody is misled
        if error is None:
            return f"returns {described(result)}, but NumPy raises {refused!r}"[:400]
        if isinstance(error, InternalError):
            return f"raises {error!r}"[:400]
        if not isinstance(error, LoopwrightError):
            if refused is None or type(error) is not type(refused):
                return f"raises {error!r}, and NumPy {refused!r}"[:400]
        elif refused is None:
            refusals[_kind(error)] += 1
            return self._arguments_differ(ours, self.session.call(number))
        return ""

    def _arguments_differ(self, ours: Call, theirs: Call) -> str:
        found = difference([*ours.args, ours.kwargs], [*theirs.args, theirs.kwargs], "argument")
        return found


def _writes_nothing(call: Call) -> bool:
    """True if an array that must not be written has no elements."""
    arrays = [v for v in numbers([*call.args, call.kwargs]) if isinstance(v, np.ndarray)]
    return any(not a.size and not a.flags.writeable for a in arrays)


def _kind(error: LoopwrightError) -> str:
    text = re.sub(r"^\w+: ", "", error.message)
    text = re.sub(r"(\b[a-z]\w*)(\[[^]]*\]|\.\w+)+", r"\1", text)
    return f"{type(error).__name__}: {re.sub(r'[0-9]+', '0', text)}"[:150]


def failures(session: Session, threads: int = THREADS) -> list[str]:
    """Returns what is wrong with the session: in one thread, then in ``threads`` at once."""
    one = _Round(session, lw.compile(session.function()), 0)
    one()
    if one.found or threads < 2:
        return one.found
    compiled = lw.compile(session.function())
    rounds = [_Round(session, compiled, first) for first in range(threads)]
    runners = [threading.Thread(target=each, daemon=True) for each in rounds]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        for runner in runners:
            runner.start()
        for runner in runners:
            runner.join()
    finally:
        sys.setswitchinterval(interval)
    return [f"in threads: {text}" for each in rounds for text in each.found]
