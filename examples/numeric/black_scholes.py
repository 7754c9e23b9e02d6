"""Prices of European options by the formula of Black and Scholes (1973)."""

import loopwright as lw
import numpy as np


def normal_cdf(x):
    """The distribution of a standard normal variable; Abramowitz and Stegun (1964), 26.2.17."""
    t = 1 / (1 + 0.2316419 * np.abs(x))
    poly = 0.31938153 + t * (
        -0.356563782 + t * (1.781477937 + t * (-1.821255978 + t * 1.330274429))
    )
    tail = np.exp(-0.5 * x**2) / np.sqrt(2 * np.pi) * t * poly
    return np.where(x >= 0, 1 - tail, tail)


@lw.compile
def black_scholes(spot, strike, years, rate, volatility):
    """Prices of calls and of puts."""
    spread = volatility * np.sqrt(years)
    d1 = (np.log(spot / strike) + (rate + 0.5 * volatility**2) * years) / spread
    d2 = d1 - spread
    discounted = strike * np.exp(-rate * years)
    call = spot * normal_cdf(d1) - discounted * normal_cdf(d2)
    put = discounted * normal_cdf(-d2) - spot * normal_cdf(-d1)
    return call, put


def inputs(size=200_000):
    rng = np.random.default_rng(0)
    spot, strike = rng.uniform(50, 150, (2, size))
    return spot, strike, rng.uniform(0.1, 2, size), 0.03, rng.uniform(0.1, 0.5, size)


def main():
    spot = np.arange(80.0, 121.0, 5)
    calls, puts = black_scholes(spot, np.full(9, 100.0), np.full(9, 1.0), 0.03, np.full(9, 0.2))
    print("spot     call      put")
    for row in zip(spot, calls, puts):
        print("{:4.0f} {:8.4f} {:8.4f}".format(*row))


if __name__ == "__main__":
    main()
