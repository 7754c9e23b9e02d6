"""Digits by softmax regression: gradient descent on the cross-entropy."""

import loopwright as lw
import numpy as np


def softmax(scores):
    e = np.exp(scores - scores.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


@lw.compile
def softmax_regression(x, labels):
    """Weights and offsets after 100 steps."""
    classes = np.eye(10, dtype=x.dtype)[labels]

    def step(_, state):
        w, b = state
        wrong = (softmax(x @ w + b) - classes) / len(x)
        return w - 0.5 * (x.T @ wrong), b - 0.5 * wrong.sum(axis=0)

    start = np.zeros((x.shape[1], 10), x.dtype), np.zeros(10, x.dtype)
    return lw.fori_loop(0, 100, step, start)


def inputs(size=1000, features=64):
    rng = np.random.default_rng(0)
    digits = rng.random((10, features), np.float32)
    labels = rng.integers(0, 10, size)
    return digits[labels] + 0.4 * rng.standard_normal((size, features), np.float32), labels


def main():
    x, labels = inputs()
    w, b = softmax_regression(x[:800], labels[:800])
    guessed = (x[800:] @ w + b).argmax(axis=1)
    confused = np.zeros((10, 10), int)
    np.add.at(confused, (labels[800:], guessed), 1)
    print(f"{(guessed == labels[800:]).mean():.1%} of 200 right; rows are labels, columns guesses")
    print(confused)


if __name__ == "__main__":
    main()
