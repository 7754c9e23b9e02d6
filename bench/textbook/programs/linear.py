"""Linear algebra, element by element."""

# pyright: basic
from __future__ import annotations

import math

import numpy as np

from ..program import textbook


def _dominant(n, rng):
    return rng.random((n, n)) + n * np.eye(n), rng.random(n)


def _definite(n, rng):
    a = rng.random((n, n))
    return a @ a.T + n * np.eye(n)


def _sparse(n, rng):
    degrees = rng.integers(0, 12, n)
    starts = np.concatenate([[0], np.cumsum(degrees)])
    return starts, rng.integers(0, n, starts[-1]), rng.random(starts[-1]), rng.random(n)


@textbook(7, 120, lambda n, rng: (rng.random((n, n)),))
def lu_pivoting(matrix):
    a = matrix.copy()
    n = len(a)
    order = np.arange(n)
    for k in range(n):
        pivot = k
        for i in range(k + 1, n):
            if abs(a[i, k]) > abs(a[pivot, k]):
                pivot = i
        if pivot != k:
            for j in range(n):
                a[k, j], a[pivot, j] = a[pivot, j], a[k, j]
            order[k], order[pivot] = order[pivot], order[k]
        for i in range(k + 1, n):
            a[i, k] /= a[k, k]
            for j in range(k + 1, n):
                a[i, j] -= a[i, k] * a[k, j]
    return a, order


@textbook(7, 150, lambda n, rng: (_definite(n, rng),))
def cholesky(a):
    n = a.shape[0]
    lower = np.zeros((n, n))
    for i in range(n):
        for j in range(i + 1):
            s = a[i, j]
            for k in range(j):
                s -= lower[i, k] * lower[j, k]
            if i == j:
                lower[i, i] = math.sqrt(s)
            else:
                lower[i, j] = s / lower[j, j]
    return lower


@textbook(6, 60, lambda n, rng: (rng.random((n, n)),))
def givens_qr(a):
    n = len(a)
    r = a.copy()
    q = np.eye(n)
    for j in range(n):
        for i in range(n - 1, j, -1):
            if r[i, j] != 0:
                h = math.hypot(r[i - 1, j], r[i, j])
                c, s = r[i - 1, j] / h, r[i, j] / h
                for k in range(n):
                    upper, lower = r[i - 1, k], r[i, k]
                    r[i - 1, k] = c * upper + s * lower
                    r[i, k] = c * lower - s * upper
                    upper, lower = q[k, i - 1], q[k, i]
                    q[k, i - 1] = c * upper + s * lower
                    q[k, i] = c * lower - s * upper
    return q, r


@textbook(6, 200, lambda n, rng: (*_dominant(n, rng), 1e-10, 100))
def gauss_seidel(a, b, tolerance, limit):
    n = len(b)
    x = np.zeros(n)
    for iteration in range(limit):
        change = 0.0
        for i in range(n):
            s = b[i]
            for j in range(n):
                if j != i:
                    s -= a[i, j] * x[j]
            new = s / a[i, i]
            change = max(change, abs(new - x[i]))
            x[i] = new
        if change < tolerance:
            return x, iteration
    raise RuntimeError("no convergence")


@textbook(6, 200, lambda n, rng: (*_dominant(n, rng), 1e-10))
def jacobi(a, b, tolerance):
    diagonal = np.diag(a)
    rest = a - np.diag(diagonal)
    x = np.zeros(len(b))
    while True:
        new = (b - rest @ x) / diagonal
        if np.linalg.norm(new - x) < tolerance:
            return new
        x = new


@textbook(6, 200, lambda n, rng: (_definite(n, rng), 1e-9))
def power_iteration(a, tolerance):
    v = np.ones(len(a))
    value = 0.0
    while True:
        w = a @ v
        new = np.sqrt((w * w).sum())
        v = w / new
        if abs(new - value) < tolerance * new:
            return new, v
        value = new


@textbook(8, 200, lambda n, rng: (_definite(n, rng), rng.random(n), 1e-9))
def conjugate_gradient(a, b, tolerance):
    x = np.zeros(len(b))
    r = b - a @ x
    p = r.copy()
    old = r @ r
    for _ in range(len(b)):
        ap = a @ p
        alpha = old / (p @ ap)
        x = x + alpha * p
        r = r - alpha * ap
        new = r @ r
        if math.sqrt(new) < tolerance:
            break
        p = r + new / old * p
        old = new
    return x


@textbook(9, 20_000, lambda n, rng: _sparse(n, rng))
def csr_product(starts, columns, values, x):
    n = len(starts) - 1
    y = np.zeros(n)
    for i in range(n):
        total = 0.0
        for k in range(starts[i], starts[i + 1]):
            total += values[k] * x[columns[k]]
        y[i] = total
    return y


@textbook(5, 48, lambda n, rng: (rng.random((n, n)), rng.random((n, n))))
def matrix_product(a, b):
    n, m, p = len(a), len(b), len(b[0])
    c = np.zeros((n, p))
    for i in range(n):
        for j in range(p):
            for k in range(m):
                c[i, j] += a[i, k] * b[k, j]
    return c
