"""A network of two layers learns a function, with gradients by hand and Adam (Kingma, 2015)."""

import loopwright as lw
import numpy as np


def gradients(params, x, y):
    w1, b1, w2, b2 = params
    hidden = np.tanh(x @ w1 + b1)
    error = 2 * (hidden @ w2 + b2 - y) / len(x)
    back = (error @ w2.T) * (1 - hidden**2)
    return x.T @ back, back.sum(axis=0), hidden.T @ error, error.sum(axis=0)


@lw.compile
def adam(params, x, y):
    """The parameters after 300 steps."""

    def step(i, state):
        params, means, squares = state
        grads = gradients(params, x, y)
        means = [0.9 * m + 0.1 * g for m, g in zip(means, grads)]
        squares = [0.999 * s + 0.001 * g**2 for s, g in zip(squares, grads)]
        rate = 0.01 * np.sqrt(1 - 0.999 ** (i + 1)) / (1 - 0.9 ** (i + 1))
        pairs = zip(params, means, squares)
        return [p - rate * m / (np.sqrt(s) + 1e-8) for p, m, s in pairs], means, squares

    zeros = [np.zeros_like(p) for p in params]
    return lw.fori_loop(0, 300, step, (list(params), zeros, zeros))[0]


def inputs(size=256, hidden=64):
    rng = np.random.default_rng(0)
    x = rng.uniform(-3, 3, (size, 1))
    w1, w2 = rng.normal(size=(1, hidden)), rng.normal(size=(hidden, 1)) / 8
    return [w1, rng.normal(size=hidden), w2, np.zeros(1)], x, np.sin(2 * x) * np.exp(-0.1 * x**2)


def main():
    params, x, y = inputs()
    for steps in range(300, 1201, 300):
        params = adam(params, x, y)
        w1, b1, w2, b2 = params
        learned = np.tanh(x @ w1 + b1) @ w2 + b2
        print(f"{steps:5d} steps: mean square error {((learned - y) ** 2).mean():.2e}")


if __name__ == "__main__":
    main()
