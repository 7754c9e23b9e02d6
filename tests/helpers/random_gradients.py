"""Derivatives of random functions: forward mode against differences, reverse mode against forward.

::

    python tests/helpers/random_gradients.py 0:1000     counts what came out, on all ISA levels
    python tests/helpers/random_gradients.py 17         shows one program

The functions are those of other generators, by turns. Each gets float64 instead of smaller floats,
and copies of its arguments, as it may write to them. An output is a weighted sum of one float array
or number of the results and of what the arguments became. Outputs at or near a kink are skipped:
there the differences to the left and right, or of two step sizes, are not the same.
"""

from __future__ import annotations

import copy
import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import loopwright as lw
import numpy as np
import random_captured
import random_constructs
import random_user_code
from python_against_compiled import Outcome, Slow, in_python, report, space_of
from python_program import OUTSIDE, arguments
from random_draw import RandomDraw
from random_programs import WIDE, Mode
from random_python import draw_python
from random_steps import draw_program

STEPS = (1e-5, 1e-6)
"""Distances of the central differences."""

KINK = 1e-3
"""Relative disagreement of differences from which on an output is skipped."""

TOLERANCE = 1e-4
"""Relative difference between forward mode and central differences."""

REVERSE = 1e-8
"""Relative difference between reverse and forward mode, and between values."""

NOISE = 1e-9
"""What differences of the smaller step lose, relative to the value: its roundings over the step."""

LARGEST = 1e8
"""Magnitude of values and slopes beyond which nothing is compared."""

WEIGHTS = np.random.default_rng(0).uniform(0.5, 1.5, 40_000) * np.resize([1, 1, -1], 40_000)
"""Weights of the elements of the outputs."""

Function = Callable[..., Any]


def floats_of(value: Any) -> Iterator[Any]:
    """Yields the float arrays and numbers in containers and objects."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list | tuple):
        for each in value:
            yield from floats_of(each)
    elif isinstance(value, float):
        yield value
    elif hasattr(value, "dtype"):
        if value.dtype.kind in "fc":
            yield value
    elif hasattr(value, "__dict__") and not callable(value):
        yield from floats_of(vars(value))


def total(value: Any, number: int) -> Any:
    """Returns the weighted sum of an output."""
    size = np.size(value)
    if not isinstance(size, int) or size + number > WEIGHTS.size:
        return (value * WEIGHTS[number]).sum()
    weights = WEIGHTS[number : number + size].reshape(np.shape(value))
    weighted = np.sum(value * weights)
    return np.real(weighted) + np.imag(weighted) if np.iscomplexobj(weighted) else weighted


def outputs_of(function: Function, args: Sequence[Any], moving: Sequence[int]) -> Function:
    """Returns the outputs of a function as a function of the arguments ``moving``."""

    def outputs(*points: Any) -> list[Any]:
        given = [a.copy() if isinstance(a, np.ndarray) else a for a in args]
        for n, point in zip(moving, points):
            given[n] = point.copy() if np.ndim(point) else point
        result = function(*given)
        return [total(v, n) for n, v in enumerate(floats_of([result, *given]))]

    return outputs


def summed(outputs: Function) -> Function:
    """Returns the sum of the outputs as a function."""

    def whole(*points: Any) -> Any:
        added = 0.0
        for each in outputs(*points):
            added = added + each
        return added

    return whole


# -- the programs ----------------------------------------------------------------------------------


def _in_doubles(source: str) -> str:
    return re.sub(r"\bfloat(16|32)\b", "float64", source)


def _wide(args: Sequence[Any]) -> list[Any]:
    return [np.float64(a) if _is_float(a) else a for a in args]


def _is_float(value: Any) -> bool:
    return np.asarray(value).dtype.kind == "f"


def _python(seed: int) -> tuple[str, list[Any]]:
    lines = draw_python(RandomDraw(seed)).body.text()
    rng = np.random.default_rng(seed)
    args = [np.minimum(a, 9) if _is_float(a) else a for a in arguments(seed)]
    # Numbers that are not equal to others are not at kinks.
    args = [a + rng.normal(0, 0.1, np.shape(a)) if _is_float(a) else a for a in args]
    return "\n".join([OUTSIDE, "def f(n, m, x, a, d, k, p, g, u, s, h, c, t):", *lines, ""]), args


def _steps(seed: int) -> tuple[str, list[Any]]:
    program = draw_program(RandomDraw(seed), most=8)
    return repr(program), [*program.inputs]


FAMILIES: list[Callable[[int], tuple[str, list[Any]]]] = [
    random_constructs.program,
    random_captured.program,
    random_user_code.program,
    _steps,
    _python,
]
"""Generators of programs; a seed is one of the family of its remainder."""


def program(seed: int) -> tuple[str, list[Any]]:
    """Returns the program of a seed, and its arguments."""
    number, family = divmod(seed, len(FAMILIES))
    source, args = FAMILIES[family](number)
    return _in_doubles(source), _wide(args)


def _functions(seed: int, source: str) -> tuple[Function, Function]:
    """Returns the function of a seed for Python, and for the compiler."""
    number, family = divmod(seed, len(FAMILIES))
    if FAMILIES[family] is _steps:
        steps = draw_program(RandomDraw(number), most=8)

        def results(mode: Mode, *inputs: Any) -> list[Any]:
            values = steps.run(mode, inputs)
            return [values[i] for i in steps.outputs]

        traced = Mode(np.float64, lw.nn)
        return lambda *x: results(WIDE, *x), lambda *x: results(traced, *x)
    spaces = [space_of(source, f"<program {seed}>") for _ in range(2)]
    for space in spaces:
        space["lw"] = lw
    return spaces[0]["f"], spaces[1]["f"]


# -- what is compared ------------------------------------------------------------------------------


def run(seed: int, source: str, args: Sequence[Any]) -> Outcome:
    """Returns what comes of a program: "right" with the outputs at kinks, or a mistake."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        return _run(seed, source, args)


