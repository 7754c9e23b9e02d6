"""The door for files: what is not the user's own, or no file, is refused in a sentence."""

from __future__ import annotations

import errno
import io
import os
import socket
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from loopwright.ir import files
from loopwright.ir.errors import LoopwrightOSError, RefusedFileWarning, printable
from other_peoples_files import NOBODY, attacked

ATTACKS = ["fifo", "link", "writable", "foreign", "folder", "long"]
FOLDERS = ["open folder", "foreign folder", "linked folder"]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "kept" / "file"
    files.write_kept(path, b"content")
    return path


def test_a_kept_file_is_read_and_written(path: Path) -> None:
    assert files.read_kept(path) == b"content"
    assert path.stat().st_mode & 0o777 == 0o600 and path.parent.stat().st_mode & 0o777 == 0o700
    files.write_kept(path, b"other")
    assert files.read_kept(path) == b"other" and [*path.parent.iterdir()] == [path]
    with pytest.raises(FileNotFoundError):
        files.read_kept(path.with_name("missing"))
    with pytest.raises(FileNotFoundError):
        files.read_kept(path / "no" / "folder")


@pytest.mark.parametrize("attack", [*ATTACKS, *FOLDERS])
def test_a_kept_file_of_others_is_refused(path: Path, tmp_path: Path, attack: str) -> None:
    attacked(path, attack, tmp_path / "elsewhere")
    with pytest.raises(LoopwrightOSError) as caught:
        files.read_kept(path)
    assert "\n" not in str(caught.value) and caught.value.reason
    if attack in FOLDERS:
        with pytest.raises(LoopwrightOSError):
            files.write_kept(path, b"mine")


@pytest.mark.parametrize("attack", ["fifo", "folder", "long", "socket", "device"])
def test_a_named_file_has_to_be_a_file(path: Path, tmp_path: Path, attack: str) -> None:
    if attack == "socket":
        path = tmp_path / "s"
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(str(path))
    elif attack == "device":
        path = Path("/dev/zero")
    else:
        attacked(path, attack, tmp_path)
    with pytest.raises(LoopwrightOSError, match=r"not a file|too long"):
        files.read_named(path)


def test_a_named_file_may_be_a_link_and_of_anybody(path: Path, tmp_path: Path) -> None:
    for attack in ("link", "writable", "foreign"):
        attacked(path, attack, tmp_path / "elsewhere")
        assert files.read_named(path) == b"content"


@pytest.mark.parametrize("attack", ["writable", "foreign"])
def test_what_is_run_is_nobody_elses(path: Path, tmp_path: Path, attack: str) -> None:
    attacked(path, attack, tmp_path)
    with pytest.raises(LoopwrightOSError, match="its content is run"):
        files.map_named(path, run=True)
    assert bytes(files.map_named(path)) == b"content"


def test_what_fails_behind_the_door_is_a_refusal(path: Path) -> None:
    for error in (KeyError("x"), RecursionError(), MemoryError(), OSError(errno.EIO, "broken")):
        with pytest.raises(LoopwrightOSError, match="file: ") as caught, files.refusing(path):
            raise error
        assert caught.value.__cause__ is error and caught.value.errno == getattr(
            error, "errno", None
        )


def test_a_refusal_is_counted_and_told_once(path: Path) -> None:
    path.chmod(0o666)
    for count in range(3):
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            try:
                files.read_kept(path)
            except LoopwrightOSError as error:
                files.refused(error)
        assert [w.category for w in told] == ([] if count else [RefusedFileWarning])
    assert files.REFUSALS[f"{path}: others may write it (chmod go-w)"] == 3


