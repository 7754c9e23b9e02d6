"""A linear system by Jacobi's iteration (1845), until it is solved."""

import loopwright as lw
import numpy as np


@lw.compile
def jacobi(a, b):
    """The solution of ``a @ x = b`` and the number of iterations."""
    diagonal = np.diag(a)
    rest = a - np.diag(diagonal)

    def goes_on(state):
        return state[1] > 1e-10

    def improve(state):
        x, _, steps = state
        following = (b - rest @ x) / diagonal
        return following, np.abs(following - x).max(), steps + 1

    x, _, steps = lw.while_loop(goes_on, improve, (np.zeros_like(b), 1.0, 0))
    return x, steps


def inputs(size=400):
    rng = np.random.default_rng(0)
    a = rng.uniform(-1, 1, (size, size))
    a += np.diag(1.2 * np.abs(a).sum(axis=1))
    return a, rng.normal(size=size)


def main():
    print("   n  iterations  residual")
    for n in (10, 100, 400):
        a, b = inputs(n)
        x, steps = jacobi(a, b)
        print(f"{n:4d}  {steps:10d}  {np.abs(a @ x - b).max():.1e}")


if __name__ == "__main__":
    main()
