"""Dynamic programming."""

# pyright: basic
from __future__ import annotations

import numpy as np

from ..program import textbook


@textbook(12, 400, lambda n, rng: (rng.integers(0, 4, n), rng.integers(0, 4, n)))
def levenshtein(a, b):
    m, n = len(a), len(b)
    d = np.zeros((m + 1, n + 1), dtype=np.int64)
    for i in range(m + 1):
        d[i, 0] = i
    for j in range(n + 1):
        d[0, j] = j
    for i in range(1, m + 1):
        for j in range(1, n + 1):
            cost = 0 if a[i - 1] == b[j - 1] else 1
            d[i, j] = min(d[i - 1, j] + 1, d[i, j - 1] + 1, d[i - 1, j - 1] + cost)
    return d[m, n]


@textbook(12, 400, lambda n, rng: (rng.integers(0, 4, n), rng.integers(0, 4, n)))
def longest_common_subsequence(a, b):
    m, n = len(a), len(b)
    c = np.zeros((m + 1, n + 1), dtype=np.int64)
    for i in range(1, m + 1):
        for j in range(1, n + 1):
            if a[i - 1] == b[j - 1]:
                c[i, j] = c[i - 1, j - 1] + 1
            elif c[i - 1, j] >= c[i, j - 1]:
                c[i, j] = c[i - 1, j]
            else:
                c[i, j] = c[i, j - 1]
    result = []
    i, j = m, n
    while i > 0 and j > 0:
        if a[i - 1] == b[j - 1]:
            result.append(a[i - 1])
            i -= 1
            j -= 1
        elif c[i - 1, j] >= c[i, j - 1]:
            i -= 1
        else:
            j -= 1
    return np.array(result[::-1])


@textbook(8, 200, lambda n, rng: (rng.integers(1, 50, n), rng.integers(1, 100, n), 10 * n))
def knapsack(weights, values, capacity):
    best = np.zeros(capacity + 1, dtype=np.int64)
    for i in range(len(weights)):
        for c in range(capacity, weights[i] - 1, -1):
            candidate = best[c - weights[i]] + values[i]
            if candidate > best[c]:
                best[c] = candidate
    return best[capacity]


@textbook(6, 120, lambda n, rng: (rng.integers(5, 60, n + 1),))
def matrix_chain(dims):
    n = len(dims) - 1
    cost = np.zeros((n, n), dtype=np.int64)
    split = np.zeros((n, n), dtype=np.int64)
    for length in range(2, n + 1):
        for i in range(n - length + 1):
            j = i + length - 1
            cost[i, j] = 2**62
            for k in range(i, j):
                q = cost[i, k] + cost[k + 1, j] + dims[i] * dims[k + 1] * dims[j + 1]
                if q < cost[i, j]:
                    cost[i, j] = q
                    split[i, j] = k
    return cost[0, n - 1], split


@textbook(30, 20_000, lambda n, rng: (np.array([1, 2, 5, 10, 20, 50, 100, 200]), n))
def coin_change(coins, amount):
    ways = np.zeros(amount + 1, dtype=np.int64)
    ways[0] = 1
    for coin in coins:
        for value in range(coin, amount + 1):
            ways[value] += ways[value - coin]
    return ways[amount]


@textbook(20, 1_000, lambda n, rng: (rng.integers(0, 1000, n),))
def longest_increasing(values):
    n = len(values)
    length = np.ones(n, dtype=np.int64)
    for i in range(n):
        for j in range(i):
            if values[j] < values[i] and length[j] + 1 > length[i]:
                length[i] = length[j] + 1
    return max(length)
