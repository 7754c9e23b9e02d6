"""Llamas in GGUF files: sizes from the metadata, weights as the file has them, all checked."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ..doors.weight_files import load_weights
from ..ir.errors import LoopwrightValueError
from ..ir.files import refusing
from .llama import Llama, Sizes, is_packed
from .vocabulary import Vocabulary

_NAMES = {
    "token_embd": "model.embed_tokens",
    "output_norm": "model.norm",
    "output": "lm_head",
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
"""The names that Llama has for the tensors of a file."""

_FLOATS = ("float32", "float16", "bfloat16")


def read_llama(
    path: str | Path, context: int, activations: str = "float32"
) -> tuple[Llama, Vocabulary]:
    """Returns the Llama in a file, for at most ``context`` positions, and its vocabulary.

    Raises LoopwrightValueError for another architecture, and for tensors and metadata that do not
    make up a Llama; LoopwrightOSError for a damaged file.
    """
    file = load_weights(path)
    with refusing(path):
        kind = file.metadata.get("general.architecture", "llama")
        if kind != "llama":
            raise LoopwrightValueError(f"{path} holds a model of the kind {kind!r}, not 'llama'")
        vocabulary = Vocabulary(file.metadata)
        tensors = dict(file.tensors)
        divisors, stretch = tensors.pop("rope_freqs.weight", None), _stretch(file.metadata)
        sizes = _sizes(file.metadata, len(tensors), len(vocabulary.pieces), context)
        if divisors is not None and (
            divisors.shape != (sizes.head // 2,) or not (divisors > 0).all()
        ):
            raise LoopwrightValueError(
                f"{path}: rope_freqs.weight does not fit heads of {sizes.head}"
            )
        model = Llama(
            sizes,
            _weights(tensors, sizes),
            base=_real(file.metadata, "rope.freq_base", 10000.0),
            divisors=stretch if divisors is None else divisors * stretch,
            interleaved=True,
            epsilon=_real(file.metadata, "attention.layer_norm_rms_epsilon", 1e-5),
            activations=activations,
        )
    return model, vocabulary


def _sizes(metadata: Mapping[str, Any], tensors: int, words: int, context: int) -> Sizes:
    """Sizes, of which those of tensors are checked with these."""
    width = _whole(metadata, "embedding_length")
    heads = _whole(metadata, "attention.head_count")
    groups = _whole(metadata, "attention.head_count_kv", heads)
    if width % (2 * heads) or heads % groups:
        raise LoopwrightValueError(
            f"{heads} heads, {groups} of keys, do not share {width} elements"
        )
    plain = {"attention.key_length": width // heads, "attention.value_length": width // heads}
    plain |= {"rope.dimension_count": width // heads, "expert_count": 0}
    for key, usual in plain.items():
        value = metadata.get(f"llama.{key}", usual)
        if value != usual:
            raise LoopwrightValueError(f"llama.{key} is {value!r}; {usual!r} is supported")
    layers = _whole(metadata, "block_count")
    if layers > tensors:
        raise LoopwrightValueError(f"{layers} layers of {tensors} tensors")
    most = min(context, _whole(metadata, "context_length"))
    hidden = _whole(metadata, "feed_forward_length")
    return Sizes(layers, width, heads, groups, hidden, words, most)


def _stretch(metadata: Mapping[str, Any]) -> float:
    """Returns what positions are divided by, as files say whose context was made longer so."""
    kind = metadata.get("llama.rope.scaling.type", "linear")
    if kind not in ("none", "linear"):
        raise LoopwrightValueError(f"llama.rope.scaling.type is {kind!r}; 'linear' is supported")
    factor = _real(metadata, "rope.scaling.factor", _real(metadata, "rope.scale_linear", 1.0))
    return factor if kind == "linear" else 1.0


def _weights(tensors: Mapping[str, Any], sizes: Sizes) -> dict[str, Any]:
    weights: dict[str, Any] = {}
    for name, tensor in tensors.items():
        *layer, kind = name.removesuffix(".weight").removeprefix("blk.").split(".")
        inside = f"model.layers.{layer[0]}." if layer else ""
        weights[f"{inside}{_NAMES.get(kind, kind)}.weight"] = tensor
    weights.setdefault("lm_head.weight", weights.get("model.embed_tokens.weight"))
    shapes = Llama.shapes(sizes)
    for name, shape in shapes.items():
        shape_there = _shape(weights.get(name))
        if shape_there != shape:
            raise LoopwrightValueError(f"{name} is {shape_there} in the file, not {shape}")
    if more := weights.keys() - shapes.keys():
        raise LoopwrightValueError(f"{min(more)} is not a tensor of a Llama")
    return weights


def _shape(tensor: Any) -> tuple[int, ...] | None:
    """The shape as that of an array; None for what is not of floats."""
    if is_packed(tensor):
        return tensor.shape[::-1]
    is_float = isinstance(tensor, np.ndarray) and tensor.dtype.name in _FLOATS
    return tensor.shape if is_float else None


def _whole(metadata: Mapping[str, Any], key: str, default: int | None = None) -> int:
    value = metadata.get(f"llama.{key}", default)
    if type(value) is not int or value < 1:
        raise LoopwrightValueError(f"llama.{key} is {value!r}, not an integer from 1 on")
    return value


def _real(metadata: Mapping[str, Any], key: str, default: float) -> float:
    value = metadata.get(f"llama.{key}", default)
    if type(value) is not float or not 0 < value < math.inf:
        raise LoopwrightValueError(f"llama.{key} is {value!r}, not a positive number")
    return value
