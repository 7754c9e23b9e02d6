"""A confidence interval of a correlation by the bootstrap (Efron, 1979)."""

import loopwright as lw
import numpy as np


@lw.compile
def bootstrap(x, y, chosen):
    """The correlation, and its 2.5 and 97.5 percentiles over the samples ``chosen`` [n, len(x)]."""

    def correlation(x, y):
        x, y = x - x.mean(axis=-1, keepdims=True), y - y.mean(axis=-1, keepdims=True)
        return (x * y).sum(axis=-1) / np.sqrt((x**2).sum(axis=-1) * (y**2).sum(axis=-1))

    samples = correlation(x[chosen], y[chosen])
    return correlation(x, y), np.percentile(samples, [2.5, 97.5])


def inputs(size=200, samples=2000):
    rng = np.random.default_rng(0)
    x = rng.normal(size=size)
    return x, 0.6 * x + 0.8 * rng.normal(size=size), rng.integers(0, size, (samples, size))


def main():
    print("   n   r      95 % of the samples")
    for n in (20, 50, 100, 200, 500):
        r, (low, high) = bootstrap(*inputs(n))
        line = [" "] * 50
        line[int(50 * low) : int(50 * high)] = "-" * (int(50 * high) - int(50 * low))
        line[int(50 * r)] = "o"
        print(f"{n:4d}  {r:.2f}  {low:.2f} {high:.2f} {''.join(line)}")


if __name__ == "__main__":
    main()
