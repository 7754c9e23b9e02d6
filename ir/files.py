"""The door through which every file from outside is opened, read and replaced.

::

    kept file    what the compiler keeps unasked (``codegen/llvm/store.py``). It is believed, so it
                 and its folder have to belong to the user or to root, nobody else may write to
                 them, and neither may be a link.
    named file   what the user names: a log, a model, arrays. It may be a link, and anybody's: it is
                 data. If its content is run (``run=True``) others may not be able to write it.

Both have to be regular files of at most so many bytes; a FIFO or a device in the place of one is
never waited for. What does not fit is refused with a reason, as LoopwrightOSError, and so is what
fails while content is read (``refusing``). Whoever can do without a kept file counts its refusal
(``refused``), which warns once for each file.
"""

from __future__ import annotations

import errno
import io
import math
import mmap
import os
import stat
import threading
import time
import warnings
import zipfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

import numpy as np

from .errors import LoopwrightError, LoopwrightOSError, RefusedFileWarning, printable

Array = np.ndarray[Any, np.dtype[Any]]

REFUSALS: Counter[str] = Counter()
"""Files that were done without, and how often: their paths and the reasons, in a sentence."""
MOST_FILE_BYTES = 1 << 40
"""Bytes of a file of the user's: more has another meaning than data."""
MOST_TEXT = 1 << 28
"""Bytes of a text that is read at once: a program, a schedule, a cost model."""
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a FIFO",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFSOCK: "a socket",
}
_LOCK = threading.Lock()


@contextmanager
def refusing(path: str | os.PathLike[str]) -> Iterator[None]:
    """Raises whatever fails in the block, where a file is opened or its content is read, as
    LoopwrightOSError. FileNotFoundError stays what it is."""
    try:
        yield
    except (LoopwrightError, FileNotFoundError):
        raise
    except Exception as error:
        raise LoopwrightOSError(path, _reason(error), getattr(error, "errno", None)) from error


def refused(error: LoopwrightOSError) -> None:
    """Counts a kept file that is done without; warns at the first time. What the system cannot do
    at the moment is not told."""
    if isinstance(error.__cause__, OSError) and error.errno not in (errno.ELOOP, errno.ENXIO):
        return
    text = str(error)
    with _LOCK:
        REFUSALS[text] += 1
        if REFUSALS[text] > 1:
            return
    warnings.warn(f"{text}; it is done without", RefusedFileWarning, stacklevel=3)


@contextmanager
def open_kept(path: Path, most_bytes: int = MOST_TEXT) -> Iterator[int]:
    """Yields a descriptor to read a kept file.

    Raises LoopwrightOSError if the file or its folder may not be the user's own, FileNotFoundError
    if one of them is not there.
    """
    with refusing(path):
        folder = _opened_folder(path.parent)
        try:
            require_own(path.parent, os.fstat(folder))
            descriptor = _opened(path, os.O_RDONLY | os.O_NOFOLLOW, folder)
        finally:
            os.close(folder)
    try:
        require_own(path, _require_file(path, descriptor, most_bytes))
        yield descriptor
    finally:
        os.close(descriptor)


def read_kept(path: Path, most_bytes: int = MOST_TEXT) -> bytes:
    """Returns the bytes of a kept file; raises as ``open_kept``."""
    with open_kept(path, most_bytes=most_bytes) as descriptor:
        return all_of(descriptor, path)


def write_kept(path: Path, data: bytes) -> None:
    """Writes a kept file, whole or not at all; raises as ``open_kept``."""
    make_own_folder(path.parent)
    replace_file(path, (data,), mode=0o600)


def make_own_folder(path: Path) -> None:
    """Makes a folder for kept files, unless it is there. Raises LoopwrightOSError if it may not be
    the user's own."""
    with refusing(path):
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        require_own(path, os.lstat(path))


@contextmanager
def open_named(
    path: str | os.PathLike[str],
    flags: int = os.O_RDONLY,
    most_bytes: int = MOST_FILE_BYTES,
    *,
    run: bool = False,
) -> Iterator[int]:
    """Yields a descriptor of a file that the user has named.

    Raises LoopwrightOSError if it is not a regular file, is too long or cannot be opened; with
    ``run``, if it belongs to another user or others may write it. Raises FileNotFoundError if it
    is not there.
    """
    path = Path(path)
    with refusing(path):
        descriptor = _opened(path, flags)
    try:
        state = _require_file(path, descriptor, most_bytes)
        if run and (state.st_uid not in (os.geteuid(), 0) or state.st_mode & stat.S_IWOTH):
            raise LoopwrightOSError(path, f"its content is run, and {_whose(state)}", errno.EPERM)
        yield descriptor
    finally:
        os.close(descriptor)


def read_named(path: str | os.PathLike[str], most_bytes: int = MOST_TEXT) -> bytes:
    """Returns the bytes of a file that the user has named; raises as ``open_named``."""
    with open_named(path, most_bytes=most_bytes) as descriptor:
        return all_of(descriptor, path)


def map_named(path: str | os.PathLike[str], *, run: bool = False) -> mmap.mmap | bytes:
    """Returns a file that the user has named, mapped into memory; raises as ``open_named``."""
    with open_named(path, run=run) as descriptor, refusing(path):
        if os.fstat(descriptor).st_size == 0:
            return b""  # there is nothing to map
        return mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ)


