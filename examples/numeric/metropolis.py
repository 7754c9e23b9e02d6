"""The posterior of a logistic model by the algorithm of Metropolis et al. (1953), many chains."""

import loopwright as lw
import numpy as np


def log_posterior(w, x, y):
    """Of each of the weights [chains, features], given points and their classes of 0 and 1."""
    scores = w @ x.T
    return (y * scores - np.logaddexp(0, scores)).sum(axis=1) - 0.5 * (w**2).sum(axis=1)


@lw.compile
def metropolis(x, y, steps, chances):
    """Weights [steps, chains, features]; ``steps`` are normal and ``chances`` uniform numbers."""

    def move(state, draw):
        w, log_p = state
        step, chance = draw
        proposed = w + 0.1 * step
        log_q = log_posterior(proposed, x, y)
        accepted = np.log(chance) < log_q - log_p
        w = np.where(accepted[:, None], proposed, w)
        return (w, np.where(accepted, log_q, log_p)), w

    start = np.zeros(steps.shape[1:])
    return lw.scan(move, (start, log_posterior(start, x, y)), (steps, chances))[1]


def inputs(size=200, chains=16, points=200):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(points, 3))
    y = (rng.random(points) < 1 / (1 + np.exp(-x @ [1.0, -2.0, 0.5]))).astype(float)
    return x, y, rng.normal(size=(size, chains, 3)), rng.random((size, chains))


def main():
    weights = metropolis(*inputs(1000))[300:].reshape(-1, 3)
    print("weight   mean   deviation   95 % of the posterior")
    for k, w in enumerate(weights.T):
        low, high = np.percentile(w, [2.5, 97.5])
        print(f"{k:6d}  {w.mean():+.3f}  {w.std():9.3f}   {low:+.2f} to {high:+.2f}")


if __name__ == "__main__":
    main()
