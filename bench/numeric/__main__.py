"""The small programs of ``examples/numeric``, untuned and on one thread, beside NumPy and JAX.

    python -m bench.numeric                    all of them
    python -m bench.numeric k_means finance    some, or a family
    python -m bench.numeric --list             which there are

NumPy runs the same functions, with Python's loops in place of ours; JAX's ``jit`` compiles them
with those of ``jax.lax``, in 64 bits where they compute in float64. Every peer is a process of its
own, stopped while another runs. Results are compared with NumPy's before anything is timed.
Bars: faster than NumPy on all but 3 of 40, geometric mean 5x; at least as fast as JAX on all but 5
where JAX can express them. The exit status is 1 if one is missed.
"""

from __future__ import annotations

import argparse
import math
import statistics
import sys
from collections.abc import Sequence

from ..loops.measure import Suite, add_options, measure_all
from ..loops.peers import OURS
from ..loops.table import Row
from ..process import ROOT
from .programs import PROGRAMS

__all__ = ["main", "summary", "table"]

RIVALS = ("numpy", "jax")
MOST_LOST = {"numpy": 3, "jax": 5}
LEAST_MEAN = {"numpy": 5.0, "jax": 0.0}


def table(rows: Sequence[Row]) -> str:
    """Returns milliseconds per call, our lead over each rival, and the seconds of compiling."""
    head = ["program", *(f"{n} ms" for n in (OURS, *RIVALS)), *(f"{n} / ours" for n in RIVALS)]
    head += ["compile ours", "compile jax"]
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    for row in rows:
        cells = [_number(row.seconds.get(n), 1e3) for n in (OURS, *RIVALS)]
        cells += [_number(row.ratio(n)) for n in RIVALS]
        cells += [_number(row.compile.get(n)) for n in (OURS, "jax")]
        lines.append(f"| {' | '.join([row.program, *cells])} |")
    return "\n".join(lines)


def _number(value: float | None, unit: float = 1.0) -> str:
    return "-" if value is None else f"{unit * value:.3g}"


def summary(rows: Sequence[Row]) -> tuple[str, bool]:
    """Returns each bar with its figure, and whether all are met."""
    ran = sum(OURS in row.seconds for row in rows)
    lines, met = [f"{ran} of {len(rows)} programs run and give what NumPy gives"], ran == len(rows)
    for rival in RIVALS:
        leads = {r.program: lead for r in rows if (lead := r.ratio(rival)) is not None}
        if not leads:
            continue
        lost = [f"{name} {lead:.2f}" for name, lead in leads.items() if lead < 1]
        mean = math.exp(statistics.fmean(map(math.log, leads.values())))
        good = len(lost) <= MOST_LOST[rival] and mean >= LEAST_MEAN[rival]
        met &= good
        lines.append(
            f"as fast as {rival} on {len(leads) - len(lost)} of {len(leads)}, geometric mean "
            f"{mean:.2f}x; {'met' if good else 'MISSED'}{': ' * bool(lost)}{', '.join(lost)}"
        )
    lines += [f"{row.program}: {n}: {why}" for row in rows for n, why in row.failed.items()]
    return "\n".join(lines), met


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line; 1 if a bar is missed, 2 if the line was not understood."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.numeric",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_options(parser, ",".join((OURS, *RIVALS)), ROOT / "build" / "numeric")
    args = parser.parse_args(argv)
    chosen = [p for p in PROGRAMS.values() if not args.names or {p.name, p.family} & {*args.names}]
    if args.list or not chosen:
        print("\n".join(f"{p.family:15} {p.name}" for p in chosen or PROGRAMS.values()))
        return 0 if args.list else 2
    return measure_all(chosen, args, Suite(__package__ or "", RIVALS[0], table, summary))


if __name__ == "__main__":
    sys.exit(main())
