"""The store on disk, where processes find what others have made: machine code, verdicts on it,
figures of the machine, indices of logs and hashes of the compiler's sources, each by a hash of all
that it depends on.

::

    CACHE/code/<hash of version, kind and key>      one file per entry, dated by its last use
    CACHE/verdicts/..., machine/..., logs/...       the same of other rooms (``ROOMS``)
        b"LWKEPT1\\n"  SHA-256 of the rest and of the name  length of the label  label  content
    CACHE/programs/...                              whole programs, each a file of its own form

``CACHE`` is ``LOOPWRIGHT_CACHE``, else the user's cache folder. Entries are written beside their
place and renamed, so that processes may share a folder and one that is killed leaves nothing half
done; an entry that is damaged is taken for missing. The folder has to belong to the user alone,
since its content is believed, and run. Whatever the system refuses (a full disk, a folder that
cannot be written) costs no more than the entry.

When the entries of a room come to more than its limit, which is ``LOOPWRIGHT_CACHE_SIZE`` megabytes
for machine code and eight times that for programs, which have their weights, those that were not
used for the longest time go; a limit of 0 keeps none.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import itertools
import os
import re
import shutil
import stat
import struct
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from ...ir.dataclass import dataclass
from ...ir.errors import LoopwrightOSError
from ...ir.files import (
    MOST_FILE_BYTES,
    all_of,
    make_own_folder,
    open_kept,
    read_kept,
    read_named,
    refused,
    require_own,
    write_kept,
)
from ...ir.progress_line import log
from ..target import Target
from .engine import compile_object, llvm_version
from .settings import allowed_bytes, cache_folder

MAGIC = b"LWKEPT1\n"
MOST_BYTES = 1 << 26
"""Bytes of an entry; what is longer is not kept, nor read."""
KEPT_SHARE = 0.8
"""Share of the allowed bytes that is left when old entries go."""
PUTS_BETWEEN_SWEEPS = 256
SWEEP_SECONDS = 3600.0
"""Seconds in which the first entries of new processes sweep once: looking at 100,000 files takes
longer than most of them run."""
TOUCH_SECONDS = 3600.0
"""Seconds between two notes of the use of an entry."""
ROOMS = {
    "verdicts": 4 << 20,
    "machine": 1 << 20,
    "logs": 256 << 20,
    "versions": 1 << 16,
    "models": 1 << 20,
}
"""Most bytes of the entries in each folder beside those of machine code: 4 MB are the verdicts on
some 25,000 kernels."""
CODE_ROOMS = {"code": 1, "programs": 8}
"""The folders of machine code, and how many times the allowed bytes each may have: of 512 MB those
of programs come to ten models with 100 million weights."""
FREE_SHARE = 0.1
"""Most of what is free on a disk that a file of its own may take."""


@functools.cache
def code_version(*more: str) -> str:
    """Returns a hash of everything but its input that decides what the compiler makes: its own
    sources, those of ``more`` root folders, the cost model, and the version of LLVM. Sources of the
    dates and sizes that a process has seen are not read again: Python, too, takes them for the
    same."""
    packages = Path(__file__).parents[2]
    parts = ("autotune", "codegen", "ir", "tuning_logs", *more)
    states = [state for part in parts for state in _states(os.path.join(packages, part))]
    kept, entry = store("versions"), entry_key("version", llvm_version(), states)
    version = kept.get(entry)
    if version is None:
        digest = hashlib.sha256(llvm_version().encode())
        for path, *_ in states:
            digest.update(os.path.relpath(path, packages).encode() + read_named(path))
        version = digest.hexdigest().encode()
        kept.put(entry, "version of the compiler", version)
    return version.decode()


@functools.cache
def _states(folder: str) -> list[tuple[str, int, int]]:
    """Returns the paths, sizes and dates of what is read from a folder of the compiler."""
    states, folders = list[tuple[str, int, int]](), list[str]()
    for entry in os.scandir(folder) if os.path.isdir(folder) else ():
        if entry.is_dir():
            folders.append(entry.path)
        elif entry.name.endswith((".py", ".ll")) or entry.name == "model.json":
            state = entry.stat()
            states.append((entry.path, state.st_size, state.st_mtime_ns))
    return sorted(states) + [state for each in sorted(folders) for state in _states(each)]


def entry_key(*parts: object) -> str:
    """Returns the name of the entry for something that depends on ``parts`` alone, whatever the
    version of the compiler. Equal texts of the parts mean equal content."""
    digest = hashlib.sha256()
    for part in parts:
        text = str(part).encode(errors="surrogateescape")  # a path may have any bytes
        digest.update(b"%d:" % len(text) + text)
    return digest.hexdigest()


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry as ``loopwright cache list`` shows it; ``used`` is in seconds since 1970."""

    label: str
    size: int
    used: float


