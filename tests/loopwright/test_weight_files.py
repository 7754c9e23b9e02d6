"""GGUF and safetensors files, written here as their specifications say, and read."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import loopwright as lw
import ml_dtypes
import numpy as np
import pytest
from gguf_files import gguf, half, q4_0
from loopwright.ir.errors import LoopwrightError

RNG = np.random.default_rng(0)


METADATA = {
    "general.name": "a small one",
    "tokens": ["a", "bc"],
    "scores": [1.0, 2.0, 3.0],
    "on": True,
}


def q8_0(n: int, k: int) -> tuple[bytes, np.ndarray]:
    content, matrix = b"", np.zeros((n, k))
    for row in range(n):
        for start in range(0, k, 32):
            d, codes = np.float16(RNG.uniform(-1, 1)), RNG.integers(-128, 128, 32)
            content += half(d) + codes.astype(np.int8).tobytes()
            matrix[row, start : start + 32] = codes * float(d)
    return content, matrix


def q4_k(n: int, k: int) -> tuple[bytes, np.ndarray]:
    content, matrix = b"", np.zeros((n, k))
    for row in range(n):
        for start in range(0, k, 256):
            d, least = (np.float16(RNG.uniform(0, 0.1)) for _ in range(2))
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


@pytest.mark.parametrize(("kind", "blocks"), [(2, q4_0), (8, q8_0), (12, q4_k)])
def test_blocks_of_gguf(tmp_path: Path, kind: int, blocks: Any) -> None:
    content, matrix = blocks(20, 512)
    path = tmp_path / "model.gguf"
    path.write_bytes(gguf({"w": ([20, 512], kind, content)}, METADATA))
    packed = lw.load_weights(path).tensors["w"]
    assert packed.shape == (512, 20)
    x = RNG.standard_normal((3, 512)).astype(np.float32)
    exact = x.astype("d") @ matrix.T
    close = {"rtol": 1e-4, "atol": 1e-4 * np.abs(exact).max()}
    np.testing.assert_allclose(packed.product(x), exact, **close)
    np.testing.assert_allclose(lw.compile(lambda x: packed.product(x))(x), exact, **close)
    rough = lw.compile(lambda x: packed.product(x, "int8"))(x)
    np.testing.assert_allclose(rough, exact, rtol=0, atol=0.03 * np.abs(exact).max())


def test_metadata_and_plain_tensors_of_gguf(tmp_path: Path) -> None:
    arrays = {
        "a": (RNG.random((3, 4)).astype(np.float32), 0),
        "b": (RNG.random(5).astype(np.float16), 1),
        "c": (RNG.random((2, 3)).astype(ml_dtypes.bfloat16), 30),
        "d": (np.arange(6, dtype=np.int32).reshape(1, 6), 26),
    }
    path = tmp_path / "model.gguf"
    path.write_bytes(
        gguf({n: ([*a.shape], t, a.tobytes()) for n, (a, t) in arrays.items()}, METADATA, 64)
    )
    file = lw.load_weights(path)
    for name, (array, _) in arrays.items():
        np.testing.assert_array_equal(file.tensors[name], array)
        assert file.tensors[name].dtype == array.dtype
    assert file.metadata["general.name"] == "a small one" and file.metadata["on"] is True
    assert file.metadata["tokens"] == ["a", "bc"] and file.metadata["scores"].tolist() == [1, 2, 3]


def test_safetensors(tmp_path: Path) -> None:
    arrays = {
        "x": (RNG.random((3, 4)).astype(np.float32), "F32"),
        "y": (RNG.random(7).astype(ml_dtypes.bfloat16), "BF16"),
        "z": (np.arange(4, dtype=np.int8), "I8"),
    }
    header: dict[str, Any] = {"__metadata__": {"format": "np"}}
    data = b""
    for name, (array, kind) in arrays.items():
        ends = [len(data), len(data) + array.nbytes]
        header[name] = {"dtype": kind, "shape": array.shape, "data_offsets": ends}
        data += array.tobytes()
    written = json.dumps(header).encode()
    written += b" " * (-len(written) % 8)
    path = tmp_path / "model.safetensors"
    path.write_bytes(struct.pack("<Q", len(written)) + written + data)
    file = lw.load_weights(path)
    assert file.metadata == {"format": "np"} and list(file.tensors) == list(arrays)
    for name, (array, _) in arrays.items():
        np.testing.assert_array_equal(file.tensors[name], array)


def test_an_unknown_dtype_is_refused(tmp_path: Path) -> None:
    header = json.dumps({"x": {"dtype": "F8_E4M3", "shape": [1], "data_offsets": [0, 1]}}).encode()
    path = tmp_path / "model.safetensors"
    path.write_bytes(struct.pack("<Q", len(header)) + header + b"\0")
    with pytest.raises(LoopwrightError, match="F8_E4M3"):
        lw.load_weights(path)


def test_damaged_files_are_refused(tmp_path: Path) -> None:
    content, _ = q4_0(4, 64)
    whole, path = gguf({"w": ([4, 64], 2, content)}, METADATA), tmp_path / "model.gguf"
    for length in range(0, len(whole), 7):
        path.write_bytes(whole[:length])
        with pytest.raises(LoopwrightError):
            lw.load_weights(path)
    for broken, message in (
        (gguf({"w": ([4, 64], 13, content)}, METADATA), "type 13"),
        (gguf({"w": ([4, 48], 2, content)}, METADATA), "rows of 48 weights"),
        (gguf({"w": ([4, 6400], 2, content)}, METADATA), "outside of the file"),
        (whole.replace(b"GGUF\x03", b"GGUF\x07"), "version 7"),
    ):
        path.write_bytes(broken)
        with pytest.raises(LoopwrightError, match=message):
            lw.load_weights(path)
    with pytest.raises(FileNotFoundError):
        lw.load_weights(tmp_path / "nowhere.gguf")
    nan = half(float("nan")) + content[2:]
    path.write_bytes(gguf({"w": ([4, 64], 2, nan)}, METADATA))
    with pytest.raises(LoopwrightError, match="scales are finite"):
        lw.load_weights(path).tensors["w"].product(np.ones((1, 64), np.float32))
