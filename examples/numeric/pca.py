"""Principal components by power iteration on the covariance, with orthogonal vectors."""

import loopwright as lw
import numpy as np


def orthogonal(v):
    """The columns of ``v`` after Gram and Schmidt."""
    columns = []
    for k in range(v.shape[1]):
        c = v[:, k]
        for other in columns:
            c = c - (other @ c) * other
        columns.append(c / np.sqrt(c @ c))
    return np.stack(columns, axis=1)


@lw.compile
def pca(x, start):
    """Components [features, k] and the variances along them."""
    centred = x - x.mean(axis=0)
    covariance = centred.T @ centred / (len(x) - 1)
    v = lw.fori_loop(0, 100, lambda _, v: orthogonal(covariance @ v), start)
    return v, ((centred @ v) ** 2).sum(axis=0) / (len(x) - 1)


def inputs(size=2000, features=64, k=4):
    rng = np.random.default_rng(0)
    spread = 4.0 * 0.7 ** np.arange(features)
    basis = np.linalg.qr(rng.normal(size=(features, features)))[0]
    return rng.normal(size=(size, features)) * spread @ basis.T, rng.normal(size=(features, k))


def main():
    x, start = inputs(1000, 16)
    _, variances = pca(x, start)
    total = x.var(axis=0, ddof=1).sum()
    print("component  variance  of all")
    for k, variance in enumerate(variances):
        share = variance / total
        print(f"{k:9d}  {variance:8.3f}  {share:6.1%}  {'#' * int(60 * share)}")


if __name__ == "__main__":
    main()
