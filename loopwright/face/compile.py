"""``@lw.compile``, with its options."""

from __future__ import annotations

import difflib
import functools
import inspect
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

from ..codegen.target import Target
from ..driver.options import Precision
from ..extras import extra
from ..ir.errors import LoopwrightTypeError
from ..ir.pass_context import PassContext
from .background_options import Background
from .compiled_function import CompiledFunction
from .lowered import Compiled, Lowered
from .ready import CacheInfo
from .user_errors import reports_errors

if TYPE_CHECKING:
    from .dynamic import Option

__all__ = ["CacheInfo", "Compiled", "CompiledFunction", "Lowered", "compile"]


_OPTIONS = tuple(inspect.signature(CompiledFunction).parameters)[1:]


def check_options(function: str, options: Iterable[str]) -> None:
    """Raises LoopwrightTypeError for an option that compiled functions do not have."""
    if unknown := [name for name in options if name not in _OPTIONS]:
        near = difflib.get_close_matches(unknown[0], _OPTIONS, n=1)
        raise LoopwrightTypeError(
            f"{function} has no option {unknown[0]}",
            hint=f"{near[0]}=" if near else f"one of {', '.join(_OPTIONS)}",
        )


@overload
def compile(function: Callable[..., Any], /) -> CompiledFunction: ...


@overload
def compile(
    function: None = None,
    /,
    *,
    static_argnames: Sequence[str] | str = (),
    donate_argnames: Sequence[str] | str = (),
    log: str | Path | None = None,
    threads: int | None = None,
    precision: Precision | None = None,
    target: Target | str | None = None,
    tune: str | Background | None = None,
    measure: Literal["auto", "never"] | None = None,
    passes: PassContext | None = None,
    dynamic: Option = "auto",
    capture: bool = True,
    at_most: str | float | None = None,
    baseline: str | Path | None = None,
) -> Callable[[Callable[..., Any]], CompiledFunction]: ...


@reports_errors
def compile(function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
    """Compile a function of NumPy arrays; use it as a decorator, with or without options.

    The function is traced when it is first called with arguments of some structure, shapes and
    dtypes, and its code is kept for the next such call. Python control flow on values that are
    known runs while tracing: loops unroll, branches are taken once. Where it waits for traced
    values it is captured (docs/control_flow.md). Arrays from outside are read then, too.

    - ``static_argnames``: parameters whose values are known while tracing (hashable); strings,
      bools, None and functions always are, and ints where Python needs them (axes, sizes, flags).
    - ``donate_argnames``: parameters whose arrays the call may overwrite: results of the same types
      take their memory, and are these arrays. ``state = f(state)`` then allocates nothing.
    - ``log``: the tuning log to read schedules from and append to; else that of ``with
      lw.log(...):`` around the compile, else ``LOOPWRIGHT_LOG``.
    - ``threads``: how many to use; else ``LOOPWRIGHT_THREADS``, else all cores. A single call may
      have another number: ``f(x, threads=1)``.
    - ``precision``: ``"strict"`` takes every sum term by term, ``"standard"`` allows algorithms
      whose results stay within the same tolerance, such as Winograd's convolution; a number is how
      many times the error of sums taken term by term is welcome. ``"reproducible"`` gives the same
      bits for any batch, threads, machine and schedule (docs/promises.md). ``"bf16"`` rounds the
      factors of products and convolutions to bfloat16, weights included, and adds up in float32;
      see docs/dtypes.md. Else ``LOOPWRIGHT_PRECISION``.
    - ``target``: the level of instructions to use, ``"x86-64"``, ``"x86-64-v3"`` or
      ``"x86-64-v4"``; all that this machine has unless given.
    - ``tune``: ``"quick"`` measures the eight most promising schedules of every kernel before the
      first call, which takes half a second for each that the log does not know. ``"background"``
      tunes in a process of low priority while the program runs, and swaps in what proves faster in
      it; ``lw.Background(share=0.5, budget="2m")`` says how. Else ``LOOPWRIGHT_TUNE``.
      ``f.background`` tells what it does, waits for it, and stops it.
    - ``measure``: ``"never"`` times nothing: a schedule that the log has for a near shape, another
      machine or number of threads is then taken for what its records promise. Else (``"auto"``) it
      is raced with the default schedule for 5 ms when a machine first compiles it. Else
      ``LOOPWRIGHT_MEASURE``.
    - ``capture``: False leaves Python's ``if``, ``while`` and ``for`` to Python, which refuses
      those that wait for traced values; else they become control flow of the compiled code.
    - ``at_most``: the time that a call may take (``"2ms"``): each kind of arguments is timed behind
      its first call, and is a TooSlowError with the line and kernel to blame if it takes longer.
      ``baseline`` is a file that keeps the times of kernels, to tell which became slower.
    - ``passes``: an ``lw.PassContext``: which passes run, and what is verified and dumped.

    >>> import numpy as np
    >>> import loopwright as lw
    >>> @lw.compile
    ... def scaled(x, w):
    ...     return np.maximum(x @ w, 0)
    >>> scaled(np.float32([[1, -1]]), np.float32([[2], [1]]))
    array([[1.]], dtype=float32)
    """
    if options.get("at_most") is not None:
        return extra("at_most")(function, **options)
    check_options("lw.compile", options)
    if function is None:
        return functools.partial(compile, **options)
    if not callable(function) or inspect.iscoroutinefunction(function):
        raise LoopwrightTypeError(f"lw.compile takes a function, not {function!r}")
    is_model = isinstance(function, CompiledFunction) and type(function) is not CompiledFunction
    return function if is_model and not options else CompiledFunction(function, **options)
