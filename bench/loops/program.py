"""One program with control flow: ours, the same in plain loops, and the inputs of both."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["PROGRAMS", "Program", "leaves", "mistake", "program"]

Inputs = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Program:
    """``function`` uses ``lw.*``. ``plain`` is the oracle: loops in plain Python, which numba
    compiles as they are. ``inputs(size, rng)`` makes the arguments of both, of ``small`` size in
    tests and ``large`` in the bench. ``tolerance`` is relative; if it is 0, results are equal.
    ``arrays`` is the number of elements of
    the arrays with which the bodies compute, 0 if they are loops over scalars.
    """

    name: str
    family: str
    function: Callable[..., Any]
    plain: Callable[..., Any]
    inputs: Callable[[int, np.random.Generator], Inputs]
    small: int
    large: int
    tolerance: float
    arrays: int

    def arguments(self, size: int) -> Inputs:
        """Returns the arguments for a size, the same each time."""
        return self.inputs(size, np.random.default_rng(size))


PROGRAMS: dict[str, Program] = {}
"""The programs by name, in the order in which they were declared."""


def program(
    plain: Callable[..., Any],
    inputs: Callable[[int, np.random.Generator], Inputs],
    *,
    small: int,
    large: int,
    tolerance: float = 0.0,
    arrays: int = 0,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Declares the decorated function as a program."""

    def declare(function: Callable[..., Any]) -> Callable[..., Any]:
        family = function.__module__.rpartition(".")[2]
        name = function.__name__
        PROGRAMS[name] = Program(
            name, family, function, plain, inputs, small, large, tolerance, arrays
        )
        return function

    return declare


def leaves(result: Any) -> list[np.ndarray[Any, Any]]:
    """Returns the arrays of a result: one, or a tuple of them."""
    parts = result if isinstance(result, tuple | list) else (result,)
    return [np.asarray(part) for part in parts]


def mistake(program: Program, got: Any, expected: Any) -> str:
    """Returns how a result differs from the expected one, nothing if it does not."""
    results, references = leaves(got), leaves(expected)
    if len(results) != len(references):
        return f"{len(results)} results, not {len(references)}"
    for number, (result, reference) in enumerate(zip(results, references)):
        if result.shape != reference.shape:
            return f"result {number} is of shape {result.shape}, not {reference.shape}"
        sizes = np.abs(reference[np.isfinite(reference)])
        scale = float(np.max(sizes, initial=0.0)) if program.tolerance else 0.0
        wide = np.complex128 if reference.dtype.kind == "c" else np.float64
        with np.errstate(invalid="ignore"):  # infinities that are equal
            off = np.abs(result.astype(wide) - reference.astype(wide))
        off = np.where(result == reference, 0.0, off)
        if not np.all(off <= program.tolerance * scale):
            return f"result {number} is {np.max(off):.3g} off where {scale:.3g} is the largest"
    return ""
