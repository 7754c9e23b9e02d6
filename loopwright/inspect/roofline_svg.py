"""The roofline plot of an explanation as a self-contained SVG.

Both axes are logarithmic: operations per byte to the right, operations per second upwards. Every
level of memory is a slope and the peak a level line. A kernel is a numbered point: over the bytes
of the level that would bound it if it computed nothing, in that level's colour; a thin line leads
up to the roof that bounds it. The list below gives the numbers their names.

Text colours follow the reader's preference for light or dark.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from xml.sax.saxutils import escape

from ..codegen.roofline import COMPUTE, LEVELS, Roof
from ..ir.dataclass import dataclass
from .explain import Explained, Explanation

WIDTH, PLOT_HEIGHT = 760, 420
LEFT, RIGHT, TOP, BOTTOM = 76, 24, 64, 52
LINE_HEIGHT = 20  # height of a line of the list
RADIUS = 5
DECADES_AROUND = 0.35  # decades around what is shown
LETTER = 0.56  # width of a letter, of its height

_NAMESPACE = 'xmlns="http://www.w3.org/2000/svg" '
_NOTE = (
    "A point stands over the bytes of its colour's level of memory; "
    "its dotted line leads up to the roof that bounds it."
)

_STYLE = """
  .paper { fill: #ffffff }
  text { font: 12px system-ui, -apple-system, "Segoe UI", sans-serif; fill: #1f2933 }
  .title { font-size: 15px; font-weight: 600 }
  .quiet { fill: #5f6b7a }
  .head { fill: #5f6b7a; font-size: 11px }
  .number { font-size: 11px; font-weight: 600 }
  .right { text-anchor: end }
  .middle { text-anchor: middle }
  .grid { stroke: #e4e8ee; stroke-width: 1 }
  .axis { stroke: #9aa5b1; stroke-width: 1 }
  .roof { fill: none; stroke-width: 2 }
  .gap { stroke-width: 1; stroke-dasharray: 2 3; opacity: .7 }
  .lead { stroke: #9aa5b1; stroke-width: 1 }
  .point { stroke: #ffffff; stroke-width: 1.5 }
  .compute { stroke: #3d4852; fill: #3d4852 } .l1 { stroke: #0f8a5f; fill: #0f8a5f }
  .l2 { stroke: #2563eb; fill: #2563eb } .l3 { stroke: #b45309; fill: #b45309 }
  .dram { stroke: #be185d; fill: #be185d }
  text.compute, text.l1, text.l2, text.l3, text.dram { stroke: none; font-size: 11px }
  @media (prefers-color-scheme: dark) {
    .paper { fill: #14181d } text { fill: #e4e8ee } .quiet, .head { fill: #9aa5b1 }
    .grid { stroke: #262d36 } .axis, .lead { stroke: #5f6b7a } .point { stroke: #14181d }
    .compute { stroke: #cbd2d9; fill: #cbd2d9 } .l1 { stroke: #34d399; fill: #34d399 }
    .l2 { stroke: #7aa7ff; fill: #7aa7ff } .l3 { stroke: #f0a94e; fill: #f0a94e }
    .dram { stroke: #f472b6; fill: #f472b6 }
  }
"""


@dataclass(frozen=True, slots=True)
class _Box:
    x: float
    y: float
    width: float
    height: float

    def overlaps(self, other: _Box) -> bool:
        return (
            self.x < other.x + other.width
            and other.x < self.x + self.width
            and self.y < other.y + other.height
            and other.y < self.y + self.height
        )


@dataclass(frozen=True, slots=True)
class _Scale:
    """Maps base-10 logarithms to coordinates of the picture."""

    low_x: float
    high_x: float
    low_y: float
    high_y: float

    def x(self, value: float) -> float:
        inside = (math.log10(value) - self.low_x) / (self.high_x - self.low_x)
        return LEFT + inside * (WIDTH - LEFT - RIGHT)

    def y(self, value: float) -> float:
        inside = (math.log10(value) - self.low_y) / (self.high_y - self.low_y)
        return TOP + PLOT_HEIGHT - inside * PLOT_HEIGHT


def roofline_svg(name: str, explanation: Explanation, *, styled: bool = True) -> str:
    """Returns the picture as SVG, with ``name`` in its title. Without ``styled``, the page around
    it has to style its classes (``.roofline .paper`` and so on)."""
    scale = _scale(explanation)
    list_top = TOP + PLOT_HEIGHT + BOTTOM + LINE_HEIGHT
    note = list_top + LINE_HEIGHT * len(explanation.kernels) + 2 * LINE_HEIGHT
    height = note + LINE_HEIGHT
    roof = Roof(explanation.machine, explanation.threads)
    taken = [_mark(scale, kernel) for kernel in explanation.kernels]
    threads = f"{explanation.threads} thread{'' if explanation.threads == 1 else 's'}"
    lines = [
        f'<svg {_NAMESPACE if styled else ""}viewBox="0 0 {WIDTH} {height}" '
        f'width="100%" style="max-width: {WIDTH * 3 // 2}px" role="img" class="roofline">',
        f"<title>Roofline of {escape(name)}</title>",
        f"<style>{_STYLE}</style>" if styled else "",
        f'<rect class="paper" width="{WIDTH}" height="{height}"/>',
        f'<text class="title" x="{LEFT}" y="26">{escape(_fitted(name, 62))}</text>',
        f'<text class="quiet" x="{LEFT}" y="45">'
        f"{escape(_fitted(explanation.machine.cpu, 60))}, {threads}</text>",
        *_axes(scale),
        *_roofs(scale, roof, taken),
        *_points(scale, explanation.kernels, taken),
        *_list(explanation, list_top),
        f'<text class="head" x="{LEFT}" y="{note}">{_NOTE}</text>',
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def _place(kernel: Explained) -> tuple[str, float, float]:
    """Returns the level at which a kernel is drawn, its operations per byte, and per second."""
    level, seconds = kernel.roof.memory_bound(kernel.work)
    if not seconds:
        level = LEVELS[0]
    moved = max(kernel.work.traffic[level].total, 1.0)
    return level, max(kernel.work.flops, 1.0) / moved, max(kernel.flops_per_second, 1.0)


def _mark(scale: _Scale, kernel: Explained) -> _Box:
    """Returns the box that the point of a kernel covers."""
    _, intensity, rate = _place(kernel)
    side = 2 * RADIUS + 2
    return _Box(scale.x(intensity) - side / 2, scale.y(rate) - side / 2, side, side)


def _scale(explanation: Explanation) -> _Scale:
    roof = Roof(explanation.machine, explanation.threads)
    peak = roof.peak()
    ridges = [peak / roof.bandwidth(level) for level in LEVELS]
    places = [_place(kernel) for kernel in explanation.kernels]
    xs = [*ridges, *(x for _, x, _ in places)]
    low = math.log10(min(xs)) - DECADES_AROUND
    high = math.log10(max(xs)) + DECADES_AROUND
    ys = [peak, *(y for _, _, y in places)]
    bottom = min(*ys, peak / 30)
    return _Scale(low, high, math.log10(bottom) - DECADES_AROUND, math.log10(max(ys)) + 0.2)


def _axes(scale: _Scale) -> Iterator[str]:
    bottom, right = TOP + PLOT_HEIGHT, WIDTH - RIGHT
    for exponent in range(math.ceil(scale.low_x), math.floor(scale.high_x) + 1):
        x = scale.x(10.0**exponent)
        yield f'<line class="grid" x1="{x:.1f}" y1="{TOP}" x2="{x:.1f}" y2="{bottom}"/>'
        yield f'<text class="quiet middle" x="{x:.1f}" y="{bottom + 18}">{10.0**exponent:g}</text>'
    for exponent in range(math.ceil(scale.low_y), math.floor(scale.high_y) + 1):
        y = scale.y(10.0**exponent)
        yield f'<line class="grid" x1="{LEFT}" y1="{y:.1f}" x2="{right}" y2="{y:.1f}"/>'
        text = f"{10.0 ** (exponent - 9):g}"
        yield f'<text class="quiet right" x="{LEFT - 8}" y="{y + 4:.1f}">{text}</text>'
    yield f'<line class="axis" x1="{LEFT}" y1="{bottom}" x2="{right}" y2="{bottom}"/>'
    middle = (LEFT + right) / 2
    yield f'<text class="quiet middle" x="{middle}" y="{bottom + 38}">operations per byte</text>'
    y = TOP + PLOT_HEIGHT / 2
    yield (f'<text class="quiet middle" transform="translate(20 {y}) rotate(-90)">GFLOP/s</text>')


def _roofs(scale: _Scale, roof: Roof, taken: list[_Box]) -> Iterator[str]:
    """Yields the slopes and the peak, each with its name on it."""
    peak = roof.peak()
    left, right = 10**scale.low_x, 10**scale.high_x
    low = 10**scale.low_y
    for level in LEVELS:
        rate = roof.bandwidth(level)
        begin, end = max(left, low / rate), min(right, peak / rate)
        if begin < end:
            yield _line(f"roof {level}", scale, (begin, begin * rate), (end, end * rate))
            yield from _slope_name(scale, level, rate, begin, end, taken)
    yield _line(f"roof {COMPUTE}", scale, (left, peak), (right, peak))
    text = f"peak {peak / 1e9:.0f} GFLOP/s"
    x, y = WIDTH - RIGHT - 4, scale.y(peak) - 7
    width = len(text) * 11 * LETTER
    taken.append(_Box(x - width, y - 11, width, 14))
    yield f'<text class="{COMPUTE} right" x="{x}" y="{y:.1f}">{text}</text>'


def _slope_name(
    scale: _Scale, level: str, rate: float, begin: float, end: float, taken: list[_Box]
) -> Iterator[str]:
    """Yields the name along a slope, at a place clear of the other names."""
    text = f"{level.upper()} {rate / 1e9:.0f} GB/s"
    rise = scale.y(begin) - scale.y(10 * begin)
    run = scale.x(10 * begin) - scale.x(begin)
    angle = math.atan2(rise, run)
    half = len(text) * 11 * LETTER / 2
    steps = [0.45, 0.3, 0.6, 0.15, 0.75, 0.9, 0.5]
    best: tuple[float, float] | None = None
    for step in steps:
        at = begin * (end / begin) ** step
        x, y = scale.x(at), scale.y(at * rate)
        box = _Box(
            x - half * math.cos(angle) - 4,
            y - half * math.sin(angle) - 16,
            2 * half * math.cos(angle),
            2 * half * math.sin(angle) + 14,
        )
        inside = box.x > LEFT and box.y + box.height < TOP + PLOT_HEIGHT
        if inside and not any(box.overlaps(other) for other in taken):
            best = x, y
            taken.append(box)
            break
    if best is None:
        return
    degrees = -math.degrees(angle)
    yield (
        f'<text class="{level} middle" transform="translate({best[0]:.1f} {best[1]:.1f}) '
        f'rotate({degrees:.1f}) translate(0 -6)">{text}</text>'
    )


def _points(scale: _Scale, kernels: Sequence[Explained], taken: list[_Box]) -> Iterator[str]:
    spots = [(*_place(kernel), kernel) for kernel in kernels]
    marks: list[str] = []
    for level, intensity, rate, kernel in spots:
        x, y = scale.x(intensity), scale.y(rate)
        if kernel.share < 1:
            allowed = rate / kernel.share
            yield _line(f"gap {level}", scale, (intensity, rate), (intensity, allowed))
        reached = f": {kernel.share:.0%} of {kernel.bound}" if kernel.share <= 1 else ""
        title = f"<title>{escape(kernel.name)}{reached}</title>"
        marks.append(
            f'<circle class="point {level}" cx="{x:.1f}" cy="{y:.1f}" r="{RADIUS}">{title}</circle>'
        )
    yield from marks
    for number, (_, intensity, rate, _) in enumerate(spots, 1):
        yield from _number(str(number), scale.x(intensity), scale.y(rate), taken)


def _number(text: str, x: float, y: float, taken: list[_Box]) -> Iterator[str]:
    """Yields the number of a point: beside it, or as near as there is room, with a line to it."""
    width, height = len(text) * 11 * LETTER + 3, 13.0
    for distance in (RADIUS + 3, 18, 30, 44, 60, 80, 104):
        for eighth in (0, 7, 1, 6, 2, 4, 3, 5):
            angle = eighth * math.pi / 4
            centre = x + (distance + width / 2) * math.cos(angle)
            middle = y + (distance + height / 2 - 2) * math.sin(angle)
            box = _Box(centre - width / 2, middle - height / 2, width, height)
            inside = (
                box.x > LEFT
                and box.x + width < WIDTH - RIGHT
                and box.y > TOP
                and box.y + height < TOP + PLOT_HEIGHT
            )
            if not inside or any(box.overlaps(other) for other in taken):
                continue
            taken.append(box)
            if distance > RADIUS + 3:
                near_x = x + (RADIUS + 1) * math.cos(angle)
                near_y = y + (RADIUS + 1) * math.sin(angle)
                far_x = centre - width / 2 * math.cos(angle)
                far_y = middle - height / 2 * math.sin(angle)
                yield (
                    f'<line class="lead" x1="{near_x:.1f}" y1="{near_y:.1f}" '
                    f'x2="{far_x:.1f}" y2="{far_y:.1f}"/>'
                )
            yield f'<text class="number middle" x="{centre:.1f}" y="{middle + 4:.1f}">{text}</text>'
            return


def _line(kind: str, scale: _Scale, start: tuple[float, float], end: tuple[float, float]) -> str:
    return (
        f'<line class="{kind}" x1="{scale.x(start[0]):.1f}" y1="{scale.y(start[1]):.1f}" '
        f'x2="{scale.x(end[0]):.1f}" y2="{scale.y(end[1]):.1f}"/>'
    )


def _list(explanation: Explanation, top: float) -> Iterator[str]:
    """Yields the table of kernels: number, name, time, and what bounds it."""
    columns = (LEFT, LEFT + 26, 508, 588, 660, WIDTH - RIGHT)
    heads = ("", "kernel", "time", "of a call", "bound by", "reached")
    for x, head in zip(columns, heads):
        yield f'<text class="head{_side(head)}" x="{x}" y="{top}">{head}</text>'
    for number, kernel in enumerate(explanation.kernels, 1):
        y = top + LINE_HEIGHT * number
        name = kernel.name + (f" x{kernel.calls}" if kernel.calls > 1 else "")
        bound = kernel.bound if kernel.bound == COMPUTE else kernel.bound.upper()
        level = _place(kernel)[0]
        yield f'<circle class="{level}" cx="{LEFT - 14}" cy="{y - 4}" r="4"/>'
        cells = (
            str(number),
            _fitted(name, 52),
            _time(kernel.seconds),
            f"{kernel.seconds / explanation.in_kernels:.0%}",
            bound,
            f"{kernel.share:.0%}" if kernel.share <= 1 else "-",
        )
        for x, head, cell in zip(columns, heads, cells):
            kind = ' class="number"' if not head else f' class="{_side(head).strip()}"'
            yield f'<text{kind} x="{x}" y="{y}">{escape(cell)}</text>'


def _side(head: str) -> str:
    return "" if head in ("", "kernel") else " right"


def _time(seconds: float) -> str:
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"


def _fitted(text: str, letters: int) -> str:
    return text if len(text) <= letters else f"{text[: letters - 1]}\N{HORIZONTAL ELLIPSIS}"
