"""Matching: ``lw.match``, and what captured ``match`` statements call."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ...ir.errors import LoopwrightTypeError
from ..control.user import for_users
from ..core.proxy import Proxy
from ..data.patterns import (
    ANYTHING,
    AnyOf,
    Bind,
    Equal,
    Of,
    Pattern,
    Row,
    Same,
    bind,
    family_of_value,
    missing,
    test,
)
from ..data.value import Value, capture
from .branches import returned

__all__ = ["ANYTHING", "AnyOf", "Bind", "Equal", "Of", "Row", "Same", "match", "matching"]


class Matching:
    """The cases of one ``match`` of a ``subject``, which are asked in their order.

    The last case of those that leave no value of the subject's family is certain.
    """

    def __init__(self, subject: Any) -> None:
        self.subject = subject
        self.family = family_of_value(subject)
        self._cases: dict[int, tuple[Pattern, bool]] = {}
        self._is_traced = type(subject) is Value

    @for_users
    def case(self, number: int, pattern: Pattern, guarded: bool = False) -> Any:
        """Returns whether a case matches, if none before it does."""
        self._cases[number] = pattern, guarded
        if not guarded and self._missing(number) is None and self.family is not None:
            return True
        holds = test(pattern, self.subject)
        self._is_traced = self._is_traced or type(holds) is Proxy
        return holds

    @for_users
    def bound(self, number: int, names: Sequence[str]) -> list[Any]:
        """Returns what the names of a case are bound to."""
        values: dict[str, Any] = {}
        bind(self._cases[number][0], self.subject, values)
        return [values[name] for name in names]

    @for_users
    def unmatched(self, count: int) -> None:
        """Raises LoopwrightTypeError if there are values that none of ``count`` cases matches."""
        lacking = self._missing(count - 1) if self._is_traced else None
        if lacking is not None:
            raise LoopwrightTypeError(
                f"match: no case for {lacking}, of the constructors of {self.family}",
                hint=f"case {lacking}:  or  case _:",
            )

    def _missing(self, last: int) -> str | None:
        if self.family is None:
            return None
        patterns = [p for n, (p, guarded) in self._cases.items() if n <= last and not guarded]
        return missing(patterns, self.subject)


matching = Matching
"""The name of the class for captured statements."""


def match(value: Any, cases: Mapping[type, Callable[..., Any]]) -> Any:
    """Returns what the function of the constructor of ``value`` makes of its fields.

    ``cases`` has a function for each constructor of a family (``lw.data``), or for its base, which
    gets the value itself. It is an expression, and needs no source, where Python's ``match``
    statement, which compiled functions have as well, is a statement.

    Raises LoopwrightTypeError if a constructor has none.

    >>> import loopwright as lw
    >>> @lw.data
    ... class Shape: ...
    >>> class Square(Shape):
    ...     side: float
    >>> class Circle(Shape):
    ...     radius: float
    >>> lw.match(Circle(2.0), {Square: lambda s: s * s, Circle: lambda r: 3 * r * r})
    12.0
    """
    family = family_of_value(value)
    if family is None:
        raise LoopwrightTypeError(
            f"lw.match takes a value of data, and this is a {type(value).__name__}",
            hint="@lw.data on the base of its class",
        )
    if type(value) is Value:
        capture()  # functions that call themselves are known as such then
    asked = Matching(value)
    for cls in cases:
        if cls is not family.base and cls not in family.constructors:
            raise LoopwrightTypeError(
                f"{getattr(cls, '__name__', cls)} is not a constructor of {family}"
            )
    return _matched(asked, [*cases.items()], 0)


@for_users
def _matched(matching: Matching, cases: list[tuple[type, Callable[..., Any]]], number: int) -> Any:
    if number == len(cases):
        matching.unmatched(number)
        raise LoopwrightTypeError(f"lw.match has no case for {type(matching.subject).__name__}")
    cls, function = cases[number]
    assert matching.family is not None
    is_base = cls is matching.family.base and cls not in matching.family.constructors
    fields = () if is_base else matching.family.fields(cls)
    names = ["value"] if is_base else [f.name for f in fields]
    pattern: Pattern = Of(cls, (), {name: Bind(name) for name in names})
    if is_base:
        pattern = Bind("value")
    test = matching.case(number, pattern)
    return returned(
        test,
        lambda: function(*matching.bound(number, names)),
        lambda: _matched(matching, cases, number + 1),
    )
