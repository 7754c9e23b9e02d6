"""Snapshots of what functions can reach: each change is seen, named, and taken back."""

from __future__ import annotations

import functools
import random
import types
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from loopwright.tracer.core.object_kinds import same
from loopwright.tracer.core.snapshot import Snapshot

NUMBER = 1
RNG = np.random.default_rng(0)


@dataclass
class Part:
    weight: Any = field(default_factory=lambda: np.ones(3))


class Base:
    factor = 2


class Model(Base):
    __slots__ = ("gain",)

    def __init__(self) -> None:
        self.gain = 1.0
        self.weight = np.ones(3)
        self.part = Part()
        self.table = {"a": np.ones(2), "b": [1, 2]}
        self.unread = 0

    def __call__(self, x: Any) -> Any:
        return helper(x) * self.gain * self.weight * self.factor * self.table["a"] + self.scaled

    @property
    def scaled(self) -> Any:
        return self.part.weight


def helper(x: Any, by: float = 1.0) -> Any:
    global NUMBER
    NUMBER += 1
    np.random.shuffle(x)
    return x * by + RNG.normal() + random.random()


def changed(change: Callable[[Any], None], root: Any) -> list[str]:
    """The paths of what ``change`` changes, after it was taken back."""
    before = Snapshot([root])
    assert not [*before.changes()]
    change(root)
    paths = [c.path for c in before.changes()]
    assert before.restore() is None
    assert not [*before.changes()]
    return paths


def set_global(_: Any) -> None:
    global NUMBER
    NUMBER = 5


def set_defaults(_: Any) -> None:
    helper.__defaults__ = (3.0,)


CHANGES: dict[str, Callable[[Any], object]] = {
    "Model.gain": lambda m: setattr(m, "gain", 2.0),
    "Model.weight": lambda m: m.weight.__setitem__(1, 7),
    "Model.part": lambda m: setattr(m, "part", Part()),
    "Model.part.weight": lambda m: m.part.weight.fill(3),
    "Model.table['b'][1]": lambda m: m.table["b"].__setitem__(1, True),
    "Model.table['b'][2]": lambda m: m.table["b"].append(3),
    "Model.table['c']": lambda m: m.table.update(c=1),
    "Model.table['b']": lambda m: m.table.pop("b"),
    "NUMBER": set_global,
    "helper.__defaults__": set_defaults,
    "RNG": lambda m: RNG.normal(),
    "np.random": lambda m: np.random.random(),
    "the module random": lambda m: random.random(),
}


@pytest.mark.parametrize("path", CHANGES)
def test_a_change_is_seen_and_taken_back(path: str) -> None:
    assert changed(CHANGES[path], Model()) == [path]


@pytest.mark.parametrize(
    ("owner", "name", "value"),
    [(Base, "factor", 3), (Model, "factor", 3), (Model, "__call__", len), (Model, "scaled", 1)],
)
def test_attributes_of_classes_are_seen(owner: type, name: str, value: Any) -> None:
    (path,) = changed(lambda m: setattr(owner, name, value), Model())
    assert path.endswith("." + name)


def test_what_code_does_not_name_is_not_looked_at() -> None:
    assert changed(lambda m: setattr(m, "unread", 1), Model()) == ["Model.unread"]  # __init__ does
    record = types.SimpleNamespace(read=1, other=2)
    assert changed(lambda _: setattr(record, "other", 3), lambda x: x * record.read) == []
    named = lambda x, name: x * getattr(record, name)  # noqa: E731
    assert changed(lambda _: setattr(record, "other", 4), named) == ["record.other"]


def test_containers_of_all_kinds() -> None:
    held: dict[str, Any] = {
        "deque": deque([1, 2], 5),
        "set": {1, 2},
        "ordered": OrderedDict(a=1, b=2),
        "bytes": bytearray(b"ab"),
        "frozen": types.MappingProxyType({"a": [1]}),
        "partial": functools.partial(pow, [2]),
    }
    function = lambda x: x + len(held)  # noqa: E731
    for path, change in {
        "held['deque'][2]": lambda _: held["deque"].append(3),
        "held['set']": lambda _: held["set"].add(3),
        "held['ordered']['b']": lambda _: held["ordered"].move_to_end("a"),
        "held['bytes']": lambda _: held["bytes"].extend(b"c"),
        "held['frozen']['a'][0]": lambda _: held["frozen"]["a"].__setitem__(0, 2),
        "held['partial'][0]": lambda _: held["partial"].args[0].__setitem__(0, 3),
    }.items():
        assert changed(change, function) == [path]


def test_variables_of_enclosing_functions() -> None:
    count = 0

    def counting(x: Any) -> Any:
        nonlocal count
        count += 1
        return x

    assert changed(counting, counting) == ["count"]
    assert count == 0


def test_iterators_are_seen_and_cannot_go_back() -> None:
    for iterator in (iter([1, 2, 3]), (n for n in (1, 2, 3)), map(abs, [1, 2]), zip([1, 2])):
        before = Snapshot([lambda x, it=iterator: next(it)])
        next(iterator)
        assert [*before.changes()]
        assert before.restore() is not None


def test_plain_values_are_compared_exactly() -> None:
    assert same(float("nan"), float("nan"))
    assert not same(0.0, -0.0)
    assert not same(1, 1.0)
    assert same(np.float32(1), np.float32(1))
    assert not same(np.float32(1), np.float64(1))


def test_libraries_keep_their_state() -> None:
    records = Snapshot([lambda x: np.linalg.norm(x)]).records.values()
    assert all(r.kind.name in ("function", "globals", "random") for r in records)


def test_an_array_that_nobody_can_write_is_not_read() -> None:
    fixed = np.ones(3)
    fixed.flags.writeable = False
    written = fixed.copy()[:2]
    records = Snapshot([lambda x: x + fixed + written]).records.values()
    assert [("" in r.parts) for r in records if r.kind.name == "array"] == [False, True]
