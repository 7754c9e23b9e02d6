"""The table of library functions: what a call of one needs to know on every level.

``call_library`` of the graph and ``library`` of the program name a function of this table. It is
opaque: a type rule, and a Python callable in destination-passing style, which writes its results
into arrays that it is given. NumPy's functions are declared in files that are loaded with the first
name that begins with ``numpy.``; those of users by ``lw.extern``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np

from ..dataclass import dataclass
from ..dims import IntExpr, evaluate
from ..dtype import Array, DType, dtype_of

Options: TypeAlias = "tuple[tuple[str, Any], ...]"
"""Static arguments of a call by name, in their order; values are numbers, strings, bools, None and
tuples of them."""

Values: TypeAlias = Callable[..., None]
"""Takes the arrays of operands, then those of results, which it writes."""


class ArrayType(NamedTuple):
    """The type of a result."""

    shape: tuple[IntExpr, ...]
    dtype: DType


class Typed(Protocol):
    """An operand: a type of the graph, or a region of a program."""

    @property
    def shape(self) -> tuple[IntExpr, ...]: ...

    @property
    def dtype(self) -> DType: ...


@dataclass(frozen=True, slots=True, eq=False)
class LibraryFunction:
    """A function that programs may call.

    - ``rule(operands, options)`` returns the types of the results, or raises LoopwrightTypeError or
      LoopwrightValueError; errors need not name the function.
    - ``bind(options, count)`` returns the callable for such options and number of operands, in
      destination-passing style. It may raise any exception, which the caller of the compiled
      function gets.
    - ``ranks`` are the axes of each operand that make one problem, if those before them are axes
      of a stack of problems, which broadcast: one call then does the work of many.

    A call depends on nothing but its operands and options: one whose results are not needed is left
    out, equal ones are made once, and those that a loop repeats may be made before it.
    """

    name: str
    doc: str
    rule: Callable[[Sequence[Typed], Mapping[str, Any]], Sequence[ArrayType]]
    bind: Callable[[Mapping[str, Any], int], Values]
    ranks: tuple[int, ...] | None = None

    def allocated(self, arrays: Sequence[Array], options: Options) -> tuple[Array, ...]:
        """Returns the results of a call in new arrays: the function's meaning."""
        operands = [ArrayType(a.shape, dtype_of(a.dtype)) for a in arrays]
        types = self.rule(operands, dict(options))
        results = [np.empty([evaluate(s, {}) for s in t.shape], t.dtype.numpy) for t in types]
        self.bind(dict(options), len(arrays))(*(np.asarray(a, order="C") for a in arrays), *results)
        return tuple(results)


TABLE: dict[str, LibraryFunction] = {}
"""The functions that are declared so far."""

DECLARING: dict[str, Callable[[str], None]] = {}
"""Declares a function of another package that is asked for, by the first part of its name."""


def register(function: LibraryFunction) -> LibraryFunction:
    """Adds a function; one of the same name is replaced, as a notebook's cell is run again."""
    TABLE[function.name] = function
    return function
