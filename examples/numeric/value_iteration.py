"""The best way through a windy grid by value iteration (Bellman, 1957)."""

import loopwright as lw
import numpy as np

MOVES = ((-1, 0), (0, 1), (1, 0), (0, -1))


def moved(values, walls, move):
    """The values where a move leads to; who meets a wall stays."""
    p = np.pad(values, 1, mode="edge")
    dy, dx = move
    h, w = values.shape
    there = p[1 + dy : 1 + dy + h, 1 + dx : 1 + dx + w]
    blocked = np.pad(walls, 1, mode="edge")[1 + dy : 1 + dy + h, 1 + dx : 1 + dx + w]
    return np.where(blocked, values, there)


@lw.compile
def value_iteration(rewards, walls, goal):
    """Values of cells and the number of the best move, after 200 sweeps."""

    def q(values):
        each = np.stack([moved(values, walls, move) for move in MOVES])
        drift = (np.roll(each, 1, axis=0) + np.roll(each, -1, axis=0)) / 2
        return rewards + 0.95 * (0.8 * each + 0.2 * drift)

    def sweep(_, values):
        return np.where(goal, rewards, q(values).max(axis=0))

    values = lw.fori_loop(0, 200, sweep, np.zeros_like(rewards))
    return values, q(values).argmax(axis=0)


def inputs(size=64):
    rng = np.random.default_rng(1)
    walls = rng.random((size, size)) < 0.2
    goal = np.zeros((size, size), bool)
    goal[size // 2, 3 * size // 4] = True
    return np.where(goal, 10.0, -0.1), walls & ~goal, goal


def main():
    rewards, walls, goal = inputs(20)
    _, best = value_iteration(rewards, walls, goal)
    for moves, blocked, ends in zip(best, walls, goal):
        cells = zip(moves, blocked, ends)
        print(" ".join("G" if end else "#" if wall else "^>v<"[move] for move, wall, end in cells))


if __name__ == "__main__":
    main()
