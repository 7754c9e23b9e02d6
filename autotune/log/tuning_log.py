"""TuningLog: records, decisions and notes in JSON lines that several processes may append to.

An entry is acknowledged when ``append`` returns. Until then it is in the file whole or not at all:
lines are written by one ``write`` under an exclusive lock, and a write that a full disk cut off is
undone. Reading never fails because of a file's content: lines that are torn, foreign or from a
later version are skipped and counted.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from ..record import MeasureRecord, TargetKey, Workload, hash_at, point_in
from ..record_line import RecordError
from ..settings import DEFAULT_SETTINGS
from .decision import Decision
from .log_file import FollowedLog, as_log_error, locked_file
from .note import Entry, Note, entry_of


class TuningLog(FollowedLog):
    """The records of one file; without a path they live in memory alone.

    A file that is not there yet is an empty log. LogError if it is there and cannot be read.

    >>> log = TuningLog()
    >>> len(log), log.skipped.total
    (0, 0)
    """

    def __init__(
        self, path: str | os.PathLike[str] | None = None, *, sync_seconds: float | None = None
    ) -> None:
        self.path = None if path is None else Path(path)
        super().__init__(self.path)
        self.records: list[MeasureRecord] = []
        self.decisions: list[Decision] = []
        self.notes: list[tuple[int, Note]] = []  # each after so many records
        self._others: list[tuple[int, Note | Decision]] = []
        self._sync_seconds = DEFAULT_SETTINGS.sync_seconds if sync_seconds is None else sync_seconds
        self._synced_at = -float("inf")
        self._by_hash: dict[str, list[MeasureRecord]] = {}
        self._by_kind: dict[str, dict[str, Workload]] = {}
        self._decided: dict[str, list[Decision]] = {}
        self.refresh()

    def __len__(self) -> int:
        return len(self.records)

    def __iter__(self) -> Iterator[MeasureRecord]:
        return iter(self.records)

    # -- reading

    def _scan(self, _offset: int, data: bytes) -> None:
        for line in data.split(b"\n"):
            if line.strip():
                try:
                    self._index(entry_of(line))
                except RecordError as error:
                    self.skipped.count(error)

    def _index(self, record: Entry) -> None:
        if not isinstance(record, MeasureRecord):
            self._others.append((len(self.records), record))
        if isinstance(record, Note):
            self.notes.append((len(self.records), record))
            return
        if isinstance(record, Decision):
            self.decisions.append(record)
            self._decided.setdefault(record.workload.hash, []).append(record)
            return
        self.records.append(record)
        workload = record.workload
        self._by_hash.setdefault(workload.hash, []).append(record)
        if workload.kind:
            self._by_kind.setdefault(workload.kind, {})[workload.hash] = workload

    def _loss(self) -> str:
        return (
            "was removed or emptied while it was in use: what is measured from now on goes into a "
            f"new file, without the {len(self.records)} records that were known"
        )

    def _forget(self) -> None:
        super()._forget()
        for kept in (self.records, self.notes, self._others, self.decisions):
            kept.clear()
        for table in (self._by_hash, self._by_kind, self._decided):
            table.clear()

    # -- asking

    def alike(self, wanted: Workload) -> list[Workload]:
        """Returns the workloads that differ from ``wanted`` in sizes alone, and itself if it is
        here."""
        return list(self._by_kind.get(wanted.kind, {}).values()) if wanted.kind else []

    def points(self, range_hash: str) -> set[tuple[int, ...]]:
        """Returns the points at which the kernel of a range was measured."""
        beginning = hash_at(range_hash, ())
        names = self._by_hash.keys() | self._decided.keys()
        return {point_in(name) for name in names if name.startswith(beginning)}

    def choices(self) -> list[Decision]:
        """Returns the decisions about graphs and routes, in the order of the file."""
        return [d for d in self.decisions if d.about != "schedule"]

    def of(self, workload_hash: str, target: TargetKey | None = None) -> list[MeasureRecord]:
        """Returns all records of a workload, failed ones too, in the order of the file."""
        records = self._by_hash.get(workload_hash, [])
        return [r for r in records if target is None or r.target == target]

    def workloads(self) -> list[Workload]:
        """Returns the workloads that have records."""
        return [records[0].workload for records in self._by_hash.values()]

    def decided(self, workload_hash: str, target: TargetKey | None = None) -> list[Decision]:
        """Returns all decisions about a workload or a choice point, in the order of the file."""
        decisions = self._decided.get(workload_hash, [])
        return [d for d in decisions if target is None or d.target == target]

    def entries(self) -> Iterator[Entry]:
        """Yields records, decisions and notes in the order of the file."""
        others = iter(self._others)
        place, other = next(others, (-1, None))
        for number, record in enumerate(self.records):
            while other is not None and place <= number:
                yield other
                place, other = next(others, (-1, None))
            yield record
        while other is not None:
            yield other
            place, other = next(others, (-1, None))

    # -- writing

    def append(self, records: Entry | Iterable[Entry]) -> None:
        """Appends entries; they are in the file when this returns. Raises LogError if none is."""
        one = isinstance(records, MeasureRecord | Decision | Note)
        batch = [records] if one else list(records)
        if not batch:
            return
        with self._lock:
            if self.path is not None:
                self._write("".join(r.to_json() + "\n" for r in batch).encode())
            for record in batch:
                self._index(record)

    def check_writable(self) -> None:
        """Raises LogError now if the log cannot be written, rather than after a minute of
        tuning."""
        if self.path is not None:
            with self._lock, as_log_error(self.path), locked_file(self.path):
                pass

    def sync(self) -> None:
        """Waits until the disk has everything, so that a power cut loses nothing."""
        if self.path is not None and self.path.exists():
            with as_log_error(self.path), locked_file(self.path) as descriptor:
                os.fdatasync(descriptor)
            self._synced_at = time.monotonic()

    def _write(self, data: bytes) -> None:
        assert self.path is not None
        with as_log_error(self.path), locked_file(self.path) as descriptor:
            self._read_on(descriptor)
            size = os.fstat(descriptor).st_size
            if size and os.pread(descriptor, 1, size - 1) != b"\n":
                data = b"\n" + data  # close the line that someone left torn
            try:
                written = os.write(descriptor, data)
            except OSError:
                os.ftruncate(descriptor, size)
                raise
            if written < len(data):
                os.ftruncate(descriptor, size)
                raise OSError("no space left on the disk")
            # The bytes between our position and `size` are a torn line, now closed: count it.
            if self._position.offset < size:
                self.skipped.torn += 1
            self._position.mark(descriptor, size + written)
            if time.monotonic() - self._synced_at >= self._sync_seconds:
                os.fdatasync(descriptor)
                self._synced_at = time.monotonic()
