"""Optimal transport between two distributions by Sinkhorn's algorithm (Cuturi, 2013)."""

import loopwright as lw
import numpy as np


@lw.compile
def sinkhorn(x, y, a, b):
    """The plan that moves masses ``a`` at ``x`` to masses ``b`` at ``y``, and what it costs."""
    cost = ((x[:, None, :] - y[None, :, :]) ** 2).sum(axis=2)
    kernel = np.exp(-cost / 0.1)

    def balance(_, scale):
        u, v = scale
        u = a / (kernel @ v)
        return u, b / (kernel.T @ u)

    u, v = lw.fori_loop(0, 200, balance, (np.ones_like(a), np.ones_like(b)))
    plan = u[:, None] * kernel * v
    return plan, (plan * cost).sum()


def inputs(size=400):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(size, 2)), rng.normal(size=(size, 2)) + [1.0, 0.0]
    return x, y, np.full(size, 1 / size), np.full(size, 1 / size)


def main():
    x, y, a, b = inputs(100)
    plan, cost = sinkhorn(x, y, a, b)
    print(f"cost {cost:.4f}, rows off by {np.abs(plan.sum(axis=1) - a).max():.1e}")
    moved = plan @ y / a[:, None] - x
    print(f"mean move {moved.mean(axis=0).round(3)}, that of the distributions is [1, 0]")


if __name__ == "__main__":
    main()