def test_what_the_system_cannot_do_is_not_told(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(files.os, "open", full)
    with pytest.raises(LoopwrightOSError, match="No space left") as caught:
        files.read_kept(path)
    files.refused(caught.value)


def test_a_file_is_whole_or_what_was_there_before(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("open", "fsync", "replace"):
        with monkeypatch.context() as patch:
            patch.setattr(files.os, name, _failing)
            with pytest.raises(LoopwrightOSError, match="Input/output error"):
                files.replace_file(path, (b"new",), sync=True)
        assert path.read_bytes() == b"content" and [*path.parent.iterdir()] == [path]


def _failing(*_: object, **__: object) -> None:
    raise OSError(errno.EIO, os.strerror(errno.EIO))


def npy(shape: tuple[int, ...], descr: str = "<f4", data: bytes = b"") -> bytes:
    file = io.BytesIO()
    header = {"descr": descr, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(file, header)
    return file.getvalue() + data


def pickled() -> bytes:
    file = io.BytesIO()
    np.save(file, np.array([{}], object), allow_pickle=True)
    return file.getvalue()


def zipped(content: bytes) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x.npy", content)
    return file.getvalue()


HOSTILE_ARRAYS = {
    "empty": b"",
    "text": b"not an array",
    "huge": npy((1 << 50,)),
    "overflowing": npy((1 << 40, 1 << 40)),
    "negative": npy((-1,)),
    "short": npy((3,), data=bytes(8)),
    "long": npy((3,), data=bytes(16)),
    "objects": pickled(),
    "odd type": npy((1,), "|O"),
    "header": b"\x93NUMPY\x01\x00\xff\xff" + b"(" * 65535,
    "version": b"\x93NUMPY\x09\x00" + bytes(100),
    "zip": b"PK\x03\x04" + bytes(100),
}


@pytest.mark.parametrize("kind", HOSTILE_ARRAYS)
@pytest.mark.parametrize("wrap", [bytes, zipped], ids=["npy", "npz"])
def test_hostile_arrays_are_refused(
    tmp_path: Path, kind: str, wrap: Callable[[bytes], bytes]
) -> None:
    path = tmp_path / "x.npy"
    path.write_bytes(wrap(HOSTILE_ARRAYS[kind]))
    with pytest.raises(LoopwrightOSError, match=r"x\.npy: "):
        files.read_arrays(path)


ARRAYS: dict[str, Any] = {
    "c": np.arange(12, dtype=np.float32).reshape(3, 4),
    "f": np.asfortranarray(np.arange(12, dtype=">i2").reshape(3, 4)),
    "scalar": np.array(3.5),
    "none": np.zeros((0, 3), bool),
    "file": np.array([1 + 2j]),
    "a/b": np.zeros(3, np.float16),
}


def test_arrays_come_back_as_they_were(tmp_path: Path) -> None:
    path = tmp_path / "all.npz"
    files.write_arrays(path, ARRAYS)
    np.savez_compressed(tmp_path / "packed.npz", c=ARRAYS["c"])
    read = files.read_arrays(path)
    assert isinstance(read, dict) and [*read] == [*ARRAYS]
    with np.load(path) as theirs:
        assert theirs.files == [*ARRAYS]
    for name, array in ARRAYS.items():
        np.save(tmp_path / "one.npy", array)
        alone = files.read_arrays(tmp_path / "one.npy")
        for other in (read[name], alone):
            assert isinstance(other, np.ndarray)
            assert (other.dtype, other.shape, other.strides) == (
                *(array.dtype, array.shape, array.strides),
            )
            np.testing.assert_array_equal(other, array)
            assert other.flags.writeable
        np.testing.assert_array_equal(np.load(io.BytesIO(files.array_bytes(array))), array)
    packed = files.read_arrays(tmp_path / "packed.npz")
    assert isinstance(packed, dict)
    np.testing.assert_array_equal(packed["c"], ARRAYS["c"])


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_the_files_of_root_are_believed(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files.os, "geteuid", lambda: NOBODY)
    assert files.read_kept(path) == b"content"


def test_what_a_terminal_would_obey_is_escaped() -> None:
    assert printable("a\x1b[2J\r\x07\u202e\x9b\ud800 \u00e9\n\t") == (
        "a\\x1b[2J\\r\\x07\\u202e\\x9b\\ud800 \u00e9\n\t"
    )
    assert "\x1b" not in str(LoopwrightOSError("name\x1b[2J", "no file"))
