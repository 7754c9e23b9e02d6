"""Exports a tuning log: CSV for a spreadsheet, JSON for a program, text for a review."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable

from ..log.lookup import best_records
from ..log.tuning_log import TuningLog
from ..progress import format_time
from ..record import MeasureRecord
from .logged import nest_or_reason

FORMATS = ("csv", "json", "text")

COLUMNS = (
    "workload", "text", "isa", "cpu", "cores", "threads", "l1", "l2", "l3", "sketch", "schedule",
    "seconds", "samples", "error", "detail", "max_error", "bound", "raced", "run", "at",
    "predicted", "build", "check", "sampling", "seed", "time", "loopwright",
)  # fmt: skip
"""Columns of the table. ``seconds`` is the record's cost per call, empty if it failed; ``schedule``
is JSON; ``build``, ``check`` and ``sampling`` are seconds of the workers."""


def export_log(log: TuningLog, form: str, winners: bool = False) -> str:
    """Returns the records, or only the best of each kernel and machine, in one of ``FORMATS``."""
    records = best_records(log) if winners else list(log)
    if form == "csv":
        return _csv(records)
    if form == "json":
        rows = [json.loads(record.to_json()) for record in records]
        return json.dumps(rows, indent=1, ensure_ascii=False) + "\n"
    return "\n\n".join(record_text(record) for record in records) + "\n"


def _csv(records: Iterable[MeasureRecord]) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    for r in records:
        t, check, took = r.target, r.checked, r.took
        writer.writerow(
            [
                r.workload.hash, r.workload.text, t.isa, t.cpu, t.cores, t.threads, t.l1, t.l2,
                t.l3, r.sketch, r.schedule_key, f"{r.cost:.6g}" if r.ok else "", len(r.seconds),
                r.error or "", r.detail, check.max_error if check else "",
                check.bound if check else "", int(r.raced), r.run, _or_empty(r.at),
                _or_empty(r.predicted), took.build if took else "", took.check if took else "",
                took.run if took else "", r.seed, r.time, r.version,
            ]
        )  # fmt: skip
    return out.getvalue()


def _or_empty(value: float | None) -> float | str:
    return "" if value is None else value


def record_text(record: MeasureRecord) -> str:
    """Returns a record as a loop nest under its name, machine and time."""
    t = record.target
    outcome = format_time(record.cost) if record.ok else f"{record.error} {record.detail}".strip()
    head = (
        f"{record.workload.text or record.workload.hash}   {outcome}\n"
        f"  {record.workload.hash}   {t.isa}, {t.threads} threads, {t.cpu}   {record.sketch}\n"
    )
    nest, applies = nest_or_reason(record)
    if not applies:
        steps = "\n".join(f"  {json.dumps(step)}" for step in record.schedule) or "  (no steps)"
        return f"{head}  ({nest})\n{steps}"
    return head + "\n".join(f"  {line}" for line in nest.split("\n"))
