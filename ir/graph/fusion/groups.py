"""Groups of nodes that become one kernel each, and what lies between two of them."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from itertools import accumulate
from math import inf
from operator import add, sub

from ...errors import InternalError
from .graph import Graph

EXIT = -1
"""The post-dominator of values that escape: nothing inside the block sees all of their uses."""


def post_dominators(graph: Graph) -> list[int]:
    """For each node the nearest node that every way from its value to the outside goes through."""
    count = len(graph.nodes)
    # Index -1, the last entry of each list, is EXIT, its own parent.
    parent = [EXIT] * (count + 1)
    jump = [EXIT] * (count + 1)
    depth = [0] * (count + 1)

    def meet(a: int, b: int) -> int:
        if depth[a] < depth[b]:
            a, b = b, a
        while depth[a] > depth[b]:
            a = jump[a] if depth[jump[a]] >= depth[b] else parent[a]
        while a != b:
            if jump[a] != jump[b]:
                a, b = jump[a], jump[b]
            else:
                a, b = parent[a], parent[b]
        return a

    for index in range(count - 1, -1, -1):
        node = graph.nodes[index]
        meeting = EXIT
        if not node.escapes and node.users:
            users = list(dict.fromkeys(node.users))
            meeting = users[0]
            for user in users[1:]:
                meeting = meet(meeting, user)
        parent[index] = meeting
        depth[index] = depth[meeting] + 1
        over = jump[meeting]
        long_enough = depth[meeting] - depth[over] == depth[over] - depth[jump[over]]
        jump[index] = jump[over] if long_enough and meeting != EXIT else meeting
    return parent[:count]


_SEARCH_LIMIT = 256
"""Groups looked at to find out whether two may merge; beyond it the answer is no."""


class Groups:
    """A partition of the graph's nodes. A group is known by any of its nodes."""

    def __init__(self, graph: Graph, most: float = inf) -> None:
        self.graph = graph
        self.most = most
        count = len(graph.nodes)
        self._parent = list(range(count))
        self._members: list[list[int]] = [[i] for i in range(count)]
        self._slot = list(range(count))  # of a group's representative: its place in the order
        self._live = self._alive(range(count)) if most < inf else []
        self._is_sorted = False

    def find(self, node: int) -> int:
        """Returns the representative of the node's group."""
        parent = self._parent
        while parent[node] != node:
            parent[node] = parent[parent[node]]
            node = parent[node]
        return node

    def members(self, node: int) -> list[int]:
        """Returns the nodes of the group, in program order."""
        return self._members[self.find(node)]

    def union(self, nodes: Iterable[int]) -> list[int]:
        """Returns the nodes of all the groups that ``nodes`` are in, in program order."""
        groups = {self.find(n) for n in nodes}
        return sorted([m for g in groups for m in self._members[g]])

    def outputs(self, members: Sequence[int]) -> list[int]:
        """Returns those of ``members`` whose value is used by others, or must exist as an array."""
        inside = set(members)
        nodes = self.graph.nodes
        return [m for m in members if nodes[m].escapes or not inside.issuperset(nodes[m].users)]

    def crowd(self, members: Sequence[int], outputs: Sequence[int]) -> bool:
        """True if ``members`` as one group lift what is alive somewhere above ``most`` by more than
        the bytes that need not be written any more."""
        if self.most == inf:
            return False
        saved = sum([self.graph.nodes[m].bytes for m in set(members).difference(outputs)])
        lifted = [new for old, new in zip(self._live, self._joined(members)) if new > old]
        return max(lifted, default=0) > self.most + saved

    def peak(self) -> int:
        """Returns the most bytes that are alive at one time, results of the block not counted."""
        return max(self._alive(range(len(self.graph.nodes))))

    def _joined(self, members: Sequence[int]) -> list[int]:
        """Returns what is alive while each node runs once ``members`` are one group."""
        changed = {*members, *(s for m in members for s in self.graph.nodes[m].sources)}
        before, after = self._alive(changed), self._alive(changed, members)
        return list(map(add, map(sub, self._live, before), after))

    def _alive(self, values: Iterable[int], merged: Sequence[int] = ()) -> list[int]:
        """Returns the bytes of these nodes' values that are alive while each node runs: a group
        runs in the place of its last node, and ``merged`` are one."""
        last = dict.fromkeys(merged, max(merged, default=0))
        change = [0] * (len(self.graph.nodes) + 1)
        for node in [self.graph.nodes[v] for v in values]:
            at = [last.get(n) or self.members(n)[-1] for n in (node.index, *node.users)]
            change[at[0]] += node.bytes if max(at) > at[0] else 0
            change[max(at) + 1] -= node.bytes if max(at) > at[0] else 0
        return list(accumulate(change))

    def all(self) -> list[list[int]]:
        """Returns every group, in an order in which each only reads from those before it."""
        roots = [i for i in range(len(self._parent)) if self._parent[i] == i]
        return [self._members[r] for r in sorted(roots, key=self._slot.__getitem__)]

    def unite(self, nodes: Iterable[int]) -> None:
        """Makes one group of the groups of ``nodes``, which must not make a cycle. Their order
        is lost until ``sort``."""
        groups = {self.find(n) for n in nodes}
        if self.most < inf:
            self._live = self._joined(self.union(groups))
        merged = min(groups)
        self._members[merged] = sorted([m for g in groups for m in self._members[g]])
        for group in groups - {merged}:
            self._parent[group] = merged
            self._members[group] = []

    def sort(self) -> None:
        """Puts all groups in an order in which each only reads from those before it; ``join`` keeps
        to it from then on."""
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
        self._is_sorted = True

    def join(self, nodes: Iterable[int]) -> bool:
        """Makes one group of the groups of ``nodes``; False, and nothing changes, if that would
        make a circle, which is looked for if the groups are in order, and trusted not to be if they
        are not."""
        if self._is_sorted:
            return self.merge(nodes)
        self.unite(nodes)
        return True

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
        """Returns the groups between the slots that ``groups`` lead to, or are led to by."""
        reached: set[int] = set()
        work = list(groups)
        while work:
            for member in self._members[work.pop()]:
                node = self.graph.nodes[member]
                for other in node.users if forward else node.sources:
                    group = self.find(other)
                    if group in groups or group in reached or not low < self._slot[group] < high:
                        continue
                    reached.add(group)
                    work.append(group)
                    if len(reached) > _SEARCH_LIMIT:
                        return None
        return reached
