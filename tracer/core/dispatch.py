"""Three tables from NumPy's functions to ours, and the decorators that fill them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import numpy as np

Implementation = Callable[..., Any]
F = TypeVar("F", bound=Implementation)

UFUNCS: dict[np.ufunc, Implementation] = {}
"""Implementations of ufuncs on operands of which at least one is traced."""

FUNCTIONS: dict[Callable[..., Any], Implementation] = {}
"""Implementations of functions with ``__array_function__``; they have NumPy's parameters."""


UNSET: Any = vars(np)["_NoValue"]
"""NumPy's default of parameters that were not given."""

METHODS: dict[str, Implementation] = {}
"""Methods of a traced array by name (``sum``), and of ufuncs (``add.reduce``)."""


VIEWS: set[Implementation] = set()
"""Implementations that return views of their operand, or the operand itself, as in NumPy. All
others return new arrays."""

BY_ELEMENT: set[Implementation] = set()
"""Implementations whose results have the memory layout of their operands (``order="K"``)."""

IN_C_ORDER: set[Implementation] = set()
"""Implementations whose results are in C order whatever their operands are."""


def views(implementation: F) -> F:
    """Declares that the decorated function returns views."""
    VIEWS.add(implementation)
    return implementation


def by_element(implementation: F) -> F:
    """Declares that the decorated function computes element by element."""
    BY_ELEMENT.add(implementation)
    return implementation


def in_c_order(implementation: F) -> F:
    """Declares that the decorated function returns arrays in C order."""
    IN_C_ORDER.add(implementation)
    return implementation


def method(*names: str) -> Callable[[F], F]:
    """Enters the decorated function into the table of methods under each of ``names``."""

    def enter(implementation: F) -> F:
        for name in names:
            METHODS[name] = implementation
        return implementation

    return enter


LATE: dict[str, Callable[[], object]] = {}
"""Functions that load the implementations of a module of NumPy's, by its name, once."""


def implementation_of(
    function: Any, table: Mapping[Any, Implementation] = FUNCTIONS
) -> Implementation | None:
    """Returns what stands for a function of NumPy's, or for the method of a name; None if nothing
    does."""
    module = getattr(function, "__module__", None) or "numpy"
    for name in (module, module.partition(".")[0]):  # numpy has those of numpy.lib too
        if function not in table:
            LATE.pop(name, lambda: None)()
    special = "scipy.special"
    if function not in table and isinstance(function, np.ufunc) and special in sys.modules:
        LATE.pop(special, lambda: None)()
    return table.get(function)


def implements(*functions: Callable[..., Any]) -> Callable[[F], F]:
    """Enters the decorated function into the table under each of NumPy's ``functions``."""

    def enter(implementation: F) -> F:
        for function in functions:
            if isinstance(function, np.ufunc):
                UFUNCS[function] = implementation
            else:
                FUNCTIONS[function] = implementation
        return implementation

    return enter


def implement(
    rows: Mapping[Callable[..., Any], Implementation], *declarations: Callable[[Any], Any]
) -> None:
    """Enters functions that are one expression each; ``declarations``, such as ``views``, hold for
    all of them."""
    for function, implementation in rows.items():
        for declare in (*declarations, implements(function)):
            declare(implementation)
