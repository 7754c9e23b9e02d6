"""Random NumPy programs, and how far correct results of one may lie apart.

A program runs in three ways. *Native*: by NumPy, with the dtypes as written, which says what shape
and dtype each result must have. *Wide*: by NumPy with float64 for every float, which says its
value. *Perturbed*: wide again, but each result that rounds is moved by up to ``STEP`` units of its
native dtype, at random; how far the results move says how far rounding may move them. This is
Monte Carlo arithmetic (D. S. Parker, UCLA CSD-970002, 1997). Perturbed runs come in pairs of
opposite signs, so that a value on the edge of a jump falls to either side of it.

A step after which native, wide and perturbed runs disagree about an int or a bool, or which spreads
its error widely, is not taken: nothing could be learned from it. What compiled code gives has no
part in that.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import loopwright as lw
import numpy as np
import reference_nn

__all__ = ["NATIVE", "TRACED", "Array", "Mode", "Program", "Step", "check", "grow", "plain"]

Array = np.ndarray[Any, Any]
LARGEST = 20_000  # elements of any value
GREATEST = 1e4  # magnitude of any float
STEP = 8  # units in the last place, by which a perturbed run moves what rounds
MARGIN = 4  # times the greatest move seen
PAIRS = 4  # perturbed runs with opposite signs
SPREAD = 1e-3  # of a value's size, beyond which a step counts as ill-conditioned


@dataclass(frozen=True)
class Mode:
    """What a program computes with: the dtype of ``mode.float``, and the functions of ``nn``."""

    float: Any
    nn: Any

    def constant(self, array: Array) -> Array:
        return array.astype(self.float) if array.dtype == np.float32 else array


NATIVE = Mode(np.float32, reference_nn)
WIDE = Mode(np.float64, reference_nn)
TRACED = Mode(np.float32, lw.nn)


@dataclass(frozen=True)
class Step:
    """``run(mode, *operands)``. ``rounds``: "no", in its "result", or "inside" of it as well."""

    text: str
    operands: tuple[int, ...]
    run: Callable[..., Any]
    rounds: str = "result"

    def __str__(self) -> str:
        return self.text.format(*(f"%{i}" for i in self.operands))


def plain(function: Callable[..., Any]) -> Callable[..., Any]:
    """``Step.run`` of a function that is the same in every mode."""
    return lambda mode, *operands: function(*operands)


@dataclass
class Program:
    """Inputs, steps that each give one more value, and which of the values are the results."""

    inputs: list[Array]
    steps: list[Step] = field(default_factory=list)
    outputs: list[int] = field(default_factory=list)
    seed: int = 0  # of the perturbed runs

    def __call__(self, *inputs: Any) -> Any:
        """The results of a run on traced arrays: one, or a tuple."""
        values = self.run(TRACED, inputs)
        results = tuple(values[i] for i in self.outputs)
        return results if len(results) > 1 else results[0]

    def run(self, mode: Mode, inputs: Sequence[Any]) -> list[Any]:
        values = list(inputs)
        for step in self.steps:
            values.append(step.run(mode, *(values[i] for i in step.operands)))
        return values

    def __repr__(self) -> str:
        lines = [f"%{i}: {a.dtype}{list(a.shape)}" for i, a in enumerate(self.inputs)]
        lines += [f"%{i} = {step}" for i, step in enumerate(self.steps, len(self.inputs))]
        return "\n".join([*lines, "return " + ", ".join(f"%{i}" for i in self.outputs)])


@dataclass
class Value:
    """One value of a program in all of its runs. ``spread`` is how far others are from the wide."""

    native: Array
    wide: Array
    moved: list[Array]

    @staticmethod
    def of_input(array: Array) -> Value:
        wide = array.astype(np.float64) if array.dtype.kind == "f" else array
        return Value(array, wide, [wide] * (2 * PAIRS))

    @property
    def spread(self) -> Array:
        return np.max([np.abs(m - self.wide) for m in (self.native, *self.moved)], axis=0)

    def is_sound(self) -> bool:
        """Whether a correct result is told from a wrong one by what is known of this value."""
        kinds = {np.asarray(a).dtype.kind for a in (self.native, self.wide, *self.moved)}
        half = self.native.dtype == np.float16  # whose rounding hides what is wrong
        if self.native.size > LARGEST or self.native.ndim > 5 or len(kinds) != 1 or half:
            return False
        if self.native.dtype.kind != "f":
            return all(np.array_equal(self.native, a) for a in (self.wide, *self.moved))
        if not self.native.size:
            return True
        size = np.abs(self.wide)
        if not np.all(np.isfinite(self.native)) or not np.all(size <= GREATEST):
            return False
        return bool(np.all(self.spread <= SPREAD * (1 + size)))


def evaluate(step: Step, operands: Sequence[Value], seed: int) -> Value | None:
    """The value of a step, or None where NumPy refuses it or nothing can be learned from it."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return _evaluate(step, operands, seed)


