"""The density of a sample by Gaussian kernels (Parzen, 1962), of Silverman's width (1986)."""

import loopwright as lw
import numpy as np


@lw.compile
def kernel_density(sample, at):
    """The density at each of ``at``."""
    n = len(sample)
    width = 1.06 * sample.std() * n**-0.2
    z = (at[:, None] - sample) / width
    return np.exp(-0.5 * z**2).sum(axis=1) / (n * width * np.sqrt(2 * np.pi))


def inputs(size=5000):
    rng = np.random.default_rng(0)
    sample = np.where(rng.random(size) < 0.3, rng.normal(-2, 0.5, size), rng.normal(1, 1, size))
    return sample, np.linspace(-5, 5, 200)


def main():
    sample, _ = inputs()
    at = np.linspace(-4, 4, 25)
    for place, density in zip(at, kernel_density(sample, at)):
        print(f"{place:+5.2f}  {density:.4f}  {'#' * int(180 * density)}")


if __name__ == "__main__":
    main()
