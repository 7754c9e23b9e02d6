"""Promises about time that fail a test: ``at_most=`` of ``lw.compile`` and ``assert_faster_than``.

A promise that is broken is a TooSlowError, which names the line and kernel to blame. With a
``baseline``, a file that keeps what each kernel took when the promise was held, that is the kernel
which became slower, and the record of the log that it lost or gained; else the one that takes most.
"""

from __future__ import annotations

import functools
import json
import math
import re
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from .codegen.machine import measured_machine
from .face.compile import check_options
from .face.compiled_function import CompiledFunction
from .face.lowered import Lowered
from .face.user_errors import for_user
from .inspect.profile import profile
from .ir.dtype import Array
from .ir.errors import LoopwrightError, LoopwrightValueError
from .ir.files import write_text
from .ir.graph.printer import span_text
from .text import seconds_text

Kernels: TypeAlias = dict[str, dict[str, Any]]

_ROUNDS = 3
"""Times that a call is measured before a promise counts as broken: other programs disturb it."""

_MEASURED = 0.2
"""Seconds that a measurement of calls takes."""

_UNITS = {"us": 1e-6, "ms": 1e-3, "s": 1.0}
_FEWEST_CALLS, _MOST_CALLS = 4, 1000


class TooSlowError(LoopwrightError, AssertionError):
    """A call takes longer than was promised: ``seconds``, and not the ``limit``.

    >>> lw.compile(lambda x: np.exp(x), at_most=1e-9)(np.ones(100))
    Traceback (most recent call last):
    loopwright.contracts.TooSlowError: ...
    """

    seconds: float = 0.0
    limit: float = 0.0


class AtMost(CompiledFunction):
    """A compiled function whose calls take ``at_most`` so long: each kind of arguments is timed
    behind its first call, on copies of them."""

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        at_most: str | float,
        baseline: str | Path | None = None,
        **options: Any,
    ) -> None:
        check_options("lw.compile", options)
        super().__init__(function, **options)
        self.at_most = _limit_of(at_most)
        self.baseline = _path(baseline)

    def options(self) -> dict[str, Any]:
        """Returns the options that it was made with."""
        return {**super().options(), "at_most": self.at_most, "baseline": self.baseline}

    def _call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        before = self._misses
        result = super()._call(args, kwargs)
        if self._misses != before:
            lowered, arrays = self.in_use(*args, **kwargs)
            call, took = _caller(lowered, arrays), math.inf
            for _ in range(_ROUNDS):
                took = min(took, *_medians(call))
                if took <= self.at_most:
                    break
            _judge(lowered, arrays, took, self.at_most, self.baseline, "were promised")
        return result


