"""``loopwright log diff``, ``export`` and ``migrate``: compare logs, convert and rewrite them."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from ..autotune.logtool import tools as logtool
from ..autotune.logtool.diff import Change, diff_logs
from ..autotune.logtool.export import FORMATS, export_log
from ..text import seconds_text
from .log_files import file_argument, open_log
from .usage import UsageError


def add_exchange(actions: Any) -> None:
    """Add the parsers of the three actions."""
    diff = actions.add_parser("diff", help="which winners changed between two logs, and how")
    diff.add_argument("before", metavar="OLD", help="the log as it was")
    diff.add_argument("after", metavar="NEW", help="the log as it is")
    diff.add_argument("--brief", action="store_true", help="one line each, no loop nests")
    diff.add_argument("--json", action="store_true", help="print JSON lines")
    diff.set_defaults(run=_diff)
    export = actions.add_parser("export", help="as CSV, JSON, or readable text (loop nests)")
    file_argument(export)
    export.add_argument("--format", choices=FORMATS, default="text", help="(text)")
    export.add_argument("--winners", action="store_true", help="only the fastest of each kernel")
    export.add_argument("-o", "--output", metavar="FILE", help="where to (standard output)")
    export.set_defaults(run=_export)
    migrate = actions.add_parser("migrate", help="write every line as this version does")
    file_argument(migrate)
    migrate.add_argument("--dry-run", action="store_true", help="only say what would change")
    migrate.set_defaults(run=_migrate)


def _diff(args: argparse.Namespace) -> int:
    difference = diff_logs(open_log(args.before), open_log(args.after))
    if args.json:
        for change in difference.changes:
            print(json.dumps(_data(change)))
        return 0
    for change in difference.of("changed", "new", "gone"):
        print(_line(change))
        for line in () if args.brief else change.lines():
            print(f"    {line}")
    counts = ", ".join(
        f"{len(difference.of(kind))} {text}"
        for kind, text in (
            ("changed", "changed"),
            ("new", f"only in {args.after}"),
            ("gone", f"only in {args.before}"),
            ("same", "with the same winner"),
        )
    )
    print(f"{len(difference.changes)} kernels: {counts}")
    return 0


def _line(change: Change) -> str:
    name = change.workload.text or change.workload.hash
    before, after = (
        seconds_text(_finite(change.seconds_before)),
        seconds_text(_finite(change.seconds_after)),
    )
    where = f"{change.target.isa}, {change.target.threads} threads"
    if change.kind in ("new", "gone"):
        return f"{change.kind:<8}{name}   {after if change.kind == 'new' else before}   {where}"
    return f"{change.kind:<8}{name}   {before} -> {after}   {change.gain:.2f}x   {where}"


def _finite(seconds: float) -> float | None:
    return seconds if seconds < float("inf") else None


def _data(change: Change) -> dict[str, Any]:
    return {
        "kind": change.kind,
        "workload": change.workload.hash,
        "text": change.workload.text,
        "isa": change.target.isa,
        "threads": change.target.threads,
        "seconds_before": _finite(change.seconds_before),
        "seconds_after": _finite(change.seconds_after),
        "before": change.before and change.before.schedule,
        "after": change.after and change.after.schedule,
    }


def _export(args: argparse.Namespace) -> int:
    log = open_log(args.file)
    text = export_log(log, args.format, args.winners)
    if args.output is None:
        sys.stdout.write(text)
        return 0
    output = Path(args.output)
    if log.path is not None and output.exists() and output.samefile(log.path):
        raise UsageError(f"{output} is the log itself; name another file with -o")
    try:
        output.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot write {output}: {error.strerror or error}") from error
    print(f"{output}: {len(text.encode()) / 1024:.0f} KiB")
    return 0


def _migrate(args: argparse.Namespace) -> int:
    path = open_log(args.file).path
    assert path is not None
    try:
        report = logtool.migrate(path, write=not args.dry_run)
    except OSError as error:
        raise UsageError(f"cannot rewrite {path}: {error.strerror or error}") from error
    would = "would be rewritten" if args.dry_run else "rewritten"
    print(
        f"{path}: {report.rewritten} lines {would}, {report.same} are as they are written today, "
        f"{report.untouched} left as they are (not readable, or of a later version)"
    )
    return 0
