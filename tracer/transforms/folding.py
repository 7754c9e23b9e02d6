"""``lw.fold``: a value of a data type from the leaves up, many values at a time.

Values of an argument are sorted by height, the number of steps to the lowest leaf below. Those that
have nothing of their family in them are computed at once; the others in batches of one constructor
and height, of which every value has its parts' results in arrays by then. So a matrix times vectors
of a batch is a product of matrices (M. Looks, M. Herreshoff, D. Hutchins, P. Norvig, "Deep learning
with dynamic computation graphs", 2017).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ...ir.dtype import INT64
from ...ir.errors import LoopwrightTypeError, LoopwrightValueError
from ..capture.branches import returned
from ..capture.matching import match
from ..control.functions import TracedFunction
from ..control.leaves import LeafType, leaf_type
from ..control.traced import for_loop, new_proxy, running, stand_in
from ..core.emitting import emit, lift
from ..core.proxy import Proxy
from ..core.pytree import Structure, flatten, unflatten
from ..data.family import Family, Field
from ..data.patterns import family_of_value
from ..data.region import Region, leaf_type_of
from ..data.value import Value, capture
from .vmap import vmap

Cases = Mapping[type, Callable[..., Any]]


def fold(value: Any, cases: Cases, *, batch: int = 4) -> Any:
    """Returns what the functions of constructors make of a value, from its leaves up.

    ``cases`` has a function for each constructor, which gets the fields of a value; in the place of
    those that are of the same family, it gets what the functions have made of them. All give
    results of the same shapes and dtypes. In compiled code, values of an argument are computed
    ``batch`` at a time, where a product of a matrix and a vector is one of matrices, and what is
    left of a height in halves of that; values that the call has made are computed one by one. All
    values of the argument are computed, also if ``value`` is a part of it.

    Raises LoopwrightTypeError for a constructor without a function, LoopwrightValueError for a
    ``batch`` below 1.

    >>> import loopwright as lw
    >>> @lw.data
    ... class Tree: ...
    >>> class Leaf(Tree):
    ...     x: float
    >>> class Node(Tree):
    ...     left: Tree
    ...     right: Tree
    >>> total = lambda tree: lw.fold(tree, {Leaf: lambda x: x, Node: lambda l, r: l + r})
    >>> tree = Node(Leaf(1.0), Node(Leaf(2.0), Leaf(3.0)))
    >>> total(tree), lw.compile(total)(tree)
    (6.0, 6.0)
    """
    family = family_of_value(value)
    if family is None:
        raise LoopwrightTypeError(f"lw.fold takes a value of data, not a {type(value).__name__}")
    for constructor in family.constructors:
        if constructor not in cases:
            raise LoopwrightTypeError(
                f"lw.fold has no function for {constructor.__name__}, a constructor of {family}",
                hint=f"{{{constructor.__name__}: lambda ...: ...}}",
            )
    if batch < 1:
        raise LoopwrightValueError(f"lw.fold: batch is {batch}, and at least 1")
    if type(value) is not Value:
        return _plain(value, family, cases)
    capture()
    region = value.region
    others = [other for other in family.reachable() if other is not family]
    is_alone = not any(family in other.reachable() for other in others)
    is_made = any(c in region.counts for c in family.constructors)
    if not is_alone or is_made or family in region.joined:
        return _one_by_one(value, family, cases)
    if not family.batch:
        region.ask_for_batches(family, batch)
    return _Batches(region, family, cases).result(value)


def _parts(family: Family, constructor: type) -> list[tuple[Field, bool]]:
    """Returns the fields of a constructor, and which are of the same family."""
    return [(f, f.family is family) for f in family.fields(constructor)]


def _plain(root: Any, family: Family, cases: Cases) -> Any:
    """Folds a value of Python's, without Python's recursion."""
    results: dict[int, Any] = {}
    work = [root]
    while work:
        value = work[-1]
        if type(value) is Value:
            results[id(value)] = fold(value, cases)
        if id(value) in results:
            work.pop()
            continue
        parts = [(getattr(value, f.name), same) for f, same in _parts(family, type(value))]
        waiting = [part for part, same in parts if same and id(part) not in results]
        if waiting:
            work += waiting
            continue
        values = [results[id(part)] if same else part for part, same in parts]
        results[id(value)] = cases[type(value)](*values)
    return results[id(root)]


def _one_by_one(value: Any, family: Family, cases: Cases) -> Any:
    """Folds a value by a function that calls itself."""

    def of(constructor: type) -> Callable[..., Any]:
        def case(*fields: Any) -> Any:
            pairs = zip(fields, _parts(family, constructor), strict=True)
            return cases[constructor](*(folded(f) if same else f for f, (_, same) in pairs))

        return case

    @TracedFunction
    def folded(value: Any) -> Any:
        return match(value, {c: of(c) for c in family.constructors})

    return folded(value)


class _Batches:
    """The results of all values of a family: ``leaves`` are arrays with a row for each, those of
    one constructor from its ``firsts`` on; ``inner`` are constructors with fields of the family,
    and ``kinds`` the types of Python of results that are its numbers."""

    def __init__(self, region: Region, family: Family, cases: Cases) -> None:
        self.region, self.family, self.cases = region, family, cases
        self.trace = running()
        self.batches = region.batches.get(family)
        inhabited = [c for c in family.constructors if region.is_inhabited(c)]
        self.inner = [c for c in inhabited if any(same for _, same in _parts(family, c))]
        self.firsts: dict[type, Proxy] = {}
        count = lift(0, INT64)
        for constructor in inhabited:
            self.firsts[constructor] = count
            count = emit("add", count, lift(self._number_of(constructor), INT64))
        self.kinds: list[Any] = []
        ends = [c for c in inhabited if c not in self.inner]
        computed = {c: flatten(self._computed(c, None)) for c in ends}
        first, *others = computed
        self.structure = computed[first][1]
        self.types = [leaf_type_of(lift(v)) for v in computed[first][0]]
        self.leaves = self._stacked(inhabited, {c: leaves for c, (leaves, _) in computed.items()})
        for constructor in others:
            self._check(constructor, *computed[constructor])

    def _stacked(self, constructors: Sequence[type], computed: Mapping[type, Any]) -> list[Proxy]:
        """Returns arrays for the results of all values, where those of ``computed`` are."""
        made: list[Proxy] = []
        for number, type_ in enumerate(self.types):
            parts: list[Proxy] = []
            for constructor in constructors:
                whole = LeafType((self._number_of(constructor), *type_.shape[1:]), type_.dtype)
                if constructor in computed:
                    parts.append(lift(computed[constructor][number]))
                else:
                    parts.append(new_proxy(self.trace, stand_in(self.trace, whole), whole))
            array = emit("concatenate", *parts, axis=0)
            made.append(new_proxy(self.trace, array.atom, leaf_type_of(array)))
        return made

    def _check(self, constructor: type, leaves: Sequence[Any], structure: Structure) -> None:
        """Raises LoopwrightTypeError for results of other types than the first function's."""
        types = [leaf_type_of(lift(v)) for v in leaves]
        one, other = (", ".join(str(_row_of(t)) for t in each) for each in (types, self.types))
        if structure != self.structure or one != other:
            raise LoopwrightTypeError(
                f"lw.fold: the function of {constructor.__name__} gives {one}, and another one "
                f"{other}",
                hint="results of the same shapes and dtypes",
            )

    def _number_of(self, constructor: type) -> Any:
        """Returns the number of rows of a constructor."""
        columns = self.region.columns.get(constructor)
        return columns[0].type.shape[0] if columns else 1

    def result(self, value: Value) -> Any:
        """Returns the results for a value."""
        if self.batches is not None:
            for_loop(0, lift(self.batches[0].type.shape[0], INT64), self._batch, ())
        index = self._indices_of(value.reference)
        taken = [emit("take", leaf, index, axis=0, mode="clip") for leaf in self.leaves]
        values = [
            new_proxy(self.trace, leaf.atom, _row_of(t))
            for leaf, t in zip(taken, self.types, strict=True)
        ]
        return self._with_numbers(unflatten(self.structure, values))

    def _batch(self, number: Proxy, carry: Any) -> Any:
        assert self.batches is not None
        kind, rows = (emit("take", each, number, axis=0, mode="clip") for each in self.batches)
        sizes = self.family.sizes()
        kinds = [(c, n) for c in self.inner for n in range(len(sizes))]
        self._choose(kinds, rows, kind)
        return carry

    def _choose(self, kinds: list[tuple[type, int]], rows: Proxy, kind: Proxy) -> None:
        """Computes a batch of the constructor and size that ``kind`` says, one of several."""
        sizes = self.family.sizes()
        (constructor, number), *others = kinds
        some = rows[: sizes[number]]
        if not others:
            self._write(constructor, some)
            return
        code = self.family.constructors.index(constructor) * len(sizes) + number
        returned(
            emit("equal", kind, code),
            lambda: self._write(constructor, some),
            lambda: self._choose(others, rows, kind),
        )

    def _write(self, constructor: type, rows: Proxy) -> None:
        """Computes values in some rows of a constructor, and writes their results."""
        results, structure = flatten(self._computed(constructor, rows))
        self._check(constructor, results, structure)
        indices = emit("add", rows, self.firsts[constructor])
        for leaf, result in zip(self.leaves, results, strict=True):
            atoms = [self.trace.visible(lift(x).atom) for x in (leaf, result, indices)]
            self.trace.assign(leaf.storage, self.trace.emit("index_update", atoms, {"axes": (0,)}))

    def _computed(self, constructor: type, rows: Proxy | None) -> Any:
        """Returns the results of values, stacked."""
        fields = _parts(self.family, constructor)
        if not fields:
            leaves, structure = flatten(self._noted(self.cases[constructor]()))
            return unflatten(structure, [np.expand_dims(lift(leaf), 0) for leaf in leaves])
        stacks: list[Any] = []
        for (_, same), column in zip(fields, self.region.columns[constructor]):
            taken = column if rows is None else emit("take", column, rows, axis=0, mode="clip")
            if same:
                indices = self._indices_of(taken)
                results = [emit("take", a, indices, axis=0, mode="clip") for a in self.leaves]
                taken = unflatten(self.structure, results)
            stacks.append(taken)

        def one(*parts: Any) -> Any:
            given = [
                self._with_numbers(part) if same else _as_field(field, part)
                for (field, same), part in zip(fields, parts, strict=True)
            ]
            return self._noted(self.cases[constructor](*given))

        return vmap(one, tuple(stacks), {}, 0, 0)

    def _noted(self, result: Any) -> Any:
        """Takes note of which results of a function are Python's numbers, for all functions."""
        types = [leaf_type(leaf) for leaf in flatten(result)[0]]
        kinds = [t.weak if isinstance(t, LeafType) else None for t in types]
        both = zip(kinds, self.kinds or kinds)
        self.kinds = [one if one is other else None for one, other in both]
        return result

    def _with_numbers(self, result: Any) -> Any:
        """Returns what was computed for a part, with Python's numbers where they are."""
        leaves, structure = flatten(result)
        pairs = zip(leaves, self.kinds)
        return unflatten(structure, [Proxy(v.atom, v.owner, k) if k else v for v, k in pairs])

    def _indices_of(self, references: Proxy) -> Proxy:
        """Returns the indices of the results of values, by references to them."""
        bits = self.family.bits
        indices = emit("right_shift", references, bits) if bits else references
        tags = emit("bitwise_and", references, (1 << bits) - 1)
        for constructor, first in self.firsts.items():
            number = self.family.constructors.index(constructor)
            moved = emit("add", indices, first)
            indices = emit("where", emit("equal", tags, number), moved, indices)
        return indices


def _as_field(field: Field, part: Any) -> Any:
    """Returns a field of one value as its function gets it."""
    if field.family is not None:
        return Value(field.family, part)
    weak = field.type.weak if field.type is not None else None
    return part if weak is None else Proxy(part.atom, part.owner, weak)


def _row_of(type_: LeafType) -> LeafType:
    """Returns the type of one row of a leaf's."""
    shape = type_.shape[1:]
    return LeafType(shape, type_.dtype, None, bool(shape))
