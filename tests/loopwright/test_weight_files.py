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
from gguf_files import gguf, half, q4_0, q4_k, q6_k, q8_0
from loopwright.ir.errors import LoopwrightError

RNG = np.random.default_rng(0)


METADATA = {
    "general.name": "a small one",
    "tokens": ["a", "bc"],
    "scores": [1.0, 2.0, 3.0],
    "on": True,
}


@pytest.mark.parametrize(("kind", "blocks"), [(2, q4_0), (8, q8_0), (12, q4_k), (14, q6_k)])
def test_blocks_of_gguf(tmp_path: Path, kind: int, blocks: Any) -> None:
    content, matrix = blocks(20, 512)
    path = tmp_path / "model.gguf"
    path.write_bytes(gguf({"w": ([20, 512], kind, content)}, METADATA))
    packed = lw.load_weights(path).tensors["w"]
    assert packed.shape == (512, 20)
    np.testing.assert_allclose(packed.columns(), matrix.T, rtol=1e-6, atol=1e-6)
    few = lw.compile(lambda at: packed.columns(at))(np.array([17, 3]))
    np.testing.assert_array_equal(few, packed.columns()[:, [17, 3]])
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
    large, _ = q4_0(64, 64)
    two = gguf({n: ([64, 64], 2, large) for n in "ab"}, METADATA)[: -len(large)]
    for length in range(0, len(whole), 7):
        path.write_bytes(whole[:length])
        with pytest.raises(LoopwrightError):
            lw.load_weights(path)
    for broken, message in (
        (gguf({"w": ([4, 64], 13, content)}, METADATA), "type 13"),
        (gguf({"w": ([4, 48], 2, content)}, METADATA), "rows of 48 weights"),
        (gguf({"w": ([4, 6400], 2, content)}, METADATA), "outside of the file"),
        (two.replace(struct.pack("<IQ", 2, len(large)), struct.pack("<IQ", 2, 0)), "overlap"),
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
