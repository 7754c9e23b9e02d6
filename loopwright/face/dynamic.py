"""``dynamic=`` of ``lw.compile``: which axes of a call's arguments are symbolic sizes.

::

    dynamic={"x": {0: "n"}}        of the argument x (or 0, or "batch['ids']"), axis 0 is the size n
    dynamic={"x": ("n", None)}     the same: one entry for each axis
    dynamic=True                   every axis is a size of its own, unless it is 0 or 1
    dynamic="auto"                 so is an axis once it has had three sizes
    dynamic=False                  none: one compile for each shape
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import field, replace
from typing import Any, TypeAlias

from ..ir.dataclass import dataclass
from ..ir.dims import LARGEST_SIZE, IntExpr, size
from ..ir.errors import LoopwrightError, LoopwrightTypeError, LoopwrightValueError
from ..tracer import ArraySpec, Request, Traced
from ..tracer.core.argument_specs import Spec, size_of
from ..tracer.core.pytree import columns_among
from ..tracer.core.symbolic_sizes import GUARD
from .sizes import refuse_unmet, request_sizes, solve, unified, unmet, with_shapes
from .user_errors import is_instance

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
    return {axis: size_of(given) for axis, given in value.items()}


def _root(path: str) -> str:
    """Returns the parameter that a path of a leaf begins with."""
    return path.partition("[")[0].partition(".")[0]


ENOUGH_SIZES = 3
"""Sizes that an axis has had when it becomes symbolic by itself."""

LEAST_SYMBOLIC = 2
"""The least size that is symbolic by itself: 0 and 1 are often meant to be just that."""


@dataclass(slots=True, eq=False)
class _Kind:
    """The sizes in calls that differ in nothing else. Axes are (position of the leaf, axis)."""

    sizes: dict[tuple[int, int], set[int]] = field(default_factory=dict)
    symbolic: dict[tuple[int, int], str] = field(default_factory=dict)
    static: set[tuple[int, int]] = field(default_factory=set)
    refused: bool = False

    def look(self, leaf: int, axis: int, path: str, value: IntExpr, patience: int) -> str | None:
        """Returns the name of an axis that is symbolic in this call; None for one that is not."""
        place = leaf, axis
        if not isinstance(value, int) or value < LEAST_SYMBOLIC or place in self.static:
            return None
        if place not in self.symbolic:
            seen = self.sizes.setdefault(place, set())
            seen.add(value)
            if len(seen) < patience:
                return None
            words = "".join(c if c.isalnum() else " " for c in path).split()
            name = "_".join([*words, str(axis)])
            taken = name in self.symbolic.values() or not name.isidentifier()
            self.symbolic[place] = f"{name}_of_{leaf}" if taken else name
        return self.symbolic[place]


def _kind_of(request: Request) -> Hashable:
    """Returns what calls have in common that differ only in sizes."""
    leaves = [
        (leaf.type.dtype, leaf.type.rank, leaf.weak) if isinstance(leaf, ArraySpec) else leaf
        for leaf in request.leaves
    ]
    return request.names, request.structures, tuple(leaves)


def _key(request: Request) -> Request:
    """Returns a request without what its cases differ in."""
    return replace(request, case=0, values=None, placements=())


class Dynamic:
    """The symbolic axes of one compiled function's arguments, and what its traces require of them.

    ``declared`` is the request of a module, whose sizes are what its text says.
    """

    def __init__(self, name: str, option: Any, parameters: Sequence[str]) -> None:
        self.name = name
        self.axes: Mapping[str, Axes] = {}
        self.declared: Request | None = None
        # How many sizes an axis has had when it becomes symbolic; 0: it never does.
        self._patience = {"auto": ENOUGH_SIZES, "True": 1}.get(str(option), 0)
        self._kinds: dict[Hashable, _Kind] = {}
        self._cases: dict[Request, list[Traced]] = {}
        if option not in ("auto", True, False):
            self.axes = declared(name, option, parameters)

    def request(self, given: Request, has_code: Callable[[Request], object]) -> Request:
        """Returns the request for which a call of the types ``given`` is compiled.

        Raises LoopwrightTypeError or LoopwrightValueError for sizes that do not fit it. Where
        sizes become symbolic by themselves, one that ``has_code`` stays as it is.
        """
        if self.declared is not None:
            if not self._is_declared(given):
                return given  # for which there is no code
            return self._case(replace(self.declared, values=self._solved(self.declared, given)))
        if self.axes:
            request = unified(self.name, with_shapes(given, self._shapes(given)))
            return self._case(replace(request, values=self._solved(request, given)))
        request = unified(self.name, given)  # specs may have symbols
        if not self._patience or request_sizes(request) or has_code(given):
            return request
        return self._automatic(given)

    def traced(self, traced: Traced) -> None:
        """Takes note of what a trace requires of sizes.

        Raises LoopwrightValueError if the sizes for which it was made do not fulfil it.
        """
        request = traced.request
        if request.values is not None:
            refuse_unmet(traced, request.values)
        elif not request_sizes(request):
            return
        cases = self._cases.setdefault(_key(request), [])
        cases[request.case :] = [traced]

    def give_up(self, given: Request) -> None:
        """Takes note that no code can be made for symbolic sizes of such calls."""
        self._kinds[_kind_of(given)].refused = True

    def specialises(self, request: Request, sizes: Collection[str]) -> bool:
        """Keeps sizes of which tracing needs the values as they are in each call; returns whether
        that is possible: they are not, if the user asked for them."""
        if not sizes or not self.is_automatic(request):
            return False
        for kind in self._kinds.values():
            for axis, name in kind.symbolic.items():
                if name in sizes:
                    kind.static.add(axis)
            kind.symbolic = {a: n for a, n in kind.symbolic.items() if a not in kind.static}
        return True

    def _is_declared(self, given: Request) -> bool:
        """True if a call is one of the module, but for the values of its symbolic sizes."""
        wanted = self.declared
        assert wanted is not None
        if (given.names, given.structures) != (wanted.names, wanted.structures):
            return False
        return all(map(is_instance, wanted.leaves, given.leaves))

    def is_automatic(self, request: Request) -> bool:
        """True if axes of a request have become symbolic by themselves."""
        return bool(self._patience) and bool(request.values)

    def _automatic(self, given: Request) -> Request:
        """Returns the request with those axes symbolic that have had enough sizes."""
        kind = self._kinds.setdefault(_kind_of(given), _Kind())
        shapes: dict[int, tuple[IntExpr, ...]] = {}
        values: dict[str, int] = {}
        columns = columns_among(given.structures)
        for position, (leaf, path) in enumerate(zip(given.leaves, given.paths)):
            if not isinstance(leaf, ArraySpec):
                continue
            sizes = [*leaf.type.shape]
            for axis, value in enumerate(leaf.type.shape):
                patience = 1 if axis == 0 and position in columns else self._patience
                name = kind.look(position, axis, path, value, patience)
                if name is not None and isinstance(value, int):
                    sizes[axis] = size(name, LEAST_SYMBOLIC, LARGEST_SIZE)
                    values[name] = value
            shapes[position] = tuple(sizes)
        if kind.refused or not values:
            return given
        try:
            return self._case(replace(with_shapes(given, shapes), values=values))
        except LoopwrightError:  # these sizes alone; the code for them says what is wrong
            return given

    def _case(self, request: Request) -> Request:
        """Returns the request for a trace whose comparisons of sizes come out as in this call."""
        if request.values is None:
            return request
        cases = self._cases.get(_key(request), [])
        for number, traced in enumerate(cases):
            requirement = unmet(traced, request.values)
            if requirement is None:
                return replace(request, case=number)
            if requirement.message != GUARD:
                refuse_unmet(traced, request.values)
        return replace(request, case=len(cases))

    def _solved(self, request: Request, given: Request) -> dict[str, int] | None:
        """Returns the values of the sizes in a call; None for specs that have symbols."""
        return None if request_sizes(given) else solve(self.name, request, given)

    def _shapes(self, given: Request) -> dict[int, tuple[IntExpr, ...]]:
        """Returns the shapes of leaves with the axes that the user declared, by position."""
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
        return shapes

    def _shape(
        self, shape: tuple[IntExpr, ...], axes: Axes, path: str, alone: bool
    ) -> tuple[IntExpr, ...]:
        sizes = [*shape]
        for axis, wanted in axes.items():
            if -len(sizes) <= axis < len(sizes):
                sizes[axis] = wanted
            elif alone:  # a container may hold arrays with fewer axes
                raise LoopwrightTypeError(
                    f"dynamic: {path} of {self.name} has no axis {axis}: it has {len(sizes)}"
                )
        return tuple(sizes)
