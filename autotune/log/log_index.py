"""LogIndex: a tuning log for a compile, which needs a few workloads of many.

Only the beginning of each line is read: lines that the tuner wrote name their workload there. The
index holds the offsets of the lines of each workload; lines are parsed on demand, by ``entry_of``
as everywhere. A process continues where it stopped, and saves the index of a long log in the user's
cache folder for the next one. Entries always come from the log itself, so an outdated index can
hide a line, but never change one; where it does not fit the file, the file is read again.

A search leaves a thousand lines of a kernel, and a compile asks for the fastest one. The times can
be found in the bytes of the lines, so that most lines are never parsed (``contenders``).
"""

from __future__ import annotations

import heapq
import json
import math
import os
import re
import threading
import zlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, field
from pathlib import Path
from typing import Any

from ...codegen.llvm.store import entry_key, store
from ...ir.dataclass import dataclass
from ..record import MeasureRecord, Workload, hash_at, point_in
from ..record_line import MAX_LINE, RecordError, SkippedLines
from .decision import Decision
from .log_file import FollowedLog, Position, as_log_error, opened
from .note import HEAD, Entry, Note, entry_of

INDEX_VERSION = 1
WORTH_SAVING = 1 << 20  # bytes of a log that are not in the saved index: they take 2 ms to scan
CONTENDERS = 64  # schedules of a workload on each target whose lines are read
_PARSED = 4096  # workloads whose entries are kept in memory

_NOTE = re.compile(rb'\{"v": ?2, ?"kind": ?"(?!decision")[a-z][a-z0-9_]{0,39}"')
_DIGITS = b"0123456789"


class _StaleIndexError(Exception):
    """A line is not where the index has it."""


@dataclass(slots=True)
class _Index:
    """The index of a file.

    ``lines`` are offsets by workload, ``alike`` workloads of one kind by a hash of their text
    without digits, ``choices`` the offsets of the decisions that are not about schedules.
    """

    lines: dict[str, list[int]] = field(default_factory=dict[str, list[int]])
    alike: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    choices: list[int] = field(default_factory=list[int])
    skipped: dict[str, int] = field(default_factory=dict[str, int])


