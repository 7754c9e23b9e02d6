"""What people do with tuning logs: list, best, merge, prune, migrate, stats, verify.

Everything here returns data; the command line prints it.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ...codegen.limits import check_limits
from ...codegen.target import Target
from ...ir.errors import LoopwrightError
from ..log.decision import Decision
from ..log.line import FutureRecordError, RecordError, SkippedLines, data_of
from ..log.log_file import locked_file
from ..log.logged import logged_nest, logged_prim
from ..log.lookup import best_records, fastest, pooled_costs
from ..log.note import Entry, Note, entry_of
from ..log.record import ERRORS, MeasureRecord, TargetKey
from ..log.tuning_log import TuningLog
from ..measure.verdicts import schedule_digest, verdicts

__all__ = [
    "LogRow",
    "LogStats",
    "MergeReport",
    "MigrateReport",
    "Problem",
    "PruneReport",
    "VerifyReport",
    "best",
    "list_records",
    "merge",
    "migrate",
    "prune",
    "refused_here",
    "still_applies",
    "stats",
    "verify",
]


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
    """A row per workload and target, in the order in which the log met them."""
    rows: list[LogRow] = []
    for (workload, target), records in _grouped(log).items():
        decisions = log.decided(workload, target)
        seconds, winner = fastest(pooled_costs(records, decisions)) or (None, records[0])
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
    """The fastest record per workload and target; ``workload`` filters by the start of the hash
    or a part of the text."""
    found = best_records(log)
    if workload is None:
        return found
    return [r for r in found if r.workload.hash.startswith(workload) or workload in r.workload.text]


@dataclass(frozen=True, slots=True)
class MergeReport:
    """``skipped`` lines of the sources could not be read; ``known`` records were there already."""

    added: int
    known: int
    skipped: int


def merge(
    sources: Sequence[str | os.PathLike[str]], destination: str | os.PathLike[str]
) -> MergeReport:
    """Append to ``destination`` what the sources have and it has not, notes too, in their order.
    FileNotFoundError for a source that is not there, LogError if the destination cannot be written.
    """
    into = TuningLog(destination)
    seen = {entry.to_json() for entry in into.entries()}
    added = known = skipped = 0
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
                known += record
                continue
            seen.add(line)
            fresh.append(entry)
            added += record
        into.append(fresh)
    into.sync()
    return MergeReport(added, known, skipped)


@dataclass(frozen=True, slots=True)
class PruneReport:
    """How many lines stay and go. Lines of a later version always stay, and so do notes but those
    of runs that nothing is left of."""

    kept: int
    dropped_records: int
    dropped_lines: int


def prune(path: str | os.PathLike[str], keep: int = 5, *, write: bool = True) -> PruneReport:
    """Keep the ``keep`` fastest schedules per workload and target and all decisions, drop the rest
    and torn lines.

    The file is replaced in one step; a tuner that appends meanwhile loses nothing. With
    ``write=False`` only the report is made. FileNotFoundError if there is no such log.
    """
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"no tuning log at {path}")
    with locked_file(path) as descriptor:
        records, lines, dropped_lines = _readable_lines(path)
        wanted = _fastest_schedules(records, keep, TuningLog(path))
        staying = [r for r in records if r.ok and _identity(r) in wanted]
        runs = {r.run for r in staying}
        kept = [line for line, entry in lines if _stays(entry, wanted, runs)]
        report = PruneReport(len(kept), len(lines) - len(kept), dropped_lines)
        if write:
            _replace(path, kept, os.fstat(descriptor).st_mode)
    return report


def _renewed(line: bytes) -> bytes:
    """The line as it is written today, with what today's version does not know. ValueError if it
    cannot be read."""
    new = _with_the_rest(json.loads(entry_of(line).to_json()), data_of(line))
    return json.dumps(new, ensure_ascii=False, allow_nan=False).encode()


def _with_the_rest(new: Any, old: Any) -> Any:
    if not isinstance(new, dict) or not isinstance(old, dict):
        return new
    known = {key: _with_the_rest(value, old.get(key)) for key, value in new.items()}
    return known | {key: value for key, value in old.items() if key not in new}


@dataclass(frozen=True, slots=True)
class MigrateReport:
    """``rewritten`` lines are written otherwise now, ``same`` ones were as they are written today.
    ``untouched`` could not be read, or are of a later version: they stay as they are."""

    rewritten: int
    same: int
    untouched: int


def migrate(path: str | os.PathLike[str], *, write: bool = True) -> MigrateReport:
    """Write every line as this version does. Nothing is lost: what cannot be read stays.

    Fields that this version does not know stay, too. The file is replaced in one step; a tuner that
    appends meanwhile loses nothing. FileNotFoundError if there is no such log.
    """
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"no tuning log at {path}")
    rewritten = same = untouched = 0
    lines: list[bytes] = []
    with locked_file(path) as descriptor:
        for line in filter(bytes.strip, path.read_bytes().split(b"\n")):
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


def _readable_lines(
    path: Path,
) -> tuple[list[MeasureRecord], list[tuple[bytes, Entry | None]], int]:
    records: list[MeasureRecord] = []
    lines: list[tuple[bytes, Entry | None]] = []
    dropped = 0
    for line in filter(bytes.strip, path.read_bytes().split(b"\n")):
        try:
            entry = entry_of(line)
        except FutureRecordError:
            lines.append((line, None))
        except RecordError:
            dropped += 1
        else:
            if isinstance(entry, MeasureRecord):
                records.append(entry)
            lines.append((line, entry))
    return records, lines, dropped


def _identity(record: MeasureRecord) -> tuple[str, TargetKey, str]:
    return record.workload.hash, record.target, record.schedule_key


def _fastest_schedules(
    records: list[MeasureRecord], keep: int, log: TuningLog
) -> set[tuple[str, TargetKey, str]]:
    wanted: set[tuple[str, TargetKey, str]] = set()
    for (workload, target), group in _grouped(records).items():
        pooled = pooled_costs(group, log.decided(workload, target))
        best = fastest(pooled)
        ranked = sorted(pooled, key=lambda key: (pooled[key] != best, pooled[key][0]))
        wanted |= {(workload, target, key) for key in ranked[:keep]}
    return wanted


def _replace(path: Path, lines: list[bytes], mode: int) -> None:
    new = path.with_name(f".{path.name}.{os.getpid()}.new")
    try:
        with new.open("wb") as file:
            file.write(b"".join(line + b"\n" for line in lines))
            file.flush()
            os.fsync(file.fileno())
        new.chmod(mode & 0o777)
        new.replace(path)
    finally:
        new.unlink(missing_ok=True)


@dataclass(frozen=True, slots=True)
class LogStats:
    """Counts over a whole log. ``measured_seconds`` is the time the samples themselves took."""

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
    """Why the schedule of a record that ran does not apply to its kernel any more, here; None if it
    does, or if the log does not have the kernel's text.

    For ``verify``.
    """
    if not record.ok or not record.workload.prim:
        return None
    try:
        check_limits(logged_prim(record.workload), logged_nest(record), Target.host())
    except LoopwrightError as error:
        return f"its schedule does not apply: {error}".split("\n", 1)[0]
    return None


def refused_here(folder: Path) -> Callable[[MeasureRecord], str | None]:
    """Says why a schedule was refused at its first use on this machine, by the verdicts in a cache
    folder, once for each; for ``verify``."""
    refused = verdicts(folder).refused()

    def reason(record: MeasureRecord) -> str | None:
        if not record.ok:
            return None
        name = record.workload.hash, schedule_digest(record.schedule_key)
        why = refused.pop(name, None)
        return None if why is None else f"its schedule was refused at its first use here: {why}"

    return reason


def stats(log: TuningLog) -> LogStats:
    """What a log holds."""
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
    """A line (from 1) that is not used, or is used and looks wrong, and why."""

    line: int
    reason: str


@dataclass(slots=True)
class VerifyReport:
    """``good`` lines are records without complaint."""

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
    """Read a log line by line. ``check`` may complain of a record in a sentence, for instance when
    its schedule does not apply to its workload. FileNotFoundError if there is no such log."""
    report = VerifyReport()
    for number, line in enumerate(Path(path).read_bytes().split(b"\n"), 1):
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
    if record.ok and record.checked is None:
        return "was never checked against the reference"
    if record.ok and record.checked and record.checked.max_error > record.checked.bound:
        return "its error is above the bound"
    return None


def _grouped(
    records: Iterable[MeasureRecord],
) -> dict[tuple[str, TargetKey], list[MeasureRecord]]:
    groups: dict[tuple[str, TargetKey], list[MeasureRecord]] = {}
    for record in records:
        groups.setdefault((record.workload.hash, record.target), []).append(record)
    return groups
