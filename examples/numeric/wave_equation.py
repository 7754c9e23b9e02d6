"""Waves on a drum, by the leapfrog scheme."""

import loopwright as lw
import numpy as np


def laplacian(u):
    return (
        np.roll(u, 1, axis=0)
        + np.roll(u, -1, axis=0)
        + np.roll(u, 1, axis=1)
        + np.roll(u, -1, axis=1)
        - 4 * u
    )


@lw.compile
def wave_equation(height, drum):
    """The drum's heights after 200 steps; it is fixed where ``drum`` is False."""

    def step(_, state):
        previous, now = state
        following = 2 * now - previous + 0.25 * laplacian(now)
        return now, np.where(drum, following, 0)

    return lw.fori_loop(0, 200, step, (height, height))[1]


def inputs(size=256):
    y, x = np.mgrid[-1 : 1 : size * 1j, -1 : 1 : size * 1j]
    drum = x**2 + y**2 < 0.9
    return np.exp(-50 * ((x - 0.3) ** 2 + y**2)) * drum, drum


def main():
    height, drum = inputs(64)
    height = wave_equation(height, drum)
    for row, inside in zip(height[::2], drum[::2]):
        shades = np.clip((row / np.abs(height).max() + 1) * 5, 0, 9).astype(int)
        print("".join("@%#*+=-:. "[s] if i else " " for s, i in zip(shades, inside)))


if __name__ == "__main__":
    main()
