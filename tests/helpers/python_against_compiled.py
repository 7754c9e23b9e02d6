"""Runs random functions by Python and compiled, on several ISA levels, and counts what came out.

A fuzzer has ``program(seed)``, the source of a function ``f`` and its arguments, for ``report``.
A child process runs a chunk of the seeds, so that a crash or a program that hangs is an outcome,
too. Python's result is the oracle, with the arrays and globals that it leaves behind.
"""

from __future__ import annotations

import argparse
import copy
import json
import linecache
import os
import re
import subprocess
import sys
import time
import traceback
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import loopwright as lw
import numpy as np

BUDGET = 20_000
"""Lines that Python may run of a program; longer ones count as slow."""

LARGEST = 1e15
"""Magnitude beyond which numbers are not compared: roundings, and Python's ints, grow with them."""

PATIENCE = 120
"""Seconds that a program may take, compiled, before it counts as hanging."""

CHUNK = 250
"""Programs of one child process."""

BAD = ("different", "crashed", "hangs", "no line", "internal")
"""Outcomes that are mistakes of the compiler."""

RAISED = (ValueError, IndexError, ZeroDivisionError, AssertionError, KeyError, OverflowError)
"""Errors of the program's own: the compiled one raises them as well."""

TOLERANCES = {np.dtype(np.float32): (1e-3, 1e-3)}
EXACT = (1e-6, 1e-9)
"""Relative and absolute tolerance of a result, by the dtype of the first argument."""

ROUNDINGS = 8
"""Roundings of its largest number, in the first argument's dtype, that a result may differ by: what
is left where large numbers cancel depends on their order."""


class Slow(Exception):
    """A program runs for too long in Python."""


@dataclass(frozen=True)
class Outcome:
    """What came of a program: "right", "raises" (Python's error), "refused", "slow", "beyond" (its
    numbers are too large to compare), or one of ``BAD``."""

    seed: int
    kind: str
    message: str = ""


def in_python(function: Any, args: Sequence[Any]) -> Any:
    """Runs a function in Python, within its budget of lines."""
    left = BUDGET

    def count(_frame: Any, event: str, _argument: Any) -> Any:
        nonlocal left
        left -= event == "line"
        if left < 0:
            raise Slow
        return count

    before = sys.gettrace()
    sys.settrace(count)
    try:
        with np.errstate(all="ignore"):
            return function(*args)
    finally:
        sys.settrace(before)


def space_of(source: str, file: str) -> dict[str, Any]:
    """Returns the global variables of a program."""
    linecache.cache[file] = (len(source), None, source.splitlines(True), file)
    space: dict[str, Any] = {"np": np, "__name__": "random_program"}
    exec(compile(source, file, "exec"), space)
    return space


def _left_behind(space: dict[str, Any]) -> dict[str, Any]:
    """Returns the global variables in capital letters: what a program may change outside."""
    return {name: value for name, value in space.items() if name.isupper()}


def _flat(value: Any) -> Iterator[Any]:
    """Yields the numbers of a result, and the lengths of its containers."""
    if isinstance(value, dict):
        yield tuple(value)
        value = list(value.values())
    if isinstance(value, list | tuple):
        yield len(value)
        for each in value:
            yield from _flat(each)
    elif isinstance(value, np.ndarray) and value.ndim:
        yield (value.shape, str(value.dtype))
        yield from value.ravel().tolist()
    elif isinstance(value, np.ndarray | np.generic):
        yield value.item()
    elif hasattr(value, "__dict__") and not callable(value):
        yield from _flat(vars(value))
    else:
        yield value


def _too_large(values: Sequence[Any]) -> bool:
    numbers = (v for v in values if isinstance(v, float | int))
    return not all(abs(v) < LARGEST for v in numbers)  # nan is not either


def _differ(ours: Sequence[Any], theirs: Sequence[Any], rtol: float, atol: float) -> str:
    if len(ours) != len(theirs):
        return f"{len(ours)} values, not {len(theirs)}"
    for number, (one, other) in enumerate(zip(ours, theirs)):
        if isinstance(one, float | int) and isinstance(other, float | int):
            whole = isinstance(one, int) and isinstance(other, int)
            close = one == other if whole else abs(one - other) <= atol + rtol * abs(other)
        else:
            close = one == other
        if not close:
            return f"value {number} is {one}, not {other}"
    return ""


