"""Do two groups differ? The labels are permuted, and the difference of medians taken anew."""

import loopwright as lw
import numpy as np


@lw.compile
def permutation_test(values, count, orders):
    """The difference of the medians of the first ``count`` values and the others, and how often it
    is as large by chance; ``orders`` [n, len(values)] are permutations."""
    first = np.arange(len(values)) < count

    def difference(values):
        a = np.where(first, values, np.nan)
        b = np.where(first, np.nan, values)
        return np.nanmedian(a, axis=-1) - np.nanmedian(b, axis=-1)

    seen = difference(values)
    shuffled = np.abs(difference(values[orders]))
    return seen, (shuffled >= np.abs(seen)).mean()


def inputs(size=60, orders=2000, effect=0.5):
    rng = np.random.default_rng(0)
    values = rng.normal(size=size) + effect * (np.arange(size) < size // 2)
    return values, size // 2, rng.permuted(np.tile(np.arange(size), (orders, 1)), axis=1)


def main():
    print("effect  difference  p")
    for effect in (0.0, 0.25, 0.5, 0.75, 1.0):
        difference, p = permutation_test(*inputs(60, 2000, effect))
        print(f"{effect:6.2f}  {difference:+10.3f}  {p:.4f}")


if __name__ == "__main__":
    main()
