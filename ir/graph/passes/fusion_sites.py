"""Where fusion could have done otherwise: what stands in a group, as the text of a choice.

Not every pair of neighbours is a site: elementwise operators belong together, and what is measured
both ways costs time. The sites are the joins that change what a kernel is: a contraction or a
reduction with what follows it, a reduction with what it is computed from, two groups that only
share a shape or an operand, and a chain of two contractions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...ops.registry import Pattern
from ..nodes import Atom, Binding, Call
from .choices import Choices, call_text, operand_text
from .fusion_graph import Graph

__all__ = ["JOINED", "is_site", "stays_apart"]

JOINED = ("fused", "apart")
"""The options of every site: what the rules allow is done, unless it is told otherwise."""

_HEAVY = (Pattern.REDUCTION, Pattern.CONTRACTION)


def stays_apart(
    choices: Choices | None, graph: Graph, members: Sequence[int], outputs: Sequence[int]
) -> bool:
    """Whether ``members``, which could be one group, are to be kept apart at their seam."""
    if choices is None:
        return False
    return choices.take("fusion", _group_text(graph, members, outputs), JOINED) == "apart"


def is_site(graph: Graph, first: Sequence[int], second: Sequence[int]) -> bool:
    """Whether joining the groups ``first`` and ``second``, which reads it, is worth a question."""
    heavy = [_is_heavy(graph, group) for group in (first, second)]
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
