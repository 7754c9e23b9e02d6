"""``lw.debug.print``, ``check`` and ``breakpoint``: compiled code shows its values on its way.

Each is a call of ``lw.debug.callback``, made where it stands: in loops and branches, too.
"""

from __future__ import annotations

import bdb
import builtins
import functools
import pdb
import sys
from collections.abc import Callable, Mapping
from types import FrameType
from typing import Any

import numpy as np

from ..ir.library.checks import error_class
from ..ir.span import Span
from ..tracer.control import cond
from ..tracer.core.except_clauses import refuse_handlers
from ..tracer.core.proxy import Proxy
from ..tracer.core.spans import caret_lines, is_library, user_frame
from ..tracer.core.trace import active
from .callback import callback, is_value

_MOST_KEPT = 1024
"""Functions that are kept by what they were made of, so that another trace calls the same."""

_Kept = tuple[tuple[str, Any], ...]


def print(*values: Any, **named: Any) -> None:
    """Prints values of compiled code when it comes to this line.

    With a format string first, the other values are put into its fields, as ``str.format`` does;
    else all are printed in a row. They are arrays of any shape and dtype, numbers, and whatever
    Python knows while it traces. Outside of compiled functions it prints at once. Each takes some
    3 us and the time of printing; in a long loop, ``lw.debug.callback(..., every=100)`` prints now
    and then.

    >>> import numpy as np, loopwright as lw
    >>> @lw.compile
    ... def root(x):
    ...     guess = x
    ...     while abs(guess * guess - x) > 1e-3:
    ...         guess = (guess + x / guess) / 2
    ...         lw.debug.print("guess {:.4f}", guess)
    ...     return guess
    >>> y = root(2.0)
    guess 1.5000
    guess 1.4167
    guess 1.4142
    """
    called(_printing, values, named)


def check(condition: Any, message: str = "", *values: Any, **named: Any) -> None:
    """Raises AssertionError at this line when compiled code comes to it and ``condition`` does not
    hold.

    ``condition`` is a bool or an array of bools, all of which have to hold: native code tests them,
    and Python is called only if one does not. ``values`` are put into the fields of the message as
    ``str.format`` does. Of an array, the first element that fails is named by its index. The error
    is a LoopwrightAssertionError; it cannot be caught inside of the compiled function, which is an
    UnsupportedError. Outside of compiled functions it is a plain check.

    >>> import numpy as np, loopwright as lw
    >>> @lw.compile
    ... def shares(x):
    ...     lw.debug.check(x >= 0, "a count of {} in {}", x.min(), x)
    ...     return x / x.sum()
    >>> shares(np.array([2, -1, 3]))
    Traceback (most recent call last):
        ...
    loopwright.ir.library.checks.LoopwrightAssertionError: a count of -1 in [ 2 -1  3]...
    """
    trace = active()
    if trace is None:
        if not np.all(condition):
            _raise(message, None, (), condition, *values, **named)
        return
    refuse_handlers(AssertionError, "lw.debug.check")
    span = trace.here()
    options = message, span, () if span is None else tuple(caret_lines(span))
    fails = functools.partial(called, _raising, (condition, *values), named, options)
    holds = np.all(condition)
    if isinstance(holds, Proxy):
        cond(holds, lambda: None, fails)
    elif not holds:
        fails()


def breakpoint(**named: Any) -> None:
    """Opens Python's debugger on the values of the variables when compiled code comes to this line.

    The variables of the function, those that compiled code computes among them, have their values
    there, and so have the ``named`` ones; assignments to them change nothing. ``c`` goes on,
    ``q`` ends the call with ``bdb.BdbQuit``. ``lw.cond`` makes it conditional, as a plain ``if``
    does. Outside of compiled functions it opens the debugger at once.

    ::

        @lw.compile
        def steps(x):
            for i in range(1000):
                x = advance(x)
                if x.max() > 1e6:
                    lw.debug.breakpoint()  # (Pdb) p i, x
            return x
    """
    frame = user_frame()
    assert frame is not None
    variables = {**_variables(frame), **named}
    at = frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name
    options = *at, frame.f_globals.get("__name__", "")
    if active() is None:
        _stopping(*options)(**variables)
    else:
        called(_stopping, (), variables, options)