def read_arrays(path: str | os.PathLike[str]) -> Array | dict[str, Array]:
    """Returns the array of an .npy file, or those of an .npz by name. Nothing is unpickled.

    Raises as ``open_named``, and LoopwrightOSError if the file is damaged or has other bytes than
    its arrays need.
    """
    with open_named(path) as descriptor, refusing(path), open(os.dup(descriptor), "rb") as file:
        if file.read(4) != b"PK\x03\x04":
            file.seek(0)
            return _array(file, os.fstat(descriptor).st_size)
        arrays: dict[str, Array] = {}
        with zipfile.ZipFile(file) as archive:
            for item in archive.infolist():
                with archive.open(item) as member:
                    arrays[item.filename.removesuffix(".npy")] = _array(member, item.file_size)
        return arrays


def write_arrays(path: Path, arrays: Mapping[str, Array]) -> None:
    """Writes arrays to an .npz, whole or not at all. (``np.savez`` takes names as keywords, and two
    are its own.)"""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for name, value in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, value, allow_pickle=False)
    replace_file(path, (content.getbuffer(),))


def array_bytes(array: Array) -> bytes:
    """Returns the content of an .npy file."""
    content = io.BytesIO()
    np.lib.format.write_array(content, array, allow_pickle=False)
    return content.getvalue()


def replace_file(
    path: Path,
    parts: Iterable[bytes | memoryview],
    *,
    mode: int = 0o644,
    sync: bool = False,
) -> None:
    """Writes a file beside its place and renames it: it is whole, or what was there before.

    Raises LoopwrightOSError. With ``sync`` it is on the disk when this returns.
    """
    # No other process or thread has this name: two may write the same file at the same time.
    unique = f"{os.getpid()}.{threading.get_ident()}.{time.monotonic_ns()}"
    part = path.with_name(f".{path.name[:120]}.{unique}.part")
    with refusing(path):
        try:
            descriptor = _opened(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode=mode)
            with open(descriptor, "wb") as file:
                for data in parts:
                    file.write(data)
                file.flush()
                if sync:
                    os.fsync(descriptor)
            os.replace(part, path)
        except BaseException:
            with suppress(OSError):
                os.unlink(part)
            raise


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Writes a text for the user, whole or not at all. Raises LoopwrightOSError."""
    replace_file(Path(path), (text.encode(errors="replace"),))


def _opened(path: Path, flags: int, folder: int | None = None, mode: int = 0o644) -> int:
    """Opens a file, never waiting for the other end of a FIFO."""
    name = path if folder is None else path.name
    return os.open(name, flags | os.O_NONBLOCK | os.O_CLOEXEC, mode, dir_fd=folder)


def _opened_folder(path: Path) -> int:
    try:
        return _opened(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except NotADirectoryError:
        if path.is_symlink():
            raise OSError(errno.ELOOP, "it is a link") from None
        raise FileNotFoundError(errno.ENOENT, "there is no such folder", str(path)) from None


def _require_file(path: Path, descriptor: int, most_bytes: int) -> os.stat_result:
    with refusing(path):
        state = os.fstat(descriptor)
    if not stat.S_ISREG(state.st_mode):
        kind = _KINDS.get(stat.S_IFMT(state.st_mode), "something else")
        raise LoopwrightOSError(path, f"{kind}, not a file", errno.EINVAL)
    if state.st_size > most_bytes:
        raise LoopwrightOSError(path, f"{state.st_size} bytes are too long", errno.EFBIG)
    return state


def require_own(path: Path, state: os.stat_result) -> None:
    """Raises LoopwrightOSError if a file or folder is another user's, or others may write it."""
    if stat.S_ISLNK(state.st_mode):
        raise LoopwrightOSError(path, "it is a link", errno.ELOOP)
    if state.st_uid not in (os.geteuid(), 0) or state.st_mode & _OTHERS_WRITE:
        raise LoopwrightOSError(path, _whose(state), errno.EPERM)


def _whose(state: os.stat_result) -> str:
    if state.st_uid not in (os.geteuid(), 0):
        return f"it belongs to another user, {state.st_uid}"
    return "others may write it (chmod go-w)"


def all_of(descriptor: int, path: str | os.PathLike[str]) -> bytes:
    """Returns the bytes of an open file. Raises LoopwrightOSError."""
    with refusing(path):
        parts: list[bytes] = []
        while data := os.read(descriptor, max(1 << 16, os.fstat(descriptor).st_size)):
            parts.append(data)
        return b"".join(parts)


def _array(file: IO[bytes], size: int) -> Array:
    """Returns the array at the place of a file, of which ``size`` bytes are left."""
    version = np.lib.format.read_magic(file)
    header = np.lib.format.read_array_header_2_0
    if version == (1, 0):
        header = np.lib.format.read_array_header_1_0
    shape, is_fortran, dtype = header(file)
    if dtype.hasobject:
        raise ValueError("it holds Python objects, which are not loaded")
    count = math.prod(shape)
    if file.tell() + count * dtype.itemsize != size:
        raise ValueError(f"{dtype}{list(shape)} does not have the bytes of the file")
    data = np.frombuffer(file.read(count * dtype.itemsize), dtype, count)
    array = data.reshape(shape[::-1]).T if is_fortran else data.reshape(shape)
    return array.copy(order="K")


def _reason(error: Exception) -> str:
    if isinstance(error, OSError):
        if error.errno == errno.ELOOP:
            return "it is a link"
        if error.errno == errno.ENXIO:
            return "a socket or a FIFO, not a file"
        return error.strerror or str(error)
    return printable(f"{type(error).__name__}: {error}")
