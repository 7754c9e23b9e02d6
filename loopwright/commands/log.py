"""``loopwright log``: list, best, diff, merge, prune, migrate, export, stats, verify of logs."""

from __future__ import annotations

import argparse
import json
import sys
import textwrap
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ..autotune.log.log_file import LogError
from ..autotune.log.tuning_log import TuningLog
from ..autotune.logtool import tools as logtool
from ..autotune.logtool.diff import Change, diff_logs
from ..autotune.logtool.export import FORMATS, export_log, record_text
from ..codegen.llvm.settings import cache_folder
from ..text import seconds_text, table
from .log_check import check_transfer, check_winners
from .log_files import existing_log, file_argument, open_log
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


HELP = "look at tuning logs and tidy them"
DESCRIPTION = "Tuning logs are JSON lines, one measured run each."
EXAMPLES = """\
examples:
  loopwright log list tuning_logs/net.jsonl              what was tuned, and how fast it became
  loopwright log best tuning_logs/net.jsonl matmul       the winning schedules of all matmuls
  loopwright log merge a.jsonl b.jsonl --into all.jsonl  collect the logs of several machines
  loopwright log prune all.jsonl --keep 3                drop all but the 3 fastest of each
  loopwright log stats all.jsonl                         counts: records, errors, time spent
  loopwright log verify all.jsonl                        name every line that is not used, and why
  loopwright log verify all.jsonl --run                  build and run the winners, check results
  loopwright log verify all.jsonl --transfer             what its kernels gain from each other
  loopwright log diff old.jsonl new.jsonl                winners that changed, as loop nests
  loopwright log export all.jsonl --format csv -o a.csv  rows for a spreadsheet; or json, or text
  loopwright log migrate old.jsonl                       write every line as this version does

FILE may be left out when LOOPWRIGHT_LOG is set. The format of a line is described in
tuning_logs/README.md.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of ``log`` and its actions."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    _add_list(actions)
    _add_best(actions)
    merge = actions.add_parser("merge", help="append what other logs know, without doubles")
    merge.add_argument("sources", metavar="FILE", nargs="+", help="logs to read")
    merge.add_argument("--into", required=True, metavar="FILE", help="log to append to")
    merge.set_defaults(run=_merge)
    prune = actions.add_parser("prune", help="keep the fastest schedules, drop the rest")
    file_argument(prune)
    prune.add_argument(
        "--keep", type=_positive, default=5, metavar="N", help="schedules per workload (5)"
    )
    prune.add_argument("--dry-run", action="store_true", help="only say what would go")
    prune.set_defaults(run=_prune)
    stats = actions.add_parser("stats", help="counts over a whole log")
    file_argument(stats)
    stats.add_argument("--json", action="store_true", help="print JSON")
    stats.set_defaults(run=_stats)
    verify = actions.add_parser("verify", help="check a log line by line; exit code 1 if not clean")
    file_argument(verify)
    verify.add_argument(
        "--run", action="store_true", dest="check", help="also build and run the winners here"
    )
    verify.add_argument(
        "--transfer", action="store_true", help="also what its kernels would gain from each other"
    )
    verify.set_defaults(run=_verify)
    add_exchange(actions)


def _add_list(actions: Any) -> None:
    parser = actions.add_parser("list", help="one row per workload and machine")
    file_argument(parser)
    parser.add_argument("--json", action="store_true", help="print JSON lines")
    parser.set_defaults(run=_list)


def _add_best(actions: Any) -> None:
    parser = actions.add_parser("best", help="the fastest schedule of each workload")
    file_argument(parser)
    parser.add_argument(
        "workload", nargs="?", help="only workloads with this in their text, or as start of hash"
    )
    parser.add_argument("--nests", action="store_true", help="show loop nests, not steps")
    parser.add_argument("--json", action="store_true", help="print the records as JSON lines")
    parser.set_defaults(run=_best)


def _positive(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a count of 1 or more")
    return int(text)


def _list(args: argparse.Namespace) -> int:
    log = open_log(args.file)
    if not len(log) and not args.json:
        print(f"{log.path}: no records yet")
        return 0
    rows = logtool.list_records(log)
    if args.json:
        for row in rows:
            print(json.dumps(asdict(row)))
        return 0
    cells = [
        (
            row.text or row.workload,
            row.target.isa,
            str(row.target.threads),
            str(row.tried),
            str(row.failed),
            seconds_text(row.best_seconds),
            row.sketch,
            row.newest,
        )
        for row in rows
    ]
    head = ("workload", "isa", "threads", "tried", "failed", "best", "sketch", "newest")
    print(table(head, cells, left=(0, 1, 6, 7)))
    _print_skipped(log)
    return 0


def _best(args: argparse.Namespace) -> int:
    log = open_log(args.file)
    records = logtool.best(log, args.workload)
    if not records and args.workload:
        raise UsageError(
            f"nothing in {log.path} matches {args.workload!r}; "
            f"`loopwright log list {log.path}` shows what is there"
        )
    for record in records:
        if args.json:
            print(record.to_json())
            continue
        if args.nests:
            print(record_text(record))
            continue
        where = f"{record.target.isa}, {record.target.threads} threads, {record.target.cpu}"
        print(f"{record.workload.text or record.workload.hash}   {seconds_text(record.cost)}")
        print(f"  {record.workload.hash}   {where}   {record.sketch}")
        steps = ", ".join(json.dumps(step) for step in record.schedule)
        print(textwrap.fill(steps or "(no steps)", 96, initial_indent="  ", subsequent_indent="  "))
    if not args.json:
        _print_skipped(log)
    return 0


def _merge(args: argparse.Namespace) -> int:
    sources = [existing_log(source) for source in args.sources]
    try:
        report = logtool.merge(sources, args.into)
    except LogError as error:
        raise UsageError(str(error)) from error
    skipped = f", {report.skipped} lines could not be read" if report.skipped else ""
    print(f"{args.into}: {report.added} records added, {report.duplicates} known already{skipped}")
    return 0


def _prune(args: argparse.Namespace) -> int:
    path = open_log(args.file).path
    assert path is not None
    try:
        report = logtool.prune(path, args.keep, write=not args.dry_run)
    except OSError as error:
        raise UsageError(f"cannot rewrite {path}: {error.strerror or error}") from error
    went = "would go" if args.dry_run else "dropped"
    print(
        f"{path}: {report.kept} lines kept, {report.dropped_records} records and "
        f"{report.dropped_lines} unreadable lines {went}"
    )
    return 0


def _stats(args: argparse.Namespace) -> int:
    log = open_log(args.file)
    stats = logtool.stats(log)
    if args.json:
        print(json.dumps(asdict(stats)))
        return 0
    print(f"{log.path}: {stats.records} records, {stats.workloads} workloads, ", end="")
    print(f"{stats.targets} machines, {seconds_text(stats.measured_seconds)} of measured runs")
    if stats.first:
        print(f"  from {stats.first} to {stats.last}")
    if stats.runs or stats.decisions:
        print(f"  {stats.runs} runs, {stats.decisions} decisions")
    titles = (("machine", stats.machines), ("failed", stats.errors), ("sketch", stats.sketches))
    for title, counts in titles:
        for word, count in sorted(counts.items(), key=lambda item: -item[1]):
            print(f"  {title} {word or '(none)'}: {count}")
    for row in stats.kernels:
        best = seconds_text(row.best_seconds)
        print(f"  kernel {row.text or row.workload}: {row.tried} tried, best {best}", end="")
        print(f", {row.failed} failed" if row.failed else "")
    _print_skipped(log)
    return 0


def _verify(args: argparse.Namespace) -> int:
    path = existing_log(args.file)
    refused = logtool.refused_here(cache_folder())
    try:
        report = logtool.verify(path, lambda r: logtool.still_applies(r) or refused(r))
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror or error}") from error
    for problem in report.problems:
        print(f"{path}:{problem.line}: {problem.reason}")
    print(
        f"{path}: {report.good} good, {report.suspicious} suspicious, {report.skipped}"
        + (f", {report.notes} notes" if report.notes else "")
    )
    right = check_winners(TuningLog(path)) if args.check else True
    if args.transfer:
        check_transfer(TuningLog(path))
    return 0 if report.ok and right else 1


def _print_skipped(log: TuningLog) -> None:
    if log.skipped.total:
        print(f"skipped lines: {log.skipped} (`loopwright log verify {log.path}` names them)")
