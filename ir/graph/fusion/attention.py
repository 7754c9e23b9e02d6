"""The chain of operators that becomes one kernel of attention: product, softmax, product."""

from __future__ import annotations

from ...dims import IntExpr
from ..limits import GraphLimits
from ..nodes import Call
from ..operator import Pattern
from ..patterns import is_constant, is_op, match, wildcard
from ..types import TensorType
from .graph import Graph, Node
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
    if not isinstance(kind, TensorType) or not kind.dtype.is_float or not _contracts_rows(last):
        return False
    if any(e.source in members for e in (*first.edges, last.edges[1])):
        return False
    nodes = [graph.nodes[m] for m in members if m != first.index]
    made = {
        n.binding.var: Call(n.op, tuple([e.root for e in n.edges if e.root is not None]))
        for n in nodes
        if n.pattern is not None
    }
    softmax = last.edges[0].root
    chain = None if softmax is None else match(_SOFTMAX, softmax, made)
    if chain is None or graph.of_var.get(chain["x"]) not in members:
        return False
    rows = [graph.of_var[chain[name]] for name in ("greatest", "sum", "test") if name in chain]
    if not all(_folds_rows(graph.nodes[row], scores) for row in rows[:2]):
        return False
    # All other members are maps of the scores that only the chain reads.
    whole = members - {*rows, last.index}
    if any(graph.nodes[m].shape != scores for m in whole):
        return False
    if any(graph.nodes[m].pattern not in MAPS for m in whole - {first.index}):
        return False
    if any(e.chain or e.shape != scores for n in nodes for e in n.edges if e.source in whole):
        return False
    return not any(graph.nodes[m].escapes for m in members if m != last.index)


_POWER = is_op("exp")(
    is_op("subtract")(wildcard("x"), is_op("max")(wildcard("x")).named("greatest"))
)
_SHARE = is_op("divide")(_POWER.named("power"), is_op("sum")(wildcard("power")).named("sum"))
_TEST = is_op("greater")(wildcard("sum"), is_constant(0)).named("test")
_SOFTMAX = _SHARE.optional(lambda share: is_op("where")(_TEST, share, is_constant(0)))


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