def _evaluate(step: Step, operands: Sequence[Value], seed: int) -> Value | None:
    try:
        native = np.asarray(step.run(NATIVE, *(v.native for v in operands)))
        if native.size > LARGEST:
            return None
        wide = np.asarray(step.run(WIDE, *(v.wide for v in operands)))
        inside = step.rounds == "inside"
        floats = [
            np.abs(v.wide).max() for v in operands if v.wide.dtype.kind == "f" and v.wide.size
        ]
        largest = max((v.native.size for v in operands), default=0)
        scale = min(1.0, max(floats, default=0.0)) if inside else 0.0
        moved: list[Array] = []
        for k in range(2 * PAIRS):
            rng = np.random.default_rng([seed, k // 2])
            sign = 1 - 2 * (k % 2)
            given = [
                _move(v.moved[k], v.native.dtype, rng, sign) if inside else v.moved[k]
                for v in operands
            ]
            result = np.asarray(step.run(WIDE, *given))
            if step.rounds != "no":
                # A sum of n terms errs like a random walk of n steps; see ir/tolerance.py.
                walk = sign * np.sqrt(max(1, largest / max(1, native.size))) if inside else sign
                result = _move(result, native.dtype, rng, walk, scale)
            moved.append(result)
    except (ValueError, IndexError, TypeError, ZeroDivisionError, OverflowError, Warning):
        return None
    value = Value(native, wide, moved)
    return value if value.is_sound() else None


def _move(
    array: Array, native: np.dtype[Any], rng: np.random.Generator, sign: float, scale: float = 0.0
) -> Array:
    """``array`` with errors relative to its elements and, for sums inside, to ``scale``."""
    if array.dtype.kind != "f" or native.kind != "f":
        return array
    unit = float(np.finfo(native).eps) / 2
    direction = rng.choice([-1.0, 1.0], array.shape) * rng.uniform(0.5, 1, array.shape)
    return array + (np.abs(array) + scale) * (sign * STEP * unit * direction)


def grow(
    inputs: list[Array],
    count: int,
    propose: Callable[[Sequence[Array]], Step | None],
    choose_outputs: Callable[[int, int], Sequence[int]],
    seed: int = 0,
) -> Program:
    """A program of up to ``count`` of the proposed steps, those that are sound.

    ``choose_outputs(inputs, values)`` gives the numbers of the results besides the last value.
    """
    values = [Value.of_input(a) for a in inputs]
    steps: list[Step] = []
    with np.errstate(all="ignore"):
        for _ in range(4 * count):
            if len(steps) == count:
                break
            step = propose([v.native for v in values])
            if step is None:
                continue
            value = evaluate(step, [values[i] for i in step.operands], seed)
            if value is not None:
                steps.append(step)
                values.append(value)
    last = len(values) - 1
    outputs = [last, *(i for i in choose_outputs(len(inputs), len(values)) if i != last)]
    return Program(inputs, steps, outputs, seed)


def check(program: Program, call: Callable[..., Any] | None = None) -> None:
    """Compile and run a program; its results have NumPy's shapes, dtypes and values.

    ``call`` runs the program on its inputs, compiled as it comes unless given.
    """
    call = call or lw.compile(program)
    found = call(*program.inputs)
    results = found if len(program.outputs) > 1 else (found,)
    with np.errstate(all="ignore"):
        values = [Value.of_input(a) for a in program.inputs]
        for step in program.steps:
            value = evaluate(step, [values[i] for i in step.operands], program.seed)
            assert value is not None, f"not sound: {step}"
            values.append(value)
    for number, result in zip(program.outputs, results, strict=True):
        _compare(f"%{number}", np.asarray(result), values[number])


def _compare(name: str, found: Array, value: Value) -> None:
    native = value.native
    assert found.dtype == native.dtype, f"{name} is {found.dtype}, not {native.dtype}"
    assert found.shape == native.shape, f"{name} has shape {found.shape}, not {native.shape}"
    if native.dtype.kind != "f":
        wrong = np.argwhere(found != native)
        assert not wrong.size, f"{name}{wrong[0].tolist()} differs, and {len(wrong) - 1} more"
        return
    info = np.finfo(native.dtype)
    rounding = STEP * float(info.eps) * np.abs(value.wide) + 8 * float(info.tiny)
    bound = MARGIN * value.spread + rounding
    error = np.abs(found.astype(np.float64) - value.wide)
    wrong = np.argwhere(~(error <= bound))
    if wrong.size:
        at = tuple(wrong[0])
        raise AssertionError(
            f"{name}{[int(i) for i in at]} is {found[at]!r}, not {value.wide[at]!r}: off by "
            f"{error[at]:.2e} where {bound[at]:.2e} is allowed, and {len(wrong) - 1} more"
        )
