"""Ints among the arguments whose values Python needs while a function is traced; sizes as well.

A size, an axis, the end of a range or a branch cannot wait for a call. Where such a value is
computed from ints (or bools) among the arguments alone, ``ValuesNeeded`` names these arguments, and
the function is traced again with them as they are: code is kept for each of their values. The same
holds for symbolic sizes.
"""

from __future__ import annotations

import linecache
from collections.abc import Iterable

from ..ir.dims import Dim, size_symbols
from ..ir.graph.nodes import Atom, Binding, Call, Var
from ..ir.graph.types import TensorType
from .spans import user_frame


class ValuesNeeded(Exception):
    """Tracing needs the values of some leaves of the arguments, or of symbolic ``sizes``; without
    them it is ``error``. ``in_loop`` is true where one is the end of a loop's range."""

    def __init__(
        self, error: Exception, leaves: tuple[int, ...], in_loop: bool, sizes: frozenset[str]
    ) -> None:
        super().__init__(str(error))
        self.error = error
        self.leaves = leaves
        self.sizes = sizes
        self.in_loop = in_loop


class Needs:
    """The leaves of the arguments, and the symbolic sizes, whose values one trace needed."""

    def __init__(self) -> None:
        self.candidates: dict[Var, int] = {}
        self.leaves: set[int] = set()
        self.sizes: set[str] = set()
        self.in_loop = False

    def __bool__(self) -> bool:
        return bool(self.leaves or self.sizes)

    def candidate(self, var: Var, leaf: int) -> None:
        """Records a leaf of the arguments, if it is a scalar that may be needed."""
        type_ = var.type
        if isinstance(type_, TensorType) and not type_.shape and type_.dtype.numpy.kind in "biu":
            self.candidates[var] = leaf

    def note(self, atom: Atom, bindings: Iterable[Binding]) -> None:
        """Records that the value of ``atom`` is needed, unless it is what a ``while`` loop waits
        for: that has to run, not to be unrolled."""
        line = _line()
        sources = _sources(atom, bindings, self.candidates)
        if sources is not None and not line.startswith("while "):
            self.leaves |= sources[0]
            self.sizes |= sources[1]
            self.in_loop |= bool(sources[0]) and line.startswith("for ") and "range(" in line

    def error(self, cause: Exception) -> ValuesNeeded:
        """Returns what to raise in the place of ``cause``."""
        leaves = tuple(sorted(self.leaves))
        return ValuesNeeded(cause, leaves, self.in_loop, frozenset(self.sizes))


def _sources(
    atom: Atom, bindings: Iterable[Binding], candidates: dict[Var, int]
) -> tuple[set[int], set[str]] | None:
    """Returns the leaves and the sizes that ``atom`` is computed from; None if it is computed from
    anything else."""
    values = {binding.var: binding.value for binding in bindings}
    leaves: set[int] = set()
    sizes: set[str] = set()
    work, seen = [atom], {atom}
    while work:
        each = work.pop()
        value = values.get(each) if isinstance(each, Var) else None
        if isinstance(each, Var) and each in candidates:
            leaves.add(candidates[each])
        elif isinstance(value, Call):
            new = [a for a in value.args if a not in seen]
            seen.update(new)
            sizes |= {*size_symbols(*(a for a in value.attrs.values() if isinstance(a, Dim)))}
            work += new
        elif isinstance(each, Var):
            return None
    return leaves, sizes


def _line() -> str:
    frame = user_frame()
    if frame is None:
        return ""
    return linecache.getline(frame.f_code.co_filename, frame.f_lineno).strip()
