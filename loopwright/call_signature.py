"""The parameters of a compiled function: which arguments of a call are traced, and which static.

Ints among the arguments are traced at first. Where Python needs the value of one while tracing (a
size, an axis, the end of a range, a flag), the ints of that argument become static, for this
function from then on: code is kept for each value.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from .tracer import Arguments, ValuesNeeded, bind, quick_key, reader, signature_of
from .tracer.specs import DTypeSpec, Spec

__all__ = ["CallSignature"]

T = TypeVar("T")

MOST_ITERATIONS_UNROLLED = 64
"""Iterations of a ``for`` loop over a range that are unrolled for an argument's value."""


class CallSignature:
    """Sorts the arguments of the calls of one function.

    ``static`` are the names of static parameters, ``valued`` those of parameters whose ints are.
    """

    def __init__(self, function: Callable[..., Any], name: str, static: Sequence[str]) -> None:
        self.name = name
        self.signature = signature_of(function, static)
        self.static = frozenset(static)
        self.valued: frozenset[str] = frozenset()
        self._static_places = self._places(self.static)
        self._valued_places = self._places(self.valued)

    @property
    def parameters(self) -> Mapping[str, inspect.Parameter]:
        """The parameters by name."""
        return self.signature.parameters

    def _places(self, names: frozenset[str]) -> frozenset[int | str]:
        """Returns ``names`` and the positions of these parameters."""
        positions = {n for n, name in enumerate(self.parameters) if name in names}
        return names | positions

    def bind(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Arguments:
        """Sorts the arguments of a call; see ``arguments.bind``."""
        return bind(self.name, self.signature, self.static, args, kwargs, self.valued)

    def quick_key(
        self, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> tuple[tuple[Any, ...], list[Any]] | None:
        """Returns a key of a call and the leaves with values; see ``arguments.quick_key``."""
        return quick_key(args, kwargs, self._static_places, self._valued_places)

    def reader(
        self, args: Sequence[Any], kwargs: Mapping[str, Any], call: Callable[..., Any]
    ) -> Callable[..., Any] | None:
        """Returns ``call`` on the leaves of arguments like these; see ``pytree.reader``."""
        return reader(args, kwargs, self._static_places, call, self._valued_places)

    def settled(
        self,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        make: Callable[[Arguments], T],
        changed: Callable[[], None],
    ) -> T:
        """Returns ``make`` of a call's arguments. Where it raises ValuesNeeded, these ints become
        static, ``changed`` is called, and it is made again."""
        while True:
            arguments = self.bind(args, kwargs)
            try:
                return make(arguments)
            except ValuesNeeded as needed:
                names = {arguments.parameter_of(n) for n in needed.leaves}
                values = [arguments.values[n] for n in needed.leaves]
                helps = names - self.valued and _may_be_static(values, needed.in_loop)
                error = None if helps else needed.error
            if error is not None:
                raise error
            self.valued |= names
            self._valued_places = self._places(self.valued)
            changed()


def _may_be_static(values: Sequence[Any], in_loop: bool) -> bool:
    if any(isinstance(value, Spec | DTypeSpec) for value in values):
        return False  # a spec has no value
    return not in_loop or all(int(value) <= MOST_ITERATIONS_UNROLLED for value in values)
