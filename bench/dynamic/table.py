"""The table of measured programs, and which bars they meet."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field

from .peers import DYNAMIC, OURS, PEERS

__all__ = ["Row", "summary", "table"]

WORST_SHARE, MEAN_SHARE = 1.15, 1.07
LEAST_LEAD = 1.3
LEAST_WINS = {"bert": 14}
MOST_COMPILE = 2.0
MOST_OVERHEAD = 3e-6


@dataclass(slots=True)
class Row:
    """One program: by peer and size the seconds of a call (the median of the rounds), by peer the
    seconds until its first result and the number of codes at the end; ``checked`` is at how many
    sizes the dynamic form was compared; and what failed."""

    program: str
    sizes: list[str] = field(default_factory=list)
    seconds: dict[str, list[float | None]] = field(default_factory=dict)
    ready: dict[str, float] = field(default_factory=dict)
    compiles: dict[str, int] = field(default_factory=dict)
    tuning: dict[str, float] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    checked: int = 0
    wrong: list[str] = field(default_factory=list)

    def ratios(self, ours: str, others: Sequence[str]) -> list[float]:
        """Returns the seconds of the fastest of ``others`` over ours, size by size."""
        ratios: list[float] = []
        for n, mine in enumerate(self.seconds.get(ours, ())):
            theirs = [s for p in others if p in self.seconds and (s := self.seconds[p][n])]
            if mine and theirs:
                ratios.append(min(theirs) / mine)
        return ratios


def table(rows: Sequence[Row]) -> str:
    """Returns microseconds per call by program, size and peer, and our lead over the fastest peer
    and over our own specialised code."""
    names = [n for n in PEERS if any(n in r.seconds for r in rows)]
    lines = [f"| program | size | {' | '.join(names)} | best / dynamic | specialised / dynamic |"]
    lines.append("|---" * (4 + len(names)) + "|")
    peers = [n for n in names if n not in OURS]
    for row in rows:
        ours = _best_of(row)
        for n, size in enumerate(row.sizes):
            one = Row("", [size], {p: [s[n]] for p, s in row.seconds.items()})
            cells = [_number(row.seconds.get(p, [None] * len(row.sizes))[n]) for p in names]
            leads = [one.ratios(ours, others) for others in (peers, [_own_rival(ours)])]
            cells += [f"{r[0]:.2f}" if r else "-" for r in leads]
            lines.append(f"| {row.program} | {size} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _number(seconds: float | None) -> str:
    return "-" if seconds is None else f"{1e6 * seconds:.4g}"


def _best_of(row: Row) -> str:
    return next((n for n in reversed(DYNAMIC) if n in row.seconds), DYNAMIC[0])


def _own_rival(ours: str) -> str:
    return ours.replace("dynamic", "specialised")


def summary(rows: Sequence[Row], overhead: float | None) -> tuple[str, bool]:
    """Returns each bar with its figure, and whether all are met."""
    lines: list[str] = []
    verdicts: list[bool] = []

    def bar(text: str, good: bool) -> None:
        lines.append(f"{text}; {'MET' if good else 'MISSED'}")
        verdicts.append(good)

    for row in rows:
        name = row.program
        right = row.checked - len(row.wrong)
        bar(f"{name}: right at {right} of {row.checked} sizes", not row.wrong and right > 0)
        for ours in DYNAMIC:
            if ours in row.compiles:
                count = row.compiles[ours]
                bar(f"{name}: {ours}: {count} compile for all sizes", count == 1)
            _compare(row, ours, bar)
        if {"dynamic", "specialised"} <= row.ready.keys():
            ratio = row.ready["dynamic"] / row.ready["specialised"]
            bar(f"{name}: compile time {ratio:.2f}x the specialised one", ratio <= MOST_COMPILE)
        lines += [f"{name}: wrong: {text}" for text in row.wrong[:5]]
        lines += [f"{name}: {peer}: {why}" for peer, why in row.failed.items()]
    if overhead is not None:
        bar(f"a call with three symbols takes {1e6 * overhead:.2f} us", overhead <= MOST_OVERHEAD)
    return "\n".join(lines), all(verdicts)


def _compare(row: Row, ours: str, bar: object) -> None:
    assert callable(bar)
    own = row.ratios(ours, [_own_rival(ours)])
    if own:
        mean, worst = 1 / _mean(own), 1 / min(own)
        text = (
            f"{row.program}: {ours} takes {mean:.3f}x the specialised time (at most {worst:.2f}x)"
        )
        bar(text, mean <= MEAN_SHARE and worst <= WORST_SHARE)
    leads = row.ratios(ours, [p for p in PEERS if p not in OURS])
    if leads:
        wins = sum(lead > 1 for lead in leads)
        text = (
            f"{row.program}: {ours} is {_mean(leads):.2f}x as fast as the fastest peer (at least "
            f"{min(leads):.2f}x), ahead at {wins} of {len(leads)}"
        )
        least = LEAST_WINS.get(row.program)
        bar(text, wins >= least if least else _mean(leads) >= LEAST_LEAD)


def _mean(ratios: Sequence[float]) -> float:
    return math.exp(statistics.fmean(map(math.log, ratios)))
