"""Programs as textbooks have them run unchanged, and give what Python gives."""

# pyright: basic
from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any

import loopwright as lw
import numpy as np
import pytest

RNG = np.random.default_rng(0)
X = RNG.random(80)
ROWS = RNG.random((80, 5))
SQUARE = RNG.random((40, 40))
DISTANCES = np.where(RNG.random((30, 30)) > 0.5, np.inf, RNG.random((30, 30)))
STEPS = RNG.dirichlet(np.ones(5), 5)
SIGNALS = RNG.dirichlet(np.ones(7), 5)
START = np.ones(5) / 5
SEEN = RNG.integers(0, 7, 50)
CELLS = RNG.integers(0, 2, 61)
ORDER = RNG.integers(0, 80, 160)
NUMBERS = RNG.integers(0, 100, 64)
EDGES = RNG.integers(0, 40, (30, 2))
GRID = RNG.integers(0, 2, (12, 12))


def dijkstra(w, s):
    n = w.shape[0]
    dist = np.full(n, np.inf)
    done = np.zeros(n, dtype=bool)
    dist[s] = 0.0
    for _ in range(n):
        u = -1
        best = np.inf
        for v in range(n):
            if not done[v] and dist[v] < best:
                best = dist[v]
                u = v
        if u < 0:
            break
        done[u] = True
        for v in range(n):
            alt = dist[u] + w[u, v]
            if alt < dist[v]:
                dist[v] = alt
    return dist


def lu_pivot(A):
    A = A.copy()
    n = len(A)
    p = np.arange(n)
    for k in range(n - 1):
        m = k + np.argmax(np.abs(A[k:, k]))
        if m != k:
            A[[k, m]] = A[[m, k]]
            p[[k, m]] = p[[m, k]]
        A[k + 1 :, k] /= A[k, k]
        A[k + 1 :, k + 1 :] -= np.outer(A[k + 1 :, k], A[k, k + 1 :])
    return (A, p)


def viterbi(T, E, pi, obs):
    n = len(obs)
    S = len(pi)
    v = np.zeros((n, S))
    back = np.zeros((n, S), dtype=int)
    v[0] = np.log(pi) + np.log(E[:, obs[0]])
    for t in range(1, n):
        for s in range(S):
            probs = v[t - 1] + np.log(T[:, s])
            back[t, s] = np.argmax(probs)
            v[t, s] = probs[back[t, s]] + np.log(E[s, obs[t]])
    path = np.zeros(n, dtype=int)
    path[-1] = np.argmax(v[-1])
    for t in range(n - 2, -1, -1):
        path[t] = back[t + 1, path[t + 1]]
    return path


def adaptive(a, b, eps):

    def f(x):
        return math.sin(x) * math.exp(-x / 10)

    def simpson(a, b):
        c = (a + b) / 2
        return (b - a) / 6 * (f(a) + 4 * f(c) + f(b))

    def rec(a, b, eps, whole, depth):
        c = (a + b) / 2
        l = simpson(a, c)
        r = simpson(c, b)
        if depth <= 0 or abs(l + r - whole) <= 15 * eps:
            return l + r + (l + r - whole) / 15
        return rec(a, c, eps / 2, l, depth - 1) + rec(c, b, eps / 2, r, depth - 1)

    return rec(b, a, eps, simpson(b, a), 20)


def automaton(cells, rule, steps):
    out = np.zeros((steps, len(cells)), dtype=int)
    for t in range(steps):
        out[t] = cells
        new = np.zeros_like(cells)
        for i in range(len(cells)):
            l = cells[i - 1]
            c = cells[i]
            r = cells[(i + 1) % len(cells)]
            new[i] = rule >> 4 * l + 2 * c + r & 1
        cells = new
    return out


def sgd(X, y, lr, epochs, order):
    w = np.zeros(X.shape[1])
    b = 0.0
    n = X.shape[0]
    for e in range(epochs):
        for i in order[e * n : (e + 1) * n]:
            err = X[i] @ w + b - y[i]
            w -= lr * err * X[i]
            b -= lr * err
    return (w, b)


def multigrid(u, f, cycles):

    def smooth(u, f, h, k):
        for _ in range(k):
            for i in range(1, len(u) - 1):
                u[i] = 0.5 * (u[i - 1] + u[i + 1] + h * h * f[i])
        return u

    def vcycle(u, f, h):
        n = len(u)
        if n <= 3:
            u[1] = 0.5 * (u[0] + u[2] + h * h * f[1])
            return u
        u = smooth(u, f, h, 2)
        r = np.zeros(n)
        r[1:-1] = f[1:-1] + (u[:-2] - 2 * u[1:-1] + u[2:]) / (h * h)
        rc = r[::2].copy()
        ec = vcycle(np.zeros(len(rc)), rc, 2 * h)
        e = np.zeros(n)
        e[::2] = ec
        e[1::2] = 0.5 * (ec[:-1] + ec[1:])
        u += e
        return smooth(u, f, h, 2)

    for _ in range(cycles):
        u = vcycle(u, f, 1 / 64)
    return u


def quicksort(a):
    a = a.copy()

    def qs(lo, hi):
        if lo < hi:
            p = a[hi]
            i = lo - 1
            for j in range(lo, hi):
                if a[j] <= p:
                    i += 1
                    a[i], a[j] = (a[j], a[i])
            a[i + 1], a[hi] = (a[hi], a[i + 1])
            qs(lo, i)
            qs(i + 2, hi)

    qs(0, len(a) - 1)
    return a


