"""Which reads of an array from outside a group are operands of their own.

Before, when a parameter stands for an array::

    def @matmul(%x: Tensor[(300, 400), float32]) {
      %0 = strided_slice(%x, begin=[0, 0], end=[300, 200]);
      %1 = strided_slice(%x, begin=[0, 200], end=[300, 400]);
      %2 = transpose(%1);
      nn.matmul(%0, %2)
    }

After, when it stands for one way of reading it; the group is called with the array twice::

    def @matmul(%x: Tensor[(300, 400), float32], %x: Tensor[(300, 400), float32]) {
      %0 = strided_slice(%x, begin=[0, 0], end=[300, 200]);
      %1 = strided_slice(%x, begin=[0, 200], end=[300, 400]);
      %2 = transpose(%1);
      nn.matmul(%0, %2)
    }

A schedule packs, copies and prefetches an operand by the order in which loops walk it, and two
operands of a contraction are walked in different orders even if they are one array: the sides of a
attention, the queries, keys and values that are slices of one projection. It also makes the kernel
the same as that of two arrays, tuned for both. Maps read their operands in step and share them.

Where the result is symmetric (``x.T @ x``), both operands share a parameter after all: a schedule
that computes one half of the result has to know that they are one array.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from ..nodes import Atom
from ..operator import Pattern
from .graph import Edge, Graph, Node

__all__ = ["SHARED", "Reading", "readings_of"]

Reading: TypeAlias = tuple[object, ...]
"""Equal for two operands that may share a parameter if they are the same array."""

SHARED: Reading = ()

_HEAVY = (Pattern.REDUCTION, Pattern.CONTRACTION)


def readings_of(
    graph: Graph, members: Sequence[int], is_symmetric: Callable[[Node], bool]
) -> Mapping[tuple[int, int], Reading]:
    """The reading of every operand of a contraction in a group, and of what maps in front of it
    read, by node and position; all others are SHARED.

    ``is_symmetric`` says of a contraction of one array with itself whether its result is."""
    below: set[int] = set()  # reductions and contractions, and what depends on them
    for member in members:
        node = graph.nodes[member]
        if node.pattern in _HEAVY or below.intersection(node.sources):
            below.add(member)
    found: dict[tuple[int, int], Reading] = {}
    inside = set(members) - below
    contractions = [m for m in members if graph.nodes[m].pattern == Pattern.CONTRACTION]
    for member in contractions:
        node = graph.nodes[member]
        one_array = len({edge.root for edge in node.edges}) == 1
        if len(contractions) == 1 and one_array and is_symmetric(node):
            both: Reading = (node.index, "both")
            found.update({(member, n): both for n in range(len(node.edges))})
            continue
        for position, edge in enumerate(node.edges):
            found[member, position] = _reading(node, position, edge)
            for front in _in_front(graph, edge, inside):
                for number, own in enumerate(graph.nodes[front].edges):
                    found[front, number] = _reading(node, position, own)
    return found


def _in_front(graph: Graph, edge: Edge, inside: set[int]) -> set[int]:
    """The maps of the group that an operand of a contraction is made by."""
    found: set[int] = set()
    work = [edge.source]
    while work:
        index = work.pop()
        if index is not None and index in inside and index not in found:
            found.add(index)
            work += graph.nodes[index].sources
    return found


def _reading(contraction: Node, position: int, edge: Edge) -> Reading:
    """Operands of a contraction with the same letters are walked alike: ``ij,ij->i``."""
    equation = contraction.call.attrs.get("equation")
    letters: Sequence[str] = []
    if isinstance(equation, str):
        letters = equation.partition("->")[0].split(",")
    alike: object = letters[position] if position < len(letters) else position
    views: tuple[Atom, ...] = tuple(view.var for view in edge.chain)
    return (contraction.index, alike, views)
