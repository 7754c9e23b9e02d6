"""The edit distance of two strings (Levenshtein, 1966), a row at a time."""

import loopwright as lw
import numpy as np


@lw.compile
def edit_distance(a, b):
    """How many letters of ``a`` are to be changed, inserted or deleted to give ``b``."""
    columns = np.arange(len(b) + 1)

    def next_row(row, letter):
        changed = row[:-1] + (b != letter)
        deleted = row[1:] + 1
        following = np.concatenate([row[:1] + 1, np.minimum(changed, deleted)])
        # Insertions: the least over all that is left of it, which a running minimum gives.
        return np.minimum.accumulate(following - columns) + columns, None

    return lw.scan(next_row, columns, a)[0][-1]


def inputs(size=1000):
    rng = np.random.default_rng(0)
    a = rng.integers(0, 4, size)
    b = a[rng.random(size) > 0.1]  # deletions
    return a, np.where(rng.random(len(b)) < 0.1, 3 - b, b)


def letters(word):
    return np.array([ord(c) for c in word])


def main():
    for a, b in (("kitten", "sitting"), ("sunday", "saturday"), ("textbook", "notebook")):
        print(f"{a:10} {b:10} {edit_distance(letters(a), letters(b))}")


if __name__ == "__main__":
    main()
