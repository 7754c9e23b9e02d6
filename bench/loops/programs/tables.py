"""Tables and arrays that are written element by element: dynamic programming, sorting, graphs."""

from __future__ import annotations

from typing import Any

import loopwright as lw
import numpy as np

from ..program import program

__all__: list[str] = []


def _letters(size: int, rng: np.random.Generator) -> tuple[Any, ...]:
    return rng.integers(0, 4, size), rng.integers(0, 4, size + 3)


def edit_distance_plain(a: Any, b: Any) -> Any:
    previous = np.arange(len(b) + 1)
    for i in range(len(a)):
        current = np.empty_like(previous)
        current[0] = i + 1
        for j in range(len(b)):
            best = min(current[j], previous[j + 1]) + 1
            current[j + 1] = min(best, previous[j] + (a[i] != b[j]))
        previous = current
    return previous[-1]


@program(edit_distance_plain, _letters, small=9, large=1000)
def edit_distance(a: Any, b: Any) -> Any:
    """Levenshtein's distance: a scan over rows of a scan over columns."""

    def row(previous: Any, letter: Any) -> Any:
        def cell(left: Any, column: Any) -> Any:
            diagonal, above, other = column
            best = np.minimum(np.minimum(left, above) + 1, diagonal + (letter != other))
            return best, best

        first = previous[0] + 1
        _, rest = lw.scan(cell, first, (previous[:-1], previous[1:], b))
        return np.concatenate([np.reshape(first, 1), rest]), None

    last, _ = lw.scan(row, np.arange(len(b) + 1), a)
    return last[-1]


def _items(size: int, rng: np.random.Generator) -> tuple[Any, ...]:
    return rng.integers(1, 40, size), rng.integers(1, 100, size), np.zeros(10 * size + 1, np.int64)


def knapsack_plain(weights: Any, values: Any, empty: Any) -> Any:
    best = empty.copy()
    for item in range(len(weights)):
        for capacity in range(len(best) - 1, weights[item] - 1, -1):
            best[capacity] = max(best[capacity], best[capacity - weights[item]] + values[item])
    return best[-1]


@program(knapsack_plain, _items, small=7, large=200, arrays=2001)
def knapsack(weights: Any, values: Any, empty: Any) -> Any:
    """The most valuable items that fit: a row of the table per item."""
    capacities = np.arange(len(empty))

    def take(best: Any, item: Any) -> Any:
        weight, value = item
        rest = capacities - weight
        with_item = np.where(rest >= 0, best[np.maximum(rest, 0)] + value, 0)
        return np.maximum(best, with_item), None

    best, _ = lw.scan(take, empty, (weights, values))
    return best[-1]


def _hidden_markov(size: int, rng: np.random.Generator) -> tuple[Any, ...]:
    start, step, emit = rng.random(8), rng.random((8, 8)), rng.random((8, 6))
    return np.log(start), np.log(step), np.log(emit), rng.integers(0, 6, size)


def viterbi_plain(start: Any, step: Any, emit: Any, seen: Any) -> Any:
    length, states = len(seen), len(start)
    score = start + emit[:, seen[0]]
    sources = np.zeros((length, states), np.int64)
    for t in range(1, length):
        following = np.empty_like(score)
        for state in range(states):
            source = 0
            for other in range(1, states):
                if score[other] + step[other, state] > score[source] + step[source, state]:
                    source = other
            sources[t, state] = source
            following[state] = score[source] + step[source, state] + emit[state, seen[t]]
        score = following
    path = np.zeros(length, np.int64)
    path[-1] = np.argmax(score)
    for t in range(length - 1, 0, -1):
        path[t - 1] = sources[t, path[t]]
    return path, np.max(score)


@program(viterbi_plain, _hidden_markov, small=11, large=5000, tolerance=1e-12, arrays=64)
def viterbi(start: Any, step: Any, emit: Any, seen: Any) -> Any:
    """The likeliest states of a hidden Markov model, and their score."""

    def forward(score: Any, symbol: Any) -> Any:
        through = score[:, None] + step
        source = np.argmax(through, axis=0)
        return np.max(through, axis=0) + emit[:, symbol], source

    def backward(state: Any, source: Any) -> Any:
        return source[state], state

    score, sources = lw.scan(forward, start + emit[:, seen[0]], seen[1:])
    first, path = lw.scan(backward, np.argmax(score), sources, reverse=True)
    return np.concatenate([np.reshape(first, 1), path]), np.max(score)


