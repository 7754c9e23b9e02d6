"""A Gaussian process learns its hyperparameters: gradients through a Cholesky factorisation.

60 noisy values of sin(x) + x / 5 are given. Kernel: amplitude**2 exp(-(x - y)**2 / (2 length**2))
plus noise**2 on the diagonal; its three parameters, as logarithms, maximise the likelihood of the
values (Rasmussen and Williams 2006, algorithm 2.1). The steps are Newton's::

    lw.hessian       of the likelihood: forward over reverse mode
    np.linalg.*      cholesky and solve have derivatives of any order
    lw.while_loop    steps until the gradient vanishes

    python -m examples.gaussian_process
"""

from __future__ import annotations

import time
from typing import Any

import loopwright as lw
import numpy as np


def data(points: int) -> tuple[Any, Any]:
    """Returns places and noisy values, float64[points]; the noise is 0.2."""
    rng = np.random.default_rng(0)
    x = np.sort(rng.uniform(-6, 6, points))
    return x, np.sin(x) + x / 5 + 0.2 * rng.standard_normal(points)


def kernel(theta: Any, x: Any, y: Any) -> Any:
    """Covariances of the function at all pairs of places."""
    apart = (x[:, None] - y[None, :]) / np.exp(theta[1])
    return np.exp(2 * theta[0] - apart**2 / 2)


def covariance(theta: Any, x: Any) -> Any:
    """The same of the noisy values, as the lower triangle L of L @ L.T."""
    return np.linalg.cholesky(kernel(theta, x, x) + np.exp(2 * theta[2]) * np.eye(len(x)))


def loss(theta: Any, x: Any, values: Any) -> Any:
    """Minus the logarithm of the likelihood of the values."""
    lower = covariance(theta, x)
    z = np.linalg.solve(lower, values)
    return z @ z / 2 + np.log(np.diag(lower)).sum() + len(x) * np.log(2 * np.pi) / 2


@lw.compile
def fit(theta: Any, x: Any, values: Any) -> Any:
    """Returns the parameters at the maximum, and the number of steps to there."""

    def step(carry: Any) -> Any:
        theta, slope, steps = carry
        # Uphill in a direction of negative curvature becomes downhill: |eigenvalues|.
        curvatures, directions = np.linalg.eigh(lw.hessian(loss)(theta, x, values))
        change = directions @ ((directions.T @ slope) / np.maximum(np.abs(curvatures), 1e-3))
        theta = theta - change * np.minimum(1, 0.5 / np.abs(change).max())
        return theta, lw.grad(loss)(theta, x, values), steps + 1

    start = theta, lw.grad(loss)(theta, x, values), 0
    theta, _, steps = lw.while_loop(lambda c: np.abs(c[1]).max() > 1e-8, step, start)
    return theta, steps


@lw.compile
def predict(theta: Any, x: Any, values: Any, places: Any) -> Any:
    """Returns mean and standard deviation of the function at other places."""
    lower = covariance(theta, x)
    v = np.linalg.solve(lower, kernel(theta, x, places))
    variance = np.exp(2 * theta[0]) - (v * v).sum(axis=0)
    return v.T @ np.linalg.solve(lower, values), np.sqrt(variance)


def main(points: int = 60) -> Any:
    """Returns the logarithms of amplitude, length and noise."""
    x, values = data(points)
    theta, steps = fit(np.zeros(3), x, values)  # makes the code
    begin = time.perf_counter()
    theta, steps = fit(np.zeros(3), x, values)
    print(f"{steps} steps in {(time.perf_counter() - begin) * 1e3:.2f} ms")
    print("amplitude {:.4f}, length {:.4f}, noise {:.4f} (in truth 0.2)".format(*np.exp(theta)))
    print(f"log likelihood {-loss(theta, x, values):.4f}\n    x   truth     mean   deviation")
    places = np.linspace(-5, 5, 5)
    for place, mean, deviation in zip(places, *predict(theta, x, values, places)):
        print(f"{place:5.1f} {np.sin(place) + place / 5:7.3f} {mean:8.3f} {deviation:11.3f}")
    return theta


if __name__ == "__main__":
    main()
