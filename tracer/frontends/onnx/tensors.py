"""Tensors of a model file as NumPy arrays: read-only views wherever the file has the bytes."""

from __future__ import annotations

import math
import mmap
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto
from onnx.helper import tensor_dtype_to_np_dtype
from onnx.numpy_helper import to_array

from ....ir.dtype import Array, dtype_of
from ....ir.errors import LoopwrightValueError, UnsupportedError
from .places import plain
from .wire import MODEL_ITSELF

MOST_TENSOR_BYTES = 1 << 40
"""Bytes of a tensor that no model has: a damaged file is refused before memory is asked for."""

MOST_AXES = 64
"""NumPy's arrays have no more."""

_PACKED = {"int4", "uint4", "int2", "uint2", "float4e2m1"}
"""Elements that share a byte; ``onnx`` unpacks them."""


def dtype_name(code: int) -> str:
    """Returns ONNX's name of an element type: ``float``, ``bfloat16``."""
    try:
        return TensorProto.DataType.Name(code).lower()
    except ValueError:
        return f"type {code}"


def numpy_dtype(code: int) -> np.dtype[Any]:
    """Returns the NumPy dtype of an element type. Raises UnsupportedError if there is none."""
    try:
        dtype = tensor_dtype_to_np_dtype(code)
    except (KeyError, ValueError):
        raise UnsupportedError(f"tensors of {dtype_name(code)} are not supported") from None
    if dtype.kind == "O":
        raise UnsupportedError(f"tensors of {dtype_name(code)} are not supported")
    return dtype


def is_float(x: Any) -> bool:
    """True of a value whose elements are floats, those of ml_dtypes among them."""
    return dtype_of(x.dtype).is_float


class Folder:
    """The folder of a model, in which the files of its external tensors have to be.

    A file is mapped once; what no tensor touches is never read. ``model_bytes`` are those of the
    model itself, in which the data of big tensors was left.
    """

    def __init__(self, path: Path | None, model_bytes: Array | None = None) -> None:
        self.path = path
        self._model_bytes = model_bytes
        self._files: dict[Path, Array] = {}

    @property
    def files(self) -> list[Path]:
        """The files beside the model that were read so far, in order."""
        return sorted(self._files)

    def read(self, tensor: TensorProto, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Array:
        """Returns the elements of a tensor whose data is external."""
        entries = {str(entry.key): str(entry.value) for entry in tensor.external_data}
        data = self._file(entries.get("location", ""), tensor.name)
        wanted = math.prod(shape) * dtype.itemsize
        offset = _count(entries.get("offset", "0"), tensor.name)
        length = _count(entries.get("length") or str(wanted), tensor.name)
        if length != wanted:
            raise LoopwrightValueError(
                f"tensor {plain(tensor.name)!r} has {wanted} bytes, and its external data {length}"
            )
        if offset + length > data.size:
            raise LoopwrightValueError(
                f"tensor {plain(tensor.name)!r} ends {offset + length - data.size} bytes behind "
                f"the end of {plain(entries['location'])}"
            )
        part = data[offset : offset + length]
        return np.frombuffer(part, dtype).reshape(shape)

    def _file(self, location: str, tensor: str) -> Array:
        if location == MODEL_ITSELF and self._model_bytes is not None:
            return self._model_bytes
        if not location or "\0" in location:
            raise LoopwrightValueError(
                f"the external data of tensor {plain(tensor)!r} names no file"
            )
        if self.path is None:
            raise LoopwrightValueError(
                f"the data of tensor {plain(tensor)!r} is in the file {plain(location)!r}, and a "
                "model in memory has no folder",
                hint="give the path of the model",
            )
        folder = self.path.resolve()
        try:
            file = (folder / location).resolve()
        except (OSError, RuntimeError) as error:  # a name that is too long, links in a circle
            raise LoopwrightValueError(
                f"the external data of tensor {plain(tensor)!r} cannot be found: "
                f"{type(error).__name__}"
            ) from None
        if Path(location).is_absolute() or not file.is_relative_to(folder):
            raise LoopwrightValueError(
                f"the data of tensor {plain(tensor)!r} is in {plain(location)!r}, outside of the "
                "model's folder"
            )
        if file not in self._files:
            try:
                if not file.is_file():
                    raise FileNotFoundError
                self._files[file] = mapped(file)
            except OSError:
                raise LoopwrightValueError(
                    f"the file {plain(location)!r} with the data of tensor {plain(tensor)!r} is "
                    "not there, or cannot be read"
                ) from None
        return self._files[file]


def mapped(file: Path) -> Array:
    """Returns the bytes of a file, mapped into memory. Raises OSError if it cannot be read."""
    with file.open("rb") as opened:
        if file.stat().st_size == 0:
            return np.zeros(0, np.uint8)
        return np.frombuffer(mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ), np.uint8)


def _count(text: str, tensor: str) -> int:
    if not text.isdecimal() or len(text) > 18:
        raise LoopwrightValueError(f"the external data of tensor {plain(tensor)!r} is at {text!r}")
    return int(text)


def array_of(tensor: TensorProto, folder: Folder) -> Array:
    """Returns a tensor's elements as a read-only array.

    Raises LoopwrightValueError if its data does not fit its shape, UnsupportedError for types that
    NumPy has no dtype for (strings).
    """
    dtype = numpy_dtype(tensor.data_type)
    shape = tuple(tensor.dims)
    if len(shape) > MOST_AXES:
        raise LoopwrightValueError(f"tensor {plain(tensor.name)!r} is of rank {len(shape)}")
    if any(size < 0 for size in shape) or math.prod(shape) * dtype.itemsize > MOST_TENSOR_BYTES:
        raise LoopwrightValueError(f"tensor {plain(tensor.name)!r} has the shape {list(shape)}")
    if tensor.data_location == TensorProto.EXTERNAL:
        array = folder.read(tensor, dtype, shape)
    elif tensor.HasField("raw_data") and dtype.name not in _PACKED:
        raw = tensor.raw_data
        if len(raw) != math.prod(shape) * dtype.itemsize:
            raise LoopwrightValueError(
                f"tensor {plain(tensor.name)!r}, {dtype}{list(shape)}, has {len(raw)} bytes of data"
            )
        array = np.frombuffer(raw, dtype).reshape(shape)
    else:
        try:
            array = to_array(tensor)
        except (ValueError, TypeError, onnx.checker.ValidationError) as error:
            raise LoopwrightValueError(
                f"tensor {plain(tensor.name)!r} is damaged: {error}"
            ) from None
    array.flags.writeable = False
    return array
