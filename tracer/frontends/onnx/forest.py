"""Ensembles of decision trees: which leaf a row of features reaches in each tree, and its weights.

A forest is kept as arrays over all nodes of all trees, in which every test is ``low <= x <= high``.
There are two ways to the leaves, and neither branches:

**Masks** (after QuickScorer, Lucchese et al., 2015): a tree is cut into pieces of up to 32 leaves.
Every node of a piece is tested, for a vector of rows at once (of pieces if rows are few), and takes
the bits of those leaves away that its outcome rules out; the lowest bit that is left is the leaf.
Tests on the path to a piece take all bits away, and what has none left has reached no leaf of that
piece.

**Walk**: one step down all trees of all rows at a time, by gathers. Leaves lead to themselves. It
serves trees that are so large that testing all their nodes costs more.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ....ir.dataclass import dataclass
from ....ir.dims import LARGEST_SIZE
from ....ir.dtype import Array, dtype_of
from ....ir.errors import LoopwrightValueError, UnsupportedError
from ....ir.loop.scalar import COMBINERS
from ...control import fori_loop
from ...nn.apply import apply_as_given
from .ml import taken
from .table import Value

MOST_LEAVES = 32
"""Leaves of a piece: the bits of an integer."""

LEAST_ROWS = 16
"""Rows from which on all nodes are tested: a vector of float32."""

NODES_PER_STEP = 68
"""Tests of a vector of rows, divided by its lanes, that cost what a step of the walk costs."""

NODES_OF_A_ROW = 4
"""The same for few rows, whose tests are made for a vector of pieces: each gathers its feature."""

NODES_TOGETHER = 8
"""Pieces whose numbers of nodes are equal when rounded up to a multiple of it share a kernel."""


@dataclass(frozen=True, slots=True)
class Forest:
    """Nodes of all trees. A leaf has itself as both of its children.

    ``missing`` says where a NaN leads to ``yes``; ``weights`` are (nodes, targets), and those of
    inner nodes are not used. ``is_tree`` is False if nodes have more than one parent.
    """

    roots: Array
    feature: Array
    low: Array
    high: Array
    missing: Array
    yes: Array
    no: Array
    weights: Array
    is_tree: bool = True

    @property
    def is_leaf(self) -> Array:
        """True at the nodes that are leaves."""
        return self.yes == np.arange(len(self.yes))


def tested(mode: Array, split: Array, missing: Array, yes: Array, no: Array) -> tuple[Array, ...]:
    """Returns low, high, missing, yes and no of nodes whose tests are named by ``mode``."""
    swapped = np.isin(mode, ("BRANCH_GT", "BRANCH_GTE", "BRANCH_NEQ"))
    equal = np.isin(mode, ("BRANCH_EQ", "BRANCH_NEQ"))
    below = np.nextafter(split, split.dtype.type(-np.inf))
    # Nothing is less than -inf, and no comparison with NaN holds.
    below = np.where(split == -np.inf, split.dtype.type(np.nan), below)
    high = np.where(np.isin(mode, ("BRANCH_LT", "BRANCH_GTE")), below, split)
    low = np.where(equal, split, split.dtype.type(-np.inf))
    missing = missing.astype(bool) ^ swapped
    missing = np.where(mode == "BRANCH_NEQ", False, missing)
    if np.any(missing & (equal | np.isnan(high))):
        raise UnsupportedError("a test of equality that a missing value passes is not supported")
    return low, high, missing, np.where(swapped, no, yes), np.where(swapped, yes, no)


def depth_of(forest: Forest) -> int:
    """Returns the steps from the roots to the deepest leaf. Raises LoopwrightValueError for a
    circle of nodes."""
    at, depth, is_leaf = np.unique(forest.roots), 0, forest.is_leaf
    while True:
        inner = at[~is_leaf[at]]
        if not len(inner):
            return depth
        at = np.unique(np.concatenate([forest.yes[inner], forest.no[inner]]))
        depth += 1
        if depth > len(is_leaf):
            raise LoopwrightValueError("its nodes depend on each other in a circle")


def aggregated(forest: Forest, x: Value, combiner: str) -> Value:
    """Returns the sum, min or max over all trees of the weights of the leaves that the rows of
    ``x`` reach: (rows, targets)."""
    if x.ndim != 2 or (len(forest.feature) and forest.feature.max() >= x.shape[1]):
        raise LoopwrightValueError(f"its trees look at feature {forest.feature.max()}")
    if forest.feature.min(initial=0) < 0:
        raise LoopwrightValueError("its trees look at a feature before the first")
    depth, rows = depth_of(forest), x.shape[0]
    few = isinstance(rows, int) and rows < LEAST_ROWS
    nodes = np.count_nonzero(~forest.is_leaf)
    most = (NODES_OF_A_ROW if few else NODES_PER_STEP) * depth * len(forest.roots)
    if not forest.is_tree or nodes > most:
        return _combined(_walked(forest, x, depth), forest.weights, combiner)
    planes = _planes(x, rows, few)
    results = [
        _combined(_masked(group, forest, planes, x.shape[1], rows, few), group.weights, combiner)
        for group in _groups(forest, combiner)
    ]
    return getattr(np, combiner)(np.stack(results), axis=0)


def _combined(at: Value, weights: Array, combiner: str) -> Value:
    """Returns the weights at places ``at``, (trees, rows), combined over all trees."""
    function = getattr(np, combiner)
    columns = [function(taken(column, at), axis=0) for column in np.ascontiguousarray(weights.T)]
    return np.stack(columns, axis=1)


# The walk.


def _walked(forest: Forest, x: Value, depth: int) -> Value:
    """Returns the nodes that the rows of ``x`` end at: (trees, rows)."""
    count = x.shape[1]
    nodes = len(forest.feature)
    children = np.stack([forest.yes, forest.no], axis=1).reshape(-1).astype(np.int32)
    feature, high = forest.feature.astype(np.int32), forest.high
    equal = bool(np.any(forest.low > -np.inf))
    missing = bool(np.any(forest.missing))
    flat = np.reshape(x, (-1,))
    first = np.arange(x.shape[0], dtype=np.int32) * np.int32(count)

    def step(_: Value, at: Value) -> Value:
        value = taken(flat, first + taken(feature, at))
        passed = value <= taken(high, at)
        if equal:
            passed = np.logical_and(passed, value >= taken(forest.low, at))
        if missing:
            nan = np.logical_and(np.isnan(value), taken(forest.missing, at))
            passed = np.logical_or(passed, nan)
        return taken(children, at * np.int32(2) + np.where(passed, np.int32(0), np.int32(1)))

    if nodes * 2 > np.iinfo(np.int32).max:
        raise UnsupportedError(f"{nodes} nodes of trees are not supported")
    roots = forest.roots.astype(np.int32)[:, None]
    begin = np.broadcast_to(roots, (len(roots), x.shape[0]))
    return fori_loop(0, depth, step, begin) if depth else begin


# Masks.


@dataclass(frozen=True, slots=True)
class _Group:
    """Pieces with as many nodes: tests (pieces, nodes), the bits that they leave, and the weights
    of leaves, of which a piece has one more that stands for none."""

    nodes: Array
    if_passed: Array
    if_failed: Array
    weights: Array


def _planes(x: Value, rows: Any, few: bool) -> Value:
    """Returns the features, a row each, and a second time with -inf instead of missing values,
    which passes every test: (features, rows), for ``few`` of these (rows, features). They are
    written as a sum of one, since those are stored, so that the tests read them along vectors."""
    both = np.concatenate([x, np.where(np.isnan(x), x.dtype.type(-np.inf), x)], axis=1)
    number, count = x.dtype.name, both.shape[1]
    shape, at = (f"n0, {count}", "i, j + k") if few else (f"{count}, n0", "j, i + k")
    body = (
        f"(x0: {number}[n0, {count}]) -> out: {number}[{shape}] for n0 in 0..{LARGEST_SIZE} "
        f"{{ out[i, j] = sum(k: 1) x0[{at}] }}"
    )
    return apply_as_given("stage.reduce", both, body=body, sizes=(rows,))


def _masked(
    group: _Group, forest: Forest, planes: Value, count: int, rows: Any, few: bool
) -> Value:
    """Returns the leaves of pieces that rows reach, as rows of ``group.weights``: (pieces, rows).

    Vectors are of rows, and tests of a piece read ``planes``. With ``few`` rows they are of pieces,
    which have their tests behind each other, and ``planes`` is (rows, features).
    """
    pieces, tests = group.nodes.shape
    at = group.nodes
    feature = (forest.feature + count * forest.missing)[at].astype(np.int32)
    equal = bool(np.any(forest.low[at] > -np.inf))
    tables = [feature, forest.high[at], group.if_passed, group.if_failed]
    tables += [forest.low[at]] if equal else []
    number, kind, size = forest.high.dtype.name, f"[{pieces}, {tests}]", 2 * count
    if few:
        tables, kind = [table.T for table in tables], f"[{tests}, {pieces}]"
    params = [f"x0: {number}[{f'n0, {size}' if few else f'{size}, n0'}]"]
    params += [f"x1: int32{kind}", f"x2: {number}{kind}", f"x3: int32{kind}", f"x4: int32{kind}"]
    params += [f"x5: {number}{kind}"] * equal
    bits: list[str] = []
    for n in range(tests):
        entry = f"[{n}, j]" if few else f"[i, {n}]"
        column = f"minimum(maximum(int64(x1{entry}), 0), {size - 1})"
        value = f"x0[i, {column}]" if few else f"x0[{column}, j]"
        test = f"{value} <= x2{entry}"
        if equal:
            test = f"({test}) and (x5{entry} <= {value})"
        bits.append(f"where({test}, x3{entry}, x4{entry})")
    while len(bits) > 1:
        bits = [" & ".join(bits[k : k + 2]) for k in range(0, len(bits), 2)]
        bits = [f"({each})" if len(bits) > 1 else each for each in bits]
    shape, sizes = f"n0, {pieces}" if few else f"{pieces}, n0", f"for n0 in 0..{LARGEST_SIZE}"
    head = f"({', '.join(params)}) -> out: int32[{shape}] {sizes}"
    body = f"{head} {{ out[i, j] = {bits[0]} }}"
    left = apply_as_given("stage.map", planes, *tables, body=body, sizes=(rows,))
    if few:
        left = left.T
    # The exponent of the lowest bit as a float is its place.
    lowest = apply_as_given("bits", np.bitwise_and(left, -left).astype(np.float32))
    place = np.right_shift(lowest, np.uint32(23)).astype(np.int32) & np.int32(255)
    place = np.where(left == 0, np.int32(MOST_LEAVES), place - np.int32(127))
    first = np.arange(pieces, dtype=np.int32)[:, None] * np.int32(MOST_LEAVES + 1)
    return place + first


def _groups(forest: Forest, combiner: str) -> list[_Group]:
    """Returns the trees cut into pieces, those with as many nodes together."""
    is_leaf = forest.is_leaf
    pieces: dict[int, list[tuple[list[Any], list[int]]]] = {}
    for root in forest.roots.tolist():
        for tests, leaves in _pieces(forest, root, is_leaf):
            size = max(1, -(-len(tests) // NODES_TOGETHER)) * NODES_TOGETHER
            pieces.setdefault(size, []).append((tests, leaves))
    groups: list[_Group] = []
    empty = COMBINERS[combiner].identity(dtype_of(forest.weights.dtype))
    for size, members in sorted(pieces.items()):
        nodes = np.zeros((len(members), size), np.int64)
        masks = np.full((2, len(members), size), -1, np.int64)
        shape = (len(members), MOST_LEAVES + 1, forest.weights.shape[1])
        weights = np.full(shape, empty, forest.weights.dtype)
        for number, (tests, leaves) in enumerate(members):
            if tests:
                made = np.array(tests, np.int64)
                nodes[number, : len(tests)] = made[:, 0]
                masks[:, number, : len(tests)] = made[:, 1:].T
            for place, leaf in enumerate(leaves):
                if leaf >= 0:
                    weights[number, place] = forest.weights[leaf]
        wrapped = masks.astype(np.int32)
        flat = weights.reshape(-1, weights.shape[-1])
        groups.append(_Group(nodes, wrapped[0], wrapped[1], flat))
    return groups


def _pieces(forest: Forest, root: int, is_leaf: Array) -> list[tuple[list[Any], list[int]]]:
    """Returns the pieces of a tree: tests, as (node, bits if it holds, bits if not), and leaves.

    A place where another piece was cut off is a leaf of the number -1.
    """
    order: list[int] = []
    todo = [root]
    parent: dict[int, tuple[int, bool]] = {}
    while todo:
        node = todo.pop()
        order.append(node)
        if not is_leaf[node]:
            for holds, child in ((True, int(forest.yes[node])), (False, int(forest.no[node]))):
                parent[child] = node, holds
                todo.append(child)
    leaves: dict[int, int] = {}
    cut = {root}
    for node in reversed(order):
        children = [] if is_leaf[node] else [int(forest.yes[node]), int(forest.no[node])]
        total = sum(leaves[c] for c in children) or 1
        for child in sorted(children, key=lambda c: -leaves[c]):
            if total > MOST_LEAVES:
                total -= leaves[child] - 1
                cut.add(child)
        leaves[node] = total
    return [_piece(forest, top, cut, parent, is_leaf) for top in sorted(cut)]


def _piece(
    forest: Forest, top: int, cut: set[int], parent: dict[int, tuple[int, bool]], is_leaf: Array
) -> tuple[list[Any], list[int]]:
    tests: list[Any] = []
    node = top
    while node in parent:
        node, holds = parent[node]
        tests.append((node, -1, 0) if holds else (node, 0, -1))
    leaves: list[int] = []
    first: dict[int, int] = {}
    middle: dict[int, int] = {}
    todo = [(top, 0)]
    while todo:  # in order: before its children, between them, behind them
        node, visit = todo.pop()
        if visit == 0 and (is_leaf[node] or (node in cut and node != top)):
            leaves.append(node if is_leaf[node] and (node == top or node not in cut) else -1)
        elif visit == 0:
            first[node] = len(leaves)
            todo += [(node, 1), (int(forest.yes[node]), 0)]
        elif visit == 1:
            middle[node] = len(leaves)
            todo += [(node, 2), (int(forest.no[node]), 0)]
        else:
            passed, failed = (
                ~(((1 << (end - begin)) - 1) << begin)
                for begin, end in ((middle[node], len(leaves)), (first[node], middle[node]))
            )
            tests.append((node, passed, failed))
    return tests, leaves
