"""The frontier of portfolios: least variance for a return (Markowitz, 1952)."""

import loopwright as lw
import numpy as np


@lw.compile
def markowitz(returns, targets):
    """Weights [targets, assets] and the deviations of portfolios with the wanted mean returns."""
    mean, covariance = returns.mean(axis=0), np.cov(returns, rowvar=False)
    constraints = np.stack([np.ones_like(mean), mean], axis=1)
    solved = np.linalg.solve(covariance, constraints)
    wanted = np.stack([np.ones_like(targets), targets])
    weights = (solved @ np.linalg.solve(constraints.T @ solved, wanted)).T
    return weights, np.sqrt(np.einsum("ti,ij,tj->t", weights, covariance, weights))


def inputs(size=1000, assets=30):
    rng = np.random.default_rng(0)
    factor = rng.normal(0.0005, 0.01, (size, 1))
    returns = factor * rng.uniform(0.5, 1.5, assets) + rng.normal(0.0002, 0.008, (size, assets))
    return returns, np.linspace(0.0, 0.002, 50)


def main():
    returns, targets = inputs(1000, 8)
    _, deviations = markowitz(returns, targets)
    print("return   deviation per day")
    for target, deviation in zip(targets[::4], deviations[::4]):
        print(f"{target:7.3%}  {deviation:6.2%}  {' ' * int(2500 * deviation)}o")


if __name__ == "__main__":
    main()
