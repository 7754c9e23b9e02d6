"""Conway's Game of Life (1970) on a torus."""

import loopwright as lw
import numpy as np


@lw.compile
def game_of_life(cells):
    """The cells after 100 generations; uint8, 1 is alive."""

    def generation(_, cells):
        rows = np.roll(cells, 1, axis=0) + cells + np.roll(cells, -1, axis=0)
        around = np.roll(rows, 1, axis=1) + rows + np.roll(rows, -1, axis=1) - cells
        return ((around == 3) | ((cells == 1) & (around == 2))).astype(np.uint8)

    return lw.fori_loop(0, 100, generation, cells)


def inputs(size=512):
    return ((np.random.default_rng(0).random((size, size)) < 0.3).astype(np.uint8),)


def main():
    glider = np.zeros((24, 48), np.uint8)
    glider[1:4, 1:4] = [[0, 1, 0], [0, 0, 1], [1, 1, 1]]
    for cells in (glider, game_of_life(glider)):
        print("\n".join("".join(" O"[c] for c in row) for row in cells))
        print("-" * 48)


if __name__ == "__main__":
    main()
