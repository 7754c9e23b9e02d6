"""``dynamic=`` of ``lw.compile``: which axes of a call's arguments are symbolic sizes.

::

    dynamic={"x": {0: "n"}}        of the argument x (or 0, or "batch['ids']"), axis 0 is the size n
    dynamic={"x": ("n", None)}     the same: one entry for each axis
    dynamic=True                   every axis is a size of its own, unless it is 0 or 1
    dynamic="auto"                 so is an axis once it has had three sizes
    dynamic=False                  none: one compile for each shape
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from .ir.dims import IntExpr
from .ir.errors import LoopwrightTypeError, LoopwrightValueError
from .sizes import solve, unified, with_shapes
from .tracer import ArraySpec, Request
from .tracer.specs import Spec, size_of

__all__ = ["Axes", "Dynamic", "Option", "declared"]

Axes: TypeAlias = Mapping[int, IntExpr]
Option: TypeAlias = "Mapping[str | int, Any] | bool | str"


def declared(name: str, option: Any, parameters: Sequence[str]) -> dict[str, Axes]:
    """Returns the symbolic axes that ``dynamic=`` declares, by argument or path of a leaf.

    Raises LoopwrightTypeError or LoopwrightValueError for what it cannot mean.
    """
    if not isinstance(option, Mapping):
        raise LoopwrightTypeError(
            f'dynamic is "auto", True, False or a dict of axes, not {option!r}',
            hint='dynamic={"x": {0: "n"}}',
        )
    axes: dict[str, Axes] = {}
    for key, value in option.items():
        if isinstance(key, int) and -len(parameters) <= key < len(parameters):
            key = parameters[key]
        if not isinstance(key, str) or _root(key) not in parameters:
            raise LoopwrightValueError(
                f"dynamic: {name} has no parameter {key!r} "
                f"(it has: {', '.join(parameters) or 'none'})"
            )
        axes[key] = _axes(key, value)
    return axes


def _axes(key: str, value: Any) -> Axes:
    if isinstance(value, Spec):
        value = value.shape
    if isinstance(value, str):
        value = (value,)
    if isinstance(value, Sequence):
        value = {n: s for n, s in enumerate(value) if s is not None and not isinstance(s, int)}
    if not isinstance(value, Mapping) or not all(isinstance(n, int) for n in value):
        raise LoopwrightTypeError(
            f"dynamic: the sizes of {key} are a dict from axes to names, or a tuple of them, "
            f"not {value!r}",
            hint=f'{{{key!r}: {{0: "n"}}}}',
        )
    return {axis: size_of(size) for axis, size in value.items()}


def _root(path: str) -> str:
    """Returns the parameter that a path of a leaf begins with."""
    return path.partition("[")[0].partition(".")[0]


class Dynamic:
    """The symbolic axes of one compiled function's arguments."""

    def __init__(self, name: str, option: Any, parameters: Sequence[str]) -> None:
        self.name = name
        self.axes: Mapping[str, Axes] = {}
        if option not in ("auto", True, False):
            self.axes = declared(name, option, parameters)

    def request(self, given: Request) -> Request:
        """Returns the request for which a call of the types ``given`` is compiled.

        Raises LoopwrightTypeError or LoopwrightValueError for sizes that do not fit it.
        """
        if not self.axes:
            return unified(self.name, given)  # specs may have symbols
        shapes: dict[int, tuple[IntExpr, ...]] = {}
        used: set[str] = set()
        for position, (leaf, path) in enumerate(zip(given.leaves, given.paths)):
            key = path if path in self.axes else _root(path)
            if isinstance(leaf, ArraySpec) and key in self.axes:
                used.add(key)
                shapes[position] = self._shape(leaf.type.shape, self.axes[key], path, key == path)
        for key in self.axes.keys() - used:
            if _root(key) in given.names and key != _root(key):
                raise LoopwrightValueError(
                    f"dynamic: {self.name} has no argument {key} in this call "
                    f"(it has: {', '.join(given.paths)})"
                )
        request = unified(self.name, with_shapes(given, shapes))
        return replace(request, values=solve(self.name, request, given))

    def _shape(
        self, shape: tuple[IntExpr, ...], axes: Axes, path: str, alone: bool
    ) -> tuple[IntExpr, ...]:
        sizes = [*shape]
        for axis, size in axes.items():
            if -len(sizes) <= axis < len(sizes):
                sizes[axis] = size
            elif alone:  # a container may hold arrays with fewer axes
                raise LoopwrightTypeError(
                    f"dynamic: {path} of {self.name} has no axis {axis}: it has {len(sizes)}"
                )
        return tuple(sizes)
