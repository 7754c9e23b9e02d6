"""Rules for the operators of one group, in the order in which ``may_fuse`` tests them:

1. A group is at most 64 operators, so that its code stays small; a long chain of elementwise ones
   is a group already, and grows no more. An opaque operator stays alone.
2. One contraction, followed by elementwise operators that keep the shape of its result, and at the
   end perhaps a transpose: the result is then stored in the other order, unless an operand as
   large would be read across its own. In front of it elementwise operators may stand only if it
   uses each element of theirs once, as the product of a matrix and a vector does with the matrix:
   others would be computed once per use instead of once.
3. Reductions of one shape over the same axes, with elementwise operators before, between and after
   them. Every value is then either *full* (the shape that is reduced) or a *row* (what is left).
   Going back from row to full, as softmax does, is possible for the last axes, in rows that stay
   in the cache, and for others in short columns.
4. Otherwise elementwise operators and index maps as they come, if nothing costly is computed more
   often than before. What a gather reads many times costs as many times as much.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...dataclass import dataclass
from ...dims import IntExpr, product
from ...traits import Trait
from ..choices import Choices, call_text, operand_text
from ..limits import GraphLimits
from ..nodes import Atom, Binding, Call, tensor_type
from ..operator import Pattern
from ..work import work
from .graph import Edge, Graph, Node, is_used_once, operator_of, same_but_ones

MOST_OPERATORS = 64
"""Operators in one group."""

_HEAVY = (Pattern.REDUCTION, Pattern.CONTRACTION)
MAPS = (Pattern.ELEMENTWISE, Pattern.BROADCAST)

_GATHERS = frozenset({"gather_nd", "take"})
"""Operators that read their first operand where their others say."""

Shape = tuple[IntExpr, ...]


def may_fuse(graph: Graph, members: Sequence[int], *, outputs: Sequence[int]) -> bool:
    """True if ``members`` (in program order) may be one group with the results ``outputs``."""
    nodes = [graph.nodes[m] for m in members]
    if sum([n.weight for n in nodes]) > MOST_OPERATORS:
        return False
    if any(n.pattern is None or n.pattern == Pattern.OPAQUE for n in nodes):
        return False
    heavy = [n for n in nodes if n.pattern in _HEAVY]
    contractions = [n for n in heavy if _is_contraction(n)]
    reductions = [n for n in heavy if not _is_contraction(n)]
    shapes = {graph.nodes[o].shape for o in outputs}
    if len(shapes) > 1 and (contractions or not _are_of_rows(shapes, reductions, graph.limits)):
        return False
    inside = set(members)
    if contractions:
        if len(contractions) > 1 or reductions:
            return False
        before = _in_front(contractions[0], nodes, outputs)
        if before is None:
            return False
        rest = [n for n in nodes if n.index not in before]
        return _is_epilogue(contractions[0], rest, inside, outputs)
    if reductions:
        return _are_rows(reductions, nodes, inside, graph.limits)
    if len(outputs) > 1 and not _all_aligned(nodes, set(outputs)):
        return False
    return _is_cheap_map(nodes, inside, graph.limits.costly)


def _is_contraction(node: Node) -> bool:
    """True for a contraction, or a reduction over windows, which behaves like one."""
    if node.pattern == Pattern.REDUCTION:
        return len(node.edges) != 1 or "axis" not in node.call.attrs
    return node.pattern == Pattern.CONTRACTION


def _in_front(contraction: Node, nodes: Sequence[Node], outputs: Sequence[int]) -> set[int] | None:
    """Returns the producers of a contraction in its group; None if one of them may not be fused."""
    by_index = {n.index: n for n in nodes}
    before: set[int] = set()
    for edge in contraction.edges:
        if edge.source not in by_index:
            continue
        if _is_read_in_place(contraction, by_index[edge.source], edge):
            before.add(edge.source)
            continue
        if edge.chain or edge.root is None or not is_used_once(contraction.binding, edge.root):
            return None
        work = [edge.source]
        while work:
            node = by_index[work.pop()]
            shape = () if node.shape == () else edge.shape  # of what says where a slice begins
            aligned = node.pattern in MAPS or _is_chosen_slice(node)
            if not aligned or node.shape != shape or node.index in outputs:
                return None
            before.add(node.index)
            for edge_before in node.edges:
                if edge_before.source in by_index:
                    if edge_before.chain:
                        return None
                    work.append(edge_before.source)
    readers = {*before, contraction.index}
    if any(not readers.issuperset(by_index[i].users) for i in before):
        return None  # someone else wants it as well
    return before


def _is_chosen_slice(node: Node) -> bool:
    """True if a node reads a part of its first operand that begins where scalars say."""
    return node.op.name in ("dynamic_slice", "take") and not any(e.shape for e in node.edges[1:])


def _is_read_in_place(contraction: Node, source: Node, edge: Edge) -> bool:
    """True for a row of a stack that a product reads once, or along its own last axis: the kernel
    copies no operand of such a product, so that it may as well read a part of one. Halves are
    copied for the instructions that multiply pairs of them, unless they are read once."""
    is_row = _is_chosen_slice(source) and source.call.attrs.get("axis") == 0
    if not is_row or any(operator_of(view).name != "cast" for view in edge.chain):
        return False
    operand = contraction.edges.index(edge)
    if is_used_once(contraction.binding, contraction.call.args[operand]):
        return True
    if edge.chain:
        return False
    if contraction.op.name == "nn.matmul":
        return operand == 1
    inputs, _, output = contraction.call.attrs.get("equation", "").partition("->")
    return inputs.split(",")[operand][-1:] == output[-1:] != ""


def _is_epilogue(
    contraction: Node, nodes: Sequence[Node], inside: set[int], outputs: Sequence[int]
) -> bool:
    in_order = any(
        e.source not in inside and not e.chain and e.shape == contraction.shape
        for n in nodes
        if n is not contraction
        for e in n.edges
    )
    return all(
        n is contraction
        or (_is_final_transpose(n, outputs) and not in_order)
        or (
            n.pattern in MAPS
            and n.shape == contraction.shape
            and not any(e.source in inside and e.chain for e in n.edges)
        )
        for n in nodes
    )


def _is_final_transpose(node: Node, outputs: Sequence[int]) -> bool:
    """True if ``node`` is a transpose, and all that leaves the group."""
    if node.pattern != Pattern.INJECTIVE or node.op.name != "transpose":
        return False
    return tuple(outputs) == (node.index,) and not any(e.chain for e in node.edges)


def _all_aligned(nodes: Sequence[Node], outputs: set[int]) -> bool:
    """True if a value that is stored is only read back, inside, at the index it was stored at."""
    return not any(
        e.source in outputs and (e.chain or n.pattern not in MAPS or e.shape != n.shape)
        for n in nodes
        for e in n.edges
    )


@dataclass(slots=True)
class _Rows:
    """The shapes of a group with reductions: ``full`` is reduced over ``axes``."""

    full: Shape
    axes: frozenset[int]

    @property
    def kept(self) -> Shape:
        """A row's shape with the reduced axes as 1."""
        return tuple(1 if i in self.axes else s for i, s in enumerate(self.full))

    @property
    def outer(self) -> Shape:
        return tuple(s for i, s in enumerate(self.full) if i not in self.axes)

    def is_row(self, shape: Shape) -> bool:
        return shape in (self.outer, self.kept)

    def aligned(self, shape: Shape, reader: Shape) -> bool:
        """True if broadcasting ``shape`` to ``reader`` gives each row its own value."""
        padded = (1,) * (len(reader) - len(shape)) + shape
        return padded == reader or (reader == self.full and padded == self.kept)

    def may_go_back(self, limits: GraphLimits) -> bool:
        """True if a full value may be computed from a row in the same group."""
        rank = len(self.full)
        length, rows = product(self.full[i] for i in self.axes), product(self.outer)
        if self.axes != frozenset(range(rank - len(self.axes), rank)):
            last = self.full[-1]
            if rank - 1 in self.axes or not isinstance(length, int) or not isinstance(last, int):
                return False
            return length <= limits.longest_column and last >= limits.narrowest
        if not isinstance(length, int):
            return True
        return length <= (limits.longest_lone_row if rows == 1 else limits.longest_row)


