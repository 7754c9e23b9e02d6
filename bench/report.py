"""The table for people."""

from __future__ import annotations

from collections.abc import Sequence

from .row import Row

__all__ = ["columns_of", "markdown", "library_column", "milliseconds", "table"]


def milliseconds(seconds: float | None) -> str:
    """Three digits, or a dash."""
    return "-" if seconds is None else f"{1e3 * seconds:.3g}"


def columns_of(rows: Sequence[Row], libraries: Sequence[str]) -> list[str]:
    """The libraries that have a figure; variants of one, ``numpy-*``, share a column."""
    columns = list(dict.fromkeys(map(library_column, libraries)))
    return [c for c in columns if any(_seconds(row, c) is not None for row in rows)]


def markdown(rows: Sequence[Row], libraries: Sequence[str]) -> str:
    """A table in milliseconds: each library, the limit, our share of it, and our lead.

    The column ``numpy`` is the faster of its OpenBLAS kernels.
    """
    columns = columns_of(rows, libraries)
    head = ["workload", "threads", "limit", "by", *columns, "s tuning"]
    head += ["% of limit", "best peer", "ahead"]
    lines: list[list[str]] = []
    for row in rows:
        ours, peer = row.ours, row.best_peer
        lines.append(
            [
                row.workload,
                str(row.threads),
                milliseconds(row.limit),
                row.limited_by,
                *(milliseconds(_seconds(row, c)) for c in columns),
                f"{row.tuning:.1f}" if row.tuning else "-",
                f"{100 * row.limit / ours:.0f}" if ours else "-",
                library_column(peer[0]) if peer else "-",
                f"{peer[1] / ours:.2f}x" if peer and ours else "-",
            ]
        )
    return table(head, lines)


def table(head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """A table in markdown."""
    every = [head, ["---"] * len(head), *lines]
    return "\n".join("| " + " | ".join(line) + " |" for line in every)


def library_column(library: str) -> str:
    """The column of a library: variants of one, ``numpy-*``, share it."""
    return library.partition("-")[0]


def _seconds(row: Row, column: str) -> float | None:
    found = row.fastest(lambda name: library_column(name) == column)
    return found[1] if found else None
