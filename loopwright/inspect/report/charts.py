"""The charts of the page as inline SVG: how a search converged, and how well it was predicted.

Colours are the page's (``style``). Every picture has a title for those who do not see it, and every
point one of its own, which browsers show where the pointer rests.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

from .collect import KernelReport, Point, Run

WIDTH, HEIGHT = 460, 250
LEFT, RIGHT, TOP, BOTTOM = 58, 14, 14, 38
_CHART_POINTS = 3000
_TIMES_BEST = 3.0
"""Times the best time. Slower candidates are drawn at the edge, so that the fast ones spread
out."""


def time_text(seconds: float) -> str:
    """Returns a time per call with three digits, a dash for none.

    >>> time_text(0.00043), time_text(float("inf"))
    ('430 µs', '–')
    """
    if not math.isfinite(seconds):
        return "–"
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= 0.9995 * size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-9:.3g} ns"


class _Axes:
    """A plot's coordinates: x is linear, y the logarithm of a time."""

    def __init__(self, xs: Sequence[float], ys: Sequence[float]) -> None:
        self.low_x, self.high_x = min(xs, default=0.0), max(xs, default=1.0)
        if self.high_x <= self.low_x:
            self.low_x, self.high_x = self.low_x - 0.5, self.high_x + 0.5
        low, high = math.log10(min(ys, default=1e-3)), math.log10(max(ys, default=1e-3))
        room = max(0.04, 0.06 * (high - low))
        self.low_y, self.high_y = low - room, high + room

    def x(self, value: float) -> float:
        share = (value - self.low_x) / (self.high_x - self.low_x)
        return LEFT + share * (WIDTH - LEFT - RIGHT)

    def y(self, seconds: float) -> float:
        share = (math.log10(seconds) - self.low_y) / (self.high_y - self.low_y)
        return HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM)

    def grid(self, x_label: str, x_format: str) -> list[str]:
        bottom = HEIGHT - BOTTOM
        parts: list[str] = []
        for seconds in _ticks(self.low_y, self.high_y):
            y = self.y(seconds)
            parts.append(
                f'<line class="grid" x1="{LEFT}" y1="{y:.1f}" x2="{WIDTH - RIGHT}" y2="{y:.1f}"/>'
                f'<text class="right" x="{LEFT - 7}" y="{y + 4:.1f}">{time_text(seconds)}</text>'
            )
        for value in _steps(self.low_x, self.high_x):
            parts.append(
                f'<text class="middle" x="{self.x(value):.1f}" y="{bottom + 16}">'
                f"{value:{x_format}}</text>"
            )
        parts.append(
            f'<line class="axis" x1="{LEFT}" y1="{bottom}" x2="{WIDTH - RIGHT}" y2="{bottom}"/>'
            f'<text class="middle" x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 5}">'
            f"{x_label}</text>"
        )
        return parts


def _ticks(low: float, high: float) -> list[float]:
    """Returns three to six round times between two powers of ten."""
    for digits in (
        (1,),
        (1, 3),
        (1, 2, 5),
        (1, 1.5, 2, 3, 5, 7),
        tuple(d / 10 for d in range(10, 100)),
    ):
        ticks = [
            digit * 10.0**power
            for power in range(math.floor(low) - 1, math.ceil(high) + 1)
            for digit in digits
            if low <= math.log10(digit) + power <= high
        ]
        if len(ticks) >= 3:
            return ticks[:: math.ceil(len(ticks) / 6)]
    return [10 ** (low + (high - low) * share) for share in (0.15, 0.5, 0.85)]


def _steps(low: float, high: float) -> list[float]:
    """Returns about five round numbers."""
    rough = (high - low) / 4
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(m * power for m in (1, 2, 5, 10) if m * power >= rough)
    first = math.ceil(low / step)
    return [n * step for n in range(first, math.floor(high / step) + 1)]


def _svg(title: str, parts: Sequence[str]) -> str:
    return (
        f'<svg class="chart" viewBox="0 0 {WIDTH} {HEIGHT}" role="img">'
        f"<title>{escape(title)}</title>{''.join(parts)}</svg>"
    )


def _thinned(points: Sequence[Point]) -> Sequence[Point]:
    return (
        points[:: math.ceil(len(points) / _CHART_POINTS)] if len(points) > _CHART_POINTS else points
    )


