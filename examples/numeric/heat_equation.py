"""Heat that spreads in a plate, by finite differences in time and space."""

import loopwright as lw
import numpy as np


@lw.compile
def heat_equation(u):
    """Temperatures after 200 steps; those at the border stay."""
    u = u.copy()

    def step(_, u):
        inner = u[1:-1, 1:-1]
        around = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:]
        u[1:-1, 1:-1] = inner + 0.2 * (around - 4 * inner)
        return u

    return lw.fori_loop(0, 200, step, u)


def inputs(size=256):
    u = np.zeros((size, size))
    u[0, :] = 100.0
    u[size // 3 : size // 2, size // 3 : size // 2] = 60.0
    return (u,)


def main():
    (u,) = inputs(48)
    u = heat_equation(u)
    for row in u[::2]:
        print("".join(" .:-=+*#%@"[min(9, int(t / 10))] for t in row))


if __name__ == "__main__":
    main()
