"""Calls of captured functions: what calls itself where values decide is a function of the graph."""

from __future__ import annotations

import inspect
from typing import Any

from ..control.functions import MOST_KINDS_NESTED, call
from ..core.trace import OFTEN, TracedAnewError, active

MOST_OWN_CALLS = 32
"""Calls of itself that Python runs for a function, if they emit operators, each a piece of code."""


def call_captured(function: Any, /, *args: Any, **kwargs: Any) -> Any:
    """Returns ``function(*args, **kwargs)``.

    A function that calls itself in a branch or loop of the graph would never end while it is
    traced, so the trace begins anew, and its calls are calls of compiled code; so are those of one
    that Python would run many times. If that fails, they are what Python makes of them.
    """
    trace = active()
    code = getattr(inspect.unwrap(function), "__code__", None)
    if trace is None or code is None:
        return function(*args, **kwargs)
    place = f"{code.co_filename}:{code.co_firstlineno}"
    if f"function {place}" in trace.asked and f"inline {place}" not in trace.asked:
        try:
            return call(function, args, kwargs)
        except Exception as error:
            if not trace.lacks:
                trace.wanted.add(f"inline {place}")
                trace.failed[place] = error
            raise
    scopes = [scope for each, scope in trace.captured_calls if each is code]
    if len(scopes) > MOST_KINDS_NESTED and place in trace.failed and scopes[0] is not scopes[-1]:
        raise trace.failed[place]  # values decide where it ends, so that it never does in Python
    if scopes and f"inline {place}" not in trace.asked:
        trace.own_calls[code] += 1
        is_often = MOST_OWN_CALLS < trace.own_calls[code] < trace.emitted
        if scopes[-1] is not trace.scope or is_often:
            trace.wanted |= {f"function {place}", *([OFTEN + place] if is_often else [])}
            raise TracedAnewError
    trace.captured_calls.append((code, trace.scope))
    try:
        return function(*args, **kwargs)
    finally:
        trace.captured_calls.pop()
