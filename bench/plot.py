"""A picture of the results: an SVG, one panel per family, one line per workload.

Across runs the time of a call, over the limit of the machine, on a logarithmic scale: the line at
1 is the limit. The bar is us (dark as far as tuned, light as far as untuned), dots are the others.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

from .families import FACTORS
from .libraries import OURS
from .report import library_column
from .row import Row

__all__ = ["COLOURS", "svg", "text_at"]

_WIDTH, _LEFT, _RIGHT = 1080, 230, 110
_LINE, _TITLE, _TOP = 20, 34, 84
_LEAST, _MOST = 0.5, 100.0  # of the scale, in limits; what lies beyond stands at its end
_TICKS = (0.5, 1, 2, 5, 10, 20, 50, 100)
_TUNED, _UNTUNED, _LIMIT = "#1f5fa8", "#b9d3ee", "#c0392b"
COLOURS = {
    "numpy": "#7f7f7f",
    "onnxruntime": "#2e9e4f",
    "openvino": "#8e44ad",
    "torch": "#e67e22",
    "inductor": "#f1b70e",
    "jax": "#16a5b5",
    "tvm": "#8d6e3f",
}


def svg(rows: Sequence[Row], threads: int) -> str:
    """The rows measured on so many threads."""
    some = [row for row in rows if row.threads == threads]
    panels = [(f, [r for r in some if r.family == f]) for f in FACTORS]
    panels = [(family, lines) for family, lines in panels if lines]
    height = _TOP + sum(_TITLE + _LINE * len(lines) for _, lines in panels) + 30
    parts = [_header(threads, height), _legend(some)]
    y = _TOP
    for family, lines in panels:
        parts.append(_panel(family, lines, y))
        y += _TITLE + _LINE * len(lines)
    parts.append("</svg>")
    return "\n".join(parts) + "\n"


def _x(ratio: float) -> float:
    """Horizontal position of a time of ``ratio`` times the limit."""
    inside = min(max(ratio, _LEAST), _MOST)
    part = math.log(inside / _LEAST) / math.log(_MOST / _LEAST)
    return _LEFT + part * (_WIDTH - _LEFT - _RIGHT)


def text_at(x: float, y: float, text: str, **more: str | int) -> str:
    """Returns a text of SVG; ``font_size=12`` is its attribute ``font-size``."""
    given = "".join(f' {k.replace("_", "-")}="{v}"' for k, v in more.items())
    return f'<text x="{x:.1f}" y="{y:.1f}"{given}>{escape(text)}</text>'


def _header(threads: int, height: int) -> str:
    plural = "" if threads == 1 else "s"
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{height}" '
            f'viewBox="0 0 {_WIDTH} {height}" font-family="sans-serif" font-size="12">',
            f'<rect width="{_WIDTH}" height="{height}" fill="white"/>',
            text_at(16, 26, f"Time per call on {threads} thread{plural}", font_size=17),
            text_at(
                16,
                46,
                "in multiples of what the machine needs at least (red line); shorter is better",
                fill="#555",
            ),
            text_at(_WIDTH - 16, 46, "the fastest peer, over us", text_anchor="end", fill="#555"),
        ]
    )


def _legend(rows: Sequence[Row]) -> str:
    parts: list[str] = []
    x = 16.0
    present = {name for row in rows for name in row.seconds}
    for name, colour in (("tuned", _TUNED), ("untuned", _UNTUNED)):
        if name in present:
            parts.append(f'<rect x="{x}" y="58" width="22" height="10" fill="{colour}"/>')
            parts.append(text_at(x + 27, 67, f"Loopwright, {name}"))
            x += 172
    for name, colour in COLOURS.items():
        if any(library_column(one) == name for one in present):
            parts.append(f'<circle cx="{x + 5}" cy="63" r="4.5" fill="{colour}"/>')
            parts.append(text_at(x + 14, 67, name))
            x += 30 + 7 * len(name)
    return "\n".join(parts)


def _panel(family: str, rows: Sequence[Row], y: int) -> str:
    top, bottom = y + _TITLE - 6, y + _TITLE + _LINE * len(rows) - 4
    parts = [text_at(16, y + _TITLE - 10, family, font_weight="bold", font_size=13)]
    for tick in _TICKS:
        x, limit = _x(tick), tick == 1
        ends = f'x1="{x:.1f}" x2="{x:.1f}" y1="{top}" y2="{bottom}"'
        parts.append(f'<line {ends} stroke="#e3e3e3"/>')
        label = "limit" if limit else f"{tick:g}x"
        colour = _LIMIT if limit else "#888"
        parts.append(text_at(x, top - 3, label, text_anchor="middle", font_size=10, fill=colour))
    bars = [_bar(row, y + _TITLE + _LINE * i) for i, row in enumerate(rows)]
    x = _x(1)
    line = f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{top}" y2="{bottom}" stroke="{_LIMIT}"/>'
    parts += [*bars, line]
    return "\n".join(parts)


def _bar(row: Row, y: int) -> str:
    parts = [text_at(_LEFT - 10, y + 10, row.workload, text_anchor="end", font_size=11)]
    for name, colour, high in (("untuned", _UNTUNED, 12), ("tuned", _TUNED, 6)):
        if name in row.seconds:
            end = _x(row.seconds[name] / row.limit)
            parts.append(
                f'<rect x="{_LEFT}" y="{y + 6 - high / 2}" width="{max(1.0, end - _LEFT):.1f}" '
                f'height="{high}" fill="{colour}"><title>{_hint(row, name)}</title></rect>'
            )
    others = {library_column(n) for n in row.seconds if n not in OURS}
    for column in sorted(others):
        found = row.fastest(lambda name, column=column: library_column(name) == column)
        assert found is not None
        colour = COLOURS.get(column, "#444")
        parts.append(
            f'<circle cx="{_x(found[1] / row.limit):.1f}" cy="{y + 6}" r="4" fill="{colour}" '
            f'stroke="white" stroke-width="0.8"><title>{_hint(row, found[0])}</title></circle>'
        )
    lead = row.lead("tuned") or row.lead("untuned")
    if lead is not None:
        colour = "#1e8449" if lead >= 1 else _LIMIT
        text = f"{lead:.2f}x"
        parts.append(
            text_at(_WIDTH - 16, y + 10, text, text_anchor="end", fill=colour, font_size=11)
        )
    return "\n".join(parts)


def _hint(row: Row, name: str) -> str:
    return escape(f"{row.workload}, {name}: {1e3 * row.seconds[name]:.3g} ms")
