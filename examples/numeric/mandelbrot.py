"""Mandelbrot's set (1980): how soon each point of the plane escapes."""

import loopwright as lw
import numpy as np


@lw.compile
def mandelbrot(x, y):
    """Iterations of ``z * z + c`` until ``|z|`` exceeds 2, at most 50, int64[len(y), len(x)]."""
    c = x + 1j * y[:, None]

    def step(_, state):
        z, count = state
        inside = np.abs(z) <= 2
        return np.where(inside, z * z + c, z), count + inside

    z = np.zeros_like(c)
    return lw.fori_loop(0, 50, step, (z, np.zeros(c.shape, np.int64)))[1]


def inputs(size=300):
    return np.linspace(-2, 0.6, size), np.linspace(-1.2, 1.2, size)


def main():
    count = mandelbrot(np.linspace(-2, 0.6, 72), np.linspace(-1.2, 1.2, 28))
    for row in count:
        print("".join(" .:-=+*#%@"[c // 5 if c < 50 else 9] for c in row))


if __name__ == "__main__":
    main()
