"""``loopwright report``: a tuning log as one HTML page."""

from __future__ import annotations

import argparse
from pathlib import Path

from ..autotune.budget import parse_budget
from ..autotune.log.log_file import LogError
from ..inspect.report.collect import collect
from ..inspect.report.measuring import measure_decisions
from ..inspect.report.page import page
from .log_files import file_argument, open_log
from .usage import UsageError

HELP = "show a tuning log as one HTML page"
DESCRIPTION = "Write what a tuning log knows as one page that needs nothing but itself."
EXAMPLES = """\
examples:
  loopwright report net.jsonl                      writes net.html
  loopwright report net.jsonl -o report.html
  loopwright report net.jsonl --measure 20s        measure what decisions were worth, too

The page shows how each search converged, what the cost model had foreseen, the winners under their
roofline and as loop nests, what each of their decisions was worth, and where the seconds went. It
needs no network and nothing beside it; open it in any browser.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of ``report``."""
    file_argument(parser)
    parser.add_argument("-o", "--output", metavar="PAGE", help="where to (the log's name, .html)")
    parser.add_argument("--title", metavar="TEXT", help="heading of the page (the log's name)")
    parser.add_argument(
        "--measure",
        metavar="TIME",
        help="measure what decisions were worth where the log does not say, at most so long; what "
        "is measured is appended to the log",
    )
    parser.set_defaults(run=_run)


def _run(args: argparse.Namespace) -> int:
    log = open_log(args.file)
    assert log.path is not None
    output = Path(args.output) if args.output else log.path.with_suffix(".html")
    if output == log.path:
        raise UsageError(f"{output} is the log itself; name another file with -o")
    if args.measure is not None:
        try:
            budget = parse_budget(args.measure)
        except ValueError as error:
            raise UsageError(f"--measure: {error}") from error
        try:
            print(f"{measure_decisions(log, budget)} candidates measured")
        except LogError as error:
            raise UsageError(str(error)) from error
    text = page(collect(log, args.title or log.path.name))
    try:
        output.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot write {output}: {error.strerror or error}") from error
    print(f"{output}: {len(log)} records, {len(text) / 1024:.0f} KiB")
    return 0
