"""The spectrum of a noisy signal by Welch's method (1967): the mean over overlapping windows."""

import loopwright as lw
import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

RATE, WINDOW = 1000, 256


@lw.compile
def welch(signal):
    """The density of power at ``WINDOW // 2 + 1`` frequencies."""
    taper = np.hanning(WINDOW)
    windows = sliding_window_view(signal, WINDOW)[:: WINDOW // 2]
    windows = windows - windows.mean(axis=1, keepdims=True)
    spectra = np.fft.rfft(windows * taper, axis=1)
    return (np.abs(spectra) ** 2).mean(axis=0) / (RATE * (taper**2).sum())


def inputs(size=100_000):
    time = np.arange(size) / RATE
    tones = np.sin(2 * np.pi * 50 * time) + 0.5 * np.sin(2 * np.pi * 180 * time)
    return (tones + np.random.default_rng(0).normal(size=size),)


def main():
    decibels = 10 * np.log10(welch(*inputs(20_000)))
    frequencies = np.fft.rfftfreq(WINDOW, 1 / RATE)
    for frequency, level in zip(frequencies[:64:2], decibels[:64:2]):
        print(f"{frequency:4.0f} Hz {level:6.1f} dB {'#' * int(35 + level)}")


if __name__ == "__main__":
    main()
