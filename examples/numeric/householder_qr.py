"""Least squares by Householder's reflections (1958)."""

import loopwright as lw
import numpy as np


@lw.compile
def householder_qr(a, b):
    """Triangular ``r`` and ``q.T @ b``, from which the coefficients follow by substitution."""
    m, n = a.shape
    rows = np.arange(m)

    def reflect(k, state):
        r, y = state
        v = np.where(rows >= k, r[:, k], 0)
        v = v + np.where(rows == k, np.copysign(np.sqrt(v @ v), v[k]), 0)
        scale = 2 / (v @ v)
        return r - scale * np.outer(v, v @ r), y - scale * (v @ y) * v

    r, y = lw.fori_loop(0, n, reflect, (a, b))
    return r[:n], y[:n]


def inputs(size=400, unknowns=40):
    rng = np.random.default_rng(0)
    a = rng.normal(size=(size, unknowns))
    return a, a @ np.arange(unknowns) + rng.normal(size=size)


def main():
    x = np.linspace(-1, 1, 50)
    y = np.exp(x) + 0.01 * np.random.default_rng(0).normal(size=50)
    print("degree  error   coefficients of a polynomial for exp(x)")
    for degree in (1, 3, 5):
        powers = x[:, None] ** np.arange(degree + 1)
        c = np.linalg.solve(*householder_qr(powers, y))
        print(f"{degree:6d}  {np.abs(powers @ c - np.exp(x)).max():.4f}  {c.round(3)}")


if __name__ == "__main__":
    main()
