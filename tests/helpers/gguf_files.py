"""GGUF files, written as their specification says."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any

import numpy as np

__all__ = ["gguf", "half", "q4_0"]

RNG = np.random.default_rng(0)


def text(value: str) -> bytes:
    """A string of the file."""
    return struct.pack("<Q", len(value.encode())) + value.encode()


def entry(name: str, value: Any) -> bytes:
    """A name and a value of the metadata."""
    if isinstance(value, list) and isinstance(value[0], str):
        return text(name) + struct.pack("<IIQ", 9, 8, len(value)) + b"".join(map(text, value))
    if isinstance(value, list):
        return text(name) + struct.pack(f"<IIQ{len(value)}f", 9, 6, len(value), *value)
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


def q4_0(n: int, k: int) -> tuple[bytes, np.ndarray]:
    """Random blocks of 4 bits, and the matrix that they stand for."""
    content, matrix = b"", np.zeros((n, k))
    for row in range(n):
        for start in range(0, k, 32):
            d, codes = np.float16(RNG.uniform(-1, 1)), RNG.integers(0, 16, 32)
            content += half(d) + bytes(int(codes[i] | codes[i + 16] << 4) for i in range(16))
            matrix[row, start : start + 32] = (codes - 8) * float(d)
    return content, matrix
