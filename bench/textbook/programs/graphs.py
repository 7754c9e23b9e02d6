"""Graphs, as matrices of weights, lists of edges or rows of neighbours."""

# pyright: basic
from __future__ import annotations

import numpy as np

from ..program import textbook


def _weights(n, rng):
    return np.where(rng.random((n, n)) < 0.2, rng.random((n, n)), np.inf)


def _rows(n, rng):
    """Neighbours of each node, behind one another, and where each node's begin."""
    degrees = rng.integers(1, 8, n)
    starts = np.concatenate([[0], np.cumsum(degrees)])
    return starts, rng.integers(0, n, starts[-1])


def _acyclic(n, rng):
    edges = rng.integers(0, n, (4 * n, 2))
    edges = np.sort(edges[edges[:, 0] != edges[:, 1]], axis=1)
    return rng.permutation(n)[edges]


@textbook(12, 500, lambda n, rng: (_weights(n, rng), 0))
def dijkstra(graph, source):
    n = graph.shape[0]
    distance = np.full(n, np.inf)
    visited = np.zeros(n, dtype=np.bool_)
    distance[source] = 0.0
    for _ in range(n):
        u = -1
        for v in range(n):
            if not visited[v] and (u == -1 or distance[v] < distance[u]):
                u = v
        if distance[u] == np.inf:
            break
        visited[u] = True
        for v in range(n):
            if distance[u] + graph[u, v] < distance[v]:
                distance[v] = distance[u] + graph[u, v]
    return distance


@textbook(10, 300, lambda n, rng: (rng.integers(0, n, (5 * n, 2)), rng.random(5 * n), n, 0))
def bellman_ford(edges, weights, n, source):
    distance = np.full(n, np.inf)
    distance[source] = 0.0
    for _ in range(n - 1):
        changed = False
        for e in range(len(edges)):
            u, v = edges[e]
            if distance[u] + weights[e] < distance[v]:
                distance[v] = distance[u] + weights[e]
                changed = True
        if not changed:
            break
    return distance


@textbook(8, 80, lambda n, rng: (_weights(n, rng),))
def floyd_warshall(weights):
    n = len(weights)
    d = weights.copy()
    for i in range(n):
        d[i, i] = 0.0
    for k in range(n):
        for i in range(n):
            for j in range(n):
                if d[i, k] + d[k, j] < d[i, j]:
                    d[i, j] = d[i, k] + d[k, j]
    return d


@textbook(12, 10_000, lambda n, rng: (_acyclic(n, rng), n))
def topological_sort(edges, n):
    indegree = np.zeros(n, dtype=np.int64)
    for u, v in edges:  # noqa: B007
        indegree[v] += 1
    starts = np.zeros(n + 1, dtype=np.int64)
    for u, v in edges:  # noqa: B007
        starts[u + 1] += 1
    for i in range(n):
        starts[i + 1] += starts[i]
    place = starts.copy()
    targets = np.zeros(len(edges), dtype=np.int64)
    for u, v in edges:
        targets[place[u]] = v
        place[u] += 1
    queue = []
    for u in range(n):
        if indegree[u] == 0:
            queue.append(u)
    head = 0
    while head < len(queue):
        u = queue[head]
        head += 1
        for k in range(starts[u], starts[u + 1]):
            v = targets[k]
            indegree[v] -= 1
            if indegree[v] == 0:
                queue.append(v)
    return np.array(queue)


@textbook(12, 20_000, lambda n, rng: (*_rows(n, rng), 0))
def breadth_first(starts, neighbours, source):
    n = len(starts) - 1
    distance = np.full(n, -1)
    queue = np.zeros(n, dtype=np.int64)
    queue[0] = source
    distance[source] = 0
    head, tail = 0, 1
    while head < tail:
        u = queue[head]
        head += 1
        for k in range(starts[u], starts[u + 1]):
            v = neighbours[k]
            if distance[v] < 0:
                distance[v] = distance[u] + 1
                queue[tail] = v
                tail += 1
    return distance


@textbook(12, 20_000, lambda n, rng: (*_rows(n, rng), 0))
def depth_first(starts, neighbours, source):
    n = len(starts) - 1
    order = np.full(n, -1)
    count = 0
    stack = [source]
    while stack:
        u = stack.pop()
        if order[u] >= 0:
            continue
        order[u] = count
        count += 1
        for k in range(starts[u], starts[u + 1]):
            if order[neighbours[k]] < 0:
                stack.append(neighbours[k])
    return order


def find(parent, x):
    while parent[x] != x:
        parent[x] = parent[parent[x]]
        x = parent[x]
    return x


@textbook(12, 20_000, lambda n, rng: (rng.integers(0, n, (n, 2)), n))
def union_find(pairs, n):
    parent = np.arange(n)
    size = np.ones(n, dtype=np.int64)
    components = n
    for a, b in pairs:
        ra, rb = find(parent, a), find(parent, b)
        if ra == rb:
            continue
        if size[ra] < size[rb]:
            ra, rb = rb, ra
        parent[rb] = ra
        size[ra] += size[rb]
        components -= 1
    return components


@textbook(10, 10_000, lambda n, rng: (rng.integers(0, n, (4 * n, 2)), rng.random(4 * n), n))
def kruskal(edges, weights, n):
    order = np.argsort(weights)
    parent = np.arange(n)
    total = 0.0
    used = 0
    for e in order:
        a = find(parent, edges[e, 0])
        b = find(parent, edges[e, 1])
        if a != b:
            parent[a] = b
            total += weights[e]
            used += 1
    return total, used


@textbook(10, 400, lambda n, rng: (_weights(n, rng),))
def prim(graph):
    n = len(graph)
    graph = np.minimum(graph, graph.T)
    in_tree = np.zeros(n, dtype=np.bool_)
    key = np.full(n, np.inf)
    parent = np.full(n, -1)
    key[0] = 0.0
    for _ in range(n):
        u = -1
        for v in range(n):
            if not in_tree[v] and (u < 0 or key[v] < key[u]):
                u = v
        in_tree[u] = True
        for v in range(n):
            if not in_tree[v] and graph[u, v] < key[v]:
                key[v] = graph[u, v]
                parent[v] = u
    return parent


@textbook(12, 5_000, lambda n, rng: (*_rows(n, rng), 0.85, 1e-8))
def pagerank(starts, neighbours, damping, tolerance):
    n = len(starts) - 1
    rank = np.ones(n) / n
    while True:
        new = np.ones(n) * (1 - damping) / n
        for u in range(n):
            share = damping * rank[u] / (starts[u + 1] - starts[u])
            for k in range(starts[u], starts[u + 1]):
                new[neighbours[k]] += share
        if np.abs(new - rank).sum() < tolerance:
            return new
        rank = new
