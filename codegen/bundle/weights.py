"""The constants of a bundle in one file, each once, where kernels want them.

::

    b"LWWEIGHT"   a tag of 8 bytes, which the object's code compares   zeros up to 64 bytes
    constants     at multiples of 64; large ones in the middle of a page (``IN_PAGE``)

The file is mapped, or linked as an object: both leave the constants in pages that processes share,
and neither copies them. A mapped one can be replaced, and does not pass through linkers.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

import numpy as np

from ...ir.dataclass import dataclass
from ...ir.dtype import Array
from ..llvm.one_object import LinkedText, one_object
from ..runtime.call_text import IN_PAGE, PAGED_BYTES
from ..target import Target
from .interface import CACHE_LINE

MAGIC = b"LWWEIGHT"
PAGE = 4096


@dataclass(frozen=True, slots=True)
class Weights:
    """The bytes of the file, the tag of its content, and where constants begin, by their digest."""

    data: bytes
    tag: int
    offsets: Mapping[bytes, int]

    def offset(self, constant: Array) -> int:
        """Returns where a constant begins in the file."""
        return self.offsets[_digest(constant)]


def weights_of(constants: Sequence[Array]) -> Weights:
    """Returns the file of all constants; equal ones share their place."""
    offsets: dict[bytes, int] = {}
    parts: list[bytes] = []
    end = CACHE_LINE
    digest = hashlib.sha256()
    for constant in constants:
        key = _digest(constant)
        if key in offsets:
            continue
        content = np.ascontiguousarray(constant).tobytes()
        unit, place = (PAGE, IN_PAGE) if len(content) >= PAGED_BYTES else (CACHE_LINE, 0)
        gap = (place - end) % unit
        offsets[key] = end + gap
        parts += [bytes(gap), content]
        end += gap + len(content)
        digest.update(key)
        digest.update(offsets[key].to_bytes(8, "little"))
    tag = digest.digest()[:8]
    head = (MAGIC + tag).ljust(CACHE_LINE, b"\0")
    return Weights(b"".join([head, *parts]), int.from_bytes(tag, "little"), offsets)


def _digest(constant: Array) -> bytes:
    return hashlib.sha256(np.ascontiguousarray(constant).tobytes()).digest()


def weights_object(weights: Weights, symbol: str, target: Target) -> bytes:
    """Returns an object whose ``symbol`` is the content of the file."""
    content = "\\" + weights.data.hex("\\")
    text = f'@{symbol} = constant [{len(weights.data)} x i8] c"{content}", align {PAGE}\n'
    return one_object([LinkedText(text, target, {symbol: symbol})], (symbol,), target)
