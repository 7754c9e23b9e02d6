"""A reverberating room: a signal convolved with a long response, by the Fourier transform."""

import loopwright as lw
import numpy as np


@lw.compile
def fft_convolution(signal, response):
    """The convolution of both, of ``len(signal) + len(response) - 1`` values."""
    length = len(signal) + len(response) - 1
    size = 2 ** (length - 1).bit_length()
    product = np.fft.rfft(signal, size) * np.fft.rfft(response, size)
    return np.fft.irfft(product, size)[:length]


def inputs(size=100_000):
    rng = np.random.default_rng(0)
    response = rng.normal(size=size // 4) * np.exp(-np.arange(size // 4) / (size // 20))
    return rng.normal(size=size), response


def main():
    signal = np.zeros(60)
    signal[[3, 30]] = 1.0, 0.5
    heard = fft_convolution(signal, 0.8 ** np.arange(20))
    print(f"off by {np.abs(heard - np.convolve(signal, 0.8 ** np.arange(20))).max():.1e}")
    for level in (0.9, 0.6, 0.3, 0.1):
        print("".join("#" if h >= level else " " for h in heard))


if __name__ == "__main__":
    main()
