"""Classes of points by a vote of their nearest neighbours (Cover and Hart, 1967)."""

import loopwright as lw
import numpy as np

K, CLASSES = 5, 4


@lw.compile
def nearest_neighbours(x, labels, queries):
    """The class that most of the nearest ``K`` points have, for each query."""
    squares = (queries**2).sum(axis=1)[:, None] - 2 * queries @ x.T + (x**2).sum(axis=1)
    nearest = np.argsort(squares, axis=1)[:, :K]
    votes = (labels[nearest][:, :, None] == np.arange(CLASSES)).sum(axis=1)
    return votes.argmax(axis=1)


def inputs(size=1000, features=8):
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(CLASSES, features))
    labels = rng.integers(0, CLASSES, size)
    x = centres[labels] + rng.normal(size=(size, features))
    return (
        x,
        labels,
        centres[rng.integers(0, CLASSES, size // 2)] + rng.normal(size=(size // 2, features)),
    )


def main():
    x, labels, _ = inputs(300, 2)
    low, high = x.min(axis=0), x.max(axis=0)
    across, down = np.meshgrid(np.linspace(0, 1, 60), np.linspace(0, 1, 22))
    grid = np.stack([across.ravel(), down.ravel()], axis=1) * (high - low) + low
    for row in nearest_neighbours(x, labels, grid).reshape(22, 60):
        print("".join(".o*#"[label] for label in row))


if __name__ == "__main__":
    main()
