"""Summary of the rows: a line per family, and which of the project's bars are met."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from .families import FACTORS
from .libraries import OURS
from .report import table
from .row import Row, geomean

__all__ = ["Bar", "bars", "bars_text", "families_text"]

# The bars. Leads are over the fastest of all peers, workload by workload.
AHEAD_IN = 0.90  # of the workloads
NONE_BELOW = 0.9
LEAD = 1.5  # geometric mean over all workloads; FACTORS has those of the families
UNTUNED_LEAD = 1.0
UNTUNED_WITHIN = 1.3  # times tuned
LARGE = 1e8  # flops of a contraction that has to come near the peak
SHARE_OF_PEAK = {1: 0.95}
SHARE_OF_PEAK_OF_ALL = 0.92  # with more threads than one
SHARE_OF_BANDWIDTH = 0.85
TUNING = 20 * 60  # seconds, of all threads together


@dataclass(frozen=True, slots=True)
class Bar:
    """``value`` of something that is to reach ``wanted``; ``missed`` names who stands in the way,
    the worst first."""

    text: str
    met: bool
    value: str
    missed: tuple[str, ...] = ()


def families_text(rows: Sequence[Row]) -> str:
    """A table: for each family the leads, what the lead is meant to be, and the share of limit."""
    head = ["family", "workloads", "tuned", "goal", "untuned", "% of limit", "behind"]
    lines: list[list[str]] = []
    for family, factor in FACTORS.items():
        some = [row for row in rows if row.family == family]
        if not some:
            continue
        tuned, untuned = _leads(some, "tuned"), _leads(some, "untuned")
        verdict = " met" if geomean(list(tuned.values())) >= factor else " missed"
        shares = [s for row in some if (s := row.share(_mine(some)))]
        behind = _worst({n: v for n, v in (tuned or untuned).items() if v < 1})
        lines.append(
            [
                family,
                str(len(some)),
                _times(geomean(list(tuned.values()))) if tuned else "-",
                f"{factor:g}x" + (verdict if tuned else ""),
                _times(geomean(list(untuned.values()))) if untuned else "-",
                f"{100 * geomean(shares):.0f}" if shares else "-",
                ", ".join(behind) or "-",
            ]
        )
    return table(head, lines)


def bars_text(rows: Sequence[Row]) -> str:
    """The bars as a list, met or missed, each with what it was."""
    lines: list[str] = []
    for bar in bars(rows):
        line = f"- {'met' if bar.met else 'MISSED'}: {bar.text}: {bar.value}"
        lines.append(line + (f" ({', '.join(bar.missed)})" if bar.missed else ""))
    return "\n".join(lines)


def bars(rows: Sequence[Row]) -> list[Bar]:
    """Those that the rows have figures for."""
    found: list[Bar] = []
    for mine in ("tuned", "untuned"):
        leads = _leads(rows, mine)
        if leads:
            found += _lead_bars(mine, leads)
        if mine == "tuned" and leads:
            found += _limit_bars(rows)
    found += _untuned_bars(rows)
    wrong = tuple(f"{_named(r)} {n}" for r in rows for n in r.failed if n in OURS)
    text = "every workload runs, with right results"
    found.append(Bar(text, not wrong, f"{len(wrong)} failed", wrong))
    spent = sum(row.tuning for row in rows)
    if spent:
        text = f"tuning takes at most {TUNING / 60:.0f} minutes"
        found.append(Bar(text, spent <= TUNING, f"{spent / 60:.1f} minutes"))
    return found


def _lead_bars(mine: str, leads: dict[str, float]) -> list[Bar]:
    if mine == "untuned":
        mean = geomean(list(leads.values()))
        text = f"untuned, geometric mean of leads at least {UNTUNED_LEAD}x"
        return [Bar(text, mean >= UNTUNED_LEAD, _times(mean))]
    ahead = statistics.mean(v >= 1 for v in leads.values())
    low = {n: v for n, v in leads.items() if v < NONE_BELOW}
    mean = geomean(list(leads.values()))
    behind = _worst({n: v for n, v in leads.items() if v < 1})
    return [
        Bar(
            f"tuned, ahead of the fastest peer in {AHEAD_IN:.0%}",
            ahead >= AHEAD_IN,
            f"{ahead:.0%}",
            behind,
        ),
        Bar(f"tuned, none below {NONE_BELOW}x", not low, f"{len(low)} below", _worst(low)),
        Bar(f"tuned, geometric mean of leads at least {LEAD}x", mean >= LEAD, _times(mean)),
    ]


def _limit_bars(rows: Sequence[Row]) -> list[Bar]:
    found: list[Bar] = []
    for threads in sorted({row.threads for row in rows}):
        wanted = SHARE_OF_PEAK.get(threads, SHARE_OF_PEAK_OF_ALL)
        some = [row for row in rows if row.threads == threads]
        large = _shares(some, lambda r: r.flops >= LARGE and r.limited_by == "flops")
        near = _shares(some, lambda r: r.limited_by != "flops")
        for what, shares, share in (
            (
                f"contractions of {LARGE / 1e9:g} GFLOP and more at {wanted:.0%} of the limit",
                large,
                wanted,
            ),
            (
                f"memory-bound work at {SHARE_OF_BANDWIDTH:.0%} of the limit",
                near,
                SHARE_OF_BANDWIDTH,
            ),
        ):
            if shares:
                low = {n: v for n, v in shares.items() if v < share}
                value = f"{len(shares) - len(low)} of {len(shares)}"
                names = tuple(f"{n} {v:.0%}" for n, v in _sorted(low))
                found.append(Bar(f"{what}, {_threads(threads)}", not low, value, names))
    return found


def _untuned_bars(rows: Sequence[Row]) -> list[Bar]:
    found: list[Bar] = []
    slow: dict[str, float] = {}
    ratios: list[float] = []
    for row in rows:
        untuned, tuned = row.seconds.get("untuned"), row.seconds.get("tuned")
        numpy = row.fastest(lambda name: name.startswith("numpy"))
        if untuned and numpy and numpy[1] < untuned:
            slow[_named(row)] = numpy[1] / untuned
        if untuned and tuned:
            ratios.append(untuned / tuned)
    if any("untuned" in row.seconds for row in rows):
        text = "untuned, none slower than NumPy"
        found.append(Bar(text, not slow, f"{len(slow)} slower", _worst(slow)))
    if ratios:
        ratio = geomean(ratios)
        text = f"untuned within {UNTUNED_WITHIN}x of tuned"
        found.append(Bar(text, ratio <= UNTUNED_WITHIN, _times(ratio)))
    return found


def _mine(rows: Sequence[Row]) -> str:
    return "tuned" if any("tuned" in row.seconds for row in rows) else "untuned"


def _leads(rows: Sequence[Row], mine: str) -> dict[str, float]:
    return {_named(row): lead for row in rows if (lead := row.lead(mine)) is not None}


def _shares(rows: Sequence[Row], which: Callable[[Row], bool]) -> dict[str, float]:
    return {_named(row): s for row in rows if which(row) and (s := row.share()) is not None}


def _named(row: Row) -> str:
    return row.workload if row.threads == 1 else f"{row.workload}/{row.threads}"


def _sorted(values: dict[str, float]) -> list[tuple[str, float]]:
    return sorted(values.items(), key=lambda item: item[1])


def _worst(leads: dict[str, float]) -> tuple[str, ...]:
    return tuple(f"{name} {_times(lead)}" for name, lead in _sorted(leads))


def _times(value: float) -> str:
    return f"{value:.2f}x"


def _threads(count: int) -> str:
    return "1 thread" if count == 1 else f"{count} threads"
