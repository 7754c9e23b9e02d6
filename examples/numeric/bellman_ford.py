"""Shortest paths from one node along edges (Bellman, 1958; Ford, 1956)."""

import loopwright as lw
import numpy as np


@lw.compile
def bellman_ford(source, target, length, start):
    """Distances from where ``start`` is 0, and how many rounds it took."""

    def goes_on(state):
        return state[1]

    def relax(state):
        distance, _, rounds = state
        shorter = distance.copy()
        np.minimum.at(shorter, target, distance[source] + length)
        return shorter, (shorter < distance).any(), rounds + 1

    distance, _, rounds = lw.while_loop(goes_on, relax, (start, True, 0))
    return distance, rounds


def inputs(size=2000):
    rng = np.random.default_rng(0)
    source, target = rng.integers(0, size, (2, 8 * size))
    start = np.full(size, np.inf)
    start[0] = 0
    return source, target, rng.uniform(1, 10, 8 * size), start


def main():
    side = 12  # a grid whose streets are of several lengths
    node = np.arange(side * side).reshape(side, side)
    source = np.concatenate([node[:, :-1].ravel(), node[:-1].ravel()])
    target = np.concatenate([node[:, 1:].ravel(), node[1:].ravel()])
    length = np.random.default_rng(0).integers(1, 9, len(source)).astype(float)
    both = np.concatenate([source, target]), np.concatenate([target, source]), np.tile(length, 2)
    start = np.full(side * side, np.inf)
    start[0] = 0
    distance, rounds = bellman_ford(*both, start)
    print(f"{rounds} rounds; distances from the upper left corner:")
    for row in distance.reshape(side, side):
        print("".join(f"{d:4.0f}" for d in row))


if __name__ == "__main__":
    main()
