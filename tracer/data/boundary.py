"""Values of data types at the edge of a compiled function: trees of Python's objects are arrays.

Outside, a value is taken apart into the reference to it and an array for each field of each
constructor that occurs; while tracing, into its reference alone.
"""

from __future__ import annotations

import operator
import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...ir.dataclass import dataclass
from ...ir.dtype import Array
from ...ir.errors import LoopwrightTypeError
from ..core import pytree
from ..core.emitting import lift
from ..core.proxy import Proxy
from ..core.pytree import LEAF, Leaf, Node, Structure
from ..core.trace import active
from .family import Family, Field, Layout, family_of
from .region import region_of
from .value import Value

LEAST_COLUMN = 2
"""Rows of an array at least: sizes 0 and 1 have a compile of their own."""

MOST_ROWS_KEPT = 1 << 20
"""Values within those whose arrays of references are kept for other calls, some 50 bytes each."""


def names_of(aux: Any, _count: int) -> list[str]:
    """Returns what follows the name of a value in those of its arrays."""
    if not isinstance(aux, Layout):
        return [""]
    names = ["", *(f".{c.__name__}.{f.name}" for c, f in aux.columns())]
    return names + [".tags", ".batches"] * bool(aux.batch)


def take_apart(value: Any) -> tuple[Sequence[Any], Any]:
    """Returns the arrays of a value, and what stands beside them."""
    trace = active()
    if trace is None:
        return _stored(value)
    family = family_of(type(value)) or value.family
    return [region_of(trace).reference(value)], family


def put_together(aux: Any, children: Sequence[Any]) -> Any:
    """Returns the value again: an object of Python's where there are arrays, a traced one while
    tracing."""
    first = children[0]
    if isinstance(aux, Layout) and type(first) is not Proxy:
        return _loaded(aux, children)
    if not isinstance(aux, Layout):
        return Value(aux, lift(first))
    return Value(aux.family, region_of(first.owner).admit(aux, children))


def returned(leaves: Sequence[Any], structure: Structure) -> tuple[list[Any], Structure]:
    """Returns the leaves and containers of a traced function's results, where the values among
    them have their arrays beside their references."""
    rest = iter(leaves)
    made: list[Any] = []

    def walk(node: Structure) -> Structure:
        if isinstance(node, Leaf):
            made.append(next(rest))
            return LEAF
        if not isinstance(node.aux, Family):
            return Node(node.type, node.aux, tuple(map(walk, node.children)))
        trace = active()
        assert trace is not None
        made.append(next(rest))
        layout, arrays = region_of(trace).columns_of(node.aux)
        made.extend(arrays)
        return Node(Value, layout, (LEAF,) * (1 + len(arrays)))

    changed = walk(structure)
    return made, changed


@dataclass(frozen=True, slots=True)
class _Taken:
    """The outcome of taking a value apart, kept as long as the value lives: values do not change,
    and only arrays in them may. So the ``columns`` of arrays are computed for each call, of the
    constructor, field and arrays that stand at their numbers in ``anew``; the others are read-only.
    """

    value: weakref.ref[Any]
    layout: Layout
    batch: int
    columns: list[Any]
    anew: list[tuple[int, type, Field, list[Any]]]


class _Kept(dict[int, _Taken]):
    """Values that were taken apart, by identity. ``rows`` are those since all was forgotten."""

    rows = 0

    def keep(self, root: Any, taken: _Taken, rows: int) -> None:
        """Keeps it; forgets all else if that is too much."""
        self.rows += rows
        if self.rows > MOST_ROWS_KEPT:
            self.clear()
            self.rows = rows
        self[id(root)] = taken


_kept = _Kept()


def _stored(root: Any) -> tuple[list[Any], Layout]:
    """Returns the reference to a value and the arrays of all values in it."""
    family = family_of(type(root))
    assert family is not None
    taken = _kept.get(id(root))
    if taken is None or taken.value() is not root or taken.batch != family.batch:
        taken = _taken_apart(root, family)
    columns = [*taken.columns]
    for number, constructor, field, given in taken.anew:
        columns[number] = _column(constructor, field, given)
    return columns, taken.layout


def _taken_apart(root: Any, family: Family) -> _Taken:
    """Takes a value apart, and keeps what that gave."""
    plans = family.plans()
    values: dict[type, list[Any]] = {}
    parts_of: dict[type, list[tuple[Any, ...]]] = {}
    references: dict[int, int] = {}
    same_parts: dict[int, Any] = {}
    work = [root]
    while work:
        value = work.pop()
        key = id(value)
        if key in references:
            continue
        constructor = type(value)
        plan = plans.get(constructor)
        if plan is None:
            names = _names(family.reachable())
            raise LoopwrightTypeError(
                f"a {constructor.__name__} stands where a {names} is expected"
            )
        rows = values.get(constructor)
        if rows is None:
            rows = values[constructor] = []
            parts_of[constructor] = []
        references[key] = len(rows) << plan.bits | plan.tag
        rows.append(value)
        if plan.parts is not None:
            parts = plan.parts(value)
            parts_of[constructor].append(parts)
            work += parts
            if plan.same is not None:
                same = parts if plan.same is plan.parts else plan.same(value)
                same_parts[key] = [*map(id, same)]
    batches = _batches(family, references, same_parts) if family.batch and same_parts else []
    layout = Layout(family, tuple(c for c in plans if c in values), family.batch if batches else 0)
    columns: list[Any] = [np.int64(references[id(root)])]
    anew: list[tuple[int, type, Field, list[Any]]] = []
    for constructor in layout.occurring:
        parts = zip(*parts_of[constructor])
        for field in plans[constructor].fields:
            if field.family is not None:
                columns.append(_references(constructor, field, next(parts), references))
            else:
                given = [*map(operator.attrgetter(field.name), values[constructor])]
                if field.type is None or field.type.weak is None:
                    anew.append((len(columns), constructor, field, given))
                    columns.append(None)
                else:
                    columns.append(_column(constructor, field, given))
    columns += batches
    for column in columns[1:]:
        if column is not None:
            column.flags.writeable = False
    identity = id(root)
    reference = weakref.ref(root, lambda _: _kept.pop(identity, None))
    taken = _Taken(reference, layout, family.batch, columns, anew)
    _kept.keep(root, taken, len(references))
    return taken


