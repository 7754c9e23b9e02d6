"""Where fusion could have done otherwise: what stands in a group, as the text of a choice.

Not every pair of neighbours is a site: elementwise operators belong together, and what is measured
both ways costs time. The sites are the joins that change what a kernel is: a contraction or a
reduction with what follows it, a reduction with what it is computed from, two groups that only
share a shape or an operand, and a chain of two contractions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..choices import Choices, call_text, operand_text
from ..nodes import Atom, Binding, Call
from ..operator import Pattern
from .graph import Graph

__all__ = ["JOINED", "Seams"]

JOINED = ("fused", "apart")
"""The options of every site: what the rules allow is done, unless it is told otherwise."""

_HEAVY = (Pattern.REDUCTION, Pattern.CONTRACTION)


class Seams:
    """Where groups of one block could be joined, and which of these seams stay open.

    A seam is a pair of nodes, the second of which reads the first. What is to be apart there stays
    apart, whatever else their groups become.
    """

    def __init__(self, graph: Graph, choices: Choices | None) -> None:
        self._graph = graph
        self._choices = choices
        self._open: set[tuple[int, int]] = set()

    def stays_open(
        self, first: int, second: int, members: Sequence[int], outputs: Sequence[int]
    ) -> bool:
        """Whether ``members``, which could be one group, are to be two, with the seam between."""
        if self._choices is None:
            return False
        if (first, second) not in self._open:
            text = _group_text(self._graph, members, outputs)
            if self._choices.take("fusion", text, JOINED) == JOINED[0]:
                return False
            self._open.add((first, second))
        return True

    def is_site(self, first: Sequence[int], second: Sequence[int]) -> bool:
        """Whether joining these groups, the second of which reads the first, is worth asking."""
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
