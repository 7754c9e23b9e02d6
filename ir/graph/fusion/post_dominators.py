"""Post-dominators of the operators of a block: where everything made from a value meets again.

The tree is built from the last node to the first: a node's post-dominator is the lowest common
ancestor of its users. Each node also keeps a jump pointer, so that finding it takes a number of
steps logarithmic in the depth (Myers, "An applicative random-access stack", 1983).
"""

from __future__ import annotations

from .graph import Graph

__all__ = ["EXIT", "post_dominators"]

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
        found = EXIT
        if not node.escapes and node.users:
            users = list(dict.fromkeys(node.users))
            found = users[0]
            for user in users[1:]:
                found = meet(found, user)
        parent[index] = found
        depth[index] = depth[found] + 1
        over = jump[found]
        long_enough = depth[found] - depth[over] == depth[over] - depth[jump[over]]
        jump[index] = jump[over] if long_enough and found != EXIT else found
    return parent[:count]
