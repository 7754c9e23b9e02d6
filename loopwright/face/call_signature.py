"""Parameters, pickles and copies of compiled functions, as Python's functions have them.

Ints among the arguments are traced at first. Where Python needs the value of one while tracing (a
size, an axis, the end of a range, a flag), the ints of that argument become static, for this
function from then on: code is kept for each value.
"""

from __future__ import annotations

import copy
import functools
import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from .. import tracer
from ..ir.dtype import Array
from ..tracer.core.argument_specs import DTypeSpec, Spec

if TYPE_CHECKING:
    from .dynamic import Dynamic

T = TypeVar("T")

MOST_ITERATIONS_UNROLLED = 64
"""Iterations of a ``for`` loop over a range that are unrolled for an argument's value."""


def names_of(names: Sequence[str] | str) -> tuple[str, ...]:
    """Returns the names of an option that takes one or several."""
    return (names,) if isinstance(names, str) else tuple(names)


class CallSignature:
    """Sorts the arguments of the calls of one function.

    ``static`` are the names of static parameters, ``valued`` those of parameters whose ints are.
    ``dynamic`` says which axes are symbolic sizes.
    """

    def __init__(
        self, function: Callable[..., Any], name: str, static: Sequence[str], dynamic: Any = "auto"
    ) -> None:
        self.name = name
        self.signature = tracer.signature_of(function, static)
        self.static = frozenset(static)
        self.dynamic_option = dynamic
        if not isinstance(dynamic, bool) and dynamic != "auto":
            _ = self.dynamic  # raises for what it cannot mean
        self.valued: frozenset[str] = frozenset()
        self._static_places = self._places(self.static)
        self._valued_places = self._places(self.valued)

    @functools.cached_property
    def dynamic(self) -> Dynamic:
        """The axes that are symbolic sizes."""
        from .dynamic import Dynamic  # loaded when the first function is called

        return Dynamic(self.name, self.dynamic_option, [*self.parameters])

    @property
    def parameters(self) -> Mapping[str, inspect.Parameter]:
        """The parameters by name."""
        return self.signature.parameters

    def takes(self, name: str) -> bool:
        """True if there is a parameter of that name, or one for any keyword."""
        parameters = self.parameters
        return name in parameters or any(p.kind is p.VAR_KEYWORD for p in parameters.values())

    def _places(self, names: frozenset[str]) -> frozenset[int | str]:
        """Returns ``names`` and the positions of these parameters."""
        positions = {n for n, name in enumerate(self.parameters) if name in names}
        return names | positions

    def bind(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tracer.Arguments:
        """Sorts the arguments of a call; see ``arguments.bind``."""
        return tracer.bind(self.name, self.signature, self.static, args, kwargs, self.valued)

    def quick_key(
        self, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> tuple[tuple[Any, ...], list[Any]] | None:
        """Returns a key of a call and the leaves with values; see ``arguments.quick_key``."""
        return tracer.quick_key(args, kwargs, self._static_places, self._valued_places)

    def reader(
        self,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        call: Callable[..., Any],
        leaf: Callable[[Any], Any],
    ) -> Callable[..., Any] | None:
        """Returns ``call`` on the leaves of arguments like these; see ``pytree.reader``."""
        return tracer.reader(args, kwargs, self._static_places, call, self._valued_places, leaf)

    def arrays(
        self, traced: tracer.Traced, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> list[Array] | None:
        """Returns the arrays of a call; None if some of them are only specs."""
        arguments = self.bind(args, kwargs)
        leaves = [arguments.values[n] for n in traced.parameters]
        specs = any(isinstance(leaf, Spec | DTypeSpec) for leaf in leaves)
        return None if specs else [tracer.to_array(leaf) for leaf in leaves]

    def settled(
        self,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        make: Callable[[tracer.Arguments], T],
        changed: Callable[[], None],
        has_code: Callable[[tracer.Request], object],
    ) -> T:
        """Returns ``make`` of a call's arguments, with the axes symbolic that ``dynamic`` says.

        Where it raises ValuesNeeded, these ints become static, ``changed`` is called, and it is
        made again. So it is where axes have become symbolic by themselves, and no code can be made
        for that: for the sizes of the call.
        """
        while True:
            given = self.bind(args, kwargs)
            arguments = tracer.Arguments(
                self.dynamic.request(given.request, has_code), given.values
            )
            try:
                return make(arguments)
            except tracer.TakenApartAnewError:
                continue
            except tracer.ValuesNeeded as needed:
                if self.dynamic.specialises(arguments.request, needed.sizes):
                    continue
                names = {arguments.parameter_of(n) for n in needed.leaves}
                values = [arguments.values[n] for n in needed.leaves]
                helps = names - self.valued and _may_be_static(values, needed.in_loop)
                error = None if helps else needed.error
            except Exception:
                if not self.dynamic.is_automatic(arguments.request):
                    raise
                result = make(given)  # raises what is wrong with the program itself
                self.dynamic.give_up(given.request)
                return result
            if error is not None:
                raise error
            self.valued |= names
            self._valued_places = self._places(self.valued)
            changed()


def _may_be_static(values: Sequence[Any], in_loop: bool) -> bool:
    if any(isinstance(value, Spec | DTypeSpec) for value in values):
        return False  # a spec has no value
    return not in_loop or all(int(value) <= MOST_ITERATIONS_UNROLLED for value in values)


class Copied:
    """Pickles and copies of compiled functions: the Python function by its name, never its code."""

    function: Callable[..., Any]

    def options(self) -> dict[str, Any]:
        """Returns the options that it was made with."""
        raise NotImplementedError

    def __reduce__(self) -> str | tuple[Callable[..., Any], tuple[Any, ...]]:
        """Returns what pickle keeps: the name under which the module has the function; else the
        Python function, which has to have one, and the options."""
        name = getattr(self.function, "__qualname__", "")
        public = _at(getattr(self.function, "__module__", None), name)
        if public is self:
            return name
        same = isinstance(public, Copied) and public.function is self.function
        return _compiled, (type(self), public if same else self.function, self.options())

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        """Returns the function itself, as of all functions, unless it is a method of an object or
        the like, which is copied."""
        function = copy.deepcopy(self.function, memo)
        if function is self.function:
            return self
        return _compiled(type(self), function, self.options())


def _compiled(cls: type, function: Any, options: dict[str, Any]) -> Any:
    """Returns a function compiled with ``options``; it may be compiled with others already."""
    return cls(function.function if isinstance(function, Copied) else function, **options)


def _at(module: str | None, path: str) -> Any:
    try:
        return functools.reduce(getattr, path.split("."), sys.modules.get(module or ""))
    except AttributeError:
        return None
