"""An option by Crank and Nicolson's scheme (1947): tridiagonal systems by Thomas' algorithm."""

import loopwright as lw
import numpy as np


def tridiagonal(lower, diagonal, upper, right):
    """The solution of a system with three diagonals."""

    def forward(state, row):
        a, b, c, d = row
        ratio, value = state
        pivot = b - a * ratio
        state = c / pivot, (d - a * value) / pivot
        return state, state

    def backward(x, row):
        ratio, value = row
        x = value - ratio * x
        return x, x

    _, rows = lw.scan(forward, (0.0, 0.0), (lower, diagonal, upper, right))
    return lw.scan(backward, 0.0, rows, reverse=True)[1]


@lw.compile
def crank_nicolson(payoff, rate, volatility, years):
    """Values of a European option at the spots 0, 1, ..., which pays ``payoff`` at the end."""
    steps = 100
    dt, i = years / steps, np.arange(1.0, len(payoff) - 1)
    down = 0.25 * dt * (volatility**2 * i**2 - rate * i)
    middle = -0.5 * dt * (volatility**2 * i**2 + rate)
    up = 0.25 * dt * (volatility**2 * i**2 + rate * i)

    def back(_, v):
        right = down * v[:-2] + (1 + middle) * v[1:-1] + up * v[2:]
        inner = tridiagonal(-down, 1 - middle, -up, right)
        ends = v[:1] * np.exp(-rate * dt), 2 * inner[-1:] - inner[-2:-1]
        return np.concatenate([ends[0], inner, ends[1]])

    return lw.fori_loop(0, steps, back, payoff)


def inputs(size=401):
    return np.maximum(100.0 - np.arange(size), 0), 0.05, 0.3, 1.0


def main():
    values = crank_nicolson(*inputs())
    for spot in range(60, 145, 10):
        print(f"put at a spot of {spot:3d}: {values[spot]:7.4f} {'#' * int(values[spot])}")


if __name__ == "__main__":
    main()
