"""Two classifiers of handwritten digits: trained here in NumPy, in seconds, and compiled.

The data are the UCI digits that ship with scikit-learn: 1,797 real images of 8 x 8 pixels.
``predict`` is a perceptron of three layers in plain NumPy; ``predict_cnn`` is a small convolutional
network, with ``lw.nn`` for what NumPy lacks. Try

    loopwright show examples/digits.py:predict --level kernels
    loopwright tune examples/digits.py:predict --budget 20s --log digits.jsonl
"""

from __future__ import annotations

import loopwright as lw
import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from sklearn.datasets import load_digits

TRAINED_ON = 1437  # images; the other 360 are the test set

_digits = load_digits()
IMAGES = (_digits.images / 16).astype(np.float32)  # float32[1797, 8, 8], 0 to 1
LABELS = _digits.target  # int64[1797]


# What is compiled. The weights are captured from outside, so they become constants.


def predict(x):
    """Scores of ten digits for images as rows: float32[n, 64] -> float32[n, 10]."""
    h = np.maximum(x @ W1 + B1, 0)
    h = np.maximum(h @ W2 + B2, 0)
    return h @ W3 + B3


def predict_cnn(x):
    """The same for images with a channel axis: float32[n, 8, 8, 1] -> float32[n, 10]."""
    for kernel, bias in ((K1, C1), (K2, C2)):
        x = lw.nn.conv2d(x, kernel, padding=1, data_layout="NHWC", kernel_layout="HWIO")
        x = lw.nn.relu(x + bias)
        x = lw.nn.max_pool2d(x, pool_size=2, layout="NHWC")
    return x.reshape(x.shape[0], -1) @ D + E


def predict_cnn_numpy(x):
    """``predict_cnn`` in NumPy alone, the reference."""
    for kernel, bias in ((K1, C1), (K2, C2)):
        x = _max_pool(np.maximum(_conv(x, kernel) + bias, 0))
    return x.reshape(len(x), -1) @ D + E


def predict_inputs():
    """The arguments ``loopwright`` uses for ``predict`` when none are given: the whole set."""
    return (IMAGES.reshape(-1, 64),)


def predict_cnn_inputs():
    """The same for ``predict_cnn``."""
    return (IMAGES[..., None],)


# Training: stochastic gradient descent with momentum, gradients by hand.


def _conv(x, kernel):
    """3 x 3 convolution, padded by one: [n, h, w, c] and [3, 3, c, d] -> [n, h, w, d]."""
    return _patches(x) @ kernel.reshape(-1, kernel.shape[-1])


def _patches(x):
    padded = np.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))
    windows = sliding_window_view(padded, (3, 3), axis=(1, 2))  # [n, h, w, c, 3, 3]
    return windows.transpose(0, 1, 2, 4, 5, 3).reshape(*x.shape[:3], -1)


def _max_pool(x):
    n, h, w, c = x.shape
    return x.reshape(n, h // 2, 2, w // 2, 2, c).max(axis=(2, 4))


def _max_pool_gradient(x, pooled, gradient):
    n, h, w, c = pooled.shape
    wide = (n, h, 1, w, 1, c)
    won = x.reshape(n, h, 2, w, 2, c) == pooled.reshape(wide)
    return (won * gradient.reshape(wide)).reshape(x.shape)


def _error(scores, labels):
    """The gradient of the mean cross-entropy by the scores."""
    p = np.exp(scores - scores.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    p[np.arange(len(labels)), labels] -= 1
    return p / len(labels)


def _mlp_gradients(weights, x, labels):
    w1, b1, w2, b2, w3, b3 = weights
    h1 = np.maximum(x @ w1 + b1, 0)
    h2 = np.maximum(h1 @ w2 + b2, 0)
    d3 = _error(h2 @ w3 + b3, labels)
    d2 = (d3 @ w3.T) * (h2 > 0)
    d1 = (d2 @ w2.T) * (h1 > 0)
    return x.T @ d1, d1.sum(0), h1.T @ d2, d2.sum(0), h2.T @ d3, d3.sum(0)


def _cnn_gradients(weights, x, labels):
    k1, c1, k2, c2, d, e = weights
    a1 = np.maximum(_conv(x, k1) + c1, 0)
    p1 = _max_pool(a1)
    a2 = np.maximum(_conv(p1, k2) + c2, 0)
    p2 = _max_pool(a2)
    flat = p2.reshape(len(x), -1)
    ds = _error(flat @ d + e, labels)
    da2 = _max_pool_gradient(a2, p2, (ds @ d.T).reshape(p2.shape)) * (a2 > 0)
    dp1 = _conv(da2, k2[::-1, ::-1].transpose(0, 1, 3, 2))
    da1 = _max_pool_gradient(a1, p1, dp1) * (a1 > 0)
    dk2 = np.tensordot(_patches(p1), da2, axes=((0, 1, 2), (0, 1, 2))).reshape(k2.shape)
    dk1 = np.tensordot(_patches(x), da1, axes=((0, 1, 2), (0, 1, 2))).reshape(k1.shape)
    return dk1, da1.sum((0, 1, 2)), dk2, da2.sum((0, 1, 2)), flat.T @ ds, ds.sum(0)


def _train(shapes, gradients, x, *, epochs, rate, batch=32, momentum=0.9):
    """Weights of those shapes, trained on ``x`` and ``LABELS``; the same in every run."""
    rng = np.random.default_rng(0)
    weights = [
        (rng.standard_normal(s) * np.sqrt(2 / max(1, np.prod(s[:-1])))).astype(np.float32)
        if len(s) > 1
        else np.zeros(s, np.float32)
        for s in shapes
    ]
    speeds = [np.zeros_like(w) for w in weights]
    for epoch in range(epochs):
        order = rng.permutation(TRAINED_ON)
        step = np.float32(rate * (1 - epoch / epochs))
        for at in range(0, TRAINED_ON, batch):
            rows = order[at : at + batch]
            for w, v, g in zip(weights, speeds, gradients(weights, x[rows], LABELS[rows])):
                v *= momentum
                v -= step * g
                w += v
    return weights


W1, B1, W2, B2, W3, B3 = _train(
    [(64, 128), (128,), (128, 64), (64,), (64, 10), (10,)],
    _mlp_gradients,
    IMAGES.reshape(-1, 64),
    epochs=25,
    rate=0.05,
)
K1, C1, K2, C2, D, E = _train(
    [(3, 3, 1, 16), (16,), (3, 3, 16, 32), (32,), (128, 10), (10,)],
    _cnn_gradients,
    IMAGES[..., None],
    epochs=6,
    rate=0.03,
)
