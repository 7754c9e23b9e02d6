"""The decorator does what that of the standard library does."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
import weakref
from collections.abc import Callable
from typing import Any, ClassVar, Generic, TypeVar

import pytest
from loopwright.ir.dataclass import dataclass

OPTIONS: list[dict[str, bool]] = [
    {"frozen": frozen, "slots": slots, "eq": eq, "order": order}
    for frozen in (False, True)
    for slots in (False, True)
    for eq, order in ((False, False), (True, False), (True, True))
]
T = TypeVar("T")


def _defined_with(decorator: Callable[..., Any], options: dict[str, bool]) -> Any:
    class Record:
        """With a field of each sort."""

        kind: ClassVar[str] = "kind"
        size: int
        hidden: str = dataclasses.field(repr=False, compare=False)
        name: str = "x"
        items: list[int] = dataclasses.field(default_factory=list)
        fixed: int = dataclasses.field(default=3, init=False)
        made: list[int] = dataclasses.field(default_factory=list, init=False, compare=False)
        total: int = dataclasses.field(init=False)

        def __post_init__(self) -> None:
            object.__setattr__(self, "total", self.size + sum(self.items))

    return decorator(**options)(Record)


def _outcome(function: Callable[[], Any]) -> Any:
    try:
        return function()
    except Exception as error:
        return type(error), str(error)


def _behaviour(cls: Any) -> dict[str, Any]:
    a, b, c = cls(1, "h"), cls(1, "other"), cls(2, "h", "y", [3])
    return {
        "repr": [repr(a), repr(c)],
        "equal": [a == b, a == c, a != b, a == 1],
        "less": [_outcome(lambda: [a < b, a < c, c <= a, a > c, a >= b])],
        "hash": _outcome(lambda: hash(cls(1, "h", "y", ())) == hash(cls(1, "", "y", ()))),
        "has hash": cls.__hash__ is None,
        "values": [c.size, c.hidden, c.name, c.items, c.fixed, c.made, c.total, c.kind],
        "own lists": a.items is b.items,
        "set": [_outcome(lambda: setattr(a, "size", 5)), _outcome(lambda: setattr(a, "fixed", 5))],
        "delete": _outcome(lambda: delattr(b, "name")),
        "missing": _outcome(cls),
        "unexpected": _outcome(lambda: cls(1, "h", other=1)),
        "parameters": [
            (p.name, p.kind, p.default is p.empty)
            for p in inspect.signature(cls).parameters.values()
        ],
        "replaced": repr(dataclasses.replace(c, size=9)),
        "dict": dataclasses.asdict(c),
        "fields": [f.name for f in dataclasses.fields(cls)],
        "match": cls.__match_args__,
        "has dict": hasattr(c, "__dict__"),
        "doc": cls.__doc__,
        "copied": [repr(copy.copy(c)), copy.deepcopy(c).items == c.items],
    }


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_classes_behave_like_those_of_the_standard_library(options: dict[str, bool]) -> None:
    ours, theirs = (
        _behaviour(_defined_with(decorator, options))
        for decorator in (dataclass, dataclasses.dataclass)
    )
    assert ours == theirs


@dataclass(frozen=True, slots=True)
class Base(Generic[T]):
    """Base of the others."""

    x: T
    y: int = 0


@dataclass(frozen=True, slots=True)
class Derived(Base[int]):
    """With a field more, and a default over that of the base."""

    y: int = 1
    z: tuple[int, ...] = ()

    def __repr__(self) -> str:
        return f"<{self.x} {self.y} {self.z}>"

    def __hash__(self) -> int:
        return 7


class Plain(Base[int]):
    """No dataclass itself."""


@dataclass
class Changing:
    """Neither frozen nor with slots."""

    others: list[Any]


@pytest.mark.parametrize("slots", [False, True])
def test_frozen_instances_take_no_new_attributes(slots: bool) -> None:
    """With slots, the standard library of Python 3.11 raises ``TypeError`` instead."""
    instance = _defined_with(dataclass, {"frozen": True, "slots": slots})(1, "h")
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot assign to field 'new'"):
        instance.new = 1
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot delete field 'new'"):
        del instance.new


def test_derived_classes_have_methods_of_their_own() -> None:
    assert Base(1) == Base(1, 0)
    assert Derived(1) == Derived(1, 1, ())
    assert Derived(1) != Base(1, 1)
    assert repr(Derived(1)) == "<1 1 ()>"
    assert hash(Derived(1)) == 7
    assert hash(Base(1)) == hash((1, 0))
    assert Derived.__slots__ == ("z",)
    assert Derived.__init__.__qualname__ == "Derived.__init__"


def test_a_derived_class_that_is_no_dataclass_may_have_more_attributes() -> None:
    plain: Any = Plain(1)
    plain.more = 2
    assert plain.more == 2
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot assign to field 'x'"):
        plain.x = 3
    del plain.more
    with pytest.raises(AttributeError):
        del plain.more


def test_instances_are_pickled() -> None:
    for value in (Base((1, 2), 3), Derived(1, z=(4,)), Changing([1])):
        assert pickle.loads(pickle.dumps(value)) == value


def test_instances_with_slots_may_be_referred_to_weakly() -> None:
    @dataclass(frozen=True, slots=True, weakref_slot=True)
    class Weak:
        x: int

    weak = Weak(1)
    assert weakref.ref(weak)() is weak


def test_a_record_that_contains_itself_prints() -> None:
    record = Changing([])
    record.others.append(record)
    assert repr(record) == "Changing(others=[...])"


def test_methods_are_compiled_when_they_are_looked_up() -> None:
    @dataclass(frozen=True)
    class Lazy:
        x: int

    assert type(vars(Lazy)["__init__"]) is not type(Lazy.__init__)
    assert vars(Lazy)["__init__"] is Lazy.__init__
    assert type(vars(Lazy)["__eq__"]) is not type(Lazy.__init__)
