"""A long short-term memory over a batch of sequences (Hochreiter and Schmidhuber, 1997)."""

import loopwright as lw
import numpy as np


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


@lw.compile
def lstm(xs, w, u, b):
    """All hidden states; ``xs`` is [time, batch, features], the four gates are in one matrix."""
    hidden = u.shape[0]

    def step(state, x):
        h, c = state
        gates = x @ w + h @ u + b
        i, f, g, o = np.split(gates, 4, axis=1)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
        return (h, c), h

    start = np.zeros((xs.shape[1], hidden), xs.dtype)
    return lw.scan(step, (start, start), xs)[1]


def inputs(size=128, batch=16, features=64, hidden=128):
    rng = np.random.default_rng(0)
    xs = rng.standard_normal((size, batch, features), np.float32)
    w = rng.standard_normal((features, 4 * hidden), np.float32) / 8
    u = rng.standard_normal((hidden, 4 * hidden), np.float32) / 12
    return xs, w, u, np.zeros(4 * hidden, np.float32)


def main():
    states = lstm(*inputs())
    print("time   mean      deviation of the hidden states")
    for time in range(0, len(states), 16):
        print(f"{time:4d}  {states[time].mean():+.4f}   {states[time].std():.4f}")


if __name__ == "__main__":
    main()