def at_most(function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
    """``lw.compile`` with ``at_most=``, and perhaps a ``baseline=``."""
    make = functools.partial(AtMost, **options)
    return make if function is None else make(function)


def assert_faster_than(
    function: Callable[..., Any],
    *args: Any,
    times: float = 1.0,
    than: Callable[..., Any] | None = None,
    baseline: str | Path | None = None,
    **kwargs: Any,
) -> float:
    """Raises TooSlowError unless a compiled function is ``times`` as fast as another one; returns
    how many times as fast it is.

    ``function`` is a compiled function or a plain one, which is compiled. The other one is Python
    running the same function with NumPy, or ``than``. Both are called with the same arguments,
    alternately, some 0.2 s each; medians count, and a promise is broken if it is in three such
    measurements. ``baseline`` is a file that keeps the times of the kernels while the promise
    holds, for the error to tell what changed.

    >>> import numpy as np, loopwright as lw
    >>> def chain(x):
    ...     return np.sqrt(x * x + 1) * np.exp(-x) + np.tanh(x)
    >>> ratio = lw.assert_faster_than(chain, np.ones(100_000, np.float32))
    """
    compiled = function if isinstance(function, CompiledFunction) else CompiledFunction(function)
    other = compiled.function if than is None else than
    if not times > 0:
        raise LoopwrightValueError(f"assert_faster_than: times={times} is a number above 0")
    try:
        lowered, arrays = compiled.in_use(*args, **kwargs)
    except Exception as error:
        reported = for_user(error)
    else:
        call = _caller(lowered, arrays)
        theirs = lambda: other(*map(_copied, args), **kwargs)  # noqa: E731
        ratio, took = 0.0, math.inf
        for _ in range(_ROUNDS):
            mine, its = _medians(call, theirs)
            if its / mine > ratio:
                ratio, took = its / mine, mine
            if ratio >= times:
                break
        said = f"would be {times:g} times as fast as {getattr(other, '__name__', 'the other')}"
        _judge(lowered, arrays, took, took * ratio / times, _path(baseline), said)
        return ratio
    raise reported


def _limit_of(at_most: str | float) -> float:
    parts = (
        re.fullmatch(r"\s*([\d.]+)\s*(us|ms|s)\s*", at_most) if isinstance(at_most, str) else None
    )
    number, unit = (at_most, "s") if parts is None else parts.groups()
    try:
        seconds = float(number) * _UNITS[unit]
    except (TypeError, ValueError):
        seconds = 0.0
    if not 0 < seconds < math.inf:
        raise LoopwrightValueError(
            f"at_most={at_most!r} is not a time",
            hint='at_most="2ms" (us, ms or s), or a number of seconds',
        )
    return seconds


def _path(path: str | Path | None) -> Path | None:
    return None if path is None else Path(path)


def _copied(value: Any) -> Any:
    return value.copy() if isinstance(value, np.ndarray) else value


def _caller(lowered: Lowered, arrays: Sequence[Array]) -> Callable[[], Any]:
    """Returns what makes a call on copies of arrays, which it may change."""
    copies = [np.array(a, order="C") for a in arrays]
    return lambda: lowered.built.call(copies)


def _medians(*calls: Callable[[], Any]) -> tuple[float, ...]:
    """Returns the median seconds of calls that run one after the other, for some time each."""
    taken: list[list[float]] = [[] for _ in calls]
    end = time.perf_counter() + _MEASURED * len(calls)
    for _ in range(_MOST_CALLS):
        for call, times in zip(calls, taken):
            begun = time.perf_counter()
            call()
            times.append(time.perf_counter() - begun)
        if len(taken[0]) >= _FEWEST_CALLS and time.perf_counter() > end:
            break
    return tuple(statistics.median(times[1:]) for times in taken)


def _judge(
    lowered: Lowered,
    arrays: Sequence[Array],
    seconds: float,
    limit: float,
    baseline: Path | None,
    promise: str,
) -> None:
    """Keeps the times of kernels if a promise holds, and raises a TooSlowError otherwise."""
    holds = seconds <= limit
    if holds and baseline is None:
        return
    name = f"{lowered.traced.name}({lowered.traced.request})"
    now = _kernels(lowered, arrays)
    kept = _read(baseline)
    if holds:
        assert baseline is not None
        kept[name] = now
        write_text(baseline, json.dumps(kept, indent=1, sort_keys=True) + "\n")
        return
    lines = [f"{name} takes {seconds_text(seconds)}: {seconds_text(limit)} {promise}"]
    error = TooSlowError("\n".join([*lines, *_blamed(now, kept.get(name))]))
    error.seconds, error.limit = seconds, limit
    raise error


def _kernels(lowered: Lowered, arrays: Sequence[Array]) -> Kernels:
    """Returns the time, line and schedule of each kernel."""
    kernels: Kernels = {}
    built = lowered.built
    machine = measured_machine(None if built.parts is None else built.parts.target)
    for call in profile(built, arrays, machine, _MEASURED).calls:
        kernel = kernels.setdefault(call.name, {"seconds": 0.0, "limit": 0.0})
        kernel["seconds"] += call.seconds
        kernel["limit"] += call.limit
        kernel["line"] = "" if call.span is None else span_text(call.span)
        kernel["from"] = built.chosen[call.name].origin.text
        kernel["schedule"] = str(built.chosen[call.name].schedule)
    return kernels


def _blamed(now: Kernels, before: Kernels | None) -> Iterator[str]:
    """Yields lines about the kernel that became slower, or else the one that takes most."""
    if not now:
        return
    worse = lambda n: now[n]["seconds"] - (before or {}).get(n, {}).get("seconds", 0.0)  # noqa: E731
    name = max(now, key=worse)
    kernel, earlier = now[name], (before or {}).get(name)
    yield f"  {kernel['line']}"
    share = kernel["limit"] / kernel["seconds"] if kernel["seconds"] else 0.0
    took = f"  the kernel {name} takes {seconds_text(kernel['seconds'])}"
    yield f"{took}, {share:.0%} of what the machine allows"
    if before is None:
        yield f"  its schedule is {kernel['from']}"
    elif earlier is None:
        yield "  it was not there when the promise was kept"
    else:
        yield f"  it took {seconds_text(earlier['seconds'])} when the promise was kept"
        if kernel["schedule"] == earlier["schedule"]:
            yield f"  its schedule is the same, {kernel['from']}"
        else:
            yield f"  its schedule is {kernel['from']}; it was {earlier['from']}"


def _read(path: Path | None) -> dict[str, Kernels]:
    if path is None or not path.exists():
        return {}
    try:
        kept = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        kept = None
    if not isinstance(kept, dict):
        raise LoopwrightValueError(f"{path} is not a baseline, which is a JSON object")
    return kept
