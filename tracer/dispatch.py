"""Which function of ours stands for which of NumPy's: three tables, and how to fill them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

__all__ = [
    "BY_ELEMENT",
    "FUNCTIONS",
    "IN_C_ORDER",
    "METHODS",
    "UFUNCS",
    "UNSET",
    "VIEWS",
    "by_element",
    "implements",
    "in_c_order",
    "method",
    "views",
]

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


VIEWS: set[Implementation] = set()
"""Those whose results are views of their operand, or the operand itself, as in NumPy. The results
of all others are arrays of their own."""

BY_ELEMENT: set[Implementation] = set()
"""Those whose results have the memory layout of their operands (``order="K"``)."""

IN_C_ORDER: set[Implementation] = set()
"""Those whose results are in C order whatever their operands are."""


def views(implementation: F) -> F:
    """The decorated function gives views."""
    VIEWS.add(implementation)
    return implementation


def by_element(implementation: F) -> F:
    """The decorated function computes element by element."""
    BY_ELEMENT.add(implementation)
    return implementation


def in_c_order(implementation: F) -> F:
    """The decorated function gives arrays in C order."""
    IN_C_ORDER.add(implementation)
    return implementation


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
