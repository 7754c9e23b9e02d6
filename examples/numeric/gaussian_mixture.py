"""A mixture of Gaussians by expectation and maximisation (Dempster, Laird and Rubin, 1977)."""

import loopwright as lw
import numpy as np


@lw.compile
def gaussian_mixture(x, means):
    """Weights, means and variances [components, features] after 50 iterations."""
    k, d = means.shape

    def iterate(_, state):
        weights, means, variances = state
        # Expectation: how much of each point is due to each component.
        squares = ((x[:, None, :] - means) ** 2 / variances).sum(axis=2)
        logs = np.log(weights) - 0.5 * (squares + np.log(2 * np.pi * variances).sum(axis=1))
        shares = np.exp(logs - logs.max(axis=1, keepdims=True))
        shares = shares / shares.sum(axis=1, keepdims=True)
        # Maximisation.
        counts = shares.sum(axis=0)
        means = shares.T @ x / counts[:, None]
        variances = shares.T @ x**2 / counts[:, None] - means**2 + 1e-6
        return counts / len(x), means, variances

    return lw.fori_loop(0, 50, iterate, (np.full(k, 1 / k), means, np.ones((k, d))))


def inputs(size=5000, k=6, d=4):
    rng = np.random.default_rng(0)
    middles, spreads = rng.uniform(-4, 4, (k, d)), rng.uniform(0.3, 1.2, (k, d))
    which = rng.integers(0, k, size)
    return middles[which] + spreads[which] * rng.normal(size=(size, d)), middles + 0.5


def main():
    x, start = inputs(2000, 3, 1)
    weights, means, variances = gaussian_mixture(x, start)
    print("weight    mean   deviation")
    for row in zip(weights, means[:, 0], np.sqrt(variances[:, 0])):
        print("{:6.3f}  {:+.3f}  {:9.3f}".format(*row))
    counts, edges = np.histogram(x, 24)
    for count, edge in zip(counts, edges):
        print(f"{edge:+6.2f} {'#' * (count // 5)}")


if __name__ == "__main__":
    main()
