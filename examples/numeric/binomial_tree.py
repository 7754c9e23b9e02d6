"""An American put by a binomial tree (Cox, Ross and Rubinstein, 1979)."""

import loopwright as lw
import numpy as np

STEPS = 500


@lw.compile
def binomial_tree(spot, strike, rate, volatility, years):
    """Values of the options now; each row of the tree is the values at one time."""
    dt = years / STEPS
    up = np.exp(volatility * np.sqrt(dt))
    p = (np.exp(rate * dt) - 1 / up) / (up - 1 / up)
    moves = np.arange(-STEPS, STEPS + 1, 2)
    final = spot * up**moves
    values = np.maximum(strike[:, None] - final, 0)

    def back(step, values):
        held = np.exp(-rate * dt) * (p * values[:, 1:] + (1 - p) * values[:, :-1])
        prices = final[1:] * up ** -(step + 1.0)
        held = np.maximum(held, strike[:, None] - prices)
        return np.concatenate([held, np.zeros((len(strike), 1))], axis=1)

    return lw.fori_loop(0, STEPS, back, values)[:, 0]


def inputs(size=16):
    return 100.0, np.linspace(80, 120, size), 0.05, 0.3, 1.0


def main():
    strikes = np.linspace(80.0, 120.0, 9)
    values = binomial_tree(100.0, strikes, 0.05, 0.3, 1.0)
    print("strike  American put at a spot of 100")
    for strike, value in zip(strikes, values):
        print(f"{strike:6.0f}  {value:8.4f}  {'#' * int(2 * value)}")


if __name__ == "__main__":
    main()
