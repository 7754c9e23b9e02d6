"""Ints among the arguments: those whose values Python needs while tracing, and how they fit dtypes.

A size, an axis, the end of a range or a branch cannot wait for a call. Where such a value is
computed from ints (or bools) among the arguments alone, ``ValuesNeeded`` names these arguments, and
the function is traced again with them as they are: code is kept for each of their values. The same
holds for symbolic sizes.

A Python int takes the dtype of the array it meets, and NumPy raises OverflowError if it does not
fit there. The value of an int argument, and of numbers computed from such arguments alone, is known
when the function is called: ``Numbers`` keeps how Python computes it, and ``Fits`` checks it then.
"""

from __future__ import annotations

import linecache
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from typing import Any, TypeAlias

import numpy as np

from ...ir.dataclass import dataclass
from ...ir.dims import Dim, size_symbols
from ...ir.dtype import INT64, DType
from ...ir.errors import LoopwrightOverflowError
from ...ir.graph.nodes import Atom, Var
from ...ir.graph.types import TensorType
from ...ir.span import Span
from ..memory.value_numbers import Definition
from .spans import caret_lines, user_frame


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


class TakenApartAnewError(BaseException):
    """Tracing needs more of an argument than its leaves, which has others from now on."""


class Needs:
    """The leaves of the arguments, and the symbolic sizes, whose values one trace needed."""

    def __init__(self, definitions: Mapping[Atom, Definition]) -> None:
        self.definitions = definitions
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

    def note(self, atom: Atom) -> None:
        """Records that the value of ``atom`` is needed, unless it is what a ``while`` loop waits
        for: that has to run, not to be unrolled."""
        line = _line()
        sources = self._sources(atom)
        if sources is not None and not line.startswith("while "):
            self.leaves |= sources[0]
            self.sizes |= sources[1]
            self.in_loop |= bool(sources[0]) and line.startswith("for ") and "range(" in line

    def compare(self, atoms: Iterable[Atom]) -> None:
        """Records that it has to be known how these sizes compare, ``x[1:n] + x[:n - 1]``, if
        leaves alone decide them."""
        sources = [self._sources(atom) for atom in atoms]
        if None not in sources:
            self.leaves.update(*(leaves[0] for leaves in sources if leaves))

    def error(self, cause: Exception) -> ValuesNeeded:
        """Returns what to raise in the place of ``cause``."""
        leaves = tuple(sorted(self.leaves))
        return ValuesNeeded(cause, leaves, self.in_loop, frozenset(self.sizes))

    def _sources(self, atom: Atom) -> tuple[set[int], set[str]] | None:
        """Returns the leaves and the sizes that ``atom`` is computed from; None if it is computed
        from anything else."""
        leaves: set[int] = set()
        sizes: set[str] = set()
        work, seen = [atom], {atom}
        while work:
            each = work.pop()
            if isinstance(each, Var) and each in self.candidates:
                leaves.add(self.candidates[each])
            elif each in self.definitions:
                _, args, attrs = self.definitions[each]
                new = [a for a in args if a not in seen]
                seen.update(new)
                sizes |= {*size_symbols(*(a for a in attrs.values() if isinstance(a, Dim)))}
                work += new
            elif isinstance(each, Var):
                return None
        return leaves, sizes


def _line() -> str:
    frame = user_frame()
    if frame is None:
        return ""
    return linecache.getline(frame.f_code.co_filename, frame.f_lineno).strip()


Number: TypeAlias = Callable[[Sequence[Any]], Any]
"""Computes in Python the value of a traced number from the operands of a call."""

_PYTHONS: dict[np.ufunc, Callable[..., Any]] = {
    np.add: operator.add,
    np.subtract: operator.sub,
    np.multiply: operator.mul,
    np.true_divide: operator.truediv,
    np.floor_divide: operator.floordiv,
    np.remainder: operator.mod,
    np.power: operator.pow,
    np.bitwise_and: operator.and_,
    np.bitwise_or: operator.or_,
    np.bitwise_xor: operator.xor,
    np.left_shift: operator.lshift,
    np.right_shift: operator.rshift,
    np.negative: operator.neg,
    np.positive: operator.pos,
    np.absolute: operator.abs,
    np.invert: operator.invert,
}


@dataclass(frozen=True, slots=True, eq=False)
class Fits:
    """The condition ``low <= number <= high``: at ``span`` the number becomes a ``dtype``."""

    number: Number
    low: float
    high: float
    dtype: DType
    span: Span | None

    def check(self, operands: Sequence[Any]) -> None:
        """Raises LoopwrightOverflowError if it does not hold in a call with these operands."""
        value = self.number(operands)
        if isinstance(value, int | np.integer) and not self.low <= int(value) <= self.high:
            source = caret_lines(self.span) if self.span is not None else ()
            kind = "Python int" if isinstance(value, int) else f"NumPy {value.dtype}"
            raise LoopwrightOverflowError(
                f"the {kind} {value} does not fit {self.dtype}", span=self.span, source=source
            )


@dataclass(slots=True, eq=False)
class Numbers:
    """The traced Python numbers of one run, by their atom, and the conditions on them.

    There are no conditions on what happens in a branch or a loop, ``nested`` deep: it may not run.
    """

    values: dict[Atom, Number] = field(default_factory=dict[Atom, Number])
    fits: list[Fits] = field(default_factory=list[Fits])
    nested: int = 0

    def argument(self, atom: Atom, operand: int) -> None:
        """Records that the number is an argument."""
        self.values[atom] = operator.itemgetter(operand)

    def result(
        self, atom: Atom, ufunc: np.ufunc, operands: Sequence[Any], span: Span | None
    ) -> None:
        """The number is computed from atoms of others, and from numbers that are known."""
        compute = _PYTHONS.get(ufunc)
        parts = [self._number(o) for o in operands]
        if compute is None or not all(parts):
            return
        self.values[atom] = lambda leaves: compute(*(p(leaves) for p in parts if p is not None))
        self.require(atom, INT64, span)

    def require(
        self, atom: Atom, dtype: DType, span: Span | None, low: bool = True, high: bool = True
    ) -> None:
        """The number has to fit ``dtype`` at this place; from below, from above, or both."""
        number = self.values.get(atom)
        if number is None or self.nested:
            return
        least, greatest = dtype.limits
        limits = least if low else -np.inf, greatest if high else np.inf
        self.fits.append(Fits(number, *limits, dtype, span))

    def _number(self, operand: Any) -> Number | None:
        return self.values.get(operand) if isinstance(operand, Atom) else lambda _leaves: operand
