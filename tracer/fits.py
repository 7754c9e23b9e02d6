"""Checks that are made of Python ints before each call: they must fit dtypes.

A Python int takes the dtype of the array it meets, and NumPy raises OverflowError if it does not
fit there. The value of an int argument, and of numbers computed from such arguments alone, is known
when the function is called: ``Numbers`` keeps how Python computes it, and ``Fits`` checks it then.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import field
from typing import Any, TypeAlias

import numpy as np

from ..ir.dataclass import dataclass
from ..ir.dtype import INT64, DType
from ..ir.errors import LoopwrightOverflowError
from ..ir.graph.nodes import Atom
from ..ir.span import Span
from .spans import caret_lines

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
        info = np.iinfo(dtype.numpy)
        limits = info.min if low else -np.inf, info.max if high else np.inf
        self.fits.append(Fits(number, *limits, dtype, span))

    def _number(self, operand: Any) -> Number | None:
        return self.values.get(operand) if isinstance(operand, Atom) else lambda _leaves: operand
