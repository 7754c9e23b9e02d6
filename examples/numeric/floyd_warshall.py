"""Shortest paths between all pairs of nodes (Floyd, 1962; Warshall, 1962)."""

import loopwright as lw
import numpy as np


@lw.compile
def floyd_warshall(lengths):
    """The lengths of the shortest paths; ``lengths`` are those of the edges, or infinite."""

    def through(k, d):
        return np.minimum(d, d[:, k, None] + d[None, k, :])

    return lw.fori_loop(0, len(lengths), through, lengths)


def inputs(size=256):
    rng = np.random.default_rng(0)
    lengths = np.where(rng.random((size, size)) < 0.05, rng.uniform(1, 10, (size, size)), np.inf)
    np.fill_diagonal(lengths, 0)
    return (lengths,)


def main():
    names = ["Bern", "Lyon", "Milan", "Munich", "Vienna", "Zurich"]
    km = np.full((6, 6), np.inf)
    np.fill_diagonal(km, 0)
    for i, j, length in (
        (0, 1, 310),
        (0, 5, 125),
        (5, 3, 315),
        (3, 4, 435),
        (5, 2, 280),
        (1, 2, 440),
    ):
        km[i, j] = km[j, i] = length
    print(" " * 7 + "".join(f"{name:>7}" for name in names))
    for name, row in zip(names, floyd_warshall(km)):
        print(f"{name:7}" + "".join(f"{d:7.0f}" for d in row))


if __name__ == "__main__":
    main()
