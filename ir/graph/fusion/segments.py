"""Long chains of elementwise operators: one kernel each, or cut where few values cross.

An unrolled loop (Mandelbrot, a solver's steps, a hash) is hundreds of operators on arrays of one
shape. A kernel keeps all values between them in registers, so it pays to have few kernels, and
where there must be several, to store few values in between.

A *region* is a set of plain operators (each reads its operands at the index it computes) of one
shape that are connected, with no other operator on a way between two of them. A *segment* is a part
of a region that becomes one group before all other rules.
"""

from __future__ import annotations

from collections.abc import Sequence

from .graph import Graph, Node
from .rules import MOST_OPERATORS

__all__ = ["segments"]

MOST_INSTRUCTIONS = 512.0
"""Instructions for one element in a segment: the code of some vectors fits the first cache."""


def segments(graph: Graph) -> list[list[int]]:
    """The segments of all regions that are larger than a group may be otherwise."""
    found: list[list[int]] = []
    for region in _regions(graph):
        if len(region) > MOST_OPERATORS:
            found += _cut(graph, region)
    return found


def _regions(graph: Graph) -> list[list[int]]:
    """The regions, each in program order.

    A node's level is how many steps out of a region lead to it, at most: what is connected and of
    one level has nothing of another level in between.
    """
    levels: list[int] = []
    parent = [*range(len(graph.nodes))]

    def find(index: int) -> int:
        while parent[index] != index:
            parent[index] = parent[parent[index]]
            index = parent[index]
        return index

    for node in graph.nodes:
        near = [s for s in node.sources if _is_near(graph.nodes[s], node)]
        levels.append(max([levels[s] + (s not in near) for s in node.sources], default=0))
        for source in near:
            if levels[source] == levels[node.index]:
                parent[find(source)] = find(node.index)
    found: dict[int, list[int]] = {}
    for node in graph.nodes:
        if node.plain:
            found.setdefault(find(node.index), []).append(node.index)
    return [*found.values()]


def _is_near(source: Node, node: Node) -> bool:
    return source.plain and node.plain and source.shape == node.shape


def _cut(graph: Graph, region: Sequence[int]) -> list[list[int]]:
    """Cut a region in program order into segments of half to all of what one may hold, each time
    at the place that the fewest values cross."""
    found: list[list[int]] = []
    start = 0
    while start < len(region):
        end = _longest(graph, region, start)
        if end < len(region):
            crossing = _crossing(graph, region, start, end)
            earliest = start + (end - start + 1) // 2
            end = min(range(end, earliest - 1, -1), key=lambda at: crossing[at - start])
        found.append([*region[start:end]])
        start = end
    return found


def _longest(graph: Graph, region: Sequence[int], start: int) -> int:
    """The end of the longest segment that begins at ``start``."""
    total = 0.0
    for place in range(start, len(region)):
        total += max(1.0, graph.nodes[region[place]].cost)
        if total > MOST_INSTRUCTIONS:
            return max(place, start + 1)
    return len(region)


def _crossing(graph: Graph, region: Sequence[int], start: int, end: int) -> list[int]:
    """How many values of the segment from ``start`` are read behind each place up to ``end``."""
    place_of = {node: place for place, node in enumerate(region)}
    count = [0] * (end - start + 2)
    for place in range(start, end):
        node = graph.nodes[region[place]]
        last = max((place_of.get(user, place) for user in node.users), default=place)
        count[place + 1 - start] += 1
        count[min(last, end) + 1 - start] -= 1
    for at in range(1, len(count)):
        count[at] += count[at - 1]
    return count
