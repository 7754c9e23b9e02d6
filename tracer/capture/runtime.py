"""The library that captured control flow calls: values decide if Python runs it, or the trace.

The functions share the user's variables as cells. A body runs on values in these cells; afterwards
they hold what they held, so that nothing that is traced is left in them.
"""

from __future__ import annotations

import functools
import sys
import types
from typing import Any

import numpy as np

from ..core.emitting import is_same  # noqa: F401
from ..core.snapshot import is_installed, package_of
from ..numpy.patched_functions import created_by
from . import functions as of_source
from . import python_functions
from .branches import (  # noqa: F401
    branch,
    compared,
    conjunction,
    disjunction,
    is_in,
    negation,
    returned,
)
from .calls import call_captured
from .comprehensions import items, keeps  # noqa: F401
from .lists import item, listed, truth  # noqa: F401
from .loops import for_loop, while_loop  # noqa: F401
from .variables import NOTHING  # noqa: F401


def __getattr__(name: str) -> Any:
    """The parts of ``match`` statements, which are loaded when there is one."""
    from . import matching

    return getattr(matching, name)


def captured(function: Any) -> Any:
    """Returns the function with its control flow captured; the same object if it has no source
    that can be rewritten.

    >>> captured(len) is len
    True
    """
    return of_source.captured(function, sys.modules[__name__])


def callee(function: Any) -> Any:
    """Returns what is to be called instead of ``function``: its captured form, if it is the
    user's; ours, for some of Python's and for those of NumPy's that make arrays."""
    if function is len:
        return python_functions.length
    if (creator := created_by(function)) is not None:
        return python_functions.on_arrays(creator)
    if isinstance(function, type) and issubclass(function, np.number | np.bool_):
        return functools.partial(python_functions.number_of, function)
    package = package_of(getattr(function, "__module__", None))
    if isinstance(function, types.FunctionType | types.MethodType) and not is_installed(package):
        return functools.partial(call_captured, captured(function))
    try:
        if function in python_functions.OVER_ITEMS:
            return captured(python_functions.OVER_ITEMS[function])
        if function in python_functions.OURS:
            return python_functions.OURS[function]
    except TypeError:  # it has no hash
        return function
    return python_functions.on_arrays(function) if package == "numpy" else function