class Store:
    """Entries in a folder, at most ``most_bytes`` of them."""

    def __init__(self, folder: Path, most_bytes: int) -> None:
        self._folder = folder
        self._most_bytes = most_bytes
        self._puts = 0

    @property
    def keeps(self) -> bool:
        """True if entries are kept here at all."""
        return self._most_bytes > 0

    def key(self, kind: str, *parts: object) -> str:
        """Returns the name of the entry for something that depends on ``parts`` and the compiler;
        "" if nothing is kept. Equal texts of the parts mean equal content."""
        return entry_key(code_version(), kind, *parts) if self._most_bytes else ""

    def get(self, key: str) -> bytes | None:
        """Returns the content of an entry; None if there is none that is whole."""
        if not key:
            return None
        path = self._folder / key
        try:
            with open_kept(path, most_bytes=MOST_BYTES + 2000) as descriptor:
                used = os.fstat(descriptor).st_mtime
                opened = _opened(key, all_of(descriptor, path))
        except LoopwrightOSError as error:
            refused(error)
            return None
        except FileNotFoundError:
            return None
        log("cache", "read %.12s: %s", key, "damaged" if opened is None else opened[0])
        with contextlib.suppress(OSError):
            if opened is None:
                path.unlink()
            elif time.time() - used > TOUCH_SECONDS:
                os.utime(path)
        return None if opened is None else opened[1]

    def put(self, key: str, label: str, content: bytes) -> None:
        """Keeps an entry; ``label`` tells people what it is."""
        if not key or len(content) > MOST_BYTES:
            return
        with contextlib.suppress(OSError):
            write_kept(self._folder / key, _closed(key, label, content))
            log("cache", "wrote %.12s: %s, %d bytes", key, label, len(content))
            if self._puts % PUTS_BETWEEN_SWEEPS == 0 and (self._puts or self._is_due()):
                self.sweep()
            self._puts += 1

    def file(self, key: str) -> Path | None:
        """Returns the path of an entry that ``keep`` has written, noted as used; None if there is
        none, or it may not be the user's own."""
        path = self._folder / key
        try:
            with open_kept(path, MOST_FILE_BYTES):
                os.utime(path)
        except LoopwrightOSError as error:
            refused(error)
            return None
        except OSError:
            return None
        return path

    def keep(self, key: str, size: int, write: Callable[[Path], None]) -> None:
        """Keeps an entry of about ``size`` bytes that is a file of its own form, which ``write``
        puts at a path, whole or not at all."""
        with contextlib.suppress(OSError):
            make_own_folder(self._folder)
            free = shutil.disk_usage(self._folder).free
            if size <= min(self._most_bytes * KEPT_SHARE, free * FREE_SHARE):
                write(self._folder / key)
                self.sweep()

    def _is_due(self) -> bool:
        """True if no process has swept for an hour; notes that this one does."""
        swept = self._folder.with_suffix(".swept")
        with contextlib.suppress(OSError):
            if 0 <= time.time() - os.lstat(swept).st_mtime < SWEEP_SECONDS:
                return False
        write_kept(swept, b"")
        return True

    def sweep(self, most_bytes: int | None = None) -> int:
        """Removes what was not used for the longest time, until the rest is within the limit.
        Returns the number of entries removed."""
        allowed = self._most_bytes if most_bytes is None else most_bytes
        rows = sorted(self._files(), key=lambda row: row[2])
        total, removed = sum(size for _, size, _ in rows), 0
        enough = allowed if total <= allowed else allowed * KEPT_SHARE
        for path, size, used in rows:
            unfinished = path.suffix == ".part" and time.time() - used > TOUCH_SECONDS
            if total <= enough and not unfinished:
                continue
            with contextlib.suppress(OSError):
                path.unlink()
                total -= size
                removed += 1
        return removed

    def entries(self) -> list[Entry]:
        """Returns all whole entries, the one used last first."""
        entries: list[Entry] = []
        for path, size, used in self._files():
            with contextlib.suppress(OSError):
                opened = _opened(path.name, read_kept(path, MOST_BYTES + 2000))
                if opened is not None:
                    entries.append(Entry(opened[0], size, used))
        return sorted(entries, key=lambda entry: -entry.used)

    def total(self) -> tuple[int, int]:
        """Returns the number of entries, and their bytes."""
        sizes = [size for _, size, _ in self._files()]
        return len(sizes), sum(sizes)

    def _files(self) -> Iterator[tuple[Path, int, float]]:
        with contextlib.suppress(OSError):
            require_own(self._folder, os.lstat(self._folder))
            for item in os.scandir(self._folder):
                with contextlib.suppress(OSError):
                    state = item.stat(follow_symlinks=False)
                    if stat.S_ISREG(state.st_mode):
                        yield Path(item.path), state.st_size, state.st_mtime


