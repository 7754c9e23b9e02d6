"""Takes the weights out of a model's bytes before they are parsed, so that nobody copies them.

A parser of protocol buffers copies the data of each tensor, and so does each look at it. Here the
messages that hold big tensors are written anew without the field ``raw_data``; where it was stands
in their ``external_data`` instead, in a file of the name ``MODEL_ITSELF`` (``tensors.Folder``).

The encoding is that of https://protobuf.dev/programming-guides/encoding: a message is a row of
fields, each a key ``number << 3 | type`` and a value. Numbers of fields are from ``onnx.proto``.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator

from onnx import StringStringEntryProto, TensorProto

from ....ir.errors import LoopwrightValueError

BIG_MESSAGE = 1 << 16
"""Bytes of a message that is looked into; smaller ones are parsed as they are."""

MODEL_ITSELF = secrets.token_hex()
"""Stands for the model's own bytes; no model can say so itself, since nobody guesses it."""

_RAW_DATA = 9
_INNER: dict[str, dict[int, str]] = {
    "model": {7: "graph", 25: "function"},
    "graph": {1: "node", 5: "tensor"},
    "function": {7: "node"},
    "node": {5: "attribute"},
    "attribute": {5: "tensor", 6: "graph", 10: "tensor", 11: "graph"},
}
"""The fields of a message that may hold big tensors: their numbers, and the message they are."""

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_MOST_NESTED_MESSAGES = 200


def without_weights(data: memoryview) -> bytes:
    """Returns a model's bytes with places of big tensors instead of their data.

    Raises LoopwrightValueError if ``data`` is not a message.
    """
    return b"".join(_message(data, 0, len(data), "model", 0))


def _message(data: memoryview, start: int, end: int, kind: str, depth: int) -> list[bytes]:
    """Returns the parts of a message that is at ``start`` to ``end``."""
    if depth > _MOST_NESTED_MESSAGES:
        raise LoopwrightValueError("the model has messages inside each other without end")
    if kind == "tensor":
        return _tensor(data, start, end)
    parts: list[bytes] = []
    kept = start  # what is copied as it is begins here
    for number, wire, begin, value, after in _fields(data, start, end):
        inner = _INNER[kind].get(number) if wire == _BYTES else None
        if inner is None or after - value < BIG_MESSAGE:
            continue
        parts.append(bytes(data[kept:begin]))
        parts += _delimited(number, _message(data, value, after, inner, depth + 1))
        kept = after
    parts.append(bytes(data[kept:end]))
    return parts


def _tensor(data: memoryview, start: int, end: int) -> list[bytes]:
    parts: list[bytes] = []
    place, kept = b"", start
    for number, wire, begin, value, after in _fields(data, start, end):
        if number != _RAW_DATA or wire != _BYTES or after - value < BIG_MESSAGE // 2:
            continue
        parts.append(bytes(data[kept:begin]))
        place, kept = _place(value, after - value), after
    # Last, since the last value of a field counts: ``data_location`` may be there, too.
    return [*parts, bytes(data[kept:end]), place]


def _place(offset: int, length: int) -> bytes:
    """Returns the fields of a tensor that say where its data is."""
    entries = {"location": MODEL_ITSELF, "offset": str(offset), "length": str(length)}
    place = TensorProto(
        data_location=TensorProto.EXTERNAL,
        external_data=[StringStringEntryProto(key=k, value=v) for k, v in entries.items()],
    )
    return place.SerializeToString()


def _fields(data: memoryview, start: int, end: int) -> Iterator[tuple[int, int, int, int, int]]:
    """Yields the fields of a message: number, type, and where its key, its value and the next
    field begin."""
    at = start
    while at < end:
        key, value = _varint(data, at, end)
        wire = key & 7
        if wire == _VARINT:
            after = _varint(data, value, end)[1]
        elif wire == _BYTES:
            size, value = _varint(data, value, end)
            after = value + size
        elif wire in (_FIXED32, _FIXED64):
            after = value + (4 if wire == _FIXED32 else 8)
        else:
            raise LoopwrightValueError("the model is damaged")
        if after > end:
            raise LoopwrightValueError("the model is damaged: it ends in the middle of a field")
        yield key >> 3, wire, at, value, after
        at = after


def _varint(data: memoryview, at: int, end: int) -> tuple[int, int]:
    """Returns the number of variable length at ``at``, and where it ends."""
    number = shift = 0
    while at < end and shift < 70:
        byte = data[at]
        at += 1
        number |= (byte & 127) << shift
        if byte < 128:
            return number, at
        shift += 7
    raise LoopwrightValueError("the model is damaged")


def _delimited(number: int, parts: list[bytes]) -> list[bytes]:
    """Returns a message as field ``number`` of the one around it."""
    size = sum(map(len, parts))
    return [_encoded(number << 3 | _BYTES), _encoded(size), *parts]


def _encoded(number: int) -> bytes:
    made = bytearray()
    while number > 127:
        made.append(number & 127 | 128)
        number >>= 7
    made.append(number)
    return bytes(made)
