"""What the checks of indices cost: programs with and without them, alternately, on one thread.

    python -m bench.index_checks                  every program of which an index is checked
    python -m bench.index_checks knapsack         some of them

The programs are those of ``bench.loops`` and ``bench.numeric`` (loops as in NPBench), of
``bench.idiomatic`` and a few of one statement, which do little else than index. A ratio is the
median time of a call with checks over that with ``LOOPWRIGHT_CHECK_INDEX=0``; where every index is
proved in range both are the same code, and the ratio is 1 by definition.
Bars: geometric mean of the idiomatic programs at most 1.01, of those with loops at most 1.05. The
exit status is 1 if one is missed.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import loopwright as lw
import numpy as np

from .idiomatic import PROGRAMS as IDIOMATIC
from .interval import geometric_mean
from .lock import MachineLock
from .loops import programs
from .loops.program import PROGRAMS as LOOPS
from .namespaces.of_loopwright import Loopwright
from .numeric.programs import PROGRAMS as NUMERIC

__all__ = ["Case", "cases", "main", "ratio"]

_F = Loopwright()
BARS = {"loops": 1.05, "idiomatic": 1.01, "one statement": float("inf")}
LISTED = 1.05
SETTING = "LOOPWRIGHT_CHECK_INDEX"


@dataclass(frozen=True, slots=True)
class Case:
    """A program and its arguments; ``kind`` is one of those of ``BARS``."""

    name: str
    kind: str
    function: Callable[..., Any]
    arguments: Callable[[], tuple[Any, ...]]


def _store(x: Any, i: Any, v: Any) -> Any:
    x[i] = v
    return x


def _statements() -> Iterator[Case]:
    """Programs of one statement each: reads and writes at indices, from few to many elements."""
    rng = np.random.default_rng(0)
    for count, width in (64, 8), (4096, 1), (4096, 64), (1 << 18, 1):
        x = rng.standard_normal((5000, width)).astype(np.float32)
        i = rng.integers(0, 5000, count)
        v = rng.standard_normal((count, width)).astype(np.float32)
        name = f"{count} rows of {width}"
        yield Case(f"x[i], {name}", "one statement", lambda x, i: x[i], lambda x=x, i=i: (x, i))
        yield Case(
            f"x[i] = v, {name}", "one statement", _store, lambda x=x, i=i, v=v: (x.copy(), i, v)
        )


def cases() -> Iterator[Case]:
    """All programs."""
    assert programs  # they declare themselves
    for program in (*LOOPS.values(), *NUMERIC.values()):
        yield Case(program.name, "loops", program.function, lambda p=program: p.arguments(p.large))
    for workload in IDIOMATIC.values():
        yield Case(workload.name, "idiomatic", *_of_workload(workload))
    yield from _statements()


def _of_workload(workload: Any) -> tuple[Callable[..., Any], Callable[[], tuple[Any, ...]]]:
    made = workload.arrays()
    constants = {n: made[n] for n, i in workload.inputs.items() if i.constant}
    names = [n for n in workload.inputs if n not in constants]

    def function(*arrays: Any) -> Any:
        given = {**constants, **dict(zip(names, arrays, strict=True))}
        return workload.body(_F, *(given[n] for n in workload.inputs))

    return function, lambda: tuple(made[n].copy() for n in names)


def _compiled(case: Case, checks: bool, arguments: tuple[Any, ...]) -> tuple[Any, bool]:
    """The compiled function, and whether it checks anything."""
    before = os.environ.get(SETTING)
    os.environ[SETTING] = str(int(checks))
    try:
        function = lw.compile(lambda *args: case.function(*args), threads=1)
        text = function.lower(*arguments).as_text("program")
        function(*arguments)
    finally:
        os.environ.pop(SETTING)
        if before is not None:
            os.environ[SETTING] = before
    return function, "is out of bounds for axis" in text


def ratio(case: Case, rounds: int, seconds: float) -> float | None:
    """The time with checks over that without; None if every index is proved in range."""
    arguments = case.arguments()
    checked, is_checked = _compiled(case, True, arguments)
    if not is_checked:
        return None
    plain, _ = _compiled(case, False, case.arguments())
    start = time.perf_counter()
    checked(*arguments)
    calls = max(1, int(seconds / (time.perf_counter() - start)))
    times: dict[Any, list[float]] = {checked: [], plain: []}
    for number in range(rounds):
        for function in (checked, plain)[:: 1 if number % 2 else -1]:
            start = time.perf_counter()
            for _ in range(calls):
                function(*arguments)
            times[function].append(time.perf_counter() - start)
    return statistics.median(times[checked]) / statistics.median(times[plain])


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.index_checks",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("names", nargs="*", help="programs")
    parser.add_argument("--rounds", type=int, default=15, help="rounds each side gets (15)")
    parser.add_argument("--seconds", type=float, default=0.02, help="length of a round (0.02)")
    args = parser.parse_args(arguments)
    ratios: dict[str, dict[str, float]] = {kind: {} for kind in BARS}
    proved = 0
    for case in cases():
        if args.names and case.name not in args.names:
            continue
        with MachineLock():
            value = ratio(case, args.rounds, args.seconds)
        proved += value is None
        ratios[case.kind][f"{case.name} ({case.function.__module__})"] = (
            1.0 if value is None else value
        )
        if value is not None:
            print(f"{case.name:40}{value:8.3f}", flush=True)
    every = {name: value for each in ratios.values() for name, value in each.items()}
    print(f"{len(every)} programs, of which {proved} need no check")
    met = True
    for kind, bar in BARS.items():
        if ratios[kind]:
            mean = geometric_mean([[r] for r in ratios[kind].values()])
            met &= mean.value <= bar
            print(f"geometric mean, {kind:16}{mean}, bar {bar}")
    for name, value in sorted(every.items(), key=lambda item: -item[1]):
        if value > LISTED:
            print(f"pays more: {name:40}{value:8.3f}")
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
