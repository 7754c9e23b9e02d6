"""The chain of operators that becomes one kernel of attention: product, softmax, product."""

from __future__ import annotations

from ...dims import IntExpr
from ..limits import GraphLimits
from ..nodes import Constant
from ..operator import Pattern
from ..types import TensorType
from .graph import Edge, Graph, Node
from .groups import EXIT
from .rules import MAPS

_LONGEST = 32  # operators between the two contractions


def find_chain(graph: Graph, above: list[int], first: int) -> set[int] | None:
    """Returns the nodes of the chain that begins with the contraction ``first``; None if none does.

    ``above`` are the post-dominators.
    """
    last = above[first]
    while last != EXIT and graph.nodes[last].pattern != Pattern.CONTRACTION:
        last = above[last]
    if last == EXIT or not _sizes_fit(graph.nodes[first], graph.nodes[last], graph.limits):
        return None
    members = graph.paths(first, last, _LONGEST)
    ends = graph.nodes[first], graph.nodes[last]
    return members if members is not None and _is_chain(graph, *ends, members) else None


def _sizes_fit(first: Node, last: Node, limits: GraphLimits) -> bool:
    scores = first.shape
    if len(scores) < 2 or len(first.edges) != 2 or len(last.edges) != 2:
        return False
    sizes = [*scores, *(s for e in (*first.edges, *last.edges) for s in e.shape)]
    if not all(isinstance(s, int) and s > 0 for s in sizes):
        return False
    rows, length = scores[-2], scores[-1]
    columns = [s for e in first.edges for s in e.shape[-1:]] + [*last.shape[-1:]]
    return (
        _at_least(rows, limits.attention_rows)
        and _at_least(length, limits.attention_scores)
        and all(
            isinstance(c, int) and (c <= limits.attention_columns or c == length) for c in columns
        )
        and last.shape[:-1] == scores[:-1]
    )


def _at_least(size: IntExpr, least: int) -> bool:
    return isinstance(size, int) and size >= least


def _is_chain(graph: Graph, first: Node, last: Node, members: set[int]) -> bool:
    """True if ``last`` contracts the rows of softmax(maps of ``first``), and nothing else is
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
        """Returns the member an edge reads as it is, if it is one of these operators."""
        source = _direct(edge, scores)
        if source not in members or graph.nodes[source].op.name not in names:
            return None
        seen.add(source)
        return graph.nodes[source]

    def row_of(edge: Edge, name: str, of: Node) -> bool:
        """True if an edge reads the reduction ``name`` of the rows of ``of``."""
        if edge.source not in members:
            return False
        source = graph.nodes[edge.source]
        seen.add(source.index)
        return source.op.name == name and _folds_rows(source, scores) and _reads(source, of)

    # Follow softmax back: exp(scores - row maximum) / row sum, or 0 in rows without a sum.
    share = node(last.edges[0], "divide", "where")
    if share is not None and share.op.name == "where":
        test, quotient, other = share.edges
        share = node(quotient, "divide")
        if share is None or test.source not in members or not _is_zero(other):
            return False
        seen.add(test.source)
        positive = graph.nodes[test.source]
        limit, by = positive.edges[-1], share.edges[1].source
        if positive.op.name != "greater" or not _is_zero(limit) or positive.edges[0].source != by:
            return False
    power = node(share.edges[0], "exp") if share is not None else None
    if share is None or power is None or not row_of(share.edges[1], "sum", power):
        return False
    below = node(power.edges[0], "subtract")
    source = _direct(below.edges[0], scores) if below is not None else None
    if below is None or source not in members:
        return False
    if not row_of(below.edges[1], "max", graph.nodes[source]):
        return False
    # All other members are maps of the scores that only the chain reads.
    for index in members - seen:
        member = graph.nodes[index]
        if member.pattern not in MAPS or member.shape != scores or member.escapes:
            return False
        inside = [e for e in member.edges if e.source in members]
        if any(_direct(e, scores) < 0 for e in inside):
            return False
    return not any(graph.nodes[m].escapes for m in members if m != last.index)


def _direct(edge: Edge, shape: tuple[IntExpr, ...]) -> int:
    """Returns the node an edge reads without an index map in between, -1 if it does otherwise."""
    if edge.source is None or edge.chain or edge.shape != shape:
        return -1
    return edge.source


def _is_zero(edge: Edge) -> bool:
    return isinstance(edge.root, Constant) and edge.root.value.ndim == 0 and not edge.root.value


def _reads(node: Node, of: Node) -> bool:
    return _direct(node.edges[0], of.shape) == of.index


def _folds_rows(node: Node, scores: tuple[IntExpr, ...]) -> bool:
    if node.pattern != Pattern.REDUCTION or len(node.edges) != 1:
        return False
    axis = node.call.attrs.get("axis")
    axes = axis if isinstance(axis, list | tuple) else (axis,)
    return len(axes) == 1 and isinstance(axes[0], int) and axes[0] % len(scores) == len(scores) - 1


def _contracts_rows(last: Node) -> bool:
    """True if a contraction sums over the last axis of its first operand, and keeps the others."""
    equation = last.call.attrs.get("equation")
    if isinstance(equation, str):
        operands, _, result = equation.partition("->")
        letters = operands.partition(",")[0]
        return letters[-1] not in result and result[:-1] == letters[:-1]
    right = last.edges[1].shape
    return len(right) >= 2 and right[-2] == last.edges[0].shape[-1] and not last.call.attrs