def run(seed: int, source: str, args: Sequence[Any]) -> Outcome:
    """Returns what comes of the function ``f`` of a source with these arguments."""
    file = f"<program {seed}>"
    spaces = space_of(source, file), space_of(source, file)
    theirs, ours = copy.deepcopy([*args]), copy.deepcopy([*args])
    error: Exception | None = None
    expected: list[Any] = []
    try:
        result = in_python(spaces[0]["f"], theirs)
        expected = [*_flat((result, theirs, _left_behind(spaces[0])))]
    except (Slow, RecursionError):
        return Outcome(seed, "slow")
    except RAISED as raised:
        if "cannot convert float" in str(raised):  # an int of inf or nan
            return Outcome(seed, "beyond", str(raised))
        error = raised
        expected = [*_flat(_left_behind(spaces[0]))]
    except Exception as raised:  # a mistake of the program, such as a variable without a value
        return Outcome(seed, "beyond", repr(raised))
    if _too_large(expected):
        return Outcome(seed, "beyond", "large numbers")
    try:
        with np.errstate(all="ignore"):
            result = lw.compile(spaces[1]["f"], dynamic=False)(*ours)
    except Exception as raised:
        return _raised(seed, file, error, raised)
    if error is not None:
        return Outcome(seed, "different", f"does not raise {error!r}")
    found = [*_flat((result, ours, _left_behind(spaces[1])))]
    dtypes = (getattr(a, "dtype", None) for a in args)
    rtol, atol = next((TOLERANCES[d] for d in dtypes if d in TOLERANCES), EXACT)
    largest = max((abs(v) for v in expected if isinstance(v, float)), default=0.0)
    atol += ROUNDINGS * largest * float(np.finfo(np.float32 if rtol > EXACT[0] else float).eps)
    difference = _differ(found, expected, rtol, atol)
    return Outcome(seed, "different", difference) if difference else Outcome(seed, "right")


def _raised(seed: int, file: str, wanted: Exception | None, raised: Exception) -> Outcome:
    """Returns what an error of the compiled program is: Python's, a refusal, or a mistake."""
    ours = isinstance(raised, lw.LoopwrightError)
    if isinstance(raised, NameError) and not ours and wanted is None:  # one path alone binds it
        line = [f.lineno for f in traceback.extract_tb(raised.__traceback__) if f.filename == file]
        return Outcome(seed, "refused", f"a variable has no value [line {line[-1]}]")
    if not ours:
        same = wanted is not None and isinstance(raised, type(wanted))
        return Outcome(seed, "raises") if same else Outcome(seed, "different", repr(raised))
    if type(raised).__name__ == "InternalError":
        return Outcome(seed, "internal", raised.message)
    if wanted is not None and isinstance(raised, type(wanted)) and raised.hint is None:
        return Outcome(seed, "raises")
    if raised.span is None or raised.span.file != file:
        return Outcome(seed, "no line", str(raised))
    return Outcome(seed, "refused", f"{raised.message} [line {raised.span.line}]")


# -- many programs ---------------------------------------------------------------------------------

Fuzzer = Callable[[int], tuple[str, Sequence[Any]]]
"""Returns the source and the arguments of a seed."""


