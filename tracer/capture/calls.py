"""Calls of captured functions: what calls itself where values decide is a function of the graph."""

from __future__ import annotations

import inspect
from typing import Any

from ..control.functions import call
from ..core.trace import TracedAnewError, active


def call_captured(function: Any, /, *args: Any, **kwargs: Any) -> Any:
    """Returns ``function(*args, **kwargs)``.

    A function that calls itself in a branch or loop of the graph would never end while it is
    traced, so the trace begins anew, and its calls are calls of compiled code. If that fails, they
    are what Python makes of them.
    """
    trace = active()
    code = getattr(inspect.unwrap(function), "__code__", None)
    if trace is None or code is None:
        return function(*args, **kwargs)
    place = f"{code.co_filename}:{code.co_firstlineno}"
    if f"function {place}" in trace.asked and f"inline {place}" not in trace.asked:
        try:
            return call(function, args, kwargs)
        except Exception:
            if not trace.lacks:
                trace.wanted.add(f"inline {place}")
            raise
    scopes = [scope for each, scope in trace.captured_calls if each is code]
    if scopes and scopes[-1] is not trace.scope and f"inline {place}" not in trace.asked:
        trace.wanted.add(f"function {place}")
        raise TracedAnewError
    trace.captured_calls.append((code, trace.scope))
    try:
        return function(*args, **kwargs)
    finally:
        trace.captured_calls.pop()
