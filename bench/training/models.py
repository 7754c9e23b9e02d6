"""Six models as losses over a namespace ``m`` (``namespaces.py``), with seeded weights and data."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["MODELS", "Model", "made"]

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Model:
    """``loss(m, params, *data)`` is a number; ``params`` is a tree of float32 arrays."""

    loss: Callable[..., Any]
    params: Any
    data: tuple[Array, ...]


def made(name: str) -> Model:
    """Returns a model, the same one every time."""
    return MODELS[name](Draws())


class Draws:
    """Random arrays, the same for every new object."""

    def __init__(self) -> None:
        self._rng = np.random.default_rng(0)

    def weights(self, *shape: int, gain: float = 2.0) -> Array:
        """Returns normal weights for a product over all axes but the last, or of a kernel (4 axes)
        over all but the first."""
        inputs = np.prod(shape[1:] if len(shape) == 4 else shape[:-1])
        return self.normal(*shape) * np.sqrt(gain / inputs, dtype=np.float32)

    def normal(self, *shape: int) -> Array:
        return self._rng.standard_normal(shape).astype(np.float32)

    def labels(self, count: int, *shape: int) -> Array:
        return self._rng.integers(0, count, shape)


def _zeros(*shape: int) -> Array:
    return np.zeros(shape, np.float32)


def _norm(width: int) -> dict[str, Array]:
    return {"scale": np.ones(width, np.float32), "shift": _zeros(width)}


def mlp(draw: Draws) -> Model:
    """784 - 512 - 256 - 10, batch 128."""
    sizes = (784, 512, 256, 10)
    params = [(draw.weights(a, b), _zeros(b)) for a, b in itertools.pairwise(sizes)]

    def loss(m: Any, params: Any, x: Any, y: Any) -> Any:
        for w, b in params[:-1]:
            x = m.relu(x @ w + b)
        w, b = params[-1]
        return m.cross_entropy(x @ w + b, y)

    return Model(loss, params, (draw.normal(128, 784), draw.labels(10, 128)))


def cnn(draw: Draws) -> Model:
    """Digits of 28 x 28: two convolutions of 32 and 64 channels, two layers; batch 64."""
    params = {
        "c1": draw.weights(32, 1, 3, 3), "a1": _zeros(32, 1, 1),
        "c2": draw.weights(64, 32, 3, 3), "a2": _zeros(64, 1, 1),
        "w1": draw.weights(3136, 128), "b1": _zeros(128),
        "w2": draw.weights(128, 10), "b2": _zeros(10),
    }  # fmt: skip

    def loss(m: Any, p: Any, x: Any, y: Any) -> Any:
        x = m.max_pool(m.relu(m.conv(x, p["c1"], 1, 1) + p["a1"]), 2, 2, 0)
        x = m.max_pool(m.relu(m.conv(x, p["c2"], 1, 1) + p["a2"]), 2, 2, 0)
        x = m.relu(x.reshape(64, 3136) @ p["w1"] + p["b1"])
        return m.cross_entropy(x @ p["w2"] + p["b2"], y)

    return Model(loss, params, (draw.normal(64, 1, 28, 28), draw.labels(10, 64)))


def resnet18(draw: Draws) -> Model:
    """ResNet-18 with batch statistics on 16 images of 64 x 64."""
    blocks: list[Any] = []
    params = {
        "conv": draw.weights(64, 3, 7, 7), "norm": _norm(64), "blocks": blocks,
        "w": draw.weights(512, 100), "b": _zeros(100),
    }  # fmt: skip
    layout = [(64, 1), (64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), (512, 1)]
    inputs = 64
    for width, _ in layout:
        block = {"conv1": draw.weights(width, inputs, 3, 3), "norm1": _norm(width)}
        block |= {"conv2": draw.weights(width, width, 3, 3), "norm2": _norm(width)}
        if width != inputs:
            block |= {"conv3": draw.weights(width, inputs, 1, 1), "norm3": _norm(width)}
        blocks.append(block)
        inputs = width

    def loss(m: Any, p: Any, x: Any, y: Any) -> Any:
        x = m.relu(m.batch_norm(m.conv(x, p["conv"], 2, 3), **p["norm"]))
        x = m.max_pool(x, 3, 2, 1)
        for (_, stride), block in zip(layout, p["blocks"]):
            h = m.batch_norm(m.conv(x, block["conv1"], stride, 1), **block["norm1"])
            h = m.batch_norm(m.conv(m.relu(h), block["conv2"], 1, 1), **block["norm2"])
            if "conv3" in block:
                x = m.batch_norm(m.conv(x, block["conv3"], stride, 0), **block["norm3"])
            x = m.relu(x + h)
        return m.cross_entropy(x.mean(axis=(2, 3)) @ p["w"] + p["b"], y)

    return Model(loss, params, (draw.normal(16, 3, 64, 64), draw.labels(100, 16)))


def _language(
    draw: Draws, layers: int, batch: int, length: int, width: int = 256, words: int = 512
) -> Model:
    heads = 8
    params = {
        "words": draw.weights(words, width, gain=1), "places": draw.weights(length, width, gain=1),
        "out": draw.weights(width, words, gain=1),
        "layers": [
            {
                "norm1": _norm(width), "qkv": draw.weights(width, 3 * width, gain=1),
                "mix": draw.weights(width, width, gain=0.1), "norm2": _norm(width),
                "w1": draw.weights(width, 4 * width), "b1": _zeros(4 * width),
                "w2": draw.weights(4 * width, width, gain=0.1), "b2": _zeros(width),
            }
            for _ in range(layers)
        ],
    }  # fmt: skip

    def loss(m: Any, p: Any, words: Any, following: Any) -> Any:
        x = p["words"][words] + p["places"]
        for layer in p["layers"]:
            h = m.layer_norm(x, **layer["norm1"]) @ layer["qkv"]
            q, k, v = (
                h[..., n * width : (n + 1) * width]
                .reshape(batch, length, heads, width // heads)
                .swapaxes(1, 2)
                for n in range(3)
            )
            mixed = m.causal_attention(q, k, v).swapaxes(1, 2).reshape(batch, length, width)
            x = x + mixed @ layer["mix"]
            h = m.gelu(m.layer_norm(x, **layer["norm2"]) @ layer["w1"] + layer["b1"])
            x = x + h @ layer["w2"] + layer["b2"]
        return m.cross_entropy(x @ p["out"], following)

    return Model(
        loss, params, (draw.labels(words, batch, length), draw.labels(words, batch, length))
    )


def transformer(draw: Draws) -> Model:
    """Two layers of 256, 8 sequences of 64 words."""
    return _language(draw, 2, 8, 64)


def gpt(draw: Draws) -> Model:
    """Six layers of 256, one sequence of 128 words."""
    return _language(draw, 6, 1, 128)


def lstm(draw: Draws) -> Model:
    """256 cells over 64 steps of 128 features, batch 32; the last state is classified."""
    cells, features, batch, steps = 256, 128, 32, 64
    params = {
        "w": draw.weights(features, 4 * cells, gain=1).T.copy(),
        "r": draw.weights(cells, 4 * cells, gain=1).T.copy(),
        "b": _zeros(4 * cells),
        "out": draw.weights(cells, 10),
    }

    def loss(m: Any, p: Any, x: Any, y: Any) -> Any:
        return m.cross_entropy(m.lstm(x, p["w"], p["r"], p["b"]) @ p["out"], y)

    return Model(loss, params, (draw.normal(steps, batch, features), draw.labels(10, batch)))


MODELS: dict[str, Callable[[Draws], Model]] = {
    f.__name__: f for f in (mlp, cnn, resnet18, transformer, lstm, gpt)
}