def report(
    fuzzer: Fuzzer, runner: Callable[[int, str, Sequence[Any]], Outcome] = run
) -> list[Outcome]:
    """Runs the seeds that the command line names, prints the counts, and returns the outcomes."""
    parser = argparse.ArgumentParser()
    parser.add_argument("seeds", help="FIRST:LAST, or one seed, whose program is shown")
    parser.add_argument("--isa", default="", help="levels, round robin by chunks; all that run")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    first, _, last = given.seeds.partition(":")
    seeds = range(int(first), int(last) if last else int(first) + 1)
    if given.child or not last:
        _child(fuzzer, runner, seeds, shown=not last)
        return []
    levels = given.isa.split(",") if given.isa else _levels()
    outcomes: dict[str, list[Outcome]] = defaultdict(list)
    begun = time.monotonic()
    for number, low in enumerate(range(seeds.start, seeds.stop, CHUNK)):
        level = levels[number % len(levels)]
        for outcome in _chunk(range(low, min(low + CHUNK, seeds.stop)), level):
            outcomes[level].append(outcome)
            if outcome.kind in BAD:
                print(f"seed {outcome.seed} {level} {outcome.kind}: {outcome.message}", flush=True)
        counts = Counter(o.kind for each in outcomes.values() for o in each)
        print(f"up to {low}: {dict(counts)}", file=sys.stderr, flush=True)
    for line in _summary(outcomes):
        print(line)
    print(f"{time.monotonic() - begun:.0f} s")
    return [outcome for each in outcomes.values() for outcome in each]


def _levels() -> list[str]:
    from compiled import RUNNABLE

    return RUNNABLE


def _child(fuzzer: Fuzzer, runner: Callable[..., Outcome], seeds: range, shown: bool) -> None:
    for seed in seeds:
        source, args = fuzzer(seed)
        if shown:
            print(source, *(f"{a!r}" for a in args), sep="\n")
        else:
            print(json.dumps({"begins": seed}), flush=True)
        print(json.dumps(asdict(runner(seed, source, args))), flush=True)


def _chunk(seeds: range, level: str) -> Iterator[Outcome]:
    """Yields the outcomes of some seeds. Behind one that crashes, another child goes on."""
    at = seeds.start
    while at < seeds.stop:
        settings = {
            "LOOPWRIGHT_ISA": level,
            "LOOPWRIGHT_CACHE_SIZE": "0",
            "PYTHONWARNINGS": "ignore",
        }
        command = [sys.executable, sys.argv[0], f"{at}:{seeds.stop}", "--child"]
        child = subprocess.Popen(
            command, env=os.environ | settings, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        assert child.stdout is not None
        os.set_blocking(child.stdout.fileno(), True)
        failed = "crashed"
        for line in _lines(child):
            if line is None:
                failed = "hangs"
                child.kill()
                break
            data = json.loads(line)
            if "begins" in data:
                at = data["begins"]
            else:
                yield Outcome(**data)
                at = data["seed"] + 1
        code = child.wait()
        if at < seeds.stop and (code or failed == "hangs"):
            yield Outcome(at, failed, f"exit code {code}")
            at += 1


def _lines(child: subprocess.Popen[bytes]) -> Iterator[str | None]:
    """Yields the lines of a child; None if it says nothing for too long."""
    import selectors

    assert child.stdout is not None
    rest = b""
    with selectors.DefaultSelector() as selector:
        selector.register(child.stdout, selectors.EVENT_READ)
        while True:
            if not selector.select(PATIENCE):
                yield None
                return
            read = os.read(child.stdout.fileno(), 1 << 16)
            if not read:
                return
            *whole, rest = (rest + read).split(b"\n")
            yield from (line.decode() for line in whole)


def _summary(outcomes: dict[str, list[Outcome]]) -> Iterator[str]:
    every = [outcome for each in outcomes.values() for outcome in each]
    for level, each in outcomes.items():
        yield f"{level}: {len(each)} programs, {dict(Counter(o.kind for o in each))}"
    kinds = Counter(o.kind for o in every)
    bad = sum(kinds[kind] for kind in BAD)
    share = 100 * kinds["refused"] / max(1, len(every) - kinds["slow"] - kinds["beyond"])
    yield f"{len(every)} programs, {bad} different, {kinds['refused']} refused ({share:.2f} %)"
    causes: dict[str, list[Outcome]] = defaultdict(list)
    for outcome in every:
        if outcome.kind == "refused":
            causes[_cause(outcome.message)].append(outcome)
    for cause, each in sorted(causes.items(), key=lambda item: -len(item[1])):
        yield f"{len(each):6}  {cause}   (seed {each[0].seed})"


def _cause(message: str) -> str:
    """Returns a message without the names and numbers of the one program."""
    message = re.sub(r" \[line \d+\]$", "", message)
    return re.sub(r"`[^`]*`|'[^']*'|\d+", "…", message)[:160]
