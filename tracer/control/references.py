"""``lw.ref``: a variable that functions share and change, by value as branches and loops decide.

While tracing, each leaf of its value is memory of the trace, as an array's is: bodies of branches,
loops and functions that write it give its new value as a further result.
"""

from __future__ import annotations

from typing import Any

from ...ir.errors import LoopwrightTypeError
from ..core import pytree
from ..core.emitting import lift
from ..core.proxy import Proxy
from ..core.pytree import Same, Structure, paths, unflatten
from ..core.trace import active
from .leaves import Fixed, LeafType, check_structure, flattened, joined, leaf_type
from .traced import atom_of, new_proxy, running
from .user import for_users


class Reference:
    """A variable: ``value`` is read and assigned."""

    def __init__(self, value: Any) -> None:
        self._plain = value
        self._cells: list[Proxy] | None = None
        self._types: list[LeafType | Fixed] = []
        self._structure: Structure | None = None
        if active() is not None:
            self._begin(value)

    def __repr__(self) -> str:
        return f"ref({self._plain!r})" if self._cells is None else "ref(traced)"

    @property
    def value(self) -> Any:
        """The value that was assigned last."""
        return self._plain if self._cells is None else self._read()

    @value.setter
    def value(self, value: Any) -> None:
        if self._cells is None:
            self._plain = value
        else:
            self._write(value)

    @for_users
    def _begin(self, value: Any) -> None:
        trace = running()
        leaves, self._structure = flattened(value)
        self._types = [leaf_type(leaf) for leaf in leaves]
        self._plain = [leaf for leaf, t in zip(leaves, self._types) if isinstance(t, Fixed)]
        pairs = [(leaf, t) for leaf, t in zip(leaves, self._types) if isinstance(t, LeafType)]
        self._cells = [Proxy(atom_of(trace, leaf, t), trace) for leaf, t in pairs]

    @for_users
    def _read(self) -> Any:
        trace, fixed = running(), iter(self._plain)
        assert self._cells is not None and self._structure is not None
        cells = iter([lift(cell) for cell in self._cells])
        leaves = [
            new_proxy(trace, trace.visible(next(cells).atom), t)
            if isinstance(t, LeafType)
            else next(fixed)
            for t in self._types
        ]
        return unflatten(self._structure, leaves)

    @for_users
    def _write(self, value: Any) -> None:
        trace, fixed = running(), iter(self._plain)
        assert self._cells is not None and self._structure is not None
        leaves, structure = flattened(value)
        check_structure("lw.ref", "the value", self._structure, "the next one", structure)
        cells, atoms = iter(self._cells), list[Any]()
        for leaf, type_, path in zip(leaves, self._types, paths(structure, "the value")):
            given = leaf_type(leaf)
            if isinstance(type_, Fixed):
                before = next(fixed)
                if not isinstance(given, Fixed) or leaf != before:
                    raise LoopwrightTypeError(f"lw.ref: {path} is {before!r}, and stays that")
                continue
            if isinstance(given, Fixed) or joined(type_, given) != type_:
                raise LoopwrightTypeError(
                    f"lw.ref: {path} is {type_} at first, and then {given}",
                    hint="a first value of the type that it has later",
                )
            atoms.append((next(cells), atom_of(trace, leaf, type_)))
        for cell, atom in atoms:  # all of them are read before any is written
            trace.assign(cell.storage, atom)


def ref(value: Any) -> Reference:
    """Returns a variable that functions share: ``value`` of it is read and assigned.

    In compiled code it may be assigned in branches, loops and functions that call themselves,
    where a name or an attribute from outside of them may not. Its value is an array, a number, a
    value of data or a container of them, of the same types all the time. It lives in one call.

    Raises LoopwrightTypeError for a value of another type than the first one.

    >>> import loopwright as lw
    >>> @lw.compile
    ... def total(x):
    ...     found = lw.ref(0.0)
    ...     def add(i, carry):
    ...         found.value = found.value + i
    ...         return carry
    ...     lw.fori_loop(0, x, add, ())
    ...     return found.value
    >>> total(5)
    10.0
    """
    return Reference(value)


def _apart(reference: Reference) -> tuple[list[Any], Same]:
    """Returns a reference as what stays the same: bodies share it."""
    if reference._cells is None:
        raise LoopwrightTypeError(
            "a reference from outside is an argument or result of compiled code",
            hint="its value as an argument, and lw.ref(value) inside",
        )
    return [], Same(reference)


def _together(rest: Any, _: Any) -> Reference:
    if active() is None:
        raise LoopwrightTypeError(
            "a reference is a result of compiled code, and lives in one call",
            hint="its .value as the result",
        )
    return rest.value


pytree.register(Reference, _apart, _together)
