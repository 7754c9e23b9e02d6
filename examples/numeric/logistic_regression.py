"""Logistic regression by Newton's method, with standard errors."""

import loopwright as lw
import numpy as np


@lw.compile
def logistic_regression(x, y):
    """Coefficients and their standard errors."""

    def newton(_, w):
        p = 1 / (1 + np.exp(-x @ w))
        hessian = x.T @ (x * (p * (1 - p))[:, None])
        return w + np.linalg.solve(hessian, x.T @ (y - p))

    w = lw.fori_loop(0, 8, newton, np.zeros(x.shape[1]))
    p = 1 / (1 + np.exp(-x @ w))
    return w, np.sqrt(np.diag(np.linalg.inv(x.T @ (x * (p * (1 - p))[:, None]))))


def inputs(size=2000, features=20):
    rng = np.random.default_rng(0)
    x = np.column_stack([np.ones(size), rng.normal(size=(size, features - 1))])
    chance = 1 / (1 + np.exp(-x @ np.linspace(-1, 1, features)))
    return x, (rng.random(size) < chance).astype(float)


def main():
    coefficients, errors = logistic_regression(*inputs(2000, 5))
    print("    true   fitted   error")
    for true, fitted, error in zip(np.linspace(-1, 1, 5), coefficients, errors):
        print(f"{true:+8.2f} {fitted:+8.3f} {error:7.3f}")


if __name__ == "__main__":
    main()
