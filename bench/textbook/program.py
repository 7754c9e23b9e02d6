"""One program of a textbook, and the inputs of its small and its large call."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

__all__ = ["PROGRAMS", "Program", "textbook"]

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Program:
    """``inputs(size, rng)`` makes the arguments of the ``function``, of ``small`` size in tests and
    ``large`` in the bench."""

    function: Callable[..., Any]
    inputs: Callable[[int, np.random.Generator], tuple[Any, ...]]
    small: int
    large: int

    @property
    def subject(self) -> str:
        """Returns the name of the file that it is in."""
        return self.function.__module__.rpartition(".")[2]

    def arguments(self, size: int) -> list[Any]:
        """Returns the arguments for a size, the same each time."""
        return [*self.inputs(size, np.random.default_rng(size))]


PROGRAMS: dict[str, Program] = {}
"""The programs by name, in the order in which they were declared."""


def textbook(
    small: int, large: int, inputs: Callable[[int, np.random.Generator], tuple[Any, ...]]
) -> Callable[[F], F]:
    """Declares the decorated function as a program."""

    def declare(function: F) -> F:
        PROGRAMS[function.__name__] = Program(function, inputs, small, large)
        return function

    return declare
