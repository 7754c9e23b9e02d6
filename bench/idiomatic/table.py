"""Times of the programs, as a table, and the bars of ``python -m bench.idiomatic``."""

from __future__ import annotations

from collections.abc import Sequence

from ..report import milliseconds, table
from ..row import Row, geomean

__all__ = ["meets_bars", "summary_text", "table_text"]

NUMPY_BAR = 1.1  # times NumPy's seconds that an untuned program may take
TUNED_BAR = 1.5  # times its tuned seconds
TUNED_MEAN_BAR = 1.08  # the geometric mean of these


def table_text(rows: Sequence[Row]) -> str:
    """Milliseconds by program, the slowest beside NumPy or tuned first.

    ``/numpy`` is untuned over NumPy, ``/tuned`` untuned over tuned; ``% of limit`` is of the least
    time this machine could need for the memory and the contractions of the program.
    """
    head = ["program", "family", "limit", "by", "numpy", "untuned", "tuned"]
    head += ["/numpy", "/tuned", "% of limit", "remark"]
    lines = [
        [
            row.workload,
            row.family,
            milliseconds(row.limit),
            row.limited_by,
            milliseconds(_numpy(row)),
            milliseconds(row.seconds.get("untuned")),
            milliseconds(row.seconds.get("tuned")),
            _times(_over_numpy(row)),
            _times(_over_tuned(row)),
            f"{100 * share:.0f}" if (share := row.share("untuned")) else "-",
            "; ".join(f"{name}: {why}" for name, why in row.failed.items())[:90] or "-",
        ]
        for row in sorted(rows, key=_worst, reverse=True)
    ]
    return table(head, lines)


def summary_text(rows: Sequence[Row]) -> str:
    """Geometric means, and which programs miss a bar, by name."""
    lines: list[str] = []
    for what, ratio, bar in (
        ("NumPy", _over_numpy, NUMPY_BAR),
        ("tuned", _over_tuned, TUNED_BAR),
    ):
        ratios = {row.workload: r for row in rows if (r := ratio(row)) is not None}
        if not ratios:
            continue
        slow = sorted(((r, n) for n, r in ratios.items() if r > bar), reverse=True)
        names = ", ".join(f"{n} {r:.2f}x" for r, n in slow)
        mean = geomean(list(ratios.values()))
        lines.append(
            f"- untuned over {what}: geometric mean {mean:.3f} of {len(ratios)} programs;"
            f" {len(slow)} above {bar:g}x" + (f": {names}" if slow else "")
        )
    failed = [f"{row.workload} ({name})" for row in rows for name in row.failed]
    if failed:
        lines.append(f"- {len(failed)} failed: {', '.join(failed)}")
    return "\n".join(lines)


def meets_bars(rows: Sequence[Row]) -> bool:
    """True if every program ran and kept below all bars."""
    tuned = [r for row in rows if (r := _over_tuned(row)) is not None]
    return (
        not any(row.failed for row in rows)
        and all((_over_numpy(row) or 0.0) <= NUMPY_BAR for row in rows)
        and all(r <= TUNED_BAR for r in tuned)
        and (not tuned or geomean(tuned) <= TUNED_MEAN_BAR)
    )


def _numpy(row: Row) -> float | None:
    found = row.fastest(lambda name: name.startswith("numpy"))
    return found[1] if found else None


def _over_numpy(row: Row) -> float | None:
    numpy, untuned = _numpy(row), row.seconds.get("untuned")
    return untuned / numpy if untuned and numpy else None


def _over_tuned(row: Row) -> float | None:
    tuned, untuned = row.seconds.get("tuned"), row.seconds.get("untuned")
    return untuned / tuned if untuned and tuned else None


def _worst(row: Row) -> float:
    return max(_over_numpy(row) or 0.0, _over_tuned(row) or 0.0, 1e9 * bool(row.failed))


def _times(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}x"
