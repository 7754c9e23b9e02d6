"""The table of measured programs, and which bars they meet."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field

from .peers import OURS, PEERS, PLAIN

__all__ = ["Row", "summary", "table"]

RIVALS = ("numba", "jax")
SCALAR = ("collatz", "gcd", "bisection")
SMALL = 256  # elements of arrays at which NumPy spends its time on calls
LEAST_WINS, LEAST_MEAN = 34, 1.5
LEAST_OF_EXPLICIT, LEAST_PLAIN_WINS = 0.95, 38
MOST_OF_C, MOST_OF_NUMBA, LEAST_OF_NUMPY = 2.0, 1.3, 20.0


@dataclass(slots=True)
class Row:
    """One program, which computes with ``arrays`` elements at once: by peer the seconds of a call
    (the median of the rounds) and those that its first call took beyond it; and why there are
    none."""

    program: str
    family: str
    arrays: int
    seconds: dict[str, float] = field(default_factory=dict)
    compile: dict[str, float] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)

    def ratio(self, *peers: str) -> float | None:
        """Returns the seconds of the fastest of ``peers`` over ours; None if either is missing."""
        theirs = [self.seconds[p] for p in peers if p in self.seconds]
        return min(theirs) / self.seconds[OURS] if theirs and OURS in self.seconds else None


def table(rows: Sequence[Row]) -> str:
    """Returns milliseconds per call, our lead over the fastest of numba and JAX, over C and over
    NumPy, and the seconds of compiling."""
    names = [n for n in PEERS if any(n in r.seconds or n in r.failed for r in rows)]
    head = ["program", *names, "best / ours", "C / ours", "NumPy / ours"]
    head += [f"compile {n}" for n in (OURS, *RIVALS) if n in names]
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    for row in rows:
        cells = [row.program, *(_number(row.seconds.get(n), 1e3) for n in names)]
        cells += [_number(row.ratio(*peers)) for peers in (RIVALS, ("c",), ("numpy",))]
        cells += [_number(row.compile.get(n)) for n in (OURS, *RIVALS) if n in names]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _number(value: float | None, unit: float = 1.0) -> str:
    return "-" if value is None else f"{unit * value:.3g}"


def summary(rows: Sequence[Row]) -> tuple[str, bool]:
    """Returns each bar with its figure, and whether all are met."""
    lines: list[str] = []
    ran = [r for r in rows if OURS in r.seconds]
    leads = [lead for r in rows if (lead := r.ratio(*RIVALS)) is not None]
    met = len(ran) == len(rows)
    lines.append(f"{len(ran)} of {len(rows)} programs run and give what Python gives")
    if leads:
        wins = sum(lead >= 1 for lead in leads)
        mean = math.exp(statistics.fmean(map(math.log, leads)))
        good = wins >= min(LEAST_WINS, len(leads)) and mean >= LEAST_MEAN
        met &= good
        lines.append(
            f"as fast as the best of numba and JAX on {wins} of {len(leads)} (bar {LEAST_WINS}), "
            f"geometric mean {mean:.2f}x (bar {LEAST_MEAN:g}); {_verdict(good)}"
        )
    met &= _of_plain(rows, lines)
    small = [r for r in rows if 0 < r.arrays <= SMALL]
    bars = [
        ("C at -O2", "c", 1 / MOST_OF_C, [r for r in rows if r.program in SCALAR]),
        ("numba", "numba", 1 / MOST_OF_NUMBA, [r for r in rows if r.program in SCALAR]),
        ("NumPy on small arrays", "numpy", LEAST_OF_NUMPY, small),
    ]
    for what, peer, least, those in bars:
        ratios = {r.program: ratio for r in those if (ratio := r.ratio(peer)) is not None}
        if not ratios:
            continue
        good = min(ratios.values()) >= least
        met &= good
        slow = [f"{name} {ratio:.2f}" for name, ratio in ratios.items() if ratio < least]
        lines.append(
            f"{what}: at least {min(ratios.values()):.2f}x (bar {least:.2f}) on "
            f"{len(ratios)}; {_verdict(good)}{': ' + ', '.join(slow) if slow else ''}"
        )
    for row in rows:
        lines += [
            f"{row.program}: {name}: {why}"
            for name, why in row.failed.items()
            if not why.startswith("NotImplementedError")
        ]
    return "\n".join(lines), met


def _of_plain(rows: Sequence[Row], lines: list[str]) -> bool:
    """Adds the bars of plain Python's loops to ``lines``: beside the explicit ones, and numba."""
    plain = {r.program: r.seconds[PLAIN] for r in rows if PLAIN in r.seconds}
    explicit = {r.program: s for r in rows if (s := r.ratio(PLAIN)) and r.program in plain}
    if not plain:
        return True
    slow = [f"{name} {1 / s:.2f}" for name, s in explicit.items() if 1 / s < LEAST_OF_EXPLICIT]
    lines.append(
        f"plain Python: as fast as the explicit loops (5 %) on {len(explicit) - len(slow)} of "
        f"{len(explicit)}; {_verdict(not slow)}{': ' + ', '.join(slow) if slow else ''}"
    )
    leads = [
        r.seconds["numba"] / plain[r.program] for r in rows if {PLAIN, "numba"} <= {*r.seconds}
    ]
    good = sum(lead >= 1 for lead in leads) >= min(LEAST_PLAIN_WINS, len(leads))
    if leads:
        lines.append(
            f"plain Python: as fast as numba on {sum(lead >= 1 for lead in leads)} of {len(leads)} "
            f"(bar {LEAST_PLAIN_WINS}), geometric mean "
            f"{math.exp(statistics.fmean(map(math.log, leads))):.2f}x; {_verdict(good)}"
        )
    return good and not slow


def _verdict(good: bool) -> str:
    return "met" if good else "MISSED"
