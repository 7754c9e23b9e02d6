"""GGUF files, written as their specification says."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any

import ml_dtypes  # noqa: F401  # so that NumPy has bfloat16 by name
import numpy as np

__all__ = ["KINDS", "gguf", "half", "q4_0", "q4_k", "q6_k", "q8_0", "small_llama"]

RNG = np.random.default_rng(0)


def text(value: str) -> bytes:
    """A string of the file."""
    return struct.pack("<Q", len(value.encode())) + value.encode()


def entry(name: str, value: Any) -> bytes:
    """A name and a value of the metadata."""
    if isinstance(value, list) and isinstance(value[0], str):
        return text(name) + struct.pack("<IIQ", 9, 8, len(value)) + b"".join(map(text, value))
    if isinstance(value, list):
        kind, letter = (6, "f") if isinstance(value[0], float) else (5, "i")
        return text(name) + struct.pack(f"<IIQ{len(value)}{letter}", 9, kind, len(value), *value)
    if isinstance(value, str):
        return text(name) + struct.pack("<I", 8) + text(value)
    kind = {bool: "?", int: "I", float: "f"}[type(value)]
    return text(name) + struct.pack(f"<I{kind}", {"?": 7, "I": 4, "f": 6}[kind], value)


def gguf(
    tensors: Mapping[str, tuple[list[int], int, bytes]],
    metadata: Mapping[str, Any],
    align: int = 32,
) -> bytes:
    """``tensors``: shapes, types and bytes."""
    pairs = [entry(n, v) for n, v in {**metadata, "general.alignment": align}.items()]
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(pairs)) + b"".join(pairs)
    data, rows = b"", b""
    for name, (shape, kind, content) in tensors.items():
        data += b"\0" * (-len(data) % align)
        dims = struct.pack(f"<I{len(shape)}Q", len(shape), *shape[::-1])
        rows += text(name) + dims + struct.pack("<IQ", kind, len(data))
        data += content
    head += rows
    return head + b"\0" * (-len(head) % align) + data


def half(value: float) -> bytes:
    """A float16."""
    return np.float16(value).tobytes()


Blocks = tuple[bytes, np.ndarray]


def q4_0(n: int, k: int, size: float = 1.0) -> Blocks:
    """Random blocks of 4 bits, scales up to ``size``, and the matrix that they stand for."""
    content, matrix = b"", np.zeros((n, k))
    for row in range(n):
        for start in range(0, k, 32):
            d, codes = np.float16(RNG.uniform(-size, size)), RNG.integers(0, 16, 32)
            content += half(d) + bytes(int(codes[i] | codes[i + 16] << 4) for i in range(16))
            matrix[row, start : start + 32] = (codes - 8) * float(d)
    return content, matrix


def q8_0(n: int, k: int, size: float = 1.0) -> Blocks:
    """Blocks of bytes."""
    content, matrix = b"", np.zeros((n, k))
    for row in range(n):
        for start in range(0, k, 32):
            d, codes = np.float16(RNG.uniform(-size, size)), RNG.integers(-128, 128, 32)
            content += half(d) + codes.astype(np.int8).tobytes()
            matrix[row, start : start + 32] = codes * float(d)
    return content, matrix


def q4_k(n: int, k: int, size: float = 0.1) -> Blocks:
    """Blocks of 4 bits, whose eight groups have scales and minima of 6 bits."""
    content, matrix = b"", np.zeros((n, k))
    for row in range(n):
        for start in range(0, k, 256):
            d, least = (np.float16(RNG.uniform(0, size)) for _ in range(2))
            scales, minima = RNG.integers(0, 64, (2, 8))
            packed = [0] * 12
            for j in range(4):
                packed[j] = int(scales[j] | scales[j + 4] >> 4 << 6)
                packed[j + 4] = int(minima[j] | minima[j + 4] >> 4 << 6)
                packed[j + 8] = int(scales[j + 4] & 15 | (minima[j + 4] & 15) << 4)
            codes = RNG.integers(0, 16, 256)
            content += half(d) + half(least) + bytes(packed)
            for pair in range(4):
                both = codes[64 * pair : 64 * pair + 32], codes[64 * pair + 32 : 64 * pair + 64]
                content += bytes(int(a | b << 4) for a, b in zip(*both))
            for j in range(8):
                part = codes[32 * j : 32 * j + 32] * (float(d) * scales[j])
                matrix[row, start + 32 * j : start + 32 * j + 32] = part - float(least) * minima[j]
    return content, matrix


def q6_k(n: int, k: int, size: float = 0.01) -> Blocks:
    """Blocks of 6 bits, whose sixteen groups have scales of 8 bits."""
    content, matrix = b"", np.zeros((n, k))
    for row in range(n):
        for start in range(0, k, 256):
            d, scales = np.float16(RNG.uniform(-size, size)), RNG.integers(-128, 128, 16)
            codes = RNG.integers(0, 64, 256)
            low, high = bytearray(128), bytearray(64)
            for half_block in range(2):
                c = codes[128 * half_block :]
                for i in range(32):
                    low[64 * half_block + i] = int(c[i] & 15 | (c[i + 64] & 15) << 4)
                    low[64 * half_block + i + 32] = int(c[i + 32] & 15 | (c[i + 96] & 15) << 4)
                    parts = (c[i + 32 * j] >> 4 << 2 * j for j in range(4))
                    high[32 * half_block + i] = int(sum(parts))
            content += bytes(low) + bytes(high) + scales.astype(np.int8).tobytes() + half(d)
            whole = (codes - 32) * np.repeat(scales, 16) * float(d)
            matrix[row, start : start + 256] = whole
    return content, matrix


def plain(dtype: str) -> Any:
    """Returns a function that gives random arrays of a dtype as bytes, and their values."""

    def made(*shape: int, size: float = 1.0) -> Blocks:
        array = RNG.uniform(-size, size, shape).astype(dtype)
        return array.tobytes(), array.astype(np.float64)

    return made


KINDS: dict[str, tuple[int, Any, float]] = {
    "F32": (0, plain("float32"), 0.1),
    "F16": (1, plain("float16"), 0.1),
    "BF16": (30, plain("bfloat16"), 0.1),
    "Q4_0": (2, q4_0, 0.02),
    "Q8_0": (8, q8_0, 0.001),
    "Q4_K": (12, q4_k, 0.0005),
    "Q6_K": (14, q6_k, 0.00005),
}
"""Types of tensors: their number, what makes them, and a size for weights of a model."""


def small_llama(
    kind: str,
    metadata: Mapping[str, Any],
    words: int,
    others: Mapping[str, str] | None = None,
    width: int = 256,
) -> tuple[bytes, dict[str, np.ndarray]]:
    """Returns the file of a Llama of two layers, 4 heads and 2 of keys, and its weights by their
    names in checkpoints; matrices are of a ``kind``, those named in ``others`` of another. It is
    the same one each time."""
    RNG.bit_generator.state = np.random.default_rng(1).bit_generator.state
    tensors: dict[str, tuple[list[int], int, bytes]] = {}
    weights: dict[str, np.ndarray] = {}

    def add(name: str, ours: str, *shape: int, heads: int = 0) -> None:
        norm = len(shape) == 1
        number, blocks, size = KINDS["F32" if norm else {**(others or {})}.get(name, kind)]
        content, matrix = blocks(*shape, size=size)
        if norm:
            matrix = np.linspace(0.5, 1.5, shape[0]).astype(np.float32).astype(np.float64)
            content = matrix.astype(np.float32).tobytes()
        tensors[f"{name}.weight"] = ([*shape], number, content)
        if (
            heads
        ):  # pairs of a rotation are neighbours in the file, elements of halves in checkpoints
            matrix = matrix.reshape(heads, -1, 2, shape[1]).swapaxes(1, 2).reshape(shape)
        weights[f"{ours}.weight"] = matrix

    add("token_embd", "model.embed_tokens", words, width)
    add("output_norm", "model.norm", width)
    for n in range(2):
        ours = f"model.layers.{n}"
        add(f"blk.{n}.attn_norm", f"{ours}.input_layernorm", width)
        add(f"blk.{n}.attn_q", f"{ours}.self_attn.q_proj", width, width, heads=4)
        add(f"blk.{n}.attn_k", f"{ours}.self_attn.k_proj", width // 2, width, heads=2)
        add(f"blk.{n}.attn_v", f"{ours}.self_attn.v_proj", width // 2, width)
        add(f"blk.{n}.attn_output", f"{ours}.self_attn.o_proj", width, width)
        add(f"blk.{n}.ffn_norm", f"{ours}.post_attention_layernorm", width)
        for part in ("gate", "up", "down"):
            add(f"blk.{n}.ffn_{part}", f"{ours}.mlp.{part}_proj", width, width)
    weights["lm_head.weight"] = weights["model.embed_tokens.weight"]
    if "output" in (others or {}):
        add("output", "lm_head", words, width)
    about = {"general.architecture": "llama"} | {
        f"llama.{key}": value
        for key, value in {
            "block_count": 2,
            "embedding_length": width,
            "feed_forward_length": width,
            "attention.head_count": 4,
            "attention.head_count_kv": 2,
            "context_length": 4096,
            "rope.freq_base": 50000.0,
            "attention.layer_norm_rms_epsilon": 1e-4,
        }.items()
    }
    return gguf(tensors, about | dict(metadata)), weights
