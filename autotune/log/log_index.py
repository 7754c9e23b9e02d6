"""LogIndex: a tuning log as a compile reads it, which asks for a few workloads of many.

Only the beginnings of lines are looked at: the tuner's own say at once which workload they are
about. What is known of a file is where its lines of each workload are; they are read when they are
asked for, by ``entry_of`` as everywhere. A process goes on from where it stopped, and leaves what
it knows of a long log in the user's cache folder, for the next one. Since entries always come from
the log itself, an index that is out of date can hide a line, but never change one; where it does
not fit the file, the file is read again.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import threading
import warnings
import zlib
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ...codegen.machine import cache_folder
from .contenders import contenders
from .decision import Decision
from .line import MAX_LINE, RecordError, SkippedLines
from .log_file import as_log_error, opened, pieces
from .note import HEAD, Entry, Note, entry_of
from .record import MeasureRecord, Workload

__all__ = ["LogIndex", "forget_log", "log_index"]

VERSION = 1
WORTH_SAVING = 1 << 20  # bytes of a log that are not in the saved index: they take 2 ms to scan
CONTENDERS = 64  # schedules of a workload on each target whose lines are read
_TAIL = 4096  # bytes before the end of what is known: they tell an appended file from a new one
_PARSED = 4096  # workloads whose entries are kept

_NOTE = re.compile(rb'\{"v": ?2, ?"kind": ?"(?!decision")[a-z][a-z0-9_]{0,39}"')
_DIGITS = b"0123456789"


class _StaleIndexError(Exception):
    """A line is not where the index has it."""


@dataclass(slots=True)
class _Known:
    """What is known of a file up to ``offset``. ``lines`` are offsets by workload, ``alike`` the
    workloads by a number that those of one kind share, ``choices`` the offsets of the decisions
    that are not about schedules."""

    device: int = 0
    inode: int = 0
    modified: int = 0
    offset: int = 0
    tail: int = 0
    lines: dict[str, list[int]] = field(default_factory=dict[str, list[int]])
    alike: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    choices: list[int] = field(default_factory=list[int])
    skipped: dict[str, int] = field(default_factory=dict[str, int])


class LogIndex:
    """The records and decisions of a log, by workload.

    LogError if there is a file that cannot be read. A file that is not there is an empty log.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.skipped = SkippedLines()
        self._known = _Known()
        self._saved = 0
        self._trusts_saved = True
        self._entries: dict[str, list[Entry]] = {}
        self._choices: list[Decision] | None = None
        self._kinds: dict[str, str] = {}  # by workload: its number among ``alike``
        self._refused: set[int] = set()  # offsets of lines that were read and could not be used
        self._lock = threading.RLock()
        self.refresh()

    # -- asking

    def of(self, workload_hash: str) -> list[MeasureRecord]:
        """The records of a workload that decide which is the best, in the order of the file: all
        of them, or of many those that ``contenders`` names."""
        return [e for e in self._of(workload_hash) if isinstance(e, MeasureRecord)]

    def decided(self, workload_hash: str) -> list[Decision]:
        """All decisions about a workload or a site of the graph, in the order of the file."""
        return [e for e in self._of(workload_hash) if isinstance(e, Decision)]

    def alike(self, wanted: Workload) -> list[Workload]:
        """The workloads that differ from ``wanted`` in sizes alone, and itself if it is here."""
        if not wanted.kind:
            return []
        text = json.dumps(wanted.prim, ensure_ascii=False)[1:-1].encode()
        found: dict[str, Workload] = {}
        for name in self._known.alike.get(_number_of(text), ()):
            for record in self.of(name):
                if record.workload.kind == wanted.kind:
                    found[name] = record.workload
                    break
        return list(found.values())

    def choices(self) -> list[Decision]:
        """The decisions about graphs and routes, in the order of the file."""
        with self._lock:
            if self._choices is None:
                found = self._read(self._known.choices)
                self._choices = [e for e in found if isinstance(e, Decision)]
            return self._choices

    def _of(self, name: str) -> list[Entry]:
        with self._lock:
            found = self._entries.get(name)
            if found is None:
                if len(self._entries) >= _PARSED:
                    self._entries.clear()
                found = self._entries[name] = self._read(self._known.lines.get(name, ()), name)
            return found

    # -- reading

    def refresh(self) -> None:
        """Look at what was appended since the last time."""
        with self._lock:
            try:
                with opened(self.path) as descriptor, as_log_error(self.path):
                    self._refresh(descriptor)
            except FileNotFoundError:
                self._tell_of_loss()
                self._forget()

    def _refresh(self, descriptor: int) -> None:
        status = os.fstat(descriptor)
        known = self._known
        if not known.inode:
            self._load(descriptor, status)
            known = self._known
        if (known.inode, known.offset, known.modified) == (
            status.st_ino,
            status.st_size,
            status.st_mtime_ns,
        ):
            return
        if known.inode and not _goes_on(known, descriptor, status):
            if not status.st_size:
                self._tell_of_loss()
            self._forget()  # the file was replaced, by prune for instance
            known = self._known
        known.device, known.inode, known.modified = (
            status.st_dev,
            status.st_ino,
            status.st_mtime_ns,
        )
        for start, end, data in pieces(descriptor, known.offset, status.st_size):
            if not data.endswith(b"\n"):
                if not self._whole(data):
                    break  # it is still being written
                data += b"\n"
            self._scan(start, data)
            known.offset = end
        known.tail = _tail(descriptor, known.offset)
        if known.offset - self._saved >= max(WORTH_SAVING, self._saved // 4):
            self._save()

    def _tell_of_loss(self) -> None:
        if self._known.offset:
            warnings.warn(
                f"tuning log {self.path} was removed or emptied: what is compiled from now on does "
                "without its schedules, and what is measured goes into a new file",
                stacklevel=5,
            )

    def _whole(self, line: bytes) -> bool:
        try:
            entry_of(line)
        except RecordError:
            return False
        return True

    def _scan(self, offset: int, data: bytes) -> None:
        """Note where the lines of each workload are."""
        lines, find, match, note = self._known.lines, data.find, HEAD.match, _NOTE.match
        start = 0
        while start < len(data):
            end = find(b"\n", start)
            head = match(data, start, end)
            if head is not None:
                name = head["hash"].decode()
                about = head["about"]
                self._entries.pop(name, None)
                if about is not None and about != b"schedule":
                    self._known.choices.append(offset + start)
                    self._choices = None
                elif about is None and name not in self._kinds:
                    self._note_kind(name, data, head.end(), end)
                places = lines.get(name)
                if places is None:
                    lines[name] = [offset + start]
                else:
                    places.append(offset + start)
            elif note(data, start, end) is None and end > start:
                self._scan_other(offset + start, data[start:end])
            start = end + 1

    def _note_kind(self, name: str, data: bytes, start: int, end: int) -> None:
        at = data.find(b'"prim": "', start, end)
        if at >= 0:
            close = data.find(b'"', at + 9, end)
            number = self._kinds[name] = _number_of(data[at + 9 : close])
            self._known.alike.setdefault(number, []).append(name)

    def _scan_other(self, offset: int, line: bytes) -> None:
        """Note a line that another program wrote, or nobody."""
        if not line.strip():
            return
        try:
            entry = entry_of(line)
        except RecordError as error:
            self.skipped.count(error)
            return
        if isinstance(entry, Note):
            return
        name = entry.workload.hash
        self._entries.pop(name, None)
        self._known.lines.setdefault(name, []).append(offset)
        if isinstance(entry, Decision):
            if entry.about != "schedule":
                self._known.choices.append(offset)
                self._choices = None
        elif name not in self._kinds and entry.workload.kind:
            text = json.dumps(entry.workload.prim, ensure_ascii=False)[1:-1].encode()
            number = self._kinds[name] = _number_of(text)
            self._known.alike.setdefault(number, []).append(name)

    def _read(self, offsets: list[int] | tuple[int, ...], name: str | None = None) -> list[Entry]:
        """The entries at these places; those of ``name`` alone, if it is given."""
        if not offsets:
            return []
        for _ in range(2):
            try:
                with opened(self.path) as descriptor, as_log_error(self.path):
                    if os.fstat(descriptor).st_ino != self._known.inode:
                        raise _StaleIndexError
                    return [*self._entries_at(descriptor, offsets, name)]
            except (_StaleIndexError, FileNotFoundError):
                self._trusts_saved = False
                self._forget()
                self.refresh()
                known = self._known
                offsets = known.choices if name is None else known.lines.get(name, ())
        return []

    def _entries_at(
        self, descriptor: int, offsets: list[int] | tuple[int, ...], name: str | None
    ) -> Iterator[Entry]:
        known = self._known.offset
        lines = [_line_at(descriptor, at) if at < known else None for at in offsets]
        if None in lines:
            raise _StaleIndexError
        found = [line for line in lines if line is not None]
        if name is None or len(found) <= 2 * CONTENDERS:
            places: Iterable[int] = range(len(found))
        else:
            places = contenders(found, CONTENDERS)
        for place in places:
            offset, line = offsets[place], found[place]
            try:
                entry = entry_of(line)
            except RecordError as error:
                if offset not in self._refused:
                    self.skipped.count(error)
                    self._refused.add(offset)
                continue
            if isinstance(entry, Note) or (name is not None and entry.workload.hash != name):
                raise _StaleIndexError
            yield entry

    def _forget(self) -> None:
        self._known, self._saved = _Known(), 0
        self._entries, self._choices, self._kinds, self._refused = {}, None, {}, set()
        self.skipped = SkippedLines()

    # -- between processes

    @property
    def _file(self) -> Path:
        name = hashlib.sha256(os.fsencode(self.path.absolute())).hexdigest()[:16]
        return cache_folder() / "logs" / f"{name}.json"

    def _load(self, descriptor: int, status: os.stat_result) -> None:
        """Begin with what another process has left, if it is of this file."""
        if status.st_size < WORTH_SAVING or not self._trusts_saved:
            return
        try:
            data = json.loads(self._file.read_bytes())
            known = _checked(data)
        except (OSError, ValueError, RecursionError):
            return
        same = (known.device, known.inode) == (status.st_dev, status.st_ino)
        if not same or not _goes_on(known, descriptor, status):
            return
        self._known, self._saved = known, known.offset
        self._kinds = {name: number for number, names in known.alike.items() for name in names}
        self.skipped = SkippedLines(**known.skipped)

    def _save(self) -> None:
        """Leave what is known for the next process; where that cannot be, it reads the log."""
        self._saved = self._known.offset
        self._known.skipped = asdict(self.skipped)
        file = self._file
        new = file.with_name(f".{file.name}.{os.getpid()}.{threading.get_ident()}")
        with suppress(OSError):
            try:
                file.parent.mkdir(parents=True, exist_ok=True)
                known = {name: getattr(self._known, name) for name in _Known.__slots__}
                new.write_text(json.dumps({"version": VERSION, **known}))
                new.replace(file)
            finally:
                new.unlink(missing_ok=True)


def _checked(data: Any) -> _Known:
    """An index as it was saved. ValueError if it is none, or another version's."""
    if not isinstance(data, dict) or data.pop("version", None) != VERSION:
        raise ValueError("another version")
    if set(data) != set(_Known.__slots__):
        raise ValueError("other fields")
    lines, alike, skipped = (data[name] for name in ("lines", "alike", "skipped"))
    if not all(isinstance(table, dict) for table in (lines, alike, skipped)):
        raise ValueError("other types")
    numbers = [data[name] for name in ("device", "inode", "modified", "offset", "tail")]
    offsets = all(_is_list(o, int) for o in (*lines.values(), data["choices"], numbers))
    names = all(_is_list(n, str) for n in alike.values())
    counts = set(skipped) == set(SkippedLines.__slots__) and _is_list([*skipped.values()], int)
    if not (offsets and names and counts):
        raise ValueError("other types")
    return _Known(**data)


def _is_list(data: Any, kind: type) -> bool:
    return isinstance(data, list) and {type(item) for item in data} <= {kind}


def _goes_on(known: _Known, descriptor: int, status: os.stat_result) -> bool:
    """Whether a file is the one that is known, with more lines at its end or none."""
    if known.inode != status.st_ino or status.st_size < known.offset:
        return False
    if status.st_size == known.offset and status.st_mtime_ns != known.modified:
        return False
    return known.tail == _tail(descriptor, known.offset)


def _tail(descriptor: int, offset: int) -> int:
    start = max(0, offset - _TAIL)
    return zlib.crc32(os.pread(descriptor, offset - start, start))


def _line_at(descriptor: int, offset: int) -> bytes | None:
    """The line that begins at an offset; None if none does."""
    if offset < 0:
        return None
    before = int(offset > 0)  # the end of the line before it
    line, size = b"", 4096
    while len(line) <= MAX_LINE:
        data = os.pread(descriptor, size, offset - before + len(line))
        line += data
        end = line.find(b"\n", before)
        if end >= 0 or not data:
            line = line[: end if end >= 0 else None]
            break
        size *= 4
    return line[before:] if not before or line[:1] == b"\n" else None


def _number_of(prim: bytes) -> str:
    """A number that all workloads of a kind share, and few others: of their text without digits."""
    return f"{zlib.crc32(prim.translate(None, _DIGITS)):08x}"


_INDICES: dict[Path, LogIndex] = {}
_LOCK = threading.Lock()


def log_index(path: Path) -> LogIndex:
    """The log at ``path`` as it is now. What is known of it is kept as long as the process lives.

    LogError if there is something at ``path`` that cannot be read as a file.
    """
    path = path.absolute()
    with _LOCK:
        found = _INDICES.get(path)
        if found is None:
            found = _INDICES[path] = LogIndex(path)
            return found
    found.refresh()
    return found


def forget_log(path: Path) -> None:
    """Take the log at ``path`` for one that nobody has read: it was moved on purpose."""
    with _LOCK:
        _INDICES.pop(path.absolute(), None)
