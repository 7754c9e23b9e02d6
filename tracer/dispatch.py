"""Which function of ours stands for which of NumPy's: three tables, and how to fill them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

__all__ = ["FUNCTIONS", "METHODS", "UFUNCS", "UNSET", "implements", "known_names", "method"]

Implementation = Callable[..., Any]
F = TypeVar("F", bound=Implementation)

UFUNCS: dict[np.ufunc, Implementation] = {}
"""A ufunc and what it does to operands of which at least one is traced."""

FUNCTIONS: dict[Callable[..., Any], Implementation] = {}
"""A function that speaks ``__array_function__``, and ours with the same parameters."""


UNSET: Any = vars(np)["_NoValue"]
"""What NumPy passes on for a parameter that was not given."""

METHODS: dict[str, Implementation] = {}
"""A method of a traced array by its name (``sum``), or of a ufunc (``add.reduce``)."""


def method(*names: str) -> Callable[[F], F]:
    """Enter the decorated function into the table of methods under each of ``names``."""

    def enter(implementation: F) -> F:
        for name in names:
            METHODS[name] = implementation
        return implementation

    return enter


def implements(*functions: Callable[..., Any]) -> Callable[[F], F]:
    """Enter the decorated function into the table under each of NumPy's ``functions``."""

    def enter(implementation: F) -> F:
        for function in functions:
            if isinstance(function, np.ufunc):
                UFUNCS[function] = implementation
            else:
                FUNCTIONS[function] = implementation
        return implementation

    return enter


def known_names() -> list[str]:
    """The names of all functions in the tables, as a user writes them after ``np.``."""
    linalg = [getattr(np.linalg, name) for name in np.linalg.__all__]
    found = {ufunc.__name__ for ufunc in UFUNCS}
    for function in FUNCTIONS:
        prefix = "linalg." if function in linalg and not hasattr(np, function.__name__) else ""
        found.add(prefix + function.__name__)
    return sorted(found)
