"""``out=`` and donated arguments: how a traced function ends.

Both are writes into arguments, at the end of the function: the result is written into the arrays of
``out``, or into donated arguments of its type, and these arrays are returned. All else follows from
that: the result is computed in their memory where it can be, and the checks are those of other
writes.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Container, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from ..ir.errors import LoopwrightTypeError, LoopwrightValueError
from .core.array_writes import write
from .core.emitting import lift
from .core.proxy import Proxy
from .core.pytree import flatten, paths, unflatten
from .numpy.assignment import OUTPUT


class Ending(Protocol):
    """Takes a call's arguments by parameter and the function's result; gives what is returned.

    ``extra`` are the parameters that the function itself does not have.
    """

    @property
    def extra(self) -> Sequence[str]: ...

    def traced(
        self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], /
    ) -> Any:
        """Calls the function while another one is traced."""

    def __call__(self, arguments: Mapping[str, Any], result: Any, /) -> Any: ...


class Donating:
    """Writes results into the arrays of donated arguments, the first of the same type."""

    extra = ()

    def __init__(self, function: str, names: Sequence[str], arrays: Container[str]) -> None:
        """Raises LoopwrightValueError for names that are not among those of ``arrays``."""
        self.names = tuple(names)
        for name in names:
            if name not in arrays:
                raise LoopwrightValueError(
                    f"donate_argnames: {function} has no argument {name!r} that is an array"
                )

    def traced(
        self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], /
    ) -> Any:
        """Calls the function while another one is traced: values of the graph are not donated."""
        return function(*args, **kwargs)

    def __call__(self, arguments: Mapping[str, Any], result: Any, /) -> Any:
        trees = (arguments[name] for name in self.names if name in arguments)
        donated = [leaf for tree in trees for leaf in flatten(tree)[0] if _is_array(leaf)]
        leaves, structure = flatten(result)
        # Values first: a result may be a donated argument, and another one be written there.
        values = [_value(leaf) for leaf in leaves]
        homes: list[Proxy | None] = []
        for leaf in leaves:
            fits = [d for d in donated if isinstance(leaf, Proxy) and leaf.type == d.type]
            same = [d for d in fits if leaf.storage is d.storage]
            home = next(iter([*same, *fits]), None)
            homes.append(home)
            donated = [d for d in donated if d is not home]
        for n, home in enumerate(homes):
            if home is not None:
                write(home, values[n], OUTPUT)
                values[n] = home
        return unflatten(structure, iter(values))


class WrittenInto:
    """Writes the result into the arrays of the argument ``out``, of the same containers."""

    extra = ("out",)

    @staticmethod
    def signature(signature: inspect.Signature) -> inspect.Signature:
        """A signature with the parameter ``out``."""
        out = inspect.Parameter("out", inspect.Parameter.KEYWORD_ONLY)
        return signature.replace(parameters=[*signature.parameters.values(), out])

    def traced(
        self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], /
    ) -> Any:
        """Calls the function while another one is traced."""
        given = {name: value for name, value in kwargs.items() if name != "out"}
        return self(kwargs, function(*args, **given))

    def __call__(self, arguments: Mapping[str, Any], result: Any, /) -> Any:
        outs, wanted = flatten(arguments["out"])
        leaves, structure = flatten(result)
        if structure != wanted:
            raise LoopwrightTypeError(
                "out= has other containers than the result: "
                f"{_listed(wanted, 'out')}, not {_listed(structure, 'result')}"
            )
        values = [_value(leaf) for leaf in leaves]
        for out, value, path in zip(outs, values, paths(wanted, "out"), strict=True):
            if not _is_array(out):
                raise LoopwrightTypeError(
                    f"{path} has to be an array that can be written, not {out!r}"
                )
            value = lift(value)
            if value.type != out.type:
                raise LoopwrightTypeError(
                    f"{path} is {out.type.short}, and the result is {value.type.short}",
                    hint=f"np.empty({value.shape}, np.{value.dtype})",
                )
            write(out, value, OUTPUT)
        return arguments["out"]


def _is_array(leaf: Any) -> bool:
    return isinstance(leaf, Proxy) and not leaf.is_scalar


def _value(leaf: Any) -> Any:
    """The value of a leaf at this moment."""
    if isinstance(leaf, np.ndarray) and not isinstance(leaf, Proxy):
        return lift(leaf)
    return Proxy(leaf.atom, leaf.owner, leaf.weak) if isinstance(leaf, Proxy) else leaf


def _listed(structure: Any, name: str) -> str:
    return ", ".join(paths(structure, name)) or "nothing"
