"""Numerical analysis: roots, integrals, differential equations."""

# pyright: basic
from __future__ import annotations

import math

import numpy as np

from ..program import textbook


@textbook(10, 20_000, lambda n, rng: (np.arange(1.0, n),))
def newton_roots(numbers):
    roots = []
    for a in numbers:
        x = a
        while abs(x * x - a) > 1e-10 * a:
            x = 0.5 * (x + a / x)
        roots.append(x)
    return np.array(roots)


def cubic(x, c):
    return x**3 + x - c


@textbook(10, 5_000, lambda n, rng: (n,))
def bisection(n):
    total = 0.0
    for c in range(1, n):
        low, high = 0.0, float(c)
        while high - low > 1e-9:
            middle = (low + high) / 2
            if cubic(low, c) * cubic(middle, c) <= 0:
                high = middle
            else:
                low = middle
        total += (low + high) / 2
    return total


@textbook(9, 20_000, lambda n, rng: (rng.random(12), np.linspace(-1, 1, n)))
def horner(coefficients, xs):
    def value(x):
        result = 0.0
        for c in coefficients:
            result = result * x + c
        return result

    return np.array([value(x) for x in xs])


def f(x):
    return math.sin(x * x) / (1.0 + x)


def simpson(a, b):
    return (b - a) / 6 * (f(a) + 4 * f((a + b) / 2) + f(b))


def adaptive(a, b, eps, whole):
    c = (a + b) / 2
    left, right = simpson(a, c), simpson(c, b)
    if abs(left + right - whole) <= 15 * eps:
        return left + right + (left + right - whole) / 15
    return adaptive(a, c, eps / 2, left) + adaptive(c, b, eps / 2, right)


@textbook(2, 20, lambda n, rng: (0.0, float(n), 1e-9))
def adaptive_quadrature(a, b, eps):
    return adaptive(a, b, eps, simpson(a, b))


def lorenz(state):
    x, y, z = state
    return np.array([10.0 * (y - x), x * (28.0 - z) - y, x * y - 8.0 / 3.0 * z])


@textbook(20, 5_000, lambda n, rng: (np.array([1.0, 1.0, 1.0]), 0.001, n))
def runge_kutta(state, h, steps):
    path = np.zeros((steps + 1, 3))
    path[0] = state
    for t in range(steps):
        k1 = lorenz(state)
        k2 = lorenz(state + h / 2 * k1)
        k3 = lorenz(state + h / 2 * k2)
        k4 = lorenz(state + h * k3)
        state = state + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        path[t + 1] = state
    return path


@textbook(4, 24, lambda n, rng: (rng.random((n, 3)), np.zeros((n, 3)), 1e-4, 20))
def verlet(positions, velocities, dt, steps):
    n = len(positions)

    def accelerations():
        a = np.zeros((n, 3))
        for i in range(n):
            for j in range(n):
                if i != j:
                    d = positions[j] - positions[i]
                    r2 = d[0] ** 2 + d[1] ** 2 + d[2] ** 2 + 1e-3
                    a[i] += d / (r2 * math.sqrt(r2))
        return a

    a = accelerations()
    for _ in range(steps):
        positions += velocities * dt + 0.5 * a * dt * dt
        new = accelerations()
        velocities += 0.5 * (a + new) * dt
        a = new
    return positions, velocities


def smooth(u, f, h, sweeps):
    for _ in range(sweeps):
        for i in range(1, len(u) - 1):
            u[i] = 0.5 * (u[i - 1] + u[i + 1] + h * h * f[i])


def v_cycle(u, f, h):
    n = len(u)
    if n == 3:
        u[1] = 0.5 * (u[0] + u[2] + h * h * f[1])
        return
    smooth(u, f, h, 2)
    residual = np.zeros(n)
    for i in range(1, n - 1):
        residual[i] = f[i] + (u[i - 1] - 2 * u[i] + u[i + 1]) / (h * h)
    coarse = residual[::2].copy()
    correction = np.zeros(len(coarse))
    v_cycle(correction, coarse, 2 * h)
    for i in range(len(coarse)):
        u[2 * i] += correction[i]
    for i in range(len(coarse) - 1):
        u[2 * i + 1] += 0.5 * (correction[i] + correction[i + 1])
    smooth(u, f, h, 2)


@textbook(17, 1025, lambda n, rng: (rng.random(n), 8))
def multigrid(f, cycles):
    u = np.zeros(len(f))
    for _ in range(cycles):
        v_cycle(u, f, 1.0 / (len(f) - 1))
    return u
