"""Regression by a Gaussian process: a Cholesky factor and solves with it (Rasmussen, 2006)."""

import loopwright as lw
import numpy as np


def kernel(a, b):
    return np.exp(-0.5 * ((a[:, None] - b) / 0.8) ** 2)


@lw.compile
def gaussian_process(x, y, at):
    """The mean and the deviation of the function at ``at``, given noisy values ``y`` at ``x``."""
    factor = np.linalg.cholesky(kernel(x, x) + 0.04 * np.eye(len(x)))
    weights = np.linalg.solve(factor.T, np.linalg.solve(factor, y))
    across = kernel(x, at)
    explained = np.linalg.solve(factor, across)
    return across.T @ weights, np.sqrt(1 - (explained**2).sum(axis=0))


def inputs(size=200):
    rng = np.random.default_rng(0)
    x = rng.uniform(-5, 5, size)
    return x, np.sin(x) + 0.2 * rng.normal(size=size), np.linspace(-6, 6, 2 * size)


def main():
    x, y, _ = inputs(12)
    at = np.linspace(-6, 6, 25)
    for place, mean, deviation in zip(at, *gaussian_process(x, y, at)):
        line = [" "] * 61
        low, high = (int(30 + 12 * (mean + s * deviation)) for s in (-2, 2))
        line[max(low, 0) : high] = "-" * len(line[max(low, 0) : high])
        line[int(30 + 12 * mean)] = "o"
        line[int(30 + 12 * np.sin(place))] = "."
        print(f"{place:+5.1f} {''.join(line)}")


if __name__ == "__main__":
    main()
