"""``try: ... except ...`` of the user's around operations that raise something else than in Python.

Errors of compiled code come when it runs, and not while it is traced, so a handler of them would
never run: it is refused at the line. Errors of tracing are none of NumPy's, so a handler would run
that does not in Python: the trace fails with the error in the end. Python 3.11 keeps a table of the
handlers of a function beside its code.
"""

from __future__ import annotations

import builtins
import dis
import inspect
from collections.abc import Iterator
from types import CodeType, FrameType
from typing import Any

from ...ir.errors import LoopwrightError, UnsupportedError
from .snapshot import is_installed, package_of
from .trace import Trace, active


def refuse_handlers(error: type[Exception], operation: str) -> None:
    """Raises UnsupportedError if the user's code would catch ``error`` of ``operation``."""
    trace = active()
    if trace is None:
        return
    for frame in _catching(error, trace):
        trace.refused = UnsupportedError(
            f"{operation} raises {error.__name__} when the compiled function runs, so the "
            f"`except` of {frame.f_code.co_name} would never run",
            hint="catch it where the compiled function is called",
        )
        raise trace.refused  # the handler may catch this one, too


def note_caught(error: LoopwrightError, trace: Trace) -> None:
    """Lets ``trace`` fail with an error that NumPy does not raise if the user's code catches it, or
    the ValueError that NumPy makes of one in ``x[i] = ...``."""
    if trace.refused is None and any(any(_catching(e, trace)) for e in (type(error), ValueError)):
        trace.refused = error


def _catching(error: type[Exception], trace: Trace) -> Iterator[FrameType]:
    """Yields the frames of the user's that would catch ``error``, within what is traced."""
    frame = inspect.currentframe()
    while frame is not None and frame is not trace.outermost:
        if not is_installed(package_of(frame.f_globals.get("__name__"))) and _catches(frame, error):
            yield frame
        frame = frame.f_back


def _catches(frame: FrameType, error: type[Exception]) -> bool:
    """True if what ``frame`` executes now stands in a ``try`` whose handler may catch ``error``."""
    code: Any = frame.f_code
    parse: Any = vars(dis)["_parse_exception_table"]
    targets = [e.target for e in parse(code) if e.start <= frame.f_lasti < e.end]
    return any(_may_match(classes, error) for t in targets for classes in _handlers(code, t))


def _handlers(code: CodeType, target: int) -> Iterator[list[str]]:
    """Yields, for each ``except`` of the handler at ``target``, the names that its class is made
    of; none for a bare one."""
    steps = [s for s in dis.get_instructions(code) if s.offset >= target and s.opname != "CACHE"]
    if steps[0].opname != "PUSH_EXC_INFO":
        return
    if steps[1].opname == "POP_TOP":
        yield []
        return
    if steps[1].opname == "WITH_EXCEPT_START" and "suppress" in code.co_names:
        yield ["suppress"]  # of contextlib, whatever it suppresses
    names: list[str] = []
    for step in steps[1:]:
        if step.opname == "CHECK_EXC_MATCH":
            yield names
            names = []
        elif step.opname in ("WITH_EXCEPT_START", "RERAISE", "PUSH_EXC_INFO"):
            return  # of a ``with``, a ``finally``, or behind the last ``except``
        elif step.opname.startswith("LOAD_") and isinstance(step.argval, str):
            names.append(step.argval)


def _may_match(names: list[str], error: type[Exception]) -> bool:
    """True unless all names are those of built-in exceptions that ``error`` is none of."""
    classes = [getattr(builtins, name, None) for name in names]
    return not names or any(not isinstance(c, type) or issubclass(error, c) for c in classes)
