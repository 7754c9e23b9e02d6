"""Groups of nodes that never form a circle.

Two groups may only become one if no third one stands between them, reading from the first and read
by the second. ``Groups`` keeps a topological order of the groups under merging, by the algorithm of
Pearce and Kelly ("A dynamic topological sort algorithm for directed acyclic graphs", 2006), so that
the search for such a third group stays among the few that lie between the two.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence

from ...errors import InternalError
from .graph import Graph

__all__ = ["Groups"]

_SEARCH_LIMIT = 256
"""Groups looked at to find out whether two may merge; beyond it the answer is no."""


class Groups:
    """A partition of the graph's nodes. A group is known by any of its nodes."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        count = len(graph.nodes)
        self._parent = list(range(count))
        self._members: list[list[int]] = [[i] for i in range(count)]
        self._slot = list(range(count))  # of a group's representative: its place in the order

    def find(self, node: int) -> int:
        """The representative of the node's group."""
        parent = self._parent
        while parent[node] != node:
            parent[node] = parent[parent[node]]
            node = parent[node]
        return node

    def members(self, node: int) -> list[int]:
        """The nodes of the group, in program order."""
        return self._members[self.find(node)]

    def union(self, nodes: Iterable[int]) -> list[int]:
        """The nodes of all the groups that ``nodes`` are in, in program order."""
        found = {self.find(n) for n in nodes}
        return sorted([m for g in found for m in self._members[g]])

    def outputs(self, members: Sequence[int]) -> list[int]:
        """Those of ``members`` whose value is used by others, or must exist as an array."""
        inside = set(members)
        nodes = self.graph.nodes
        return [m for m in members if nodes[m].escapes or not inside.issuperset(nodes[m].users)]

    def all(self) -> list[list[int]]:
        """Every group, in an order in which each only reads from those before it."""
        roots = [i for i in range(len(self._parent)) if self._parent[i] == i]
        return [self._members[r] for r in sorted(roots, key=self._slot.__getitem__)]

    def unite(self, nodes: Iterable[int]) -> None:
        """Make one group of the groups of ``nodes``, which is known to make no circle. Their order
        is lost until ``sort``."""
        groups = {self.find(n) for n in nodes}
        merged = min(groups)
        self._members[merged] = sorted([m for g in groups for m in self._members[g]])
        for group in groups - {merged}:
            self._parent[group] = merged
            self._members[group] = []

    def sort(self) -> None:
        """Put all groups in an order in which each only reads from those before it."""
        roots = [i for i, parent in enumerate(self._parent) if parent == i]
        readers: dict[int, set[int]] = {r: set() for r in roots}
        missing = dict.fromkeys(roots, 0)
        for root in roots:
            sources = {
                self.find(s) for m in self._members[root] for s in self.graph.nodes[m].sources
            }
            for source in sources - {root}:
                readers[source].add(root)
                missing[root] += 1
        # By their last node, so that a value is not made long before it is read.
        ready = [(self._members[r][-1], r) for r in roots if not missing[r]]
        heapq.heapify(ready)
        slot = 0
        while ready:
            _, root = heapq.heappop(ready)
            self._slot[root] = slot
            slot += 1
            for reader in readers[root]:
                missing[reader] -= 1
                if not missing[reader]:
                    heapq.heappush(ready, (self._members[reader][-1], reader))
        if slot != len(roots):
            raise InternalError("groups of operators form a circle")

    def merge(self, nodes: Iterable[int]) -> bool:
        """Make one group of the groups of ``nodes``; False, and nothing changes, if that would make
        a circle (or finding out takes too long)."""
        groups = {self.find(n) for n in nodes}
        slots = sorted([self._slot[g] for g in groups])
        low, high = slots[0], slots[-1]
        after = self._reach(groups, low, high, forward=True)
        if after is None:
            return False
        before = self._reach(groups, low, high, forward=False)
        if before is None or not after.isdisjoint(before):
            return False
        free = sorted([*slots, *(self._slot[g] for g in after), *(self._slot[g] for g in before)])
        ordered = [
            *sorted(before, key=self._slot.__getitem__),
            min(groups),
            *sorted(after, key=self._slot.__getitem__),
        ]
        for group, slot in zip(ordered, free[: len(before)] + free[-1 - len(after) :], strict=True):
            self._slot[group] = slot
        self.unite(groups)
        return True

    def _reach(self, groups: set[int], low: int, high: int, *, forward: bool) -> set[int] | None:
        """The groups between the slots that ``groups`` lead to, or are led to by."""
        found: set[int] = set()
        work = list(groups)
        while work:
            for member in self._members[work.pop()]:
                node = self.graph.nodes[member]
                for other in node.users if forward else node.sources:
                    group = self.find(other)
                    if group in groups or group in found or not low < self._slot[group] < high:
                        continue
                    found.add(group)
                    work.append(group)
                    if len(found) > _SEARCH_LIMIT:
                        return None
        return found
