"""Requirements: relations of a program's symbolic sizes that are not proved, and hold at a call
or the call is refused before anything runs.

Type rules and the tracer ask ``require`` whether two sizes are equal, or one is less. What the
normal form and the ranges prove costs nothing. What they leave open is noted while a function is
traced or parsed (``collecting``), and becomes a part of it: ``requires n == m``.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace

from ..dataclass import dataclass
from ..dims import IntExpr, evaluate, int_max, int_min, linear, size_symbols, substitute
from ..span import Span

RELATIONS = ("==", "!=", "<=", "<")


@dataclass(frozen=True, slots=True)
class Requirement:
    """``left relation right``, with a message in one line about the operands, and the user's line.

    >>> from loopwright.ir.dims import size
    >>> wanted = Requirement(size("n"), "==", size("m"), "add: float32[n] and float32[m]")
    >>> str(wanted), wanted.holds({"n": 3, "m": 3}), wanted.holds({"n": 3, "m": 4})
    ('n == m', True, False)
    """

    left: IntExpr
    relation: str
    right: IntExpr
    message: str = ""
    span: Span | None = None

    def __str__(self) -> str:
        return f"{self.left} {self.relation} {self.right}"

    @property
    def decided(self) -> bool | None:
        """True or False if the ranges of the sizes prove it for all values, else None."""
        if isinstance(self.left, int) and isinstance(self.right, int):
            return self.holds({})
        from ..dim_proofs import prove  # loaded when it is first needed

        return prove(self.left, self.relation, self.right)

    def holds(self, values: Mapping[str, int]) -> bool:
        """True if the relation holds for these values of all its sizes."""
        left, right = evaluate(self.left, values), evaluate(self.right, values)
        if self.relation in ("==", "!="):
            return (left == right) == (self.relation == "==")
        return left < right or (left == right and self.relation == "<=")

    def substitute(self, values: Mapping[str, IntExpr]) -> Requirement:
        """Returns the requirement with other sizes for those named in ``values``."""
        left, right = substitute(self.left, values), substitute(self.right, values)
        return replace(self, left=left, right=right)

    @property
    def key(self) -> object:
        """Equal for requirements that say the same."""
        difference = self.right - self.left
        if self.relation in ("==", "!="):
            return self.relation, frozenset((difference, -difference))
        return "<=", difference - (self.relation == "<")

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the sizes that it is about."""
        return tuple(size_symbols(self.left, self.right))


def solved_for(requirements: Iterable[Requirement]) -> dict[str, IntExpr]:
    """Returns sizes that equations determine, each as a sum of sizes that are not determined.

    >>> from loopwright.ir.dims import size
    >>> n, m, k = (size(name, 2) for name in "nmk")
    >>> sums = Requirement(n + 1, "==", m), Requirement(k, "==", m), Requirement(k, "==", 4 * n)
    >>> {name: str(size) for name, size in solved_for(sums).items()}
    {'m': 'n + 1', 'k': 'n + 1'}
    """
    solved: dict[str, IntExpr] = {}
    for each in requirements:
        difference = substitute(each.left - each.right, solved)
        if each.relation != "==" or is_data_size(difference):
            continue
        coefficients = (linear(difference) or ({}, 0))[0]
        for name, atom in size_symbols(difference).items():
            coefficient = coefficients.get(name, 0)
            if coefficient not in (1, -1):
                continue
            rest = atom.expr - coefficient * difference
            positive, constant = linear(rest) or ({}, -1)
            if constant >= 0 and positive and all(c > 0 for c in positive.values()):
                solved = {n: substitute(e, {name: rest}) for n, e in solved.items()}
                solved[name] = rest
                break
    return solved


def is_data_size(size: IntExpr) -> bool:
    """True for a size that data decides, by its symbols' names: ``tracer/numpy/data_sizes.py``."""
    return any(name.endswith(".data") for name in size_symbols(size))


