"""``lw.debug.callback``: Python functions that compiled code calls on its way, to see it work.

The call takes the number that failed checks of the function leave, and returns it
(``tracer/core/runtime_checks.py``): so it is made as often as the program says, in its order, and
not behind an error.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..ir.dtype import Array
from ..ir.errors import LoopwrightTypeError, LoopwrightValueError
from ..tracer.control import cond
from ..tracer.control.traced import ours
from ..tracer.core.emitting import lift
from ..tracer.core.proxy import Proxy
from ..tracer.core.trace import Trace, active
from ..tracer.extern import Extern

Function = Callable[..., object]

_MOST_FUNCTIONS = 1024
"""Functions whose declarations are kept, so that another trace calls the same."""


def callback(function: Function, *values: Any, every: int = 1) -> None:
    """Calls ``function`` with ``values`` each time the compiled code comes to this line.

    Values are arrays and numbers, of which the function gets copies (of rank 0: NumPy's numbers).
    With ``every=n`` it is called where the first of them, the number of an iteration, is a multiple
    of n; else the loop goes on at its speed. What the function returns is not used. Its exceptions,
    KeyboardInterrupt among them, end the call of the compiled function. It runs on the caller's
    thread, with the GIL: some 3 us.

    Outside of compiled functions it is the call itself. Raises LoopwrightTypeError for values that
    are no arrays or numbers, LoopwrightValueError for an ``every`` below 1 or without a number.

    >>> import numpy as np, loopwright as lw
    >>> @lw.compile
    ... def decay(x, steps):
    ...     for i in range(steps):
    ...         x = x * 0.5
    ...         lw.debug.callback(lambda i, x: print(f"step {i}: {x.max()}"), i, x, every=20)
    ...     return x
    >>> y = decay(np.ones(3), 50)
    step 0: 0.5
    step 20: 4.76837158203125e-07
    step 40: 4.547473508864641e-13
    """
    if every < 1 or (every > 1 and not (values and np.ndim(values[0]) == 0)):
        raise LoopwrightValueError(
            f"callback: every={every} counts iterations, whose number is the first value",
            hint="lw.debug.callback(function, i, x, every=100)",
        )
    trace = active()
    if trace is None:
        if every == 1 or values[0] % every == 0:
            function(*values)
        return
    with ours(trace):
        call = functools.partial(_emit, trace, function, values)
        if every == 1:
            call()
        else:
            cond(values[0] % every == 0, call, lambda: None)


def is_value(value: Any) -> bool:
    """True for what compiled code can hand to a function: arrays and numbers."""
    return isinstance(value, Proxy | np.ndarray | np.generic | bool | int | float | complex)


def _emit(trace: Trace, function: Function, values: Sequence[Any]) -> None:
    failure = trace.memory.failure
    operands: list[Proxy] = []
    for number, value in enumerate(values):
        if not is_value(value):
            raise LoopwrightTypeError(
                f"callback: value {number} is a {type(value).__name__}, not an array or a number",
                hint="what is known while tracing as a default argument of the function",
            )
        operands.append(lift(value))
    before = Proxy(trace.visible(failure.atom), trace)
    trace.assign(failure, _declared(function)(before, *operands).atom)


@functools.lru_cache(_MOST_FUNCTIONS)
def _declared(function: Function) -> Extern:
    """Returns what a program calls: the function on copies, unless a check has failed before."""

    @functools.wraps(function)
    def call(failure: Array, *arrays: Array) -> None:
        *values, after = arrays
        after[...] = failure
        if not failure:
            function(*(a.copy() if a.ndim else a[()] for a in values))

    return Extern(call, lambda failure, *_: failure, into=True, name=None)
