"""A wave packet meets a barrier: Schrodinger's equation by split steps (Feit and Fleck, 1982)."""

import loopwright as lw
import numpy as np


@lw.compile
def schrodinger(psi, potential, dx):
    """The wave function after 100 steps of time 0.01."""
    n = len(psi)
    k = 2 * np.pi * np.fft.fftfreq(n, dx)
    half = np.exp(-0.005j * potential)
    kinetic = np.exp(-0.005j * k**2)

    def step(_, psi):
        return half * np.fft.ifft(kinetic * np.fft.fft(half * psi))

    return lw.fori_loop(0, 100, step, psi)


def inputs(size=1024):
    x = np.linspace(-20, 20, size, endpoint=False)
    psi = np.exp(-0.5 * (x + 8) ** 2 + 3j * x)
    return psi, np.where(np.abs(x) < 0.25, 6.0, 0.0), 40 / size


def main():
    psi, potential, dx = inputs()
    for time in range(6):
        density = np.abs(psi) ** 2
        bars = density.reshape(64, -1).mean(axis=1)
        shares = density[potential.argmax() :].sum() / density.sum()
        print(
            "".join(" .:-=+*#%@"[min(9, int(9 * b))] for b in bars)
            + f"| {time} s, {shares:.0%} beyond"
        )
        psi = schrodinger(psi, potential, dx)


if __name__ == "__main__":
    main()