def _are_of_rows(shapes: set[Shape], reductions: Sequence[Node], limits: GraphLimits) -> bool:
    """True if values of these shapes are made row by row: whole rows, which stay in the cache, and
    what they are reduced to."""
    if not reductions:
        return False
    rows = _reduced(reductions[0])
    rank = len(rows.full)
    last = rows.axes == frozenset(range(rank - len(rows.axes), rank))
    if not last or not rows.may_go_back(limits):
        return False
    return all(s in (rows.full, rows.kept) for s in shapes)


def _reduced(node: Node) -> _Rows:
    full = node.edges[0].shape
    axis = node.call.attrs["axis"]
    if axis is None:
        return _Rows(full, frozenset(range(len(full))))
    axes = axis if isinstance(axis, tuple) else (axis,)
    return _Rows(full, frozenset(a % len(full) for a in axes))


def _are_rows(
    reductions: Sequence[Node], nodes: Sequence[Node], inside: set[int], limits: GraphLimits
) -> bool:
    rows = _reduced(reductions[0])
    if any(_reduced(r) != rows for r in reductions[1:]):
        return False
    after: set[int] = set()  # what depends on a reduction
    goes_back = False
    loose = False  # something before the reduction is read through an index map, or is smaller
    for node in nodes:
        edges = [e for e in node.edges if e.source in inside]
        from_after = [e for e in edges if e.source in after]
        is_reduction = node.pattern == Pattern.REDUCTION
        if is_reduction or from_after:
            after.add(node.index)
        if not from_after:
            if is_reduction:
                loose = loose or any(e.chain for e in edges)
            else:
                loose = loose or node.shape != rows.full or node.pattern not in MAPS
                loose = loose or any(e.chain or e.shape != rows.full for e in edges)
            continue
        if not is_reduction and node.pattern not in MAPS and not _is_row_view(node, rows):
            return False
        reader = rows.full if is_reduction else node.shape
        if reader != rows.full and not rows.is_row(reader):
            return False
        if any(not _edge_aligned(e, reader, rows, nodes) for e in edges):
            return False
        goes_back = goes_back or reader == rows.full != rows.kept
    if goes_back:
        return not loose and rows.may_go_back(limits)
    return not loose or (len(reductions) == 1 and _is_cheap_map(nodes, inside, limits.costly))


