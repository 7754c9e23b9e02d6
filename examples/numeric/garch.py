"""Volatility that comes in clusters: the likelihood of GARCH(1, 1) on a grid (Bollerslev, 1986)."""

import loopwright as lw
import numpy as np


@lw.compile
def garch(returns, alphas, betas):
    """Log-likelihoods [len(alphas), len(betas)] of returns of a given variance."""
    variance = returns.var()
    alpha, beta = alphas[:, None], betas[None, :]
    omega = variance * np.maximum(1 - alpha - beta, 1e-6)

    def step(state, r):
        h, total = state
        total = total - 0.5 * (np.log(2 * np.pi * h) + r**2 / h)
        return (omega + alpha * r**2 + beta * h, total), None

    shape = len(alphas), len(betas)
    start = np.full(shape, 1.0) * variance, np.zeros(shape)
    return lw.scan(step, start, returns)[0][1]


def simulate(days, alpha, beta):
    rng = np.random.default_rng(0)
    returns, h = np.zeros(days), 1.0
    for day in range(days):
        returns[day] = np.sqrt(h) * rng.normal()
        h = (1 - alpha - beta) + alpha * returns[day] ** 2 + beta * h
    return returns


def inputs(size=1000, grid=16):
    return simulate(size, 0.1, 0.85), np.linspace(0.02, 0.3, grid), np.linspace(0.5, 0.95, grid)


def main():
    returns, alphas, betas = inputs(3000, 12)
    fit = garch(returns, alphas, betas)
    for alpha, row in zip(alphas, fit):
        print(
            f"{alpha:.3f} "
            + "".join(" .:-=+*#%@"[max(0, 9 - int((fit.max() - f) / 4))] for f in row)
        )
    i, j = np.unravel_index(fit.argmax(), fit.shape)
    print(f"likeliest: alpha {alphas[i]:.3f}, beta {betas[j]:.3f}; they were 0.1 and 0.85")


if __name__ == "__main__":
    main()
