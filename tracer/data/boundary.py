"""Values of data types at the edge of a compiled function: trees of Python's objects are arrays.

Outside, a value is taken apart into the reference to it and an array for each field of each
constructor that occurs; while tracing, into its reference alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

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
        return Node(node.aux.base, layout, (LEAF,) * (1 + len(arrays)))

    changed = walk(structure)
    return made, changed


def _stored(root: Any) -> tuple[list[Any], Layout]:
    """Returns the reference to a value and the arrays of all values in it."""
    family = family_of(type(root))
    assert family is not None
    families = family.reachable()
    rows: dict[type, list[Any]] = {}
    plans: dict[type, tuple[int, int, list[str], list[Any]]] = {}
    for each in families:
        each.closed = True
        for tag, constructor in enumerate(each.constructors):
            parts = [f.name for f in each.fields(constructor) if f.family is not None]
            plans[constructor] = tag, each.bits, parts, rows.setdefault(constructor, [])
    references: dict[int, int] = {}
    work = [root]
    while work:
        value = work.pop()
        if id(value) in references:
            continue
        plan = plans.get(type(value))
        if plan is None:
            raise LoopwrightTypeError(
                f"a {type(value).__name__} stands where a {_names(families)} is expected"
            )
        tag, bits, parts, same = plan
        references[id(value)] = len(same) << bits | tag
        same.append(value)
        for name in parts:
            work.append(getattr(value, name))
    heights = _heights(family, root) if family.batch else {}
    batches = _batches(family, rows, heights) if heights else []
    occurring = tuple(c for c, values in rows.items() if values)
    layout = Layout(family, occurring, family.batch if batches else 0)
    columns = [
        _references(c, f, rows[c], references) if f.family is not None else _column(c, f, rows[c])
        for c, f in layout.columns()
    ]
    return [np.int64(references[id(root)]), *columns, *batches], layout


def _heights(family: Family, root: Any) -> dict[int, int]:
    """Returns the number of steps to the lowest part below each value, of those of a family that
    are reached within it."""
    names = {
        c: [f.name for f in family.fields(c) if f.family is family] for c in family.constructors
    }
    heights: dict[int, int] = {}
    work = [(root, False)]
    while work:
        value, has_parts = work.pop()
        if id(value) in heights:
            continue
        parts = [getattr(value, name) for name in names[type(value)]]
        if has_parts or not parts:
            heights[id(value)] = 1 + max([heights[id(p)] for p in parts], default=-1)
        else:
            work.append((value, True))
            for part in parts:
                work.append((part, False))
    return heights


def _batches(family: Family, rows: dict[type, list[Any]], heights: dict[int, int]) -> list[Array]:
    """Returns batches of values with parts of their own family, the lower ones first: the number of
    the constructor and the rows of each; the last of a batch stands there again if there are not
    enough. Nothing if there are no such values."""
    same: dict[tuple[int, int], list[int]] = {}
    for tag, constructor in enumerate(family.constructors):
        ends = all(f.family is not family for f in family.fields(constructor))
        for row, value in enumerate(() if ends else rows[constructor]):
            same.setdefault((heights[id(value)], tag), []).append(row)
    tags: list[int] = []
    batches: list[list[int]] = []
    for (_, tag), members in sorted(same.items()):
        for first in range(0, len(members), family.batch):
            some = members[first : first + family.batch]
            tags.append(tag)
            batches.append(some + some[-1:] * (family.batch - len(some)))
    if len(tags) == 1:  # sizes 1 have a compile of their own
        tags, batches = tags * 2, batches * 2
    return [np.array(tags, np.int64), np.array(batches, np.int64)] if tags else []


def _names(families: Sequence[Family]) -> str:
    return " or ".join(map(repr, families))


def _references(
    constructor: type, field: Field, values: Sequence[Any], references: dict[int, int]
) -> Array:
    """Returns the references to a field's values, which are all of one family."""
    for cls in {type(getattr(v, field.name)) for v in values}:
        if family_of(cls) is not field.family:
            raise LoopwrightTypeError(
                f"{constructor.__name__}.{field.name} is a {field.family}, and a {cls.__name__} "
                "in one value"
            )
    column = np.zeros(max(len(values), LEAST_COLUMN), np.int64)
    column[: len(values)] = [references[id(getattr(v, field.name))] for v in values]
    return column


def _column(constructor: type, field: Field, values: Sequence[Any]) -> Array:
    """Returns the array of a field's values, which are all of one type."""
    given = [getattr(v, field.name) for v in values]
    name = f"{constructor.__name__}.{field.name}"
    if field.type is not None and field.type.weak is not None:
        kind = field.type.weak
        for cls in {type(v) for v in given} - {kind, int if kind is float else kind}:
            raise LoopwrightTypeError(
                f"{name} is a {kind.__name__} of Python's, and a {cls.__name__} in one value",
                hint=f"{kind.__name__}(...) of it",
            )
        arrays = given
        shape: Any = ()
        dtype = field.type.dtype.numpy
    else:
        arrays = [np.asarray(v) for v in given]
        shape, dtype = arrays[0].shape, arrays[0].dtype
        if field.type is not None:
            shape, dtype = field.type.shape, field.type.dtype.numpy
        for array in arrays:
            if array.shape != shape or array.dtype != dtype:
                text = f"{array.dtype}{[*array.shape]}"
                raise LoopwrightTypeError(
                    f"{name} is {text} in one value, and {dtype}{[*shape]} is expected",
                    hint="values of one shape and dtype in all, or one array and places in it",
                )
    column = np.zeros((max(len(given), LEAST_COLUMN), *shape), dtype)
    column[: len(given)] = arrays
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