def demand(left: IntExpr, relation: str, right: IntExpr, message: str = "") -> bool:
    """Returns False if the relation is proved to be false. What is open is noted while a function
    is traced; passes, which see programs that were traced, take it for granted.

    For what values must be, such as an axis that needs an element. Whether types fit is asked of
    ``require``. Sizes that data decides can't be checked before the function runs.
    """
    noted = _collected.get()
    if noted is not None and noted.demands and not is_data_size(right - left):
        return require(left, relation, right, message)
    return Requirement(left, relation, right).decided is not False


def demands() -> bool:
    """True while demands are noted: a function is traced, and what is computed has to be."""
    noted = _collected.get()
    return noted is not None and noted.demands


def greater(left: IntExpr, right: IntExpr) -> IntExpr:
    """Returns the greater of two sizes: one of them, where that is proved.

    >>> from loopwright.ir.dims import size
    >>> str(greater(size("n", 1) - 1, 0)), str(greater(size("n") - 1, 0))
    ('n - 1', 'max(0, n - 1)')
    """
    if Requirement(right, "<=", left).decided:
        return left
    return right if Requirement(left, "<=", right).decided else int_max(left, right)


def lesser(left: IntExpr, right: IntExpr) -> IntExpr:
    """Returns the lesser of two sizes: one of them, where that is proved."""
    if Requirement(left, "<=", right).decided:
        return left
    return right if Requirement(right, "<=", left).decided else int_min(left, right)


class Noted(list[Requirement]):
    """Requirements that grow; of the first ``located`` ones the place is known, if it ever is. With
    ``demands``, these are noted as well."""

    located = 0
    demands = False


_collected: ContextVar[Noted | None] = ContextVar("requirements", default=None)


_known: ContextVar[frozenset[object]] = ContextVar("known", default=frozenset())


@contextmanager
def assuming(requirements: Iterable[Requirement]) -> Generator[None, None, None]:
    """Takes the requirements for proved in the body, since they are checked before anything
    runs."""
    token = _known.set(frozenset(r.key for r in requirements))
    try:
        yield
    finally:
        _known.reset(token)


@contextmanager
def collecting(demands: bool = False) -> Generator[Noted, None, None]:
    """Notes in the body what is required and not proved, and what is demanded if ``demands`` says
    so; gives the list that grows."""
    noted = Noted()
    noted.demands = demands
    token = _collected.set(noted)
    try:
        yield noted
    finally:
        _collected.reset(token)


@contextmanager
def undemanded() -> Generator[None, None, None]:
    """Notes no demands of the body: they hold where it is computed, if it ever is."""
    noted = _collected.get()
    demands = noted is not None and noted.demands
    if noted is not None:
        noted.demands = False
    try:
        yield
    finally:
        if noted is not None:
            noted.demands = demands


def require(
    left: IntExpr,
    relation: str,
    right: IntExpr,
    message: str = "",
    span: Span | None = None,
) -> bool:
    """Returns True if the relation is proved, or noted as a requirement of the function; False if
    it is proved to be false, or is not proved and nobody takes notes.

    >>> from loopwright.ir.dims import size
    >>> require(size("n") + 1, "==", size("n") + 1), require(size("n"), "==", size("m"))
    (True, False)
    >>> with collecting() as noted:
    ...     require(size("n"), "==", size("m"))
    True
    >>> str(noted[0])
    'n == m'
    """
    wanted = Requirement(left, relation, right, message, span)
    decided = wanted.decided
    noted = _collected.get()
    if decided is not None or wanted.key in _known.get():
        return decided is not False
    if noted is None:
        return False
    if all(wanted.key != other.key for other in noted):
        noted.append(wanted)
    return True


def locate(span: Span | None, who: str) -> None:
    """Gives what a type rule has just required the user's line, and the operator's name in front of
    the messages."""
    noted = _collected.get()
    if noted is None:
        return
    for position in range(noted.located, len(noted)):
        last = noted[position]
        noted[position] = replace(last, span=last.span or span, message=f"{who}{last.message}")
    noted.located = len(noted)
