"""Effects on Python's own objects while a body of a branch, loop or function is traced.

Such a body runs once, whatever the number of its iterations, so what it does to lists, attributes,
generators and arrays of NumPy's would be done once, too. ``watched`` compares what a body can reach
before and after it runs. An array that NumPy made within the traced function is a traced one when
that is traced again (``patched_functions``); all else is refused at the line that changed it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

from ...ir.errors import LoopwrightError, UnsupportedError
from ...ir.span import Span
from .arguments import any_traced
from .snapshot import Change, Snapshot, is_installed, package_of
from .spans import caret_lines, short_path
from .trace import Trace


def watched(trace: Trace, body: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Returns ``body(*args, **kwargs)``. UnsupportedError if it has changed what is not traced."""
    outside = Snapshot([body], trace.outside)
    try:
        result = body(*args, **kwargs)
    except BaseException:
        outside.restore()  # the body runs again, where it needed what is not known yet
        raise
    change = next(outside.changes(), None)
    if change is not None:
        trace.writes_numpys |= change.is_array
        trace.refused = refusal(outside, change, lambda: body(*args, **kwargs), "a body")
        raise trace.refused
    return result


def refusal(
    outside: Snapshot, change: Change, repeat: Callable[[], object], what: str
) -> LoopwrightError:
    """Returns the error for a change, at the line that makes it when ``repeat`` runs. All objects
    are as they were then."""
    span = _place(outside, change, repeat)
    outside.restore()
    if change.is_random:
        said, hint = f"draws random numbers from {change.path}", "lw.random, or draw them before it"
    elif change.is_array:
        said = f"writes to {change.path}, an array of NumPy's from outside of it"
        hint = "pass the array as an argument, or carry it and return it"
    elif any_traced([change.after]):
        said = f"leaves a traced value in {change.path}"
        hint = "return it, and keep what the compiled function returns"
    else:
        said = f"changes {change.path}, which compiled code does not have"
        hint = "a carry or a result: take the value as an argument and return the new one"
    return UnsupportedError(
        f"{what} {said}: that happens when it is traced, and not in each run of the compiled code",
        span=span,
        source=caret_lines(span) if span is not None else (),
        hint=hint,
    )


def _place(outside: Snapshot, change: Change, repeat: Callable[[], object]) -> Span | None:
    """Returns the user's line that makes a change. None if it cannot be made twice."""
    if outside.restore() is not None:
        return None
    lines: list[Span] = []
    places: list[Span] = []

    def look(frame: FrameType, _event: str, _argument: object) -> Any:
        if is_installed(package_of(frame.f_globals.get("__name__"))):
            return None
        if lines and not places and change.still():
            places.append(lines[-1])
        code = frame.f_code
        lines.append(Span(short_path(code.co_filename), frame.f_lineno, function=code.co_name))
        return look

    tracer = sys.gettrace()
    sys.settrace(look)
    try:
        repeat()
    except Exception:
        lines.clear()  # it ends elsewhere than it did
    finally:
        sys.settrace(tracer)
    return places[0] if places else lines[-1] if lines else None
