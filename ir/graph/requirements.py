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
from ..dims import IntExpr, bounds, evaluate, size_symbols, substitute
from ..span import Span

__all__ = [
    "RELATIONS",
    "Noted",
    "Requirement",
    "assuming",
    "collecting",
    "is_collecting",
    "locate",
    "require",
]

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
        inside = bounds(self.right - self.left, {})
        if inside is None:
            return None
        low, high = inside
        if self.relation in ("==", "!="):
            equal = None if low <= 0 <= high else False
            equal = True if low == high == 0 else equal
            return equal if self.relation == "==" or equal is None else not equal
        least = 1 if self.relation == "<" else 0
        return True if low >= least else False if high < least else None

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


class Noted(list[Requirement]):
    """Requirements that grow; of the first ``located`` ones the place is known, if it ever is."""

    located = 0


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
def collecting() -> Generator[Noted, None, None]:
    """Notes in the body what is required and not proved; gives the list that grows."""
    noted = Noted()
    token = _collected.set(noted)
    try:
        yield noted
    finally:
        _collected.reset(token)


def is_collecting() -> bool:
    """True where requirements are noted."""
    return _collected.get() is not None


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