def union_find(edges, n):
    parent = np.arange(n)

    def find(x):
        while parent[x] != x:
            parent[x] = parent[parent[x]]
            x = parent[x]
        return x

    comps = n
    for a, b in edges:
        ra, rb = (find(a), find(b))
        if ra != rb:
            parent[ra] = rb
            comps -= 1
    return comps


def mergesort(a):
    a = a.copy()
    n = len(a)
    b = np.empty_like(a)
    w = 1
    while w < n:
        for lo in range(0, n, 2 * w):
            mid = min(lo + w, n)
            hi = min(lo + 2 * w, n)
            i = lo
            j = mid
            for k in range(lo, hi):
                if i < mid and (j >= hi or a[i] <= a[j]):
                    b[k] = a[i]
                    i += 1
                else:
                    b[k] = a[j]
                    j += 1
        a, b = (b, a)
        w *= 2
    return a


def heapsort(a):
    a = a.copy()
    n = len(a)

    def sift(a, start, end):
        root = start
        while 2 * root + 1 <= end:
            child = 2 * root + 1
            if child + 1 <= end and a[child] < a[child + 1]:
                child += 1
            if a[root] < a[child]:
                a[root], a[child] = (a[child], a[root])
                root = child
            else:
                return

    for s in range((n - 2) // 2, -1, -1):
        sift(a, s, n - 1)
    for e in range(n - 1, 0, -1):
        a[0], a[e] = (a[e], a[0])
        sift(a, 0, e - 1)
    return a


def kadane(a):
    best = a[0]
    cur = a[0]
    s = 0
    bs = 0
    be = 0
    for i in range(1, len(a)):
        if cur + a[i] < a[i]:
            cur = a[i]
            s = i
        else:
            cur += a[i]
        if cur > best:
            best = cur
            bs, be = (s, i)
    return (best, bs, be)


def gauss_seidel(A, b):
    A = A + np.eye(12) * 12
    x = np.zeros(12)
    for it in range(100):
        old = x.copy()
        for i in range(12):
            x[i] = (b[i] - A[i, :i] @ x[:i] - A[i, i + 1 :] @ x[i + 1 :]) / A[i, i]
        if np.max(np.abs(x - old)) < 1e-10:
            return (x, it)
    raise RuntimeError("no")


def flood(grid):
    h, w = grid.shape
    label = np.zeros((h, w), dtype=int)
    cur = 0
    stack = np.zeros((h * w * 4, 2), dtype=int)
    for y in range(h):
        for x in range(w):
            if grid[y, x] and (not label[y, x]):
                cur += 1
                top = 0
                stack[0] = (y, x)
                top = 1
                while top > 0:
                    top -= 1
                    cy, cx = stack[top]
                    if cy < 0 or cx < 0 or cy >= h or (cx >= w):
                        continue
                    if not grid[cy, cx] or label[cy, cx]:
                        continue
                    label[cy, cx] = cur
                    for dy, dx in ((0, 1), (1, 0), (0, -1), (-1, 0)):
                        stack[top] = (cy + dy, cx + dx)
                        top += 1
    return (label, cur)


PROGRAMS: dict[Callable[..., Any], tuple[Any, ...]] = {
    dijkstra: (DISTANCES, 0),
    lu_pivot: (SQUARE,),
    viterbi: (STEPS, SIGNALS, START, SEEN),
    adaptive: (100.0, 0.0, 1e-6),
    automaton: (CELLS, 110, 40),
    sgd: (ROWS, X, 0.1, 2, ORDER),
    multigrid: (np.zeros(65), X[:65], 4),
    quicksort: (NUMBERS,),
    union_find: (EDGES, 40),
    heapsort: (NUMBERS,),
    mergesort: (NUMBERS,),
    gauss_seidel: (SQUARE[:12, :12], X[:12]),
    flood: (GRID,),
    kadane: (NUMBERS - 50,),
}


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_programs_of_textbooks(program: Callable[..., Any]) -> None:
    theirs, ours = copy.deepcopy(PROGRAMS[program]), copy.deepcopy(PROGRAMS[program])
    expected = _leaves(program(*theirs))
    found = _leaves(lw.compile(program)(*ours))
    for one, other in zip((*found, *ours), (*expected, *theirs), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)


def _leaves(value: Any) -> list[Any]:
    return [v for each in value for v in _leaves(each)] if isinstance(value, tuple) else [value]


MATH = [
    *("sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh"),
    *("atanh", "exp", "expm1", "log", "log2", "log10", "log1p", "sqrt", "fabs", "degrees"),
    *("radians", "isnan", "isinf", "isfinite", "floor", "ceil"),
]


def _apply(name: str) -> Callable[[float], Any]:
    function = getattr(math, name)

    def apply(x):
        if x > 1e300:
            return 0.5
        return function(x)

    return apply


@pytest.mark.parametrize("name", MATH)
def test_functions_of_math_and_their_errors(name: str) -> None:
    apply = _apply(name)
    compiled = lw.compile(apply)
    for value in (0.0, 1.0, -1.0, 0.5, -0.5, 2.7, -3.3, 1e3, -1e3, 1e301):
        try:
            expected = apply(value)
        except (ValueError, OverflowError) as error:
            with pytest.raises(type(error), match="math"):
                compiled(value)
            continue
        found = compiled(value)
        assert type(found) in (type(expected), np.bool_, float)
        np.testing.assert_allclose(found, expected, rtol=1e-12)
