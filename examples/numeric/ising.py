"""Spins of a magnet at a temperature, by Metropolis' algorithm (1953) on a checkerboard."""

import loopwright as lw
import numpy as np


@lw.compile
def ising(spins, chances, beta):
    """Spins after a sweep for each of ``chances``, [sweeps, 2, n, n], and magnetisations."""
    i, j = np.indices(spins.shape)
    colours = (i + j) % 2

    def sweep(spins, chance):
        for colour in (0, 1):
            around = np.roll(spins, 1, 0) + np.roll(spins, -1, 0)
            around = around + np.roll(spins, 1, 1) + np.roll(spins, -1, 1)
            flips = (chance[colour] < np.exp(-2 * beta * spins * around)) & (colours == colour)
            spins = np.where(flips, -spins, spins)
        return spins, spins.mean()

    return lw.scan(sweep, spins, chances)


def inputs(size=128, sweeps=40):
    rng = np.random.default_rng(0)
    return np.ones((size, size)), rng.random((sweeps, 2, size, size)), 0.44


def main():
    print("temperature  magnetisation")
    for temperature in (1.5, 2.0, 2.2, 2.4, 3.0):
        spins, chances, _ = inputs(32, 300)
        spins, magnetisation = ising(spins, chances, 1 / temperature)
        mean = np.abs(magnetisation[100:]).mean()
        print(f"{temperature:11.1f}  {mean:.3f} {'#' * int(50 * mean)}")
    print("\n".join("".join(" O"[int(s > 0)] for s in row) for row in spins[::2]))


if __name__ == "__main__":
    main()
