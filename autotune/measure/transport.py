"""Frames over a pipe: what the tuner and its worker processes say to each other.

A frame is two lengths, a JSON header and a blob of bytes. The tuner never unpickles what a worker
says: a candidate may have written anywhere in the worker's memory, so its frames are data to be
checked. Workers do unpickle what the tuner, their parent, sends.
"""

from __future__ import annotations

import json
import os
import struct
from typing import Any

from ...ir.dataclass import dataclass

_LENGTHS = struct.Struct("<4sIQ")
_MAGIC = b"lwF1"
_HEADER_LIMIT = 8 << 20
_BLOB_LIMIT = 1 << 30


class FrameError(ValueError):
    """The bytes are not a frame: the other side is corrupted."""


@dataclass(frozen=True, slots=True)
class Frame:
    """One message."""

    header: dict[str, Any]
    blob: bytes = b""


def write_frame(descriptor: int, frame: Frame) -> None:
    """Writes a whole frame; raise BrokenPipeError if nobody reads any more."""
    header = json.dumps(frame.header).encode()
    data = memoryview(_LENGTHS.pack(_MAGIC, len(header), len(frame.blob)) + header + frame.blob)
    while data:
        data = data[os.write(descriptor, data) :]


def read_frame(descriptor: int) -> Frame | None:
    """Waits for a frame; return None at the end of the pipe."""
    reader = FrameReader()
    while True:
        piece = os.read(descriptor, reader.wanted)
        if not piece:
            return None
        frame = reader.feed(piece)
        if frame is not None:
            return frame


class FrameReader:
    """Joins the pieces that a pipe delivers to frames."""

    def __init__(self) -> None:
        self._data = bytearray()

    @property
    def wanted(self) -> int:
        """Bytes that may be read without reading into the next frame."""
        if len(self._data) < _LENGTHS.size:
            return _LENGTHS.size - len(self._data)
        return _LENGTHS.size + sum(self._lengths()) - len(self._data)

    def feed(self, piece: bytes) -> Frame | None:
        """Adds up to ``wanted`` bytes; return the frame once it is whole. Raise FrameError if it is
        invalid."""
        self._data += piece
        if len(self._data) < _LENGTHS.size or self.wanted:
            return None
        header, blob = self._lengths()
        start = _LENGTHS.size
        try:
            decoded = json.loads(self._data[start : start + header])
        except ValueError as error:
            raise FrameError(f"the header is not JSON: {error}") from None
        if not isinstance(decoded, dict):
            raise FrameError("the header is not an object")
        body = bytes(self._data[start + header : start + header + blob])
        self._data.clear()
        return Frame(decoded, body)

    def _lengths(self) -> tuple[int, int]:
        magic, header, blob = _LENGTHS.unpack_from(self._data)
        if magic != _MAGIC or header > _HEADER_LIMIT or blob > _BLOB_LIMIT:
            raise FrameError("no frame begins here")
        return header, blob