def _variables(frame: FrameType) -> dict[str, Any]:
    """Returns the variables of the user's function: its branches and loops are functions inside of
    it while they are traced, each with those that it uses."""
    variables: dict[str, Any] = {}
    code, outer = frame.f_code, frame
    while outer is not None:
        if (outer.f_code.co_filename, outer.f_code.co_name) == (code.co_filename, code.co_name):
            variables = {**outer.f_locals, **variables}
        elif not is_library(outer):
            break
        outer = outer.f_back
    return {name: value for name, value in variables.items() if name.isidentifier()}


def called(
    make: Callable[..., Callable[..., None]],
    values: tuple[Any, ...],
    named: Mapping[str, Any],
    options: tuple[Any, ...] = (),
) -> None:
    """Calls back what ``make`` makes of ``options`` with all values; what is not an array or a
    number stays in Python."""
    every = [*((str(n), v) for n, v in enumerate(values)), *named.items()]
    traced = {name: v for name, v in every if is_value(v)}
    kept = tuple((name, v) for name, v in every if not is_value(v))
    names = tuple(name for name, _ in every), tuple(traced)
    try:
        function = _made(make, options, names, kept)
    except TypeError:  # what is kept has no hash
        function = _made.__wrapped__(make, options, names, kept)
    callback(function, *traced.values())


@functools.lru_cache(_MOST_KEPT)
def _made(
    make: Callable[..., Callable[..., None]],
    options: tuple[Any, ...],
    names: tuple[tuple[str, ...], tuple[str, ...]],
    kept: _Kept,
) -> Callable[..., None]:
    every, traced = names
    inner = make(*options)

    def called(*values: Any) -> None:
        given = {**dict(kept), **dict(zip(traced, values, strict=True))}
        ordered = {name: given[name] for name in every}
        unnamed = [v for name, v in ordered.items() if name.isdigit()]
        inner(*unnamed, **{n: v for n, v in ordered.items() if not n.isdigit()})

    return called


def _printing() -> Callable[..., None]:
    def show(*values: Any, **named: Any) -> None:
        if values and isinstance(values[0], str) and "{" in values[0]:
            values, named = (values[0].format(*values[1:], **named),), {}
        builtins.print(*values, *(f"{n}={v}" for n, v in named.items()))

    return show


def _raising(*options: Any) -> Callable[..., None]:
    return functools.partial(_raise, *options)


def _raise(
    message: str,
    span: Span | None,
    source: tuple[str, ...],
    condition: Any,
    *values: Any,
    **named: Any,
) -> None:
    text = message.format(*values, **named) if values or named else message or "a check failed"
    if np.ndim(condition):
        first = np.argwhere(np.logical_not(condition))[0]
        text += f", at index {', '.join(map(str, first))}"
    raise error_class("AssertionError")(text, span=span, source=source)


def _stopping(file: str, line: int, function: str, module: str) -> Callable[..., None]:
    def stop(**variables: Any) -> None:
        """Stops in a frame that stands at the user's line and has the values of its variables."""
        code = compile("\n" * (line - 1) + "__stop__()", file, "exec")
        space = dict(vars(sys.modules[module])) if module in sys.modules else {}
        exec(code.replace(co_name=function), {**space, **variables, "__stop__": _interact})

    return stop


def _interact() -> None:
    """Opens the debugger in the frame that calls this."""
    debugger = pdb.Pdb()
    debugger.reset()
    debugger.interaction(sys._getframe(1), None)
    if debugger.quitting:
        raise bdb.BdbQuit
