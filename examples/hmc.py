"""Hamiltonian Monte Carlo: the posterior of a regression, with chains side by side.

Bayesian linear regression with known noise has a posterior that is known: a normal distribution.
The sampler does not know that; it asks for the gradient of the log density only (Neal, 2011)::

    lw.grad          of the log density, in the leapfrog integrator
    lw.fori_loop     over its steps; lw.scan over the samples
    lw.random        momenta and acceptances, by keys
    lw.vmap          chains side by side

    python -m examples.hmc
"""

from __future__ import annotations

import time
from typing import Any

import loopwright as lw
import numpy as np

CHAINS, LEAPS, NOISE = 8, 10, 0.5

rng = np.random.default_rng(0)
X = np.column_stack([np.ones(50), rng.standard_normal((50, 3))])
Y = X @ np.array([0.5, -1.0, 2.0, 0.0]) + NOISE * rng.standard_normal(50)


def log_density(w: Any) -> Any:
    """Of the posterior, but for a constant: a standard normal prior, and the values' likelihood."""
    misses = (X @ w - Y) / NOISE
    return -(w @ w + misses @ misses) / 2


def sample(w: Any, key: Any) -> Any:
    """Returns the next state of a chain, and whether it moved."""
    for_momentum, for_choice, for_size = lw.random.split(key, 3)
    momentum = lw.random.normal(for_momentum, w.shape)
    size = lw.random.uniform(for_size, (), 0.02, 0.08)  # paths of one length may be whole periods

    def leap(_: Any, carry: Any) -> Any:
        w, p = carry
        p = p + size / 2 * lw.grad(log_density)(w)
        w = w + size * p
        return w, p + size / 2 * lw.grad(log_density)(w)

    new, p = lw.fori_loop(0, LEAPS, leap, (w, momentum))
    gained = log_density(new) - log_density(w) + (momentum @ momentum - p @ p) / 2
    moves = np.log(lw.random.uniform(for_choice)) < gained
    return np.where(moves, new, w), moves


def chain(key: Any, samples: int) -> Any:
    """Returns the states of a chain from a random start, float64[samples, 4], and its moves."""

    def step(w: Any, key: Any) -> Any:
        w, moves = sample(w, key)
        return w, (w, moves)

    for_start, for_steps = lw.random.split(key)
    return lw.scan(step, lw.random.normal(for_start, 4), lw.random.split(for_steps, samples))[1]


def known() -> tuple[Any, Any]:
    """Returns the posterior's mean and covariance by algebra."""
    covariance = np.linalg.inv(X.T @ X / NOISE**2 + np.eye(4))
    return covariance @ X.T @ Y / NOISE**2, covariance


def main(samples: int = 2000) -> Any:
    """Returns mean and standard deviation of the samples."""
    run = lw.compile(lw.vmap(lambda key: chain(key, samples)))
    keys = lw.random.split(lw.random.key(0), CHAINS)
    run(keys)  # makes the code
    begin = time.perf_counter()
    states, moves = run(keys)
    seconds = time.perf_counter() - begin
    print(f"{CHAINS} chains of {samples} samples in {seconds:.3f} s, {moves.mean():.1%} accepted")
    states = states[:, samples // 10 :].reshape(-1, 4)  # after the way from the start
    mean, covariance = known()
    print("weight    mean   known   deviation   known")
    rows = zip(states.mean(axis=0), mean, states.std(axis=0), np.sqrt(np.diag(covariance)))
    for n, row in enumerate(rows):
        print("{:6} {:7.3f} {:7.3f} {:11.3f} {:7.3f}".format(n, *row))
    return states.mean(axis=0), states.std(axis=0)


if __name__ == "__main__":
    main()