def convergence(kernel: KernelReport) -> str:
    """Plots every candidate in the order of measuring, and the best so far."""
    ran = [p for p in kernel.points if math.isfinite(p.seconds)]
    if not ran:
        return '<p class="quiet">Nothing ran.</p>'
    axes = _Axes([p.number for p in kernel.points], _within([p.seconds for p in ran], _TIMES_BEST))
    top = 10**axes.high_y
    parts = axes.grid("candidates", ".0f")
    for p in _thinned([p for p in kernel.points if not math.isfinite(p.seconds)]):
        parts.append(
            f'<path class="failed" d="M{axes.x(p.number) - 3:.1f} {TOP - 8}l6 6m0 -6l-6 6">'
            f"<title>{p.number}: {escape(p.error or 'failed')}</title></path>"
        )
    for p in _thinned(ran):
        y = axes.y(min(p.seconds, top))
        kind = "dot raced" if p.raced else "dot"
        when = "" if p.at is None else f", at {p.at:.1f} s"
        parts.append(
            f'<circle class="{kind}" cx="{axes.x(p.number):.1f}" cy="{y:.1f}" r="2.6">'
            f"<title>{p.number}: {time_text(p.seconds)}{when}</title></circle>"
        )
    line: list[str] = []
    for p in kernel.points:
        if math.isfinite(p.best):
            x, y = axes.x(p.number), axes.y(min(p.best, top))
            line.append(f"H{x:.1f}V{y:.1f}" if line else f"M{x:.1f} {y:.1f}")
    parts.append(f'<path class="best" d="{"".join(line)}"/>')
    return _svg(f"Convergence of {kernel.name}: best {time_text(kernel.best)}", parts)


def predicted_against_measured(kernel: KernelReport) -> str:
    """Plots the model's predictions for candidates against their measured times."""
    judged = [
        (p, p.predicted)
        for p in kernel.points
        if p.predicted is not None and math.isfinite(p.seconds) and not p.raced
    ]
    if len(judged) < 3:
        return (
            '<p class="quiet">The log holds no predictions of this kernel: its records come from '
            "before predictions were kept, or were measured before the model had learnt.</p>"
        )
    times = [p.seconds for p, _ in judged]
    axes = _Axes([score for _, score in judged], _within(times, _TIMES_BEST))
    top = 10**axes.high_y
    parts = axes.grid("predicted score (higher is faster)", ".2g")
    for p, score in judged[-_CHART_POINTS:]:
        parts.append(
            f'<circle class="dot" cx="{axes.x(score):.1f}" cy="{axes.y(min(p.seconds, top)):.1f}" '
            f'r="2.6"><title>{p.number}: {time_text(p.seconds)}</title></circle>'
        )
    return _svg(f"Predicted against measured, {kernel.name}", parts)


def _within(seconds: Sequence[float], factor: float) -> list[float]:
    """Returns times, limited to a multiple of the least: the slowest are drawn at the edge."""
    least = min(seconds)
    return [min(s, least * factor) for s in seconds]


def worth_bar(factor: float, most: float) -> str:
    """Draws the slowdown without a decision as a bar from the middle line, which is 1."""
    reach = max(most - 1.0, 0.05)
    share = min(abs(factor - 1.0) / reach, 1.0)
    kind = "slower" if factor >= 1 else "faster"
    return (
        '<svg class="bar" viewBox="0 0 120 10" aria-hidden="true" preserveAspectRatio="none">'
        '<rect class="track" width="120" height="10" rx="2"/>'
        f'<rect class="{kind}" width="{max(1.5, 120 * share):.1f}" height="10" rx="2"/></svg>'
    )


def seconds_bar(run: Run) -> str:
    """Draws the phases of a run as a stacked bar of seconds."""
    parts = _shares(run)
    total = sum(seconds for _, _, seconds in parts) or 1.0
    drawn: list[str] = []
    x = 0.0
    for kind, label, seconds in parts:
        width = 1000 * seconds / total
        drawn.append(
            f'<rect class="{kind}" x="{x:.1f}" width="{max(0.0, width - 2):.1f}" height="22">'
            f"<title>{label}: {seconds:.1f} s, {seconds / total:.0%}</title></rect>"
        )
        x += width
    title = ", ".join(f"{label} {seconds:.1f} s" for _, label, seconds in parts)
    return (
        '<svg class="seconds" viewBox="0 0 1000 22" role="img" preserveAspectRatio="none">'
        f"<title>{title}</title>{''.join(drawn)}</svg>"
    )


def _shares(run: Run) -> list[tuple[str, str, float]]:
    return [
        ("s-run", "run", run.run),
        ("s-check", "check", run.check),
        ("s-build", "build", run.build),
        ("s-engine", "engine", run.engine),
        ("s-rest", "rest", run.rest),
    ]
