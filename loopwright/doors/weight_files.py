"""Weights in the files that others write: GGUF and safetensors, read without a framework.

The file is mapped into memory. Arrays of floats and integers are views of it; matrices in blocks of
few bits become what ``lw.nn.matmul_nbits`` takes, in their own order of rows and columns: (k, n).
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from .. import xp
from ..face.user_errors import reports_errors
from ..ir.dataclass import dataclass
from ..ir.dtype import Array, dtype_of
from ..ir.errors import LoopwrightValueError
from ..ir.files import map_named, refusing
from ..tracer import nn

_BY_LETTER = {"F": "float", "BF": "bfloat", "I": "int", "U": "uint"}
_SAFETENSORS = {f"{k}{n}": f"{w}{n}" for k, w in _BY_LETTER.items() for n in (8, 16, 32, 64)} | {
    "BOOL": "bool"
}
"""Dtypes by their names in safetensors."""
_NUMBERS = {**dict(enumerate("BbHhIif?")), 10: "Q", 11: "q", 12: "d"}
"""Formats of numbers in the metadata of GGUF, by their type there."""
_PLAIN = {0: "float32", 1: "float16", 24: "int8", 26: "int32", 28: "float64", 30: "bfloat16"}
"""Dtypes of tensors of GGUF that are no blocks, by their type there."""
_TEXT, _LIST = 8, 9


@dataclass(frozen=True, slots=True)
class PackedWeights:
    """A matrix (k, n) of few bits: the operands of ``lw.nn.matmul_nbits``, and what is subtracted
    from each group of weights (k / group, n), if that is not a zero point."""

    w: Array
    scales: Array
    bits: int
    least: Array | None = None

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.w) * 8 // self.bits, self.w.shape[1]

    def product(self, x: Any, activations: str = "float32") -> Any:
        """``x @ matrix`` for float32 rows of length k, in a compiled function or outside."""
        if self.least is None:
            return nn.matmul_nbits(x, self.w, self.scales, None, self.bits, activations)
        zeros = np.zeros(self.scales.shape, np.uint8)
        made = nn.matmul_nbits(x, self.w, self.scales, zeros, self.bits, activations)
        groups = x.reshape(*x.shape[:-1], len(self.scales), -1).sum(-1)
        return made - groups @ self.least

    def columns(self, index: Any = slice(None)) -> Any:
        """Columns as float32, (k, count), in a compiled function or outside."""
        w, scales, *least = (
            xp.asarray(each)[:, index]
            for each in (self.w, self.scales, self.least)
            if each is not None
        )
        count, bits = len(self.scales), np.uint8(self.bits)
        shifts = np.arange(0, 8, bits, dtype=np.uint8)[:, None, None]
        codes = w.reshape(count, 1, -1, w.shape[1]) >> shifts & np.uint8(2**self.bits - 1)
        zero = 2 ** (self.bits - 1) if self.least is None else 0
        codes = codes.reshape(count, -1, w.shape[1]).astype(np.float32) - np.float32(zero)
        values = codes * scales.astype(np.float32)[:, None]
        values = values - least[0][:, None] if least else values
        return values.reshape(-1, w.shape[1])


@dataclass(frozen=True, slots=True)
class WeightFile:
    """``metadata`` of the file, and its ``tensors`` by name: arrays, or PackedWeights."""

    metadata: dict[str, Any]
    tensors: dict[str, Any]


@reports_errors
def load_weights(path: str | Path) -> WeightFile:
    """Reads a GGUF or safetensors file, whichever it is.

    Blocks of GGUF may be Q4_0, Q8_0, Q4_K and Q6_K, whose codes become bytes. Raises
    LoopwrightOSError for a file that is damaged or cannot be read, LoopwrightValueError for kinds
    of blocks that are not supported.

    >>> import tempfile, os
    >>> path = os.path.join(tempfile.mkdtemp(), "w.safetensors")
    >>> head = b'{"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}'
    >>> with open(path, "wb") as file:
    ...     _ = file.write(len(head).to_bytes(8, "little") + head + np.float32(3).tobytes())
    >>> lw.load_weights(path).tensors["w"]
    array([3.], dtype=float32)
    """
    data = np.frombuffer(map_named(path), np.uint8)
    with refusing(path):
        return _gguf(data) if data[:4].tobytes() == b"GGUF" else _safetensors(data)


def _part(data: Array, start: int, nbytes: int) -> Array:
    if not 0 <= start <= start + nbytes <= len(data):
        raise ValueError("a tensor lies outside of the file")
    return data[start : start + nbytes]


def _safetensors(data: Array) -> WeightFile:
    (length,) = struct.unpack("<Q", _part(data, 0, 8).tobytes())
    header = json.loads(_part(data, 8, length).tobytes())
    tensors: dict[str, Any] = {}
    for name, about in header.items():
        if name != "__metadata__":
            dtype, (start, end) = (
                dtype_of(_SAFETENSORS[about["dtype"]]).numpy,
                about["data_offsets"],
            )
            part = _part(data, 8 + length + start, end - start)
            tensors[name] = part.view(dtype).reshape(about["shape"])
    return WeightFile(header.get("__metadata__", {}), tensors)


def _gguf(data: Array) -> WeightFile:
    read = _Reader(data)
    read.skip(4)
    version, count, pairs = read.number("I"), read.number("Q"), read.number("Q")
    if version not in (2, 3):
        raise LoopwrightValueError(f"GGUF of version {version}; 2 and 3 are read")
    metadata = {read.text(): read.value(read.number("I")) for _ in range(pairs)}
    rows = [read.row() for _ in range(count)]
    align = int(metadata.get("general.alignment", 32))
    start = -(-read.at // align) * align
    if sum(_nbytes(dims[::-1], kind) for _, dims, kind, _ in rows) > len(data):
        raise ValueError("its tensors overlap, or lie outside of the file")
    tensors = {name: _tensor(data, start + at, dims[::-1], kind) for name, dims, kind, at in rows}
    return WeightFile(metadata, tensors)


class _Reader:
    """Numbers and texts one after the other."""

    def __init__(self, data: Array) -> None:
        self.data, self.at = data, 0

    def skip(self, nbytes: int) -> Array:
        self.at += nbytes
        return _part(self.data, self.at - nbytes, nbytes)

    def number(self, kind: str) -> Any:
        return struct.unpack(f"<{kind}", self.skip(struct.calcsize(f"<{kind}")).tobytes())[0]

    def text(self) -> str:
        return self.skip(self.number("Q")).tobytes().decode(errors="replace")

    def row(self) -> tuple[str, list[int], int, int]:
        """The name of a tensor, its sizes, type and place."""
        name, count = self.text(), self.number("I")
        return name, [self.number("Q") for _ in range(count)], self.number("I"), self.number("Q")

    def value(self, kind: int) -> Any:
        if kind == _TEXT:
            return self.text()
        if kind != _LIST:
            return self.number(_NUMBERS[kind])
        inner, count = self.number("I"), self.number("Q")
        if inner not in _NUMBERS:
            return [self.value(inner) for _ in range(count)]
        dtype = np.dtype(f"<{_NUMBERS[inner]}")
        return self.skip(count * dtype.itemsize).view(dtype)


def _nbytes(shape: list[int], kind: int) -> int:
    if kind in _PLAIN:
        return math.prod(shape) * dtype_of(_PLAIN[kind]).numpy.itemsize
    if kind not in _BLOCKS or len(shape) != 2:
        raise LoopwrightValueError(
            f"blocks of GGUF's type {kind} in {len(shape)} axes are not read"
        )
    size, nbytes, _ = _BLOCKS[kind]
    if shape[1] % size:
        raise ValueError(f"rows of {shape[1]} weights are not in blocks of {size}")
    return math.prod(shape) // size * nbytes


def _tensor(data: Array, start: int, shape: list[int], kind: int) -> Any:
    part = _part(data, start, _nbytes(shape, kind))
    if kind in _PLAIN:
        return part.view(dtype_of(_PLAIN[kind]).numpy).reshape(shape)
    n, k = shape
    size, nbytes, decode = _BLOCKS[kind]
    bits, codes, *factors = decode(part.reshape(n, k // size, nbytes))
    scales, *least = (np.ascontiguousarray(f.reshape(n, -1).T) for f in factors)
    w = nn.pack_nbits(np.ascontiguousarray(codes.reshape(n, k).T), k // len(scales), bits)
    return PackedWeights(w, scales, bits, *least)


def _halves(blocks: Array, place: int) -> Array:
    """The float16 in each block at a byte."""
    return np.ascontiguousarray(blocks[..., place : place + 2]).view(np.float16)[..., 0]


def _nibbles(packed: Array) -> Array:
    return np.concatenate((packed & np.uint8(15), packed >> np.uint8(4)), axis=-1)


def _q4_0(blocks: Array) -> tuple[Any, ...]:
    return 4, _nibbles(blocks[..., 2:]), _halves(blocks, 0)


def _q8_0(blocks: Array) -> tuple[Any, ...]:
    return 8, blocks[..., 2:] ^ np.uint8(128), _halves(blocks, 0)


def _q4_k(blocks: Array) -> tuple[Any, ...]:
    """Eight groups, whose scales and minima are 6 bits each."""
    packed = blocks[..., 4:16]
    low, middle, high = packed[..., :4], packed[..., 4:8], packed[..., 8:]
    first = [low & np.uint8(63), middle & np.uint8(63)]
    last = [high & np.uint8(15) | low >> np.uint8(6) << np.uint8(4)]
    last += [high >> np.uint8(4) | middle >> np.uint8(6) << np.uint8(4)]
    scales, least = (np.concatenate(pair, axis=-1) for pair in zip(first, last))
    codes = _nibbles(blocks[..., 16:].reshape(*blocks.shape[:-1], 4, 32))
    factors = (_halves(blocks, at).astype(np.float32)[..., None] for at in (0, 2))
    return 4, codes, *(f * v for f, v in zip(factors, (scales, least)))


def _q6_k(blocks: Array) -> tuple[Any, ...]:
    """Sixteen groups of 6 bits, four of them in bytes and two elsewhere; scales are of 8 bits."""
    halves = (*blocks.shape[:-1], 2, 1)
    low = blocks[..., :128].reshape(*halves, 64)
    high = blocks[..., 128:192].reshape(*halves, 32)
    shifts = np.arange(0, 8, 2, dtype=np.uint8)[:, None]
    low = np.concatenate((low & np.uint8(15), low >> np.uint8(4)), axis=-2)
    codes = low.reshape(*halves[:-1], 4, 32) | (high >> shifts & np.uint8(3)) << np.uint8(4)
    scales = np.ascontiguousarray(blocks[..., 192:208]).view(np.int8)
    return 8, codes + np.uint8(96), _halves(blocks, 208).astype(np.float32)[..., None] * scales


_BLOCKS: dict[int, tuple[int, int, Callable[[Array], tuple[Any, ...]]]] = {
    2: (32, 18, _q4_0),
    8: (32, 34, _q8_0),
    12: (256, 144, _q4_k),
    14: (256, 210, _q6_k),
}
"""Blocks of GGUF by their type there: their weights, their bytes, and what decodes them."""
