"""Finds and opens the log of a command, or raises the error that says why it cannot."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from ..autotune.log.log_file import problem_of
from ..autotune.log.tuning_log import TuningLog
from .usage import UsageError


def file_argument(parser: argparse.ArgumentParser) -> None:
    """Adds the optional argument that names the log."""
    parser.add_argument("file", metavar="FILE", nargs="?", help="the log (else LOOPWRIGHT_LOG)")


def existing_log(given: str | None) -> Path:
    """Returns the log named on the command line, else in the environment. Raises UsageError if
    there is none."""
    name = given or os.environ.get("LOOPWRIGHT_LOG")
    if not name:
        raise UsageError("which log? give its path, or set LOOPWRIGHT_LOG")
    path = Path(name)
    if not path.exists() and not path.is_symlink():
        raise UsageError(f"no tuning log at {path}; `loopwright tune ... --log {path}` makes one")
    problem = problem_of(path)
    if problem is not None:
        setting = "" if given else "LOOPWRIGHT_LOG="
        raise UsageError(f"{setting}{path} is not a tuning log: {problem}")
    return path


def open_log(given: str | None) -> TuningLog:
    """Returns the log that ``existing_log`` finds. Raises UsageError if it cannot be read."""
    path = existing_log(given)
    try:
        log = TuningLog(path)
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror or error}") from error
    unread = log.skipped.total - log.skipped.future
    if unread and not log.skipped.future and not any(True for _ in log.entries()):
        raise UsageError(
            f"{path} is not a tuning log: none of its lines can be read; "
            f"`loopwright log verify {path}` names them"
        )
    return log
