"""Patterns that grow: two substances that react and diffuse (Pearson, 1993)."""

import loopwright as lw
import numpy as np

FEED, KILL = 0.055, 0.062


def laplacian(u):
    sides = np.roll(u, 1, 0) + np.roll(u, -1, 0) + np.roll(u, 1, 1) + np.roll(u, -1, 1)
    return sides - 4 * u


@lw.compile
def gray_scott(u, v):
    """Both concentrations after 100 steps."""

    def step(_, state):
        u, v = state
        reaction = u * v * v
        du = 0.16 * laplacian(u) - reaction + FEED * (1 - u)
        dv = 0.08 * laplacian(v) + reaction - (FEED + KILL) * v
        return u + du, v + dv

    return lw.fori_loop(0, 100, step, (u, v))


def inputs(size=256):
    rng = np.random.default_rng(0)
    u, v = np.ones((size, size), np.float32), np.zeros((size, size), np.float32)
    spots = rng.integers(0, size - 6, (size // 6, 2))
    for i, j in spots:
        u[i : i + 6, j : j + 6], v[i : i + 6, j : j + 6] = 0.5, 0.25
    return u, v


def main():
    u, v = inputs(72)
    for _ in range(40):
        u, v = gray_scott(u, v)
    for row in v[::2]:
        print("".join(" .:-=+*#%@"[min(9, int(25 * c))] for c in row))


if __name__ == "__main__":
    main()
