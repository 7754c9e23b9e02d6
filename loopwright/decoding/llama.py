"""Llama's decoder in NumPy style, and what other decoders share with it.

A model is called with the tokens from position ``start`` on and the cache, which holds the keys and
values of all positions before. It writes those of its own tokens into the cache, in place, and
returns the scores of what comes after the last one.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any

import numpy as np

from .. import xp
from ..codegen.runtime.buffers import HugePages
from ..doors.weight_files import PackedWeights
from ..ir.dataclass import dataclass
from ..ir.dtype import Array, dtype_of
from ..tracer import nn


@dataclass(frozen=True, slots=True)
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


CACHES = ("float32", "bfloat16", "int8")
"""Kinds of caches."""


def empty_cache(sizes: Sizes, kind: str = "float32") -> list[Any]:
    """Returns the keys and values of each position, [2, groups, context, head], by layer: arrays of
    float32 or bfloat16, or int8 codes with the float32 step of each vector."""
    shape = (2, sizes.groups, sizes.context, sizes.head)
    narrow, step = dtype_of("bfloat16").numpy, np.dtype(np.float32)
    dtype = {"int8": np.dtype(np.int8), "bfloat16": narrow}.get(kind, step)
    memory = HugePages(sizes.layers * prod(shape) * dtype.itemsize)
    layers = [memory.array(shape, dtype) for _ in range(sizes.layers)]
    return (
        [(codes, memory.array(shape[:-1], step)) for codes in layers] if kind == "int8" else layers
    )


class Llama:
    """Touvron and others, "LLaMA: Open and Efficient Foundation Language Models" (2023).

    RMSNorm, rotary positions, grouped queries, SwiGLU. ``weights`` has the names and shapes of the
    published checkpoints, ``model.embed_tokens.weight`` to ``lm_head.weight``; matrices may be
    PackedWeights. Position p rotates pair n of a head by ``p * base**(-2 * n / head)``, over
    ``divisors``, one or one for each pair; pairs are elements of the two halves of a head, or
    ``interleaved``. ``activations`` are those of ``lw.nn.matmul_nbits``; where these are bytes, the
    attention of several positions is ``short``.
    """

    def __init__(
        self,
        sizes: Sizes,
        weights: Mapping[str, Any],
        *,
        base: float = 10000.0,
        divisors: Array | float = 1.0,
        interleaved: bool = False,
        epsilon: float = 1e-5,
        activations: str = "int8",
    ) -> None:
        self.sizes, self.weights, self.epsilon = sizes, weights, epsilon
        self.interleaved, self.activations = interleaved, activations
        self.short = activations == "int8" and any(map(is_packed, weights.values()))
        frequencies = base ** -(np.arange(0, sizes.head, 2) / sizes.head) / divisors
        angles = np.outer(np.arange(sizes.context), frequencies)
        self.cosines, self.sines = np.cos(angles).astype("f"), np.sin(angles).astype("f")

    @staticmethod
    def shapes(sizes: Sizes) -> dict[str, tuple[int, ...]]:
        """Returns the shapes of the weights by name."""
        width, hidden, kept = sizes.width, sizes.hidden, sizes.groups * sizes.head
        shapes: dict[str, tuple[int, ...]] = {"model.embed_tokens.weight": (sizes.words, width)}
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

    def __call__(self, tokens: Any, start: Any, cache: Any) -> Any:
        sizes, count = self.sizes, tokens.shape[0]
        waves = (self.cosines, self.sines)
        cosines, sines = (xp.asarray(wave)[start : start + count] for wave in waves)
        x = rows_of(self.weights["model.embed_tokens.weight"], tokens)
        for layer in range(sizes.layers):
            name = f"model.layers.{layer}"
            h = self._norm(f"{name}.input_layernorm", x)
            q, k, v = (
                self._dense(f"{name}.self_attn.{part}_proj", h)
                .reshape(count, -1, sizes.head)
                .swapaxes(0, 1)
                for part in "qkv"
            )
            q, k = (nn.rotary_embedding(each, cosines, sines, self.interleaved) for each in (q, k))
            context = attend(q, k, v, start, cache[layer], self.short)
            x = x + self._dense(f"{name}.self_attn.o_proj", context)
            h = self._norm(f"{name}.post_attention_layernorm", x)
            h = nn.silu(self._dense(f"{name}.mlp.gate_proj", h)) * self._dense(
                f"{name}.mlp.up_proj", h
            )
            x = x + self._dense(f"{name}.mlp.down_proj", h)
        last, head = self._norm("model.norm", x[-1]), self.weights["lm_head.weight"]
        return times(last, head, self.activations) if is_packed(head) else head @ last

    def _dense(self, name: str, x: Any) -> Any:
        weight = self.weights[f"{name}.weight"]
        return times(x, weight if is_packed(weight) else weight.T, self.activations)

    def _norm(self, name: str, x: Any) -> Any:
        scaled = x / np.sqrt((x * x).mean(-1, keepdims=True) + self.epsilon)
        return scaled * self.weights[f"{name}.weight"]


def is_packed(matrix: Any) -> bool:
    """Returns True for a matrix (k, n) of few bits."""
    return isinstance(matrix, PackedWeights)


def times(x: Any, matrix: Any, activations: str = "int8") -> Any:
    """Returns ``x @ matrix`` for an array or PackedWeights."""
    return matrix.product(x, activations) if is_packed(matrix) else x @ matrix


def rows_of(table: Any, tokens: Any) -> Any:
    """Returns rows of a matrix of embeddings as floats of 32 bits at least."""
    return table.columns(tokens).T if is_packed(table) else _wide(xp.asarray(table)[tokens])


def _wide(x: Any) -> Any:
    """An array of any dtype as one of floats of 32 bits at least."""
    return x if x.dtype.itemsize > 2 else x.astype(np.float32)


def attend(q: Any, k: Any, v: Any, start: Any, cache: Any, short: bool = False) -> Any:
    """Writes keys and values of new positions into the cache, and returns what the queries find.

    ``q`` is (heads, new positions, head), ``k`` and ``v`` (groups, new positions, head), ``cache``
    one of a layer; the result is (new positions, heads * head). Several new positions that are
    ``short`` multiply in bfloat16, with sums of float32: each factor is off by at most 2**-8 of
    itself. A single one is not, as reading the cache takes longer than its products.
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
    several = type(count) is not int or count > 1
    narrow = _narrow if short and several else lambda x: x
    rows = (groups, heads // groups * count)
    scores = _wide(narrow(q).reshape(*rows, head)) @ _wide(narrow(keys)).swapaxes(1, 2)
    if steps is not None:
        scores = scores * steps[0, :, None, : start + count]
    scores = scores.reshape(groups, -1, count, end) / np.float32(head**0.5)
    if several:  # a single new position sees all there are
        seen = xp.arange(end) <= start + xp.arange(count)[:, None]
        scores = np.where(seen, scores, np.float32(-np.inf))
    weights = nn.softmax(scores)
    if steps is not None:
        weights = weights * steps[1, :, None, None, : start + count]
    weights = _wide(narrow(weights).reshape(*rows, end))
    context = (weights @ _wide(narrow(values))).reshape(heads, count, head)
    return context.swapaxes(0, 1).reshape(count, -1)


def _narrow(x: Any) -> Any:
    """An array of any dtype as one of bfloat16."""
    return x.astype(dtype_of("bfloat16").numpy)
