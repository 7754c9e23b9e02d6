"""Chains: a contraction, a softmax of its rows, and a contraction of that, as one group.

Before::

    %0 = nn.matmul(%q, %k);
    %1 = max(%0, axis=[1], keepdims=True);
    %2 = subtract(%0, %1);
    %3 = exp(%2);
    %4 = sum(%3, axis=[1], keepdims=True);
    %5 = divide(%3, %4);
    nn.matmul(%5, %v)

After::

    @matmul_max_subtract_exp_sum_2_more(%q, %k, %v)

The scores between the two are the largest array by far, and are never written: a kernel keeps a
block of them. They must have no other use. Maps of the scores (a scale, a mask) come along.
"""

from __future__ import annotations

from ...dims import IntExpr
from ..operator import Pattern
from ..types import TensorType
from .graph import Edge, Graph, Node
from .post_dominators import EXIT

__all__ = ["find_chain"]

LEAST_ROWS = 16
"""Rows of scores below which no vector is filled: they are better computed one by one."""

LEAST_SCORES = 16
"""Length of a row below which there is nothing to be saved."""

MOST_COLUMNS = 512
"""Columns of the operands beyond which a block's private buffers leave the caches."""

_MAPS = (Pattern.ELEMENTWISE, Pattern.BROADCAST)
_LONGEST = 32  # operators between the two contractions


def find_chain(graph: Graph, above: list[int], first: int) -> set[int] | None:
    """The nodes of the chain that begins with the contraction ``first``; None if none does.

    ``above`` are the post-dominators.
    """
    last = above[first]
    while last != EXIT and graph.nodes[last].pattern != Pattern.CONTRACTION:
        last = above[last]
    if last == EXIT or not _sizes_fit(graph.nodes[first], graph.nodes[last]):
        return None
    members: set[int] = {first, last}
    work = [first]
    while work:
        for user in graph.nodes[work.pop()].users:
            if user not in members:
                members.add(user)
                work.append(user)
        if len(members) > _LONGEST:
            return None
    return members if _is_chain(graph, graph.nodes[first], graph.nodes[last], members) else None


def _sizes_fit(first: Node, last: Node) -> bool:
    scores = first.shape
    if len(scores) < 2 or len(first.edges) != 2 or len(last.edges) != 2:
        return False
    sizes = [*scores, *(s for e in (*first.edges, *last.edges) for s in e.shape)]
    if not all(isinstance(s, int) and s > 0 for s in sizes):
        return False
    rows, length = scores[-2], scores[-1]
    columns = [s for e in first.edges for s in e.shape[-1:]] + [*last.shape[-1:]]
    return (
        _at_least(rows, LEAST_ROWS)
        and _at_least(length, LEAST_SCORES)
        and all(isinstance(c, int) and (c <= MOST_COLUMNS or c == length) for c in columns)
        and last.shape[:-1] == scores[:-1]
    )


def _at_least(size: IntExpr, least: int) -> bool:
    return isinstance(size, int) and size >= least


def _is_chain(graph: Graph, first: Node, last: Node, members: set[int]) -> bool:
    """Whether ``last`` contracts the rows of softmax(maps of ``first``), and nothing else is
    between them."""
    scores = first.shape
    kind = first.binding.var.type
    if not isinstance(kind, TensorType) or not kind.dtype.is_float:
        return False
    if any(e.source in members for e in (*first.edges, last.edges[1])):
        return False
    if not _contracts_rows(last) or _direct(last.edges[0], scores) < 0:
        return False
    seen: set[int] = {first.index, last.index}

    def node(edge: Edge, *names: str) -> Node | None:
        """The member an edge reads as it is, if it is one of these operators."""
        source = _direct(edge, scores)
        if source not in members or graph.nodes[source].op.name not in names:
            return None
        seen.add(source)
        return graph.nodes[source]

    def row_of(edge: Edge, name: str, of: Node) -> bool:
        """Whether an edge reads the reduction ``name`` of the rows of ``of``."""
        if edge.source not in members:
            return False
        found = graph.nodes[edge.source]
        seen.add(found.index)
        return found.op.name == name and _folds_rows(found, scores) and _reads(found, of)

    share = node(last.edges[0], "divide")
    power = node(share.edges[0], "exp") if share is not None else None
    if share is None or power is None or not row_of(share.edges[1], "sum", power):
        return False
    below = node(power.edges[0], "subtract")
    source = _direct(below.edges[0], scores) if below is not None else None
    if below is None or source not in members:
        return False
    if not row_of(below.edges[1], "max", graph.nodes[source]):
        return False
    for index in members - seen:
        found = graph.nodes[index]
        if found.pattern not in _MAPS or found.shape != scores or found.escapes:
            return False
        inside = [e for e in found.edges if e.source in members]
        if any(_direct(e, scores) < 0 for e in inside):
            return False
    return not any(graph.nodes[m].escapes for m in members if m != last.index)


def _direct(edge: Edge, shape: tuple[IntExpr, ...]) -> int:
    """The node an edge reads without an index map in between, -1 if it does otherwise."""
    if edge.source is None or edge.chain or edge.shape != shape:
        return -1
    return edge.source


def _reads(found: Node, of: Node) -> bool:
    return _direct(found.edges[0], of.shape) == of.index


def _folds_rows(node: Node, scores: tuple[IntExpr, ...]) -> bool:
    if node.pattern != Pattern.REDUCTION or len(node.edges) != 1:
        return False
    axis = node.call.attrs.get("axis")
    axes = axis if isinstance(axis, list | tuple) else (axis,)
    return len(axes) == 1 and isinstance(axes[0], int) and axes[0] % len(scores) == len(scores) - 1


def _contracts_rows(last: Node) -> bool:
    """Whether a contraction sums over the last axis of its first operand, and keeps the others."""
    equation = last.call.attrs.get("equation")
    if isinstance(equation, str):
        operands, _, result = equation.partition("->")
        letters = operands.partition(",")[0]
        return letters[-1] not in result and result[:-1] == letters[:-1]
    right = last.edges[1].shape
    return len(right) >= 2 and right[-2] == last.edges[0].shape[-1] and not last.call.attrs
