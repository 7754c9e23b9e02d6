"""A layer of a transformer's decoder: causal attention of several heads (Vaswani et al., 2017)."""

import loopwright as lw
import numpy as np

HEADS = 4


def normal(x):
    centred = x - x.mean(axis=-1, keepdims=True)
    return centred / np.sqrt((centred**2).mean(axis=-1, keepdims=True) + 1e-5)


@lw.compile
def attention(x, wq, wk, wv, wo):
    """``x`` [time, model] and what each place attends to; weights are [model, model]."""
    n, model = x.shape
    size = model // HEADS
    y = normal(x)
    q, k, v = ((y @ w).reshape(n, HEADS, size).transpose(1, 0, 2) for w in (wq, wk, wv))
    scores = q @ k.transpose(0, 2, 1) / np.sqrt(np.float32(size))
    scores = np.where(np.tril(np.ones((n, n), bool)), scores, -np.inf)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights = weights / weights.sum(axis=-1, keepdims=True)
    return x + (weights @ v).transpose(1, 0, 2).reshape(n, model) @ wo, weights


def inputs(size=128, model=128):
    rng = np.random.default_rng(0)
    weights = rng.standard_normal((4, model, model), np.float32) / np.float32(12)
    return rng.standard_normal((size, model), np.float32), *weights


def main():
    _, weights = attention(*inputs(24))
    for row in weights[0]:
        print("".join(" .:-=+*#%@"[min(9, int(20 * w))] * 2 for w in row).rstrip())


if __name__ == "__main__":
    main()
