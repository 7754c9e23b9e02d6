"""A convolutional network learns handwritten digits: an epoch is one native call.

The data are the UCI digits that ship with scikit-learn: 1,797 real images of 8 x 8 pixels, of
which 360 are the test set. Shuffling, batches, forward pass, gradients and Adam's steps are one
compiled function; its state is donated, so that the epoch after this one uses its memory::

    lw.random.permutation    the order of an epoch, by its key
    lw.fori_loop             its steps
    lw.value_and_grad        of the loss, in the loop's body
    lw.optim.adam            with a rate that falls

    python -m examples.train_digits
"""

from __future__ import annotations

import time
from typing import Any

import loopwright as lw
import numpy as np
from sklearn.datasets import load_digits

TRAINED_ON, BATCH = 1437, 32

_digits = load_digits()
_order = np.random.default_rng(0).permutation(len(_digits.target))  # writers are in sequence
IMAGES = (_digits.images[_order] / 16).astype(np.float32)[..., None]  # float32[1797, 8, 8, 1]
LABELS = _digits.target[_order]


def start(seed: int) -> dict[str, Any]:
    """Weights of two convolutions and a product, scaled after He (2015)."""
    rng = np.random.default_rng(seed)
    shapes = {"k1": (3, 3, 1, 16), "k2": (3, 3, 16, 32), "w": (128, 10)}
    weights = {n: rng.standard_normal(s, np.float32) for n, s in shapes.items()}
    params = {n: w * np.float32(np.sqrt(2 / w[..., 0].size)) for n, w in weights.items()}
    return params | {"b" + n: np.zeros(s[-1], np.float32) for n, s in shapes.items()}


def scores(params: Any, x: Any) -> Any:
    """float32[n, 8, 8, 1] -> float32[n, 10]"""
    for name in "k1", "k2":
        x = lw.nn.conv2d(x, params[name], padding=1, data_layout="NHWC", kernel_layout="HWIO")
        x = lw.nn.max_pool2d(np.maximum(x + params["b" + name], 0), pool_size=2, layout="NHWC")
    return x.reshape(len(x), -1) @ params["w"] + params["bw"]


def loss(params: Any, x: Any, labels: Any) -> Any:
    """The mean cross-entropy."""
    return -lw.nn.log_softmax(scores(params, x))[np.arange(len(labels)), labels].mean()


optimiser = lw.optim.adam(lambda step: 4e-3 * 0.997**step)


@lw.compile(donate_argnames=("params", "state"))
def epoch(params: Any, state: Any, key: Any, images: Any, labels: Any) -> Any:
    """Returns parameters and optimiser's state after all batches, and their mean loss."""
    order = lw.random.permutation(key, len(images))

    def step(i: Any, carry: Any) -> Any:
        params, state, total = carry
        rows = order[i * BATCH : i * BATCH + BATCH]
        value, grads = lw.value_and_grad(loss)(params, images[rows], labels[rows])
        changes, state = optimiser.update(grads, state, params)
        return lw.optim.apply(params, changes), state, total + value

    steps = len(images) // BATCH
    params, state, total = lw.fori_loop(0, steps, step, (params, state, np.float32(0)))
    return params, state, total / steps


def main(epochs: int = 12) -> float:
    """Returns the accuracy on the test set."""
    params, reached = start(0), 0.0
    state = optimiser.init(params)
    classify = lw.compile(lambda params: scores(params, IMAGES[TRAINED_ON:]).argmax(axis=1))
    print("epoch   seconds   loss     test accuracy")
    for n, key in enumerate(lw.random.split(lw.random.key(0), epochs)):
        begin = time.perf_counter()
        params, state, mean = epoch(params, state, key, IMAGES[:TRAINED_ON], LABELS[:TRAINED_ON])
        seconds = time.perf_counter() - begin
        reached = float((classify(params) == LABELS[TRAINED_ON:]).mean())
        print(f"{n + 1:5} {seconds:9.3f}   {mean:.4f} {reached:12.2%}")
    return reached


if __name__ == "__main__":
    main()
