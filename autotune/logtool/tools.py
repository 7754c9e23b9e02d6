"""Operations on tuning logs: list, best, merge, prune, migrate, stats, verify.

Everything here returns data; the command line prints it.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, field
from pathlib import Path
from typing import Any

from ...codegen.limits import check_limits
from ...codegen.target import Target
from ...ir.dataclass import dataclass
from ...ir.errors import LoopwrightError
from ...ir.files import MOST_FILE_BYTES, read_named, replace_file
from ..log.decision import Decision
from ..log.log_file import locked_file
from ..log.lookup import best_of, best_records, grouped, own_records
from ..log.note import Entry, Note, entry_of
from ..log.tuning_log import TuningLog
from ..measure.verdicts import schedule_digest, verdicts
from ..record import ERRORS, MeasureRecord, TargetKey
from ..record_line import FutureRecordError, RecordError, SkippedLines, data_of
from .logged import logged_nest, logged_prim


@dataclass(frozen=True, slots=True)
class LogRow:
    """One workload on one target. Seconds are per call; None if nothing ran."""

    workload: str
    text: str
    target: TargetKey
    tried: int
    failed: int
    best_seconds: float | None
    sketch: str
    newest: str


def list_records(log: TuningLog) -> list[LogRow]:
    """Returns a row per workload and target, in the order of their first records."""
    rows: list[LogRow] = []
    for (workload, target), records in grouped(log).items():
        seconds, winner = best_of([log], workload, target) or (None, records[0])
        rows.append(
            LogRow(
                workload=workload,
                text=winner.workload.text,
                target=target,
                tried=len({r.schedule_key for r in records}),
                failed=sum(r.error is not None for r in records),
                best_seconds=seconds,
                sketch=winner.sketch,
                newest=max(r.time for r in records),
            )
        )
    return rows


def best(log: TuningLog, workload: str | None = None) -> list[MeasureRecord]:
    """Returns the best record per workload and target.

    ``workload`` selects by the start of the hash or a part of the text.
    """
    records = best_records(log)
    if workload is None:
        return records
    return [
        r for r in records if r.workload.hash.startswith(workload) or workload in r.workload.text
    ]


@dataclass(frozen=True, slots=True)
class MergeReport:
    """Counts of a merge: ``duplicates`` were there already, ``skipped`` lines were unreadable."""

    added: int
    duplicates: int
    skipped: int


def merge(
    sources: Sequence[str | os.PathLike[str]], destination: str | os.PathLike[str]
) -> MergeReport:
    """Appends the entries of the sources that ``destination`` lacks, notes too, in their order.

    Raises FileNotFoundError for a missing source, LogError if the destination cannot be written.
    """
    into = TuningLog(destination)
    seen = {entry.to_json() for entry in into.entries()}
    added = duplicates = skipped = 0
    for source in sources:
        if not Path(source).exists():
            raise FileNotFoundError(f"no tuning log at {source}")
        log = TuningLog(source)
        skipped += log.skipped.total
        fresh: list[Entry] = []
        for entry in log.entries():
            line = entry.to_json()
            record = not isinstance(entry, Note)
            if line in seen:
                duplicates += record
                continue
            seen.add(line)
            fresh.append(entry)
            added += record
        into.append(fresh)
    into.sync()
    return MergeReport(added, duplicates, skipped)


@dataclass(frozen=True, slots=True)
class PruneReport:
    """Counts of lines kept and dropped.

    Lines of a later version are always kept, and so are notes, except those of runs without any
    record left.
    """

    kept: int
    dropped_records: int
    dropped_lines: int


def prune(path: str | os.PathLike[str], keep: int = 5, *, write: bool = True) -> PruneReport:
    """Keeps the ``keep`` fastest schedules per workload and target and all decisions.

    Other records and torn lines are dropped. The file is replaced in one step; a tuner that appends
    meanwhile loses nothing. With ``write=False`` only the report is made. Raises FileNotFoundError
    if there is no such log.
    """
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"no tuning log at {path}")
    with locked_file(path) as descriptor:
        lines, dropped_lines = _readable_lines(path)
        log = TuningLog(path)
        wanted = {_identity(r) for group in grouped(log) for r in own_records([log], *group)[:keep]}
        runs = {r.run for r in log if r.ok and _identity(r) in wanted}
        kept = [line for line, entry in lines if _stays(entry, wanted, runs)]
        report = PruneReport(len(kept), len(lines) - len(kept), dropped_lines)
        if write:
            _replace(path, kept, os.fstat(descriptor).st_mode)
    return report


def _renewed(line: bytes) -> bytes:
    """Returns the line as this version writes it, with the fields that this version does not know.

    Raises ValueError if it cannot be read.
    """
    new = _with_the_rest(json.loads(entry_of(line).to_json()), data_of(line))
    return json.dumps(new, ensure_ascii=False, allow_nan=False).encode()


def _with_the_rest(new: Any, old: Any) -> Any:
    if not isinstance(new, dict) or not isinstance(old, dict):
        return new
    renewed = {key: _with_the_rest(value, old.get(key)) for key, value in new.items()}
    return renewed | {key: value for key, value in old.items() if key not in new}


@dataclass(frozen=True, slots=True)
class MigrateReport:
    """Counts of lines: ``rewritten`` ones changed, ``same`` ones were in today's form already, and
    ``untouched`` ones could not be read or are of a later version."""

    rewritten: int
    same: int
    untouched: int


def migrate(path: str | os.PathLike[str], *, write: bool = True) -> MigrateReport:
    """Rewrites every line as this version writes it; lines that cannot be read stay.

    Fields that this version does not know stay, too. The file is replaced in one step; a tuner that
    appends meanwhile loses nothing. Raises FileNotFoundError if there is no such log.
    """
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"no tuning log at {path}")
    rewritten = same = untouched = 0
    lines: list[bytes] = []
    with locked_file(path) as descriptor:
        for line in filter(bytes.strip, read_named(path, MOST_FILE_BYTES).split(b"\n")):
            try:
                new = _renewed(line)
            except ValueError:
                untouched += 1
                new = line
            else:
                rewritten += new != line
                same += new == line
            lines.append(new)
        if write and rewritten:
            _replace(path, lines, os.fstat(descriptor).st_mode)
    return MigrateReport(rewritten, same, untouched)


def _stays(entry: Entry | None, wanted: set[tuple[str, TargetKey, str]], runs: set[str]) -> bool:
    if isinstance(entry, Note):
        return entry.kind not in ("run", "end") or entry.text("run") in runs
    return not isinstance(entry, MeasureRecord) or (entry.ok and _identity(entry) in wanted)


def _readable_lines(path: Path) -> tuple[list[tuple[bytes, Entry | None]], int]:
    """Returns lines with their entries (None: of a later version), and how many are unreadable."""
    lines: list[tuple[bytes, Entry | None]] = []
    dropped = 0
    for line in filter(bytes.strip, read_named(path, MOST_FILE_BYTES).split(b"\n")):
        try:
            lines.append((line, entry_of(line)))
        except FutureRecordError:
            lines.append((line, None))
        except RecordError:
            dropped += 1
    return lines, dropped


def _identity(record: MeasureRecord) -> tuple[str, TargetKey, str]:
    return record.workload.hash, record.target, record.schedule_key


def _replace(path: Path, lines: list[bytes], mode: int) -> None:
    replace_file(path, (line + b"\n" for line in lines), mode=mode & 0o777, sync=True)
    path.chmod(mode & 0o777)  # whatever the umask


@dataclass(frozen=True, slots=True)
class LogStats:
    """Counts over a whole log. ``measured_seconds`` is the total time of all samples."""

    records: int
    workloads: int
    targets: int
    errors: dict[str, int]
    sketches: dict[str, int]
    kernels: list[LogRow]
    machines: dict[str, int]
    runs: int
    decisions: int
    measured_seconds: float
    first: str
    last: str
    torn: int
    foreign: int
    oversized: int
    future: int


def still_applies(record: MeasureRecord) -> str | None:
    """Returns the reason why the schedule of a successful record no longer applies to its kernel
    here.

    None if it does, or if the log does not have the kernel's text. For ``verify``.
    """
    if not record.ok or not record.workload.prim:
        return None
    try:
        check_limits(logged_prim(record.workload), logged_nest(record), Target.host())
    except LoopwrightError as error:
        return f"its schedule does not apply: {error}".split("\n", 1)[0]
    return None


def refused_here(folder: Path) -> Callable[[MeasureRecord], str | None]:
    """Returns a check for ``verify``: the reason why this machine refused a schedule at its first
    use.

    It reads the verdicts in a cache folder, and reports each of them once.
    """
    refused = verdicts(folder).refused()

    def reason(record: MeasureRecord) -> str | None:
        if not record.ok:
            return None
        name = record.workload.hash, schedule_digest(record.schedule_key)
        why = refused.pop(name, None)
        return None if why is None else f"its schedule was refused at its first use here: {why}"

    return reason


def stats(log: TuningLog) -> LogStats:
    """Returns counts over a log."""
    times = [r.time for r in log if r.time]
    return LogStats(
        records=len(log),
        workloads=len({r.workload.hash for r in log}),
        targets=len({r.target for r in log}),
        errors=dict(Counter(r.error for r in log if r.error)),
        sketches=dict(Counter(r.sketch for r in log)),
        kernels=list_records(log),
        machines=dict(Counter(r.target.text for r in log)),
        runs=sum(note.kind == "run" for _, note in log.notes),
        decisions=len(log.decisions),
        measured_seconds=sum(sum(r.seconds) for r in log),
        first=min(times, default=""),
        last=max(times, default=""),
        **asdict(log.skipped),
    )


@dataclass(frozen=True, slots=True)
class Problem:
    """A line (from 1) that is not used, or looks wrong, with the reason."""

    line: int
    reason: str


@dataclass(slots=True)
class VerifyReport:
    """Counts of lines; ``good`` ones are records without complaint."""

    good: int = 0
    notes: int = 0
    skipped: SkippedLines = field(default_factory=SkippedLines)
    suspicious: int = 0
    problems: list[Problem] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        return not self.problems


def verify(
    path: str | os.PathLike[str],
    check: Callable[[MeasureRecord], str | None] | None = None,
) -> VerifyReport:
    """Reads a log line by line and reports what is wrong with it.

    ``check`` may return a complaint about a record, for instance if its schedule does not apply to
    its workload. Raises FileNotFoundError if there is no such log.
    """
    report = VerifyReport()
    for number, line in enumerate(read_named(path, MOST_FILE_BYTES).split(b"\n"), 1):
        if not line.strip():
            continue
        try:
            record = entry_of(line)
        except RecordError as error:
            report.skipped.count(error)
            report.problems.append(Problem(number, str(error)))
            continue
        if isinstance(record, Note):
            report.notes += 1
            continue
        if isinstance(record, Decision):
            report.good += 1
            continue
        complaint = (check(record) if check else None) or _complaint(record)
        if complaint:
            report.suspicious += 1
            report.problems.append(Problem(number, complaint))
        else:
            report.good += 1
    return report


def _complaint(record: MeasureRecord) -> str | None:
    if record.error is not None and record.error not in ERRORS:
        return f"unknown kind of error {record.error!r}"
    # What ran in the program was checked as all code from outside is: before its first use.
    if record.ok and record.checked is None and record.cache != "place":
        return "was never checked against the reference"
    if record.ok and record.checked and record.checked.max_error > record.checked.bound:
        return "its error is above the bound"
    return None
