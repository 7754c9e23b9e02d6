"""How long a token takes at least: its bytes over the measured bandwidth."""

from __future__ import annotations

from loopwright.codegen.probes import Probes, aligned_buffer
from loopwright.codegen.target import Target

from examples.decoder import GPT2, Sizes

__all__ = ["bandwidth", "token_bytes"]

_BYTES = 256 << 20
"""Read by each thread: beyond what a cache that all share can hold."""
_KERNELS = ("read", "read_streams")


def bandwidth(threads: int, rounds: int = 5) -> float:
    """Returns the bytes per second that ``threads`` threads read from main memory at best."""
    probes = Probes(Target.host())
    buffers = [aligned_buffer(_BYTES) for _ in range(threads)]
    total = sum(b.nbytes for b in buffers)
    return max(total / probes.seconds(kernel, buffers, 1, rounds)[0] for kernel in _KERNELS)


def token_bytes(sizes: Sizes, position: int) -> int:
    """Returns the bytes that a token of GPT-2 at a position reads: all weights but the embeddings
    of other tokens and positions, and the keys and values up to its own."""
    numbers = 0
    for name, shape in GPT2.shapes(sizes).items():
        count = 1
        for size in shape:
            count *= size
        numbers += sizes.width if name == "wpe.weight" else count
    cache = 2 * sizes.layers * sizes.groups * sizes.head * (position + 1)
    return 4 * (numbers + cache)
