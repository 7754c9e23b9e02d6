"""What came out: JSON lines for programs, a markdown table for people."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field

__all__ = ["Row", "json_line", "markdown"]


@dataclass(slots=True)
class Row:
    """One workload on so many threads. Seconds per call by library; a missing one is not there."""

    workload: str
    threads: int
    limit: float
    limited_by: str
    seconds: dict[str, float] = field(default_factory=dict[str, float])
    failed: dict[str, str] = field(default_factory=dict[str, str])
    tuning_seconds: float = 0.0

    @property
    def ours(self) -> float | None:
        """The better of tuned and untuned."""
        both = [self.seconds[n] for n in ("tuned", "untuned") if n in self.seconds]
        return min(both, default=None)

    @property
    def best_peer(self) -> tuple[str, float] | None:
        """The fastest library that is not ours."""
        peers = {n: s for n, s in self.seconds.items() if n not in ("tuned", "untuned")}
        if not peers:
            return None
        name = min(peers, key=peers.__getitem__)
        return name, peers[name]


def json_line(row: Row) -> str:
    """The row as one line of JSON."""
    return json.dumps(asdict(row))


def markdown(rows: Sequence[Row], libraries: Sequence[str]) -> str:
    """A table in milliseconds: each library, the limit, our share of it, and our lead.

    The column ``numpy`` is the faster of its OpenBLAS kernels.
    """
    columns = list(dict.fromkeys(map(_column, libraries)))
    columns = [c for c in columns if any(_seconds(row, c) is not None for row in rows)]
    head = ["workload", "threads", "limit", "by", *columns, "% of limit", "best peer", "ahead"]
    lines = [head, ["---"] * len(head)]
    for row in rows:
        ours, peer = row.ours, row.best_peer
        lines.append(
            [
                row.workload,
                str(row.threads),
                f"{1e3 * row.limit:.3g}",
                row.limited_by,
                *(f"{1e3 * s:.3g}" if (s := _seconds(row, c)) else "-" for c in columns),
                f"{100 * row.limit / ours:.0f}" if ours else "-",
                _column(peer[0]) if peer else "-",
                f"{peer[1] / ours:.2f}x" if peer and ours else "-",
            ]
        )
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _column(library: str) -> str:
    return library.partition("-")[0]


def _seconds(row: Row, column: str) -> float | None:
    return min((s for n, s in row.seconds.items() if _column(n) == column), default=None)
