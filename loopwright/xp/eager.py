"""Calls of ``lw.xp`` on plain arrays: compiled once for each kind of arguments."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from ..face.compiled_function import CompiledFunction
from ..ir.errors import LoopwrightValueError
from ..tracer.core.trace import active

F = TypeVar("F", bound=Callable[..., Any])

_OPERANDS = {
    *("x", "x1", "x2", "arrays", "condition", "indices", "sorter", "min", "max", "rtol"),
    *("prepend", "append"),
}
"""Names of parameters that are arrays in all functions of the standard. All others are static."""

_ROW = re.compile(r"([\w\s]+)\((.*)\)\n +(.+)\n")


def compiled(function: F) -> F:
    """Returns a function that calls ``function`` while tracing, and its compiled code elsewhere.

    ``function`` is written with NumPy's functions, which hand traced arrays over to the tracer.
    What it returns has ``cache_info()``, as functions of ``lw.compile`` have.
    """
    made: list[CompiledFunction] = []

    def code() -> CompiledFunction:
        if made:
            return made[0]
        parameters = inspect.signature(function).parameters
        static = [name for name in parameters if name not in _OPERANDS]
        made.append(CompiledFunction(function, static_argnames=static))
        made[0].takes_any_kind = True
        return made[0]

    @functools.wraps(function)
    def eager(*args: Any, **kwargs: Any) -> Any:
        if active() is not None:
            return function(*args, **kwargs)
        kwargs = {name: _frozen(value) for name, value in kwargs.items()}
        return (made[0] if made else code())(*_frozen(args), **kwargs)

    vars(eager)["cache_info"] = lambda: code().cache_info()
    return eager  # pyright: ignore[reportReturnType]


def _frozen(value: Any) -> Any:
    """Lists as tuples, which have a hash."""
    return tuple(map(_frozen, value)) if isinstance(value, list | tuple) else value


def check_device(device: Any) -> None:
    """Raises LoopwrightValueError unless ``device`` is None or ``"cpu"``, the only one there is."""
    if device not in (None, "cpu"):
        raise LoopwrightValueError(f"there is no device {device!r}", hint="device='cpu'")


def define(
    names: dict[str, Any], table: str, source: Any = np, finish: Callable[[Any], Any] = compiled
) -> None:
    """Defines functions of ``source``, with the parameters of the standard, in one of our modules,
    whose ``globals()`` are ``names``.

    Each row of the table has names, parameters and, on the next line, what the functions return,
    where ``{}`` stands for the name. Parameters reach NumPy's function by position where they may
    be given so, and else by name; ``device`` is checked and goes no further.
    """
    for row, parameters, text in _ROW.findall(table):
        signature = inspect.signature(eval(f"lambda {parameters}: None"))
        for name in row.split():
            function = _passing(getattr(source, name), signature)
            function.__name__ = function.__qualname__ = name
            function.__module__, function.__doc__ = names["__name__"], text.format(name)
            names[name] = finish(function)


def defined(names: dict[str, Any]) -> dict[str, Any]:
    """Returns the functions that one of our modules, whose ``globals()`` are ``names``, offers."""
    ours = names["__name__"]
    return {
        name: value
        for name, value in names.items()
        if name.islower() and name[0] != "_" and getattr(value, "__module__", "") == ours
    }


if TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        """A function of a table, in modules that import this."""


def _passing(called: Callable[..., Any], signature: inspect.Signature) -> Callable[..., Any]:
    def function(*args: Any, **kwargs: Any) -> Any:
        given = signature.bind(*args, **kwargs)
        given.apply_defaults()
        check_device(given.arguments.pop("device", None))
        return called(*given.args, **given.kwargs)

    vars(function)["__signature__"] = signature
    return function
