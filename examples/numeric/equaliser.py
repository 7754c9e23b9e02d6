"""A bank of second-order filters, as in an equaliser: each band, sample by sample."""

import loopwright as lw
import numpy as np

RATE = 8000


@lw.compile
def equaliser(signal, b, a):
    """The output of each band [samples, bands]; coefficients are [3, bands]."""

    def step(state, x):  # the transposed direct form
        s1, s2 = state
        y = b[0] * x + s1
        return (b[1] * x - a[1] * y + s2, b[2] * x - a[2] * y), y

    zero = np.zeros(b.shape[1])
    return lw.scan(step, (zero, zero), signal)[1]


def band_pass(frequencies):
    """Coefficients by Bristow-Johnson's cookbook, of constant peak gain."""
    omega = 2 * np.pi * frequencies / RATE
    alpha = np.sin(omega) / 4
    b = np.stack([alpha, 0 * alpha, -alpha]) / (1 + alpha)
    return b, np.stack([1 + alpha, -2 * np.cos(omega), 1 - alpha]) / (1 + alpha)


def inputs(size=8000, bands=16):
    signal = np.random.default_rng(0).normal(size=size)
    return signal, *band_pass(np.geomspace(60, 3500, bands))


def main():
    time = np.arange(4000) / RATE
    signal = np.sin(2 * np.pi * 440 * time) + 0.3 * np.sin(2 * np.pi * 1760 * time)
    frequencies = np.geomspace(110, 3520, 16)
    levels = np.sqrt((equaliser(signal, *band_pass(frequencies))[1000:] ** 2).mean(axis=0))
    for frequency, level in zip(frequencies, levels):
        print(f"{frequency:6.0f} Hz  {level:.3f}  {'#' * int(60 * level)}")


if __name__ == "__main__":
    main()