def _run(seed: int, source: str, args: Sequence[Any]) -> Outcome:
    moving = [n for n, a in enumerate(args) if _is_float(a)]
    points = [args[n] for n in moving]
    rng = np.random.default_rng(seed)
    directions = [np.float64(rng.standard_normal(np.shape(p))) for p in points]
    if not points:
        return Outcome(seed, "beyond", "no floats")
    theirs, ours = _functions(seed, source)
    try:
        at = _differences(theirs, args, moving, directions)
    except (Slow, RecursionError):
        return Outcome(seed, "slow")
    except Exception as raised:
        return Outcome(seed, "beyond", repr(raised))
    if at is None:
        return Outcome(seed, "beyond", "large numbers, or others in each call")
    values, slopes, kinks = at
    outputs = outputs_of(ours, args, moving)
    try:
        result, changes = lw.jvp(outputs, tuple(points), tuple(directions))
    except Exception as raised:
        return _raised(seed, "jvp", outputs, points, raised)
    given, pushed = np.array(result, float), np.array(changes, float)
    if given.shape != values.shape:  # ints of one of several results are floats in compiled code
        return Outcome(seed, "beyond", f"{len(given)} outputs, not {len(values)}")
    for n, (one, other) in enumerate(zip(given, values)):
        if abs(one - other) > REVERSE * max(1, np.abs(values).max()):
            return Outcome(seed, "different", f"output {n} is {one}, not {other}")
    for n, (one, other) in enumerate(zip(pushed, slopes)):
        if kinks[n]:
            continue
        if not abs(one - other) <= TOLERANCE * max(abs(other), abs(values[n]), 1):
            return Outcome(seed, "different", f"forward mode of output {n}: {one}, not {other}")
    try:
        every = tuple(range(len(points)))
        value, pulled = lw.value_and_grad(summed(outputs), argnums=every)(*points)
    except Exception as raised:
        return _raised(seed, "grad", outputs, points, raised)
    size = sum(np.abs(g * d).sum() for g, d in zip(pulled, directions))
    there, here = pushed.sum(), sum((g * d).sum() for g, d in zip(pulled, directions))
    if not np.isfinite(there) and kinks.any():
        return Outcome(seed, "beyond", "no slopes")
    if not abs(here - there) <= REVERSE * max(1, size, np.abs(pushed).sum()):
        return Outcome(seed, "different", f"reverse mode: {here}, not {there}")
    if not abs(value - values.sum()) <= REVERSE * max(1, np.abs(values).sum()):
        return Outcome(seed, "different", f"the value is {value}, not {values.sum()}")
    return Outcome(seed, "right", f"{kinks.sum()} of {len(kinks)} skipped")


def _differences(
    function: Function, args: Sequence[Any], moving: Sequence[int], directions: Sequence[Any]
) -> Any:
    """Returns the values of the outputs, their slopes, and which of them have none here."""

    def at(distance: float) -> Any:
        outputs = outputs_of(function, copy.deepcopy(args), moving)
        points = [args[n] + distance * d for n, d in zip(moving, directions)]
        return np.array(in_python(outputs, points), float)

    values = at(0.0)
    if not values.size or not np.abs(values).max() < LARGEST:
        return None
    if not np.array_equal(values, at(0.0)):
        return None  # it draws from an iterator outside
    central: list[Any] = []
    kinks = np.zeros(values.shape, bool)
    for step in STEPS:
        ahead, behind = at(step), at(-step)
        if ahead.shape != values.shape or behind.shape != values.shape:
            return values, values, np.ones(values.shape, bool)
        central.append((ahead - behind) / (2 * step))
        kinks |= _apart((ahead - values) / step, (values - behind) / step, values)
    kinks |= _apart(*central, values)
    return values, central[0], kinks


def _apart(one: Any, other: Any, values: Any) -> Any:
    """Returns where two differences are not the same."""
    size = np.maximum(np.abs(one), np.abs(other))
    allowed = KINK * np.maximum(size, 1e-2) + NOISE * np.abs(values)
    return ~(np.abs(one - other) <= allowed) | ~(size < LARGEST)


def _raised(
    seed: int, name: str, outputs: Function, points: Sequence[Any], raised: Exception
) -> Outcome:
    """Returns what an error of a derivative is: a refusal, or a mistake."""
    try:
        lw.compile(outputs, dynamic=False)(*points)
    except Exception as plain:
        if type(plain) is type(raised):
            return Outcome(seed, "refused", f"compiled: {str(plain).splitlines()[0]}")
    if isinstance(raised, lw.LoopwrightTypeError | lw.UnsupportedError):
        return Outcome(seed, "refused", f"{name}: {raised.message}")
    internal = type(raised).__name__ == "InternalError"
    kind = "internal" if internal else "different"
    return Outcome(seed, kind, f"{name}: {type(raised).__name__}: {raised}")


def _skipped(outcomes: Sequence[Outcome]) -> str:
    """Returns how many outputs were at kinks."""
    counts = [
        [int(n) for n in re.findall(r"\d+", o.message)] for o in outcomes if o.kind == "right"
    ]
    return "{} of {} outputs at kinks".format(*map(sum, zip(*counts))) if counts else ""


if __name__ == "__main__" and (outcomes := report(program, run)):
    print(_skipped(outcomes))