def store(room: str = "code", folder: Path | None = None) -> Store:
    """Returns a room of the store in a folder, else of the settings in force: one object for each
    folder and limit."""
    limit = allowed_bytes() * CODE_ROOMS[room] if room in CODE_ROOMS else ROOMS[room]
    return _store((folder or cache_folder()) / room, limit)


@functools.cache
def _store(folder: Path, most_bytes: int) -> Store:
    return Store(folder, most_bytes)


def stored_object(text: str, target: Target, label: str) -> bytes:
    """Returns what ``compile_object`` does, from the disk cache if it is there. The text may have
    addresses in place (``with_addresses``)."""
    kept = store()
    entry = kept.key("text", text, target.isa, sorted(target.features), target.system)
    code = kept.get(entry)
    if code is None:
        code = compile_object(with_addresses(text), target)
        kept.put(entry, label, code)
    return code


_ADDRESSED = re.compile(r"\n([^(\n]*, ptr )\((.*)\)$", re.MULTILINE)


def with_addresses(text: str) -> str:
    """Returns LLVM's own form of a text whose loads and stores have their address in place, as the
    operands of a ``getelementptr``.

    >>> print(with_addresses("entry:\\n%next = load ptr, ptr (%Block, ptr %block, i32 0, i32 1)"))
    entry:
    %address.0 = getelementptr %Block, ptr %block, i32 0, i32 1
    %next = load ptr, ptr %address.0
    """
    names = (f"%address.{n}" for n in itertools.count())
    return _ADDRESSED.sub(
        lambda m: f"\n{(name := next(names))} = getelementptr {m[2]}\n{m[1]}{name}", text
    )


def _closed(key: str, label: str, content: bytes) -> bytes:
    name = label.encode(errors="replace")[:1000]
    rest = struct.pack("<H", len(name)) + name + content
    return MAGIC + hashlib.sha256(key.encode() + rest).digest() + rest


def _opened(key: str, data: bytes) -> tuple[str, bytes] | None:
    """Returns label and content of an entry; None if it is not as it was written."""
    rest = data[len(MAGIC) + 32 :]
    if data[: len(MAGIC)] != MAGIC or len(rest) < 2:
        return None
    if hashlib.sha256(key.encode() + rest).digest() != data[len(MAGIC) : len(MAGIC) + 32]:
        return None
    (length,) = struct.unpack_from("<H", rest)
    return rest[2 : 2 + length].decode(errors="replace"), rest[2 + length :]
