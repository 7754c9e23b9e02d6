"""Runs in which every peer has a process of its own: rows one by one, then a table and bars."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar

from .lock import MachineLock
from .process import Worker

__all__ = ["measure_rows", "results_file"]

Item = TypeVar("Item")
Row = TypeVar("Row", bound=Any)


def results_file(folder: Path, name: str) -> Path:
    """Returns the file for the rows of a run that begins now; makes its folder."""
    folder.mkdir(parents=True, exist_ok=True)
    return folder / f"{name}-{time.strftime('%Y%m%d-%H%M%S')}.jsonl"


def measure_rows(
    file: Path,
    workers: Sequence[Worker],
    items: Iterable[Item],
    measure: Callable[[Item], Row],
    table: Callable[[Sequence[Row]], str],
    summary: Callable[[Sequence[Row]], tuple[str, bool]],
) -> int:
    """Measures a row for each item with the machine to itself, and closes the workers.

    Rows are appended to ``file`` as they come; the table of all, with the bars that ``summary``
    tells, is printed and written beside it. Returns the exit status: 1 if a bar is missed.
    """
    rows: list[Row] = []
    with ExitStack() as stack:
        for worker in workers:
            stack.callback(worker.close)
        lock = stack.enter_context(MachineLock())
        for item in items:
            lock.between()
            rows.append(measure(item))
            with file.open("a") as out:
                out.write(json.dumps(asdict(rows[-1])) + "\n")
            print(table(rows[-1:]).splitlines()[-1], file=sys.stderr, flush=True)
        bars, met = summary(rows)
    text = f"{table(rows)}\n\n{bars}\n"
    file.with_suffix(".md").write_text(text)
    print(text, end="")
    return 0 if met else 1
