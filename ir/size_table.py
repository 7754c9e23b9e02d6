"""Values of symbolic sizes, from the shapes in which they occur.

A size is determined by an axis that is linear in it: ``n``, ``2 * n``, ``n + 1``, or ``n + m`` once
``m`` is known. All other axes are then checked.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import field
from typing import TypeAlias

from . import dims
from .dataclass import dataclass
from .dims import RELATIONS, Dim, IntExpr, Symbol, evaluate, floordiv, size_symbols, symbol, symbols
from .errors import UnsupportedError
from .span import Span

Shape: TypeAlias = tuple[IntExpr, ...]

ADDRESSABLE_BYTES = 1 << 47
"""Bytes of all memory that a process can address: what needs as many is refused."""


@dataclass(frozen=True, slots=True)
class SizeCheck:
    """A relation of sizes that has to hold before a program runs, and the message of a failure."""

    left: IntExpr
    relation: str
    right: IntExpr
    message: str = field(default="", compare=False)
    span: Span | None = field(default=None, compare=False)

    def holds(self, values: Mapping[str, int]) -> bool:
        """True if it holds for values of the sizes."""
        return RELATIONS[self.relation](evaluate(self.left, values), evaluate(self.right, values))

    def __str__(self) -> str:
        return f"{self.left} {self.relation} {self.right}"


def solve(
    names: Collection[str], equations: Iterable[tuple[IntExpr, IntExpr]]
) -> dict[str, IntExpr]:
    """Returns the sizes among ``names`` that equations (expression in the sizes, value) determine:
    the solution, if there is one.

    >>> from .dims import size
    >>> n = size("n")
    >>> solve({"n"}, [(2 * n + 1, 7)])
    {'n': 3}
    """
    solved: dict[str, IntExpr] = {}
    # Plain sizes first: their values need no division.
    waiting = sorted(
        ((e, value) for e, value in equations if isinstance(e, Dim)),
        key=lambda equation: len(str(equation[0])),
    )
    while True:
        before = len(solved)
        for expr, value in waiting:
            unknown = (symbols(expr) & set(names)) - solved.keys()
            if len(unknown) == 1:
                (name,) = unknown
                solution = _solved(expr, value, name, solved)
                if solution is not None:
                    solved[name] = solution
        if len(solved) == before:
            return solved


def _solved(expr: Dim, value: IntExpr, name: str, solved: Mapping[str, IntExpr]) -> IntExpr | None:
    """The value of a size, from an expression that is linear in it."""
    atom = size_symbols(expr).get(name)
    coefficient = next((c for monomial, c in expr.terms if monomial == (atom,)), 0)
    if atom is None or not coefficient:
        return None
    rest = expr - coefficient * atom.expr
    if name in symbols(rest):
        return None
    numerator = value - dims.substitute(rest, solved)
    return floordiv(numerator if coefficient > 0 else -numerator, abs(coefficient))


@dataclass(frozen=True, slots=True)
class Misfit:
    """The reason why shapes do not fit, with the ``values`` of the sizes as far as they are known.

    One of: axis ``axis`` of array ``array`` is ``given`` instead of ``expected``, an expression;
    ``size`` is out of its range (``array`` and ``axis`` say where it was read); ``check`` does not
    hold; the arrays and the scratch memory take too many bytes, ``nbytes``.
    """

    values: Mapping[str, int]
    array: int | None = None
    axis: int | None = None
    expected: IntExpr | None = None
    given: int | None = None
    size: Symbol | None = None
    check: SizeCheck | None = None
    nbytes: int | None = None

    def __str__(self) -> str:
        sizes = ", ".join(f"{name} = {value}" for name, value in self.values.items())
        where = "" if self.array is None else f"axis {self.axis} of argument {self.array}"
        if self.size is not None:
            value = self.values[self.size.name]
            range = f"{self.size.low}..{self.size.high}"
            return f"{self.size.name} = {value} ({where}) is not in {range}"
        if self.expected is not None:
            wanted = self.expected
            if not symbols(wanted) - self.values.keys():
                wanted = f"{wanted} = {evaluate(wanted, self.values)}"
            return f"{where} is {self.given}, but has to be {wanted}" + (
                f", with {sizes}" * bool(sizes)
            )
        if self.check is not None:
            said = f": {self.check.message}" if self.check.message else ""
            return f"{self.check} does not hold for {sizes}{said}"
        return f"with {sizes}, {self.nbytes} bytes of memory would be needed"


def axis_name(array: int, axis: int) -> str:
    """The name that stands for the size of an axis of an argument."""
    return f"d{array}_{axis}"


@dataclass(frozen=True, slots=True)
class SizeTable:
    """The sizes of a program, the shapes of its ``inputs`` and ``outputs``, and what has to hold.

    ``solution`` has each size in terms of the axes of the arguments. Each of ``byte_counts`` has to
    be less than ``ADDRESSABLE_BYTES``.
    """

    sizes: tuple[Symbol, ...]
    inputs: tuple[Shape, ...]
    outputs: tuple[Shape, ...] = ()
    checks: tuple[SizeCheck, ...] = ()
    byte_counts: tuple[IntExpr, ...] = ()

    @property
    def solution(self) -> dict[str, IntExpr]:
        """Raises UnsupportedError if the arguments' shapes do not determine a size."""
        axes = [
            (expr, symbol(axis_name(n, a)))
            for n, shape in enumerate(self.inputs)
            for a, expr in enumerate(shape)
        ]
        solution = solve([s.name for s in self.sizes], axes)
        for unsolved in self.sizes:
            if unsolved.name not in solution:
                raise UnsupportedError(
                    f"the shapes of the arguments do not determine the size {unsolved.name}",
                    hint=f"an argument with an axis of size {unsolved.name}",
                )
        return {s.name: solution[s.name] for s in self.sizes}

    def values(self, shapes: Sequence[Sequence[int]]) -> dict[str, int] | Misfit:
        """Returns the values of the sizes for shapes of the right ranks, or why there are none."""
        given = {axis_name(n, a): s for n, shape in enumerate(shapes) for a, s in enumerate(shape)}
        values: dict[str, int] = {}
        for size, expr in zip(self.sizes, self.solution.values(), strict=True):
            values[size.name] = evaluate(expr, given)
        for n, shape in enumerate(self.inputs):
            for axis, expected in enumerate(shape):
                got = shapes[n][axis]
                if isinstance(expected, int) and expected != got:
                    return Misfit({}, n, axis, expected, got)
        for size, expr in zip(self.sizes, self.solution.values(), strict=True):
            assert size.low is not None and size.high is not None
            if not size.low <= values[size.name] <= size.high:
                read = min(symbols(expr)).removeprefix("d").split("_") if symbols(expr) else ()
                array, axis = map(int, read) if read else (None, None)
                return Misfit(values, array, axis, size=size)
        for n, shape in enumerate(self.inputs):
            for axis, expected in enumerate(shape):
                if evaluate(expected, values) != shapes[n][axis]:
                    return Misfit(values, n, axis, expected, shapes[n][axis])
        for check in self.checks:
            if not check.holds(values):
                return Misfit(values, check=check)
        most = max((evaluate(count, values) for count in self.byte_counts), default=0)
        return Misfit(values, nbytes=most) if most >= ADDRESSABLE_BYTES else values