def _is_row_view(node: Node, rows: _Rows) -> bool:
    """True for an index map at the end of a group that only drops or adds axes of size 1."""
    return (
        Trait.VIEW in node.op.traits
        and rows.is_row(node.edges[0].shape)
        and rows.is_row(node.shape)
    )


def _edge_aligned(edge: Edge, reader: Shape, rows: _Rows, nodes: Sequence[Node]) -> bool:
    shape = next(n.shape for n in nodes if n.index == edge.source)
    if shape == rows.full and edge.chain and not rows.is_row(shape):
        return False
    for view in edge.chain:
        seen = tensor_type(view.var)
        op = operator_of(view)
        if Trait.VIEW in op.traits:
            if not same_but_ones(shape, seen.shape) or not rows.is_row(seen.shape):
                return False
        elif op.name != "broadcast_to" or not rows.aligned(shape, seen.shape):
            return False
        shape = seen.shape
    if rows.is_row(reader) and rows.is_row(shape):
        return True
    return rows.aligned(shape, reader)


def _is_cheap_map(nodes: Sequence[Node], inside: set[int], costly: float) -> bool:
    """True if nothing costly is computed more often than once per element of its result, and
    nothing at all many times because a gather reads it so often."""
    shape = nodes[0].shape
    if all(n.plain and n.shape == shape for n in nodes):
        return True
    if sum([n.cost for n in nodes]) < costly and not any(n.op.name in _GATHERS for n in nodes):
        return True
    cost: dict[int, float] = {}
    uses: dict[int, int] = {}
    apart: set[int] = set()  # read at another index than the reader's own
    by_index = {n.index: n for n in nodes}
    for node in nodes:
        total = node.cost
        for edge in node.edges:
            if edge.source not in inside:
                continue
            source = by_index[edge.source]
            if source.pattern == Pattern.REDUCTION:
                continue
            below = cost[source.index]
            total += below
            if node.op.name in _GATHERS and edge is node.edges[0]:
                below *= _reads_per_element(node.shape, source.shape)
            if below < costly:
                continue
            reads = node.edges[0].shape if node.pattern == Pattern.REDUCTION else node.shape
            several = node.pattern == Pattern.INJECTIVE and len(node.edges) > 1
            written = node.op.name == "strided_set" and edge is node.edges[1]  # each element once
            if not written and (several or not _no_larger(reads, source.shape)):
                return False
            uses[source.index] = uses.get(source.index, 0) + 1
            if edge.chain or node.pattern == Pattern.INJECTIVE:
                apart.add(source.index)
        cost[node.index] = total
    return not any(uses[index] > 1 for index in apart)