def _batches(family: Family, references: dict[int, int], parts: dict[int, Any]) -> list[Array]:
    """Returns batches of values of one height, the number of steps to the lowest part below, the
    lower ones first: the numbers of their constructor and size, as one, and their rows, which end
    with one that stands there again if there are not enough. ``parts`` are those of the family, of
    each value that has such, by identity."""
    heights = dict.fromkeys(references.keys() - parts.keys(), 0)
    work = [*parts]  # parts stand mostly behind what they are parts of
    while work:
        key = work.pop()
        try:
            heights[key] = 1 + max(map(heights.__getitem__, parts[key]))
        except KeyError:
            work += [key, *(part for part in parts[key] if part not in heights)]
    bits = family.bits
    mask = (1 << bits) - 1
    rows: dict[int, list[int]] = {}
    for key in parts:
        reference = references[key]
        group = heights[key] << bits | reference & mask
        if group not in rows:
            rows[group] = []
        rows[group].append(reference >> bits)
    sizes = family.sizes()
    kinds: list[int] = []
    batches: list[list[int]] = []
    for group, members in sorted(rows.items()):
        first = 0
        while first < len(members):
            left = len(members) - first
            number = next((n for n, size in enumerate(sizes) if size <= left), len(sizes) - 1)
            some = members[first : first + sizes[number]]
            kinds.append((group & mask) * len(sizes) + number)
            batches.append(some + some[-1:] * (family.batch - len(some)))
            first += len(some)
    if len(kinds) == 1:  # sizes 1 have a compile of their own
        kinds, batches = kinds * 2, batches * 2
    return [np.array(kinds, np.int64), np.array(batches, np.int64)]


def _names(families: Sequence[Family]) -> str:
    return " or ".join(map(repr, families))


def _references(
    constructor: type, field: Field, parts: Sequence[Any], references: dict[int, int]
) -> Array:
    """Returns the references to the values of a field, which are all of one family."""
    for cls in {*map(type, parts)}:
        if family_of(cls) is not field.family:
            raise LoopwrightTypeError(
                f"{constructor.__name__}.{field.name} is a {field.family}, and a {cls.__name__} "
                "in one value"
            )
    column = [references[id(part)] for part in parts]
    return np.array(column + [0] * (LEAST_COLUMN - len(column)), np.int64)


def _column(constructor: type, field: Field, given: list[Any]) -> Array:
    """Returns the array of a field's values, which are all of one type."""
    name = f"{constructor.__name__}.{field.name}"
    if field.type is not None and field.type.weak is not None:
        kind = field.type.weak
        for cls in {*map(type, given)} - {kind, int if kind is float else kind}:
            raise LoopwrightTypeError(
                f"{name} is a {kind.__name__} of Python's, and a {cls.__name__} in one value",
                hint=f"{kind.__name__}(...) of it",
            )
        shape: Any = ()
        dtype = field.type.dtype.numpy
    else:
        if {*map(type, given)} != {np.ndarray}:
            given = [*map(np.asarray, given)]
        shape, dtype = given[0].shape, given[0].dtype
        if field.type is not None:
            shape, dtype = field.type.shape, field.type.dtype.numpy
        for array in given:
            if array.shape != shape or array.dtype != dtype:
                text = f"{array.dtype}{[*array.shape]}"
                raise LoopwrightTypeError(
                    f"{name} is {text} in one value, and {dtype}{[*shape]} is expected",
                    hint="values of one shape and dtype in all, or one array and places in it",
                )
        if shape and len(given) >= LEAST_COLUMN:
            return np.concatenate(given).reshape(len(given), *shape)
    column = np.zeros((max(len(given), LEAST_COLUMN), *shape), dtype)
    column[: len(given)] = given
    return column


def _loaded(layout: Layout, children: Sequence[Any]) -> Any:
    """Returns the value that a reference stands for among arrays."""
    columns: dict[type, list[tuple[Field, Any]]] = {c: [] for c in layout.occurring}
    for (constructor, field), array in zip(layout.columns(), children[1:]):
        columns[constructor].append((field, array))
    made: dict[tuple[int, Family], Any] = {}
    work: list[tuple[int, Family]] = [(int(children[0]), layout.family)]
    root = work[0]
    while work:
        key = reference, family = work.pop()
        if key in made:
            continue
        constructor = family.constructors[reference & ((1 << family.bits) - 1)]
        value = made[key] = object.__new__(constructor)
        for field, array in columns.get(constructor, ()):
            item = array[reference >> family.bits]
            if field.family is not None:
                work.append((int(item), field.family))
            elif field.type is not None and field.type.weak is not None:
                object.__setattr__(value, field.name, field.type.weak(item))
            else:
                object.__setattr__(value, field.name, item.copy())
    for (reference, family), value in made.items():
        for field, array in columns.get(type(value), ()):
            if field.family is not None:
                inner = int(array[reference >> family.bits]), field.family
                object.__setattr__(value, field.name, made[inner])
    return made[root]


pytree.register(Value, take_apart, put_together, names_of, Value)
