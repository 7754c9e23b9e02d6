"""How long a token takes at least: its bytes over the measured bandwidth."""

from __future__ import annotations

from math import prod

from loopwright.codegen.probes import Probes, aligned_buffer
from loopwright.codegen.target import Target
from loopwright.decoding.llama import Sizes

from examples.decoder import GPT2

__all__ = ["BITS", "bandwidth", "token_bytes"]

_BYTES = 256 << 20
"""Read by each thread: beyond what a cache that all share can hold."""
_KERNELS = ("read", "read_streams")


def bandwidth(threads: int, rounds: int = 5) -> float:
    """Returns the bytes per second that ``threads`` threads read from main memory at best."""
    probes = Probes(Target.host())
    buffers = [aligned_buffer(_BYTES) for _ in range(threads)]
    total = sum(b.nbytes for b in buffers)
    return max(total / probes.seconds(kernel, buffers, 1, rounds)[0] for kernel in _KERNELS)


BITS = {"float32": 32.0, "bfloat16": 16.0, "int8": 8.5, "int4": 4.5}
"""Bits of an element of a matrix, with its share of a scale, by the kind of the weights."""


def token_bytes(sizes: Sizes, position: int, kind: str = "float32") -> int:
    """Returns the bytes that a token of GPT-2 at a position reads: all weights but the embeddings
    of other tokens and positions, and the keys and values up to its own."""
    bits = 0.0
    for name, shape in GPT2.shapes(sizes).items():
        count = sizes.width if name == "wpe.weight" else prod(shape)
        bits += count * (BITS[kind] if len(shape) > 1 else 32)
    cache = 2 * sizes.layers * sizes.groups * sizes.head * (position + 1)
    return int(bits / 8) + 4 * cache
