"""Scopes of a trace: the blocks of branches, loops and functions while they are traced.

What happens in a scope stays there until its maker says what comes of it: at its end storages from
outside hold the values that they had before, and proxies stand for what they stood for. The maker
reads what was written from ``entries`` and ``finals``, and gives the storages the values that the
finished branch or loop has (``Trace.assign``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from ...ir.errors import UnsupportedError
from ...ir.graph.builder import Builder
from ...ir.graph.nodes import Atom, Expr, Var
from ...ir.graph.types import Type


def unclear_names() -> UnsupportedError:
    """Returns the error of a write or read that depends on which array a name stands for."""
    return UnsupportedError(
        "a loop or branch changes an array, and values decide which other names are names of it",
        hint="a .copy() of it where it gets another name",
    )


class Storage(Protocol):
    """The memory of an array, as ``storage.py`` has it."""

    atom: Atom
    version: int
    moved: Callable[[], Exception] | None

    @property
    def scope(self) -> Scope | None: ...


class Remembering(Protocol):
    """A proxy, which keeps the atom that it stood for last."""

    def restore(self, atom: Atom, version: int, /) -> None: ...


class Scope:
    """A block of the graph that is being traced.

    ``entries`` are the storages from outside that were written, with the value and version they had
    before; ``finals`` the values at the end. ``function`` is the scope of the function that this
    one belongs to, None in main. ``captures`` are, for the scope of a function, the atoms from
    outside that it uses, and its parameters for them; ``reads`` the storages from there that it
    looks at, with the versions they had.
    """

    def __init__(self, parent: Scope | None, homes: dict[Var, Scope], function: bool) -> None:
        self.parent = parent
        self.builder = Builder() if parent is None else _Builder(self, homes)
        outer = parent.function if parent is not None else None
        self.function: Scope | None = self if function else outer
        self.ended = False
        self.entries: dict[Storage, tuple[Atom, int]] = {}
        self.finals: Mapping[Storage, Atom] = {}
        self.captures: dict[Atom, Var] = {}
        self.reads: dict[Storage, int] = {}
        self._remembered: list[tuple[Remembering, Atom, int]] = []
        self._homes = homes

    def param(self, name: str, type: Type) -> Var:
        """Returns a new variable of this scope that no binding gives a value."""
        var = Var(name, type)
        self._homes[var] = self
        return var

    def adopt(self, var: Var) -> None:
        """Says that a variable which was bound elsewhere is one of this scope."""
        if self.parent is None:
            self._homes.pop(var, None)
        else:
            self._homes[var] = self

    def read(self, storage: Storage, version: int) -> None:
        """Records that the function of this scope looks at a storage, if it is from outside."""
        if storage.moved is not None:
            raise storage.moved()
        function = self.function
        if function is None or (storage.scope is not None and storage.scope.function is function):
            return
        function.reads.setdefault(storage, version)

    def note(self, proxy: Remembering, atom: Atom, version: int) -> None:
        """Records what a proxy stood for before."""
        if self.parent is not None:
            self._remembered.append((proxy, atom, version))

    def end(self) -> None:
        """Gives storages and proxies their former values."""
        self.ended = True
        self.finals = {storage: storage.atom for storage in self.entries}
        for storage, (atom, version) in self.entries.items():
            storage.atom, storage.version = atom, version
        for proxy, atom, version in reversed(self._remembered):
            proxy.restore(atom, version)
        self._remembered.clear()


class _Builder(Builder):
    """A builder that records which scope each variable belongs to."""

    def __init__(self, scope: Scope, homes: dict[Var, Scope]) -> None:
        super().__init__()
        self._scope, self._homes = scope, homes

    def bind(self, value: Expr, type: Type, *, name: str | None = None) -> Var:
        var = super().bind(value, type, name=name)
        self._homes[var] = self._scope
        return var