class LogIndex(FollowedLog):
    """The records and decisions of a log, by workload.

    A missing file is an empty log. Raises LogError for one that cannot be read.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.path = path
        self._index = _Index()
        self._saved = 0
        self._trusts_saved = True
        self._entries: dict[str, list[Entry]] = {}
        self._choices: list[Decision] | None = None
        self._kinds: dict[str, str] = {}  # by workload: its number among ``alike``
        self._refused: set[int] = set()  # offsets of lines that were read and could not be used
        self.refresh()

    # -- asking

    def of(self, workload_hash: str) -> list[MeasureRecord]:
        """Returns the records of a workload that decide which is the best, in the order of the
        file.

        All records, or of many those that ``contenders`` selects.
        """
        return [e for e in self._of(workload_hash) if isinstance(e, MeasureRecord)]

    def decided(self, workload_hash: str) -> list[Decision]:
        """Returns all decisions about a workload or a choice point, in the order of the file."""
        return [e for e in self._of(workload_hash) if isinstance(e, Decision)]

    def alike(self, wanted: Workload) -> list[Workload]:
        """Returns the workloads that differ from ``wanted`` in sizes alone, and itself if it is
        here."""
        if not wanted.kind:
            return []
        workloads: dict[str, Workload] = {}
        for name in self._index.alike.get(_number_of(_text_in_line(wanted)), ()):
            for record in self.of(name):
                if record.workload.kind == wanted.kind:
                    workloads[name] = record.workload
                    break
        return list(workloads.values())

    def points(self, range_hash: str) -> set[tuple[int, ...]]:
        """Returns the points at which the kernel of a range was measured."""
        beginning = hash_at(range_hash, ())
        return {point_in(name) for name in self._index.lines if name.startswith(beginning)}

    def choices(self) -> list[Decision]:
        """Returns the decisions about graphs and routes, in the order of the file."""
        with self._lock:
            if self._choices is None:
                entries = self._read(self._index.choices)
                self._choices = [e for e in entries if isinstance(e, Decision)]
            return self._choices

    def _of(self, name: str) -> list[Entry]:
        with self._lock:
            entries = self._entries.get(name)
            if entries is None:
                if len(self._entries) >= _PARSED:
                    self._entries.clear()
                entries = self._entries[name] = self._read(self._index.lines.get(name, ()), name)
            return entries

    # -- reading

    def _read_on(self, descriptor: int) -> int:
        if not self._position.inode:
            self._load(descriptor)
        count = super()._read_on(descriptor)
        if self._position.offset - self._saved >= max(WORTH_SAVING, self._saved // 4):
            self._save()
        return count

    def _loss(self) -> str:
        return (
            "was removed or emptied: what is compiled from now on does without its schedules, and "
            "what is measured goes into a new file"
        )

    def _scan(self, offset: int, data: bytes) -> None:
        """Indexes the lines of each workload."""
        find, match, note = data.find, HEAD.match, _NOTE.match
        start = 0
        while start < len(data):
            end = find(b"\n", start)
            head = match(data, start, end)
            if head is not None:
                name, about, text = head["hash"].decode(), head["about"], b""
                if about is None and name not in self._kinds:
                    at = find(b'"prim": "', head.end(), end) + 9
                    text = data[at : find(b'"', at, end)] if at >= 9 else b""
                self._add(offset + start, name, (about or b"").decode(), text)
            elif note(data, start, end) is None and end > start:
                self._scan_other(offset + start, data[start:end])
            start = end + 1

    def _add(self, offset: int, name: str, about: str, text: bytes) -> None:
        """Index a line: a decision ``about`` something, or a record with the kernel's text."""
        self._entries.pop(name, None)
        self._index.lines.setdefault(name, []).append(offset)
        if about not in ("", "schedule"):
            self._index.choices.append(offset)
            self._choices = None
        elif text and name not in self._kinds:
            number = self._kinds[name] = _number_of(text)
            self._index.alike.setdefault(number, []).append(name)

    def _scan_other(self, offset: int, line: bytes) -> None:
        """Indexes a line that another program wrote, or counts it as skipped."""
        if not line.strip():
            return
        try:
            entry = entry_of(line)
        except RecordError as error:
            self.skipped.count(error)
            return
        if isinstance(entry, Note):
            return
        about = entry.about if isinstance(entry, Decision) else ""
        self._add(offset, entry.workload.hash, about, _text_in_line(entry.workload))

    def _read(self, offsets: list[int] | tuple[int, ...], name: str | None = None) -> list[Entry]:
        """Returns the entries at these offsets; those of ``name`` alone, if it is given."""
        if not offsets:
            return []
        for _ in range(2):
            try:
                with opened(self.path) as descriptor, as_log_error(self.path):
                    if os.fstat(descriptor).st_ino != self._position.inode:
                        raise _StaleIndexError
                    return [*self._entries_at(descriptor, offsets, name)]
            except (_StaleIndexError, FileNotFoundError):
                self._trusts_saved = False
                self._forget()
                self.refresh()
                index = self._index
                offsets = index.choices if name is None else index.lines.get(name, ())
        return []

    def _entries_at(
        self, descriptor: int, offsets: list[int] | tuple[int, ...], name: str | None
    ) -> Iterator[Entry]:
        lines: list[bytes] = []
        for offset in offsets:
            line = _line_at(descriptor, offset) if offset < self._position.offset else None
            if line is None:
                raise _StaleIndexError
            lines.append(line)
        if name is None or len(lines) <= 2 * CONTENDERS:
            places: Iterable[int] = range(len(lines))
        else:
            places = contenders(lines, CONTENDERS)
        for place in places:
            offset, line = offsets[place], lines[place]
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
        super()._forget()
        self._index, self._saved = _Index(), 0
        self._entries, self._choices, self._kinds, self._refused = {}, None, {}, set()

    # -- between processes

    @property
    def _key(self) -> str:
        return entry_key("log index", INDEX_VERSION, self.path.absolute())

    def _load(self, descriptor: int) -> None:
        """Loads the index that another process saved, if it is of this file."""
        status = os.fstat(descriptor)
        if status.st_size < WORTH_SAVING or not self._trusts_saved:
            return
        content = store("logs").get(self._key)
        if content is None:
            return
        saved: dict[str, Any] = json.loads(content)
        position = Position(**{name: saved.pop(name) for name in Position.__slots__})
        if position.device == status.st_dev and position.is_in(descriptor, status):
            self._index, self._position, self._saved = _Index(**saved), position, position.offset
            alike = self._index.alike
            self._kinds = {name: number for number, names in alike.items() for name in names}
            self.skipped = SkippedLines(**self._index.skipped)

    def _save(self) -> None:
        """Saves the index for the next process; where that fails, it reads the log."""
        self._saved = self._position.offset
        self._index.skipped = asdict(self.skipped)
        index = {name: getattr(self._index, name) for name in _Index.__slots__}
        content = json.dumps({**asdict(self._position), **index}).encode()
        store("logs").put(self._key, f"log index {self.path}", content)


