"""An option on the mean price of a share, by Monte Carlo with antithetic paths."""

import loopwright as lw
import numpy as np


@lw.compile
def asian_option(normals, spot, strike, rate, volatility, years):
    """The value of the call and its standard error; ``normals`` are [paths, days]."""
    dt = years / normals.shape[1]
    drift, spread = (rate - 0.5 * volatility**2) * dt, volatility * np.sqrt(dt)

    def payoff(normals):
        prices = spot * np.exp(np.cumsum(drift + spread * normals, axis=1))
        return np.maximum(prices.mean(axis=1) - strike, 0)

    values = np.exp(-rate * years) * (payoff(normals) + payoff(-normals)) / 2
    return values.mean(), values.std() / np.sqrt(len(values))


def inputs(size=10_000):
    normals = np.random.default_rng(0).standard_normal((size, 64))
    return normals, 100.0, 100.0, 0.03, 0.2, 1.0


def main():
    normals, spot, *_ = inputs()
    print("strike   value    error")
    for strike in (80.0, 90.0, 100.0, 110.0, 120.0):
        value, error = asian_option(normals, spot, strike, 0.03, 0.2, 1.0)
        print(f"{strike:6.0f}  {value:6.3f}  {error:.4f}  {'#' * int(2 * value)}")


if __name__ == "__main__":
    main()
