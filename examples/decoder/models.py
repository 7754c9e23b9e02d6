"""Two decoders in NumPy style: one as GPT-2 is built, one as Llama is.

A model is called with the tokens from position ``start`` on and the cache, which holds the keys and
values of all positions before. It writes those of its own tokens into the cache, in place, and
returns the scores of what comes after the last one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import loopwright as lw
import ml_dtypes
import numpy as np

from .few_bits import is_packed, times

__all__ = ["GPT2", "GPT2_SMALL", "Llama", "SMALL_LLAMA", "Sizes", "empty_cache"]


@dataclass(frozen=True)
class Sizes:
    """``groups`` is the number of heads of keys and values, ``hidden`` the width of the layers of
    the perceptron, ``words`` the size of the vocabulary, ``context`` the most positions."""

    layers: int
    width: int
    heads: int
    groups: int
    hidden: int
    words: int
    context: int

    @property
    def head(self) -> int:
        """The width of one head."""
        return self.width // self.heads


GPT2_SMALL = Sizes(12, 768, 12, 12, 3072, 50257, 1024)
SMALL_LLAMA = Sizes(layers=8, width=512, heads=8, groups=2, hidden=1408, words=8192, context=1024)


def empty_cache(sizes: Sizes, kind: str = "float32") -> list[Any]:
    """Returns the keys and values of each position, [2, groups, context, head], by layer: arrays of
    float32 or bfloat16, or int8 codes with the float32 step of each vector."""
    shape = (2, sizes.groups, sizes.context, sizes.head)
    if kind == "int8":
        layers = range(sizes.layers)
        return [(np.zeros(shape, np.int8), np.zeros(shape[:-1], np.float32)) for _ in layers]
    dtype = ml_dtypes.bfloat16 if kind == "bfloat16" else np.float32
    return [np.zeros(shape, dtype) for _ in range(sizes.layers)]


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
        sizes, count = self.sizes, tokens.shape[0]
        x = _rows(self.weights["wte.weight"], tokens)
        x = x + _rows(self.weights["wpe.weight"], slice(start, start + count))
        for layer in range(sizes.layers):
            h = self._norm(f"h.{layer}.ln_1", x)
            qkv = self._dense(f"h.{layer}.attn.c_attn", h).reshape(count, 3, sizes.heads, -1)
            q, k, v = (qkv[:, n].swapaxes(0, 1) for n in range(3))
            x = x + self._dense(f"h.{layer}.attn.c_proj", attend(q, k, v, start, cache[layer]))
            h = gelu(self._dense(f"h.{layer}.mlp.c_fc", self._norm(f"h.{layer}.ln_2", x)))
            x = x + self._dense(f"h.{layer}.mlp.c_proj", h)
        last = self._norm("ln_f", x[-1])
        if "head" in self.weights:
            return times(last, self.weights["head"])
        return self.weights["wte.weight"] @ last

    def _dense(self, name: str, x: Any) -> Any:
        return times(x, self.weights[f"{name}.weight"]) + self.weights[f"{name}.bias"]

    def _norm(self, name: str, x: Any) -> Any:
        centred = x - x.mean(-1, keepdims=True)
        scaled = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5)
        return scaled * self.weights[f"{name}.weight"] + self.weights[f"{name}.bias"]


class Llama:
    """Touvron and others, "LLaMA: Open and Efficient Foundation Language Models" (2023).

    RMSNorm, rotary positions, grouped queries, SwiGLU. ``weights`` has the names and shapes of the
    published checkpoints, ``model.embed_tokens.weight`` to ``lm_head.weight``.
    """

    def __init__(
        self, sizes: Sizes, weights: Mapping[str, np.ndarray], base: float = 10000.0
    ) -> None:
        self.sizes, self.weights = sizes, weights
        frequencies = base ** -(np.arange(0, sizes.head, 2) / sizes.head)
        angles = np.outer(np.arange(sizes.context), frequencies)
        self.cosines, self.sines = np.cos(angles).astype("f"), np.sin(angles).astype("f")

    @staticmethod
    def shapes(sizes: Sizes) -> dict[str, tuple[int, ...]]:
        """Returns the shapes of the weights by name."""
        width, hidden, kept = sizes.width, sizes.hidden, sizes.groups * sizes.head
        shapes = {"model.embed_tokens.weight": (sizes.words, width)}
        for layer in range(sizes.layers):
            for name, shape in (
                ("input_layernorm", (width,)),
                ("self_attn.q_proj", (width, width)),
                ("self_attn.k_proj", (kept, width)),
                ("self_attn.v_proj", (kept, width)),
                ("self_attn.o_proj", (width, width)),
                ("post_attention_layernorm", (width,)),
                ("mlp.gate_proj", (hidden, width)),
                ("mlp.up_proj", (hidden, width)),
                ("mlp.down_proj", (width, hidden)),
            ):
                shapes[f"model.layers.{layer}.{name}.weight"] = shape
        return shapes | {"model.norm.weight": (width,), "lm_head.weight": (sizes.words, width)}

    @classmethod
    def loaded(cls, weights: Mapping[str, np.ndarray], heads: int, context: int = 2048) -> Llama:
        """Returns the model of a checkpoint, whose sizes are read off its arrays."""
        words, width = weights["model.embed_tokens.weight"].shape
        hidden = len(weights["model.layers.0.mlp.gate_proj.weight"])
        groups = len(weights["model.layers.0.self_attn.k_proj.weight"]) * heads // width
        layers = _count(weights, "model.layers.{}.input_layernorm.weight")
        return cls(Sizes(layers, width, heads, groups, hidden, words, context), weights)

    def __call__(self, tokens: Any, start: Any, cache: Any) -> Any:
        sizes, count = self.sizes, tokens.shape[0]
        cosines = self.cosines[start : start + count]
        sines = self.sines[start : start + count]
        x = _rows(self.weights["model.embed_tokens.weight"], tokens)
        for layer in range(sizes.layers):
            name = f"model.layers.{layer}"
            h = self._norm(f"{name}.input_layernorm", x)
            q, k, v = (
                self._dense(f"{name}.self_attn.{part}_proj", h)
                .reshape(count, -1, sizes.head)
                .swapaxes(0, 1)
                for part in "qkv"
            )
            q, k = (lw.nn.rotary_embedding(each, cosines, sines) for each in (q, k))
            x = x + self._dense(f"{name}.self_attn.o_proj", attend(q, k, v, start, cache[layer]))
            h = self._norm(f"{name}.post_attention_layernorm", x)
            gate = self._dense(f"{name}.mlp.gate_proj", h)
            h = gate / (1 + np.exp(-gate)) * self._dense(f"{name}.mlp.up_proj", h)
            x = x + self._dense(f"{name}.mlp.down_proj", h)
        last, head = self._norm("model.norm", x[-1]), self.weights["lm_head.weight"]
        return times(last, head) if is_packed(head) else head @ last

    def _dense(self, name: str, x: Any) -> Any:
        weight = self.weights[f"{name}.weight"]
        return times(x, weight if is_packed(weight) else weight.T)

    def _norm(self, name: str, x: Any) -> Any:
        scaled = x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5)
        return scaled * self.weights[f"{name}.weight"]


def _rows(table: Any, at: Any) -> Any:
    return _wide(table[at])


def _wide(x: Any) -> Any:
    """An array of any dtype as one of floats of 32 bits at least."""
    return x if x.dtype.itemsize > 2 else x.astype(np.float32)


def attend(q: Any, k: Any, v: Any, start: Any, cache: Any) -> Any:
    """Writes keys and values of new positions into the cache, and returns what the queries find.

    ``q`` is (heads, new positions, head), ``k`` and ``v`` (groups, new positions, head), ``cache``
    one of a layer; the result is (new positions, heads * head).
    """
    heads, count, head = q.shape
    groups = k.shape[0]
    stored, steps = cache if isinstance(cache, tuple) else (cache, None)
    here = slice(start, start + count)
    for n, new in enumerate((k, v)):
        if steps is not None:
            step = np.abs(new).max(-1) / np.float32(127)
            steps[n, :, here] = step
            new = np.rint(new / np.maximum(step, np.float32(1e-30))[..., None])
        stored[n, :, here] = new.astype(stored.dtype)
    keys, values = stored[:, :, : start + count]
    end = keys.shape[1]  # a size, which data may decide
    q = q.reshape(groups, -1, head)
    scores = q @ _wide(keys).swapaxes(1, 2)
    if steps is not None:
        scores = scores * steps[0, :, None, : start + count]
    scores = scores.reshape(groups, -1, count, end) / np.float32(head**0.5)
    if type(count) is not int or count > 1:  # a single new position sees all there are
        seen = np.arange(end) <= start + np.arange(count)[:, None]
        scores = np.where(seen, scores, np.float32(-np.inf))
    weights = lw.nn.softmax(scores).reshape(groups, -1, end)
    if steps is not None:
        weights = weights * steps[1, :, None, : start + count]
    found = (weights @ _wide(values)).reshape(heads, count, head)
    return found.swapaxes(0, 1).reshape(count, -1)


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
