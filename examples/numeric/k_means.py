"""Clusters of points by Lloyd's algorithm (1957)."""

import loopwright as lw
import numpy as np


@lw.compile
def k_means(points, centres):
    """The centres after they have moved to the means of what is nearest to them, 20 times."""

    def move(_, centres):
        distances = ((points[:, None, :] - centres[None, :, :]) ** 2).sum(axis=2)
        nearest = distances.argmin(axis=1)
        members = (nearest[:, None] == np.arange(len(centres))).astype(points.dtype)
        counts = members.sum(axis=0)[:, None]
        return np.where(counts > 0, members.T @ points / np.maximum(counts, 1), centres)

    return lw.fori_loop(0, 20, move, centres)


def inputs(size=10_000, clusters=8):
    rng = np.random.default_rng(0)
    middles = rng.uniform(-10, 10, (clusters, 2))
    points = middles[rng.integers(0, clusters, size)] + rng.normal(size=(size, 2))
    return points, points[:clusters].copy()


def main():
    points, start = inputs(400, 4)
    centres = k_means(points, start)
    page = np.full((24, 72), " ")
    low, high = points.min(axis=0), points.max(axis=0)
    for marks, mark in ((points, "."), (centres, "O")):
        x, y = ((marks - low) / (high - low) * [71, 23]).astype(int).T
        page[y, x] = mark
    print("\n".join("".join(line).rstrip() for line in page))


if __name__ == "__main__":
    main()
