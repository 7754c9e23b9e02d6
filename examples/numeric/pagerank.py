"""Ranks of pages that link to each other (Page and Brin, 1998); links are pairs of numbers."""

import loopwright as lw
import numpy as np


@lw.compile
def pagerank(source, target, start):
    """Ranks after 50 steps of a surfer, who follows a link with a probability of 0.85."""
    n = len(start)
    out = np.zeros(n)
    np.add.at(out, source, 1.0)

    def step(_, ranks):
        following = np.zeros(n)
        np.add.at(following, target, (ranks / np.maximum(out, 1))[source])
        lost = ranks[None, :] @ (out == 0).astype(float)  # pages without links
        return 0.15 / n + 0.85 * (following + lost / n)

    return lw.fori_loop(0, 50, step, start)


def inputs(size=2000):
    rng = np.random.default_rng(0)
    source = rng.integers(0, size, 10 * size)
    target = (size * rng.random(10 * size) ** 3).astype(int)  # low numbers are popular
    return source, target, np.full(size, 1 / size)


def main():
    source, target, start = inputs(500)
    ranks = pagerank(source, target, start)
    counts = np.bincount(target, minlength=500)
    print("page     rank   links to it")
    for page in np.argsort(-ranks)[:10]:
        print(f"{page:4d}  {ranks[page]:.5f}  {counts[page]:12d}")


if __name__ == "__main__":
    main()