def _line_at(descriptor: int, offset: int) -> bytes | None:
    """Returns the line that begins at an offset; None if none does."""
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


def _text_in_line(workload: Workload) -> bytes:
    """Returns a kernel's text as it stands in a line; empty if it has no kind."""
    return json.dumps(workload.prim, ensure_ascii=False)[1:-1].encode() if workload.kind else b""


def _number_of(prim: bytes) -> str:
    """Returns a hash of a kernel's text without its digits: all workloads of a kind share it."""
    return f"{zlib.crc32(prim.translate(None, _DIGITS)):08x}"


_INDICES: dict[Path, LogIndex] = {}
_LOCK = threading.Lock()


def log_index(path: Path) -> LogIndex:
    """Returns the index of the log at ``path``, up to date; it lives as long as the process.

    Raises LogError if there is something at ``path`` that cannot be read as a file.
    """
    path = path.absolute()
    with _LOCK:
        index = _INDICES.get(path)
        if index is None:
            index = _INDICES[path] = LogIndex(path)
            return index
    index.refresh()
    return index


def forget_log(path: Path) -> None:
    """Forgets the log at ``path``: it was moved on purpose."""
    with _LOCK:
        _INDICES.pop(path.absolute(), None)


_TARGET = re.compile(rb'"target": ?\{[^{}]*\}')
_SCHEDULE = re.compile(rb'"schedule": ?(\[.*\]), ?"sketch"')
_SECONDS = re.compile(rb'"seconds": ?\[([^\]]*)\]')
_RACED = b'"raced": true'
_REFUSED = (b'"wrong_result"', b'"out_of_bounds"')


def contenders(lines: Sequence[bytes], most: int) -> list[int]:
    """Returns the indices of the lines that decide which record is the best of its target.

    They are the lines of the ``most`` schedules with the fastest samples of each target, of the
    first schedule that ran there, of those that were raced or gave wrong results, and lines that
    the tuner has not written. Every other line is slower in every sample than ``most`` other
    schedules.
    """
    kept: set[int] = set()
    runs: defaultdict[bytes, defaultdict[bytes, list[int]]]
    runs = defaultdict(lambda: defaultdict(list))
    fastest: defaultdict[bytes, dict[bytes, float]] = defaultdict(dict)
    wanted: defaultdict[bytes, set[bytes]] = defaultdict(set)
    refused: defaultdict[bytes, set[bytes]] = defaultdict(set)
    for place, line in enumerate(lines):
        head = HEAD.match(line)
        parts = [p.search(line, head.end()) for p in (_TARGET, _SCHEDULE, _SECONDS)] if head else []
        is_record = head is not None and head["about"] is None
        if not is_record or None in parts:
            kept.add(place)
            continue
        target, schedule, seconds = (match[match.lastindex or 0] for match in parts if match)
        wrong = any(mark in line for mark in _REFUSED)
        if wrong:
            refused[target].add(schedule)
        if wrong or _RACED in line:
            kept.add(place)
            wanted[target].add(schedule)
        least = _least(seconds)
        if least is None:
            kept.add(place)
        elif least < math.inf:
            runs[target][schedule].append(place)
            times = fastest[target]
            times[schedule] = min(least, times.get(schedule, math.inf))
    for target, times in fastest.items():
        wanted[target].update([s for s in times if s not in refused[target]][:1])
        wanted[target].update(heapq.nsmallest(most, times, key=times.__getitem__))
        for schedule in wanted[target] & times.keys():
            kept.update(runs[target][schedule])
    return sorted(kept)


def _least(seconds: bytes) -> float | None:
    """Returns the fastest sample, inf if there is none; None if the text cannot be parsed."""
    if not seconds.strip():
        return math.inf
    try:
        least = min(map(float, seconds.split(b",")))
    except ValueError:
        return None
    return least if least == least else None
