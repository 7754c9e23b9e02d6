"""GPT-2 in NumPy style, beside the Llama of ``loopwright.decoding``: see there how it is called."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from loopwright.decoding.llama import Llama, Sizes, attend, rows_of, times

__all__ = [
    "GPT2",
    "GPT2_SMALL",
    "SMALL_LLAMA",
    "TINY_GPT2",
    "loaded_llama",
    "random_weights",
]


GPT2_SMALL = Sizes(12, 768, 12, 12, 3072, 50257, 1024)
TINY_GPT2 = Sizes(layers=2, width=64, heads=4, groups=4, hidden=256, words=256, context=256)
SMALL_LLAMA = Sizes(layers=8, width=512, heads=8, groups=2, hidden=1408, words=8192, context=1024)


class GPT2:
    """Radford and others, "Language Models are Unsupervised Multitask Learners" (2019).

    ``weights`` has the names and shapes of the published checkpoint, ``wte.weight`` to
    ``ln_f.bias``.
    """

    def __init__(self, sizes: Sizes, weights: Mapping[str, np.ndarray]) -> None:
        self.sizes, self.weights = sizes, weights

    @staticmethod
    def shapes(sizes: Sizes) -> dict[str, tuple[int, ...]]:
        """Returns the shapes of the weights by name."""
        width, hidden = sizes.width, sizes.hidden
        shapes = {"wte.weight": (sizes.words, width), "wpe.weight": (sizes.context, width)}
        for layer in range(sizes.layers):
            for name, shape in (
                ("ln_1", (width,)),
                ("attn.c_attn", (width, 3 * width)),
                ("attn.c_proj", (width, width)),
                ("ln_2", (width,)),
                ("mlp.c_fc", (width, hidden)),
                ("mlp.c_proj", (hidden, width)),
            ):
                shapes[f"h.{layer}.{name}.weight"] = shape
                shapes[f"h.{layer}.{name}.bias"] = shape[-1:]
        return shapes | {"ln_f.weight": (width,), "ln_f.bias": (width,)}

    @classmethod
    def loaded(cls, weights: Mapping[str, np.ndarray], heads: int = 12) -> GPT2:
        """Returns the model of a checkpoint, whose sizes are read off its arrays."""
        words, width = weights["wte.weight"].shape
        hidden = weights["h.0.mlp.c_fc.weight"].shape[1]
        layers = _count(weights, "h.{}.ln_1.weight")
        context = len(weights["wpe.weight"])
        return cls(Sizes(layers, width, heads, heads, hidden, words, context), weights)

    def __call__(self, tokens: Any, start: Any, cache: Any) -> Any:
        return self.scores(self.rows(tokens, start, cache)[-1])

    def rows(self, tokens: Any, start: Any, cache: Any) -> Any:
        """Returns what the layers make of tokens behind ``start`` others, a row each."""
        sizes, count = self.sizes, tokens.shape[0]
        x = rows_of(self.weights["wte.weight"], tokens)
        x = x + rows_of(self.weights["wpe.weight"], slice(start, start + count))
        for layer in range(sizes.layers):
            h = self._norm(f"h.{layer}.ln_1", x)
            qkv = self._dense(f"h.{layer}.attn.c_attn", h).reshape(count, 3, sizes.heads, -1)
            q, k, v = (qkv[:, n].swapaxes(0, 1) for n in range(3))
            x = x + self._dense(f"h.{layer}.attn.c_proj", attend(q, k, v, start, cache[layer]))
            h = gelu(self._dense(f"h.{layer}.mlp.c_fc", self._norm(f"h.{layer}.ln_2", x)))
            x = x + self._dense(f"h.{layer}.mlp.c_proj", h)
        return x

    def scores(self, x: Any) -> Any:
        """Returns the scores of what comes after a row, or after each of them."""
        last = self._norm("ln_f", x)
        if "head" in self.weights:
            return times(last, self.weights["head"])
        words = self.weights["wte.weight"]
        return words @ last if last.ndim == 1 else last @ words.T

    def _dense(self, name: str, x: Any) -> Any:
        return times(x, self.weights[f"{name}.weight"]) + self.weights[f"{name}.bias"]

    def _norm(self, name: str, x: Any) -> Any:
        centred = x - x.mean(-1, keepdims=True)
        scaled = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5)
        return scaled * self.weights[f"{name}.weight"] + self.weights[f"{name}.bias"]


def loaded_llama(weights: Mapping[str, np.ndarray], heads: int, context: int = 2048) -> Llama:
    """Returns the model of a checkpoint, whose sizes are read off its arrays."""
    words, width = weights["model.embed_tokens.weight"].shape
    hidden = len(weights["model.layers.0.mlp.gate_proj.weight"])
    groups = len(weights["model.layers.0.self_attn.k_proj.weight"]) * heads // width
    layers = _count(weights, "model.layers.{}.input_layernorm.weight")
    return Llama(Sizes(layers, width, heads, groups, hidden, words, context), weights)


def gelu(x: Any) -> Any:
    """The approximation with tanh, which GPT-2 was trained with."""
    return 0.5 * x * (1 + np.tanh(0.7978845608 * (x + 0.044715 * x**3)))


def random_weights(shapes: Mapping[str, tuple[int, ...]], seed: int = 0) -> dict[str, np.ndarray]:
    """Returns float32 arrays that keep activations of a size near 1."""
    rng = np.random.default_rng(seed)
    weights: dict[str, np.ndarray] = {}
    for name, shape in shapes.items():
        weights[name] = rng.standard_normal(shape, np.float32)
        if len(shape) == 2:
            weights[name] *= np.float32(shape[-1] ** -0.5)
        else:
            weights[name] = weights[name] * np.float32(0.1) + np.float32(
                "norm" in name or "ln" in name
            )
    return weights


def _count(weights: Mapping[str, np.ndarray], name: str) -> int:
    layer = 0
    while name.format(layer) in weights:
        layer += 1
    return layer