def _reads_per_element(reads: Shape, source: Shape) -> float:
    left, right = product(reads), product(source)
    if isinstance(left, int) and isinstance(right, int) and right:
        return max(1.0, left / right)
    return 1.0


def _no_larger(reads: Shape, source: Shape) -> bool:
    left, right = product(reads), product(source)
    if isinstance(left, int) and isinstance(right, int):
        return left <= right
    return left == right


JOINED = ("fused", "apart")
"""The options of every choice point; the first is the default."""


class OpenJoins:
    """The choice points of a block: groups that could be joined, and those that stay apart.

    A choice point is a pair of nodes, the second of which reads the first. Two groups that are kept
    apart there stay apart, whatever else their groups become.
    """

    def __init__(self, graph: Graph, choices: Choices | None) -> None:
        self._graph = graph
        self._choices = choices
        self._open: set[tuple[int, int]] = set()

    def stays_open(
        self, first: int, second: int, members: Sequence[int], outputs: Sequence[int]
    ) -> bool:
        """True if ``members``, which could be one group, stay two."""
        if self._choices is None:
            return False
        if (first, second) not in self._open:
            text = _group_text(self._graph, members, outputs)
            instructions = sum(work(self._graph.nodes[m].binding) for m in members)
            if self._choices.take("fusion", text, JOINED, instructions) == JOINED[0]:
                return False
            self._open.add((first, second))
        return True

    def is_site(self, first: Sequence[int], second: Sequence[int]) -> bool:
        """True if these groups, the second of which reads the first, are a choice point."""
        if self._choices is None:
            return False
        heavy = [_is_heavy(self._graph, group) for group in (first, second)]
        return (heavy[0] and len(first) == 1) or (heavy[1] and not heavy[0])


def _is_heavy(graph: Graph, group: Sequence[int]) -> bool:
    return any(graph.nodes[m].pattern in _HEAVY for m in group)


def _group_text(graph: Graph, members: Sequence[int], outputs: Sequence[int]) -> str:
    """Operators in order, numbered; ``%n`` is the value of the n-th, ``*`` marks what leaves."""
    names: dict[Atom, str] = {}

    def operand(atom: Atom) -> str:
        root, chain = graph.resolve(atom)
        if root is None or root not in names:
            return operand_text(atom)
        text = names[root]
        for view in chain:
            text = _call(view, lambda _, inner=text: inner)
        return text

    lines: list[str] = []
    for number, member in enumerate(members):
        binding = graph.nodes[member].binding
        lines.append(_call(binding, operand) + ("*" if member in outputs else ""))
        names[binding.var] = f"%{number}"
    return "; ".join(lines)


def _call(binding: Binding, operand: Callable[[Atom], str]) -> str:
    call = binding.value
    assert isinstance(call, Call)
    return call_text(call, operand=operand)
