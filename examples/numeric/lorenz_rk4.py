"""An ensemble of Lorenz's weather (1963) by the method of Runge and Kutta."""

import loopwright as lw
import numpy as np


def slope(state):
    x, y, z = state
    return np.stack([10 * (y - x), x * (28 - z) - y, x * y - 8 / 3 * z])


@lw.compile
def lorenz_rk4(state):
    """States [3, members] after 500 steps."""
    dt = 0.01

    def step(_, state):
        k1 = slope(state)
        k2 = slope(state + dt / 2 * k1)
        k3 = slope(state + dt / 2 * k2)
        k4 = slope(state + dt * k3)
        return state + dt / 6 * (k1 + 2 * k2 + 2 * k3 + k4)

    return lw.fori_loop(0, 500, step, state)


def inputs(size=1000):
    return (
        np.array([[1.0], [1.0], [25.0]]) + 1e-3 * np.random.default_rng(0).normal(size=(3, size)),
    )


def main():
    (state,) = inputs()
    print("time   spread of x, which begins at 0.001")
    for time in range(0, 25, 5):
        print(f"{time:4d}   {state[0].std():.3g}")
        state = lorenz_rk4(state)
    page = np.full((20, 60), " ")
    page[(state[2] / 50 * 19).astype(int), ((state[0] + 20) / 40 * 59).astype(int)] = "."
    print("\n".join("".join(row) for row in page[::-1]))


if __name__ == "__main__":
    main()