BEAMS = 4


def _bigrams(size: int, rng: np.random.Generator) -> tuple[Any, ...]:
    return np.log(rng.random((24, 24))), np.zeros(size, np.int64)


def beam_search_plain(step: Any, empty: Any) -> Any:
    length, words = len(empty), len(step)
    scores = np.full(BEAMS, -np.inf)
    scores[0] = 0.0
    beams = np.zeros((BEAMS, length), np.int64)
    last = np.zeros(BEAMS, np.int64)
    for t in range(length):
        through = np.empty(BEAMS * words)
        for beam in range(BEAMS):
            for word in range(words):
                through[beam * words + word] = scores[beam] + step[last[beam], word]
        following = np.empty_like(beams)
        for beam in range(BEAMS):
            best = np.argmax(through)
            scores[beam] = through[best]
            through[best] = -np.inf
            last[beam] = best % words
            following[beam] = beams[best // words]
            following[beam, t] = best % words
        beams = following
    return beams, scores


@program(beam_search_plain, _bigrams, small=6, large=200, tolerance=1e-12, arrays=96)
def beam_search(step: Any, empty: Any) -> Any:
    """The likeliest sequences of a bigram model that a beam of four finds."""
    words = len(step)

    def extend(t: Any, state: Any) -> Any:
        beams, scores, last = state
        through = np.reshape(scores[:, None] + step[last], BEAMS * words)
        best = np.argsort(-through, kind="stable")[:BEAMS]
        beams = beams[best // words]
        beams[:, t] = best % words
        return beams, through[best], best % words

    start = np.array([0.0] + [-np.inf] * (BEAMS - 1))
    beams = np.zeros((BEAMS, len(empty)), np.int64)
    last = np.zeros(BEAMS, np.int64)
    beams, scores, _ = lw.fori_loop(0, len(empty), extend, (beams, start, last))
    return beams, scores


def _distances(size: int, rng: np.random.Generator) -> tuple[Any, ...]:
    return (np.where(rng.random((size, size)) < 0.3, rng.random((size, size)), 10.0),)


def floyd_warshall_plain(distances: Any) -> Any:
    shortest = distances.copy()
    n = len(shortest)
    for k in range(n):
        for i in range(n):
            for j in range(n):
                shortest[i, j] = min(shortest[i, j], shortest[i, k] + shortest[k, j])
    return shortest


@program(floyd_warshall_plain, _distances, small=9, large=160, tolerance=1e-12, arrays=25_600)
def floyd_warshall(distances: Any) -> Any:
    """Shortest paths between all nodes."""

    def through(k: Any, shortest: Any) -> Any:
        return np.minimum(shortest, shortest[:, k, None] + shortest[None, k, :])

    return lw.fori_loop(0, len(distances), through, distances)


def _maze(size: int, rng: np.random.Generator) -> tuple[Any, ...]:
    walls = rng.random((size, size)) < 0.3
    walls[0, 0] = False
    return (walls,)


def breadth_first_plain(walls: Any) -> Any:
    n = len(walls)
    distance = np.full((n, n), -1)
    queue = np.zeros((n * n, 2), np.int64)
    distance[0, 0] = 0
    head, tail = 0, 1
    while head < tail:
        i, j = queue[head]
        head += 1
        for di, dj in ((1, 0), (-1, 0), (0, 1), (0, -1)):
            y, x = i + di, j + dj
            if 0 <= y < n and 0 <= x < n and not walls[y, x] and distance[y, x] < 0:
                distance[y, x] = distance[i, j] + 1
                queue[tail, 0], queue[tail, 1] = y, x
                tail += 1
    return distance


@program(breadth_first_plain, _maze, small=6, large=150)
def breadth_first(walls: Any) -> Any:
    """Steps from a corner of a maze, -1 where none lead, with a queue of cells."""
    n = len(walls)

    def visit(state: Any) -> Any:
        distance, queue, head, tail = state
        i, j = queue[head, 0], queue[head, 1]
        for di, dj in ((1, 0), (-1, 0), (0, 1), (0, -1)):
            y, x = i + di, j + dj
            inside = (y >= 0) & (y < n) & (x >= 0) & (x < n)

            def look(state: Any, y: Any = y, x: Any = x) -> Any:
                distance, _, _ = state

                def enter(state: Any) -> Any:
                    distance, queue, tail = state
                    distance[y, x] = distance[i, j] + 1
                    queue[tail, 0] = y
                    queue[tail, 1] = x
                    return distance, queue, tail + 1

                new = ~walls[y, x] & (distance[y, x] < 0)
                return lw.cond(new, enter, lambda state: state, state)

            state = distance, queue, tail
            distance, queue, tail = lw.cond(inside, look, lambda state: state, state)
        return distance, queue, head + 1, tail

    distance = np.full((n, n), -1)
    distance[0, 0] = 0
    start = distance, np.zeros((n * n, 2), np.int64), 0, 1
    return lw.while_loop(lambda state: state[2] < state[3], visit, start)[0]


def _values(size: int, rng: np.random.Generator) -> tuple[Any, ...]:
    return (rng.random(size),)


def partition_plain(values: Any) -> Any:
    values = values.copy()
    pivot, place = values[-1], 0
    for j in range(len(values) - 1):
        if values[j] < pivot:
            values[place], values[j] = values[j], values[place]
            place += 1
    values[place], values[-1] = values[-1], values[place]
    return values, place


@program(partition_plain, _values, small=17, large=100_000)
def partition(values: Any) -> Any:
    """Lomuto's partition of quicksort by the last value, and where that ends up."""
    values = values.copy()
    pivot = values[-1]

    def swap(i: Any, j: Any) -> None:
        at_i, at_j = values[i], values[j]
        values[i] = at_j
        values[j] = at_i

    def step(j: Any, place: Any) -> Any:
        smaller = values[j] < pivot
        lw.cond(smaller, lambda: swap(place, j), lambda: None)
        return place + smaller

    place = lw.fori_loop(0, len(values) - 1, step, 0)
    swap(place, len(values) - 1)
    return values, place


def insertion_sort_plain(values: Any) -> Any:
    values = values.copy()
    for i in range(1, len(values)):
        value, j = values[i], i
        while j > 0 and values[j - 1] > value:
            values[j] = values[j - 1]
            j -= 1
        values[j] = value
    return values


@program(insertion_sort_plain, _values, small=12, large=2000)
def insertion_sort(values: Any) -> Any:
    """Sorting by insertion: the inner loop's course depends on what the outer one wrote."""

    def insert(i: Any, values: Any) -> Any:
        value = values[i]

        def higher(state: Any) -> Any:
            values, j = state
            return (j > 0) & (values[np.maximum(j - 1, 0)] > value)

        def shift(state: Any) -> Any:
            values, j = state
            values[j] = values[j - 1]
            return values, j - 1

        values, j = lw.while_loop(higher, shift, (values, i))
        values[j] = value
        return values

    return lw.fori_loop(1, len(values), insert, values.copy())


def _flags(size: int, rng: np.random.Generator) -> tuple[Any, ...]:
    return (np.ones(size, np.bool_),)


def sieve_plain(flags: Any) -> Any:
    flags = flags.copy()
    n = len(flags)
    p = 2
    while p * p < n:
        if flags[p]:
            for multiple in range(p * p, n, p):
                flags[multiple] = False
        p += 1
    return np.sum(flags[2:])


@program(sieve_plain, _flags, small=60, large=300_000)
def sieve(flags: Any) -> Any:
    """How many primes are below the length of ``flags``, by the sieve of Eratosthenes."""
    flags = flags.copy()
    n = len(flags)

    def strike(p: Any) -> Any:
        def multiple(q: Any, _: Any) -> None:
            flags[q * p] = False

        lw.cond(
            flags[p],
            lambda: lw.fori_loop(p, (n + p - 1) // p, multiple, None),
            lambda: None,
        )
        return p + 1

    lw.while_loop(lambda p: p * p < n, strike, 2)
    return np.sum(flags[2:])


def _buckets(size: int, rng: np.random.Generator) -> tuple[Any, ...]:
    return rng.integers(0, 64, size), rng.random(size)


def histogram_plain(buckets: Any, weights: Any) -> Any:
    sums = np.zeros(64)
    for i in range(len(buckets)):
        sums[buckets[i]] += weights[i]
    return sums


@program(histogram_plain, _buckets, small=40, large=300_000, tolerance=1e-12)
def histogram(buckets: Any, weights: Any) -> Any:
    """Sums of weights by bucket."""

    def add(i: Any, sums: Any) -> Any:
        sums[buckets[i]] += weights[i]
        return sums

    return lw.fori_loop(0, len(buckets), add, np.zeros(64))
