"""A value of a data type whose constructor is not known while tracing."""

from __future__ import annotations

from typing import Any, NoReturn

from ...ir.errors import LoopwrightAttributeError, LoopwrightTypeError
from ..core.emitting import emit
from ..core.proxy import Proxy
from ..core.runtime_checks import check
from ..core.trace import TracedAnewError, active
from .family import Family, Field
from .region import Region, region_of


def capture() -> None:
    """Begins the trace anew with Python's control flow captured, unless it is or may not be."""
    trace = active()
    if trace is not None and trace.may_capture and "capturing" not in trace.asked:
        trace.want_captured()
        raise TracedAnewError


class Value:
    """A traced value of a family: its reference. Fields are attributes; reading that of another
    constructor is an AttributeError of the call."""

    __slots__ = ("family", "reference")

    def __init__(self, family: Family, reference: Proxy) -> None:
        self.family = family
        self.reference = reference

    @property
    def __class__(self) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        """The base of the family, as ``isinstance`` has it."""
        return self.family.base

    def __repr__(self) -> str:
        return f"<traced {self.family}>"

    @property
    def region(self) -> Region:
        """The region that has its fields."""
        return region_of(self.reference.owner)

    def is_one_of(self, cls: type) -> bool:
        """Answers ``isinstance`` where Python alone asks: the trace begins anew, with branches
        captured."""
        if cls is self.family.base:
            return True
        if cls not in self.family.constructors:
            return False
        capture()
        raise LoopwrightTypeError(
            f"whether this {self.family} is a {cls.__name__} is not known while tracing",
            hint="lw.match, or a function with source, whose match statement is captured",
        )

    def is_made_by(self, constructor: type) -> Any:
        """Returns a traced bool: whether the value is of ``constructor``. Where that is certain,
        Python's own."""
        if not self.region.is_inhabited(constructor):
            return False
        family = self.family
        others = (c for c in family.constructors if c is not constructor)
        if not any(map(self.region.is_inhabited, others)):
            return True
        tag = emit("bitwise_and", self.reference, (1 << family.bits) - 1)
        return emit("equal", tag, family.constructors.index(constructor))

    def part(self, constructor: type, field: Field) -> Any:
        """Returns a field of a value that is of ``constructor``, if it is; else any value."""
        row = emit("right_shift", self.reference, self.family.bits)
        value = self.region.read(constructor, field, row)
        return value if field.family is None else Value(field.family, value)

    def __getattr__(self, name: str) -> Any:
        family = self.family
        having = [(c, f) for c in family.constructors for f in family.fields(c) if f.name == name]
        having = [(c, f) for c, f in having if self.region.is_inhabited(c)]
        if not having or name.startswith("__"):
            raise LoopwrightAttributeError(
                f"no constructor of {family} has a field {name}",
                hint="match, which names the fields of each constructor",
            )
        if len(having) > 1:
            raise LoopwrightTypeError(
                f"several constructors of {family} have a field {name}: which one is meant?",
                hint="match, or isinstance before it",
            )
        ((constructor, field),) = having
        holds = self.is_made_by(constructor)
        if type(holds) is Proxy:
            failed = emit("logical_not", holds)
            check(failed, AttributeError, f"only {constructor.__name__} has a field {name}")
        return self.part(constructor, field)

    def _refuse(self, *_: Any) -> NoReturn:
        raise LoopwrightTypeError(
            f"a traced {self.family} has no order, truth or equality of its own",
            hint="match on it, and compare the fields",
        )

    __eq__ = __lt__ = __gt__ = __le__ = __ge__ = __bool__ = __len__ = __iter__ = _refuse
    __hash__ = object.__hash__
