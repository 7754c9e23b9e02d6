"""The picture of README.md: each library's time over Loopwright's, from the table of a page.

``python -m bench.speed_chart docs/benchmarks.md`` prints it. Browsers that ask for dark pages get
light letters on a dark card, so that it can be read on either kind of page.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Sequence
from html import escape
from pathlib import Path

from .plot import COLOURS, text_at

__all__ = ["Line", "read_table", "svg"]

_WIDTH, _LEFT, _RIGHT, _TOP, _STEP = 900, 232, 172, 96, 30
_LEAST, _MOST = 0.8, 60.0
"""The scale, in times of Loopwright's time; what is slower stands at its end."""
_TICKS = (1, 2, 5, 10, 20, 50)
_PEERS = {"NumPy": "numpy", "ONNX Runtime": "onnxruntime", "OpenVINO": "openvino"} | {
    "PyTorch": "torch",
    "torch.compile": "inductor",
    "JAX": "jax",
}
_STYLE = """
  .card { fill: #ffffff } .ink { fill: #1f2328 } .soft { fill: #59636e } .grid { stroke: #d1d9e0 }
  .ours { fill: #1f5fa8; stroke: #1f5fa8 }
  @media (prefers-color-scheme: dark) {
    .card { fill: #0d1117 } .ink { fill: #f0f6fc } .soft { fill: #9198a1 } .grid { stroke: #3d444d }
    .ours { fill: #6cb6ff; stroke: #6cb6ff }
  }
"""

Line = tuple[str, dict[str, float]]
"""A workload, and the milliseconds of each library."""


def read_table(page: str) -> list[Line]:
    """Returns the lines of the first table of a page whose head begins with ``workload``."""
    table = page[page.index("| workload |") :].partition("\n\n")[0].splitlines()
    cells = [[c.strip(" *") for c in row.strip("|").split("|")] for row in table]
    names = cells[0][1:]
    return [(row[0], dict(zip(names, map(float, row[1:]), strict=True))) for row in cells[2:]]


def svg(lines: Sequence[Line]) -> str:
    """Returns the picture: a row per workload, a dot per library, Loopwright (tuned) at 1."""
    bottom = _TOP + _STEP * len(lines)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {bottom + 44}" '
        f'font-family="system-ui, sans-serif" font-size="13" role="img">',
        "<title>Time of a call over that of Loopwright, for seven workloads</title>",
        f"<style>{_STYLE}</style>",
        f'<rect class="card" width="{_WIDTH}" height="{bottom + 44}" rx="8"/>',
        _label(20, 30, "How long others take, in times of Loopwright's time", "ink", font_size=17),
        _legend(lines),
        _label(
            _WIDTH - 16, _TOP - 20, "the fastest of them", "soft", text_anchor="end", font_size=12
        ),
    ]
    for tick in _TICKS:
        x = _x(tick)
        kind, width = ("ours", 2) if tick == 1 else ("grid", 1)
        ends = f'x1="{x:.1f}" x2="{x:.1f}" y1="{_TOP - 14}" y2="{bottom}"'
        parts.append(f'<line class="{kind}" {ends} stroke-width="{width}"/>')
        parts.append(_label(x, bottom + 18, f"{tick}x", "soft", text_anchor="middle"))
    parts += [_row(line, _TOP + _STEP * i) for i, line in enumerate(lines)]
    foot = "one thread of an Intel Xeon with AVX-512; further left is faster; the scale ends at 60x"
    parts.append(_label(_LEFT, bottom + 36, foot, "soft", font_size=12))
    return "\n".join([*parts, "</svg>"]) + "\n"


def _x(ratio: float) -> float:
    part = math.log(min(max(ratio, _LEAST), _MOST) / _LEAST) / math.log(_MOST / _LEAST)
    return _LEFT + part * (_WIDTH - _LEFT - _RIGHT)


def _label(x: float, y: float, text: str, kind: str, **more: str | int) -> str:
    return text_at(x, y, text, **more).replace("<text", f'<text class="{kind}"', 1)


def _legend(lines: Sequence[Line]) -> str:
    parts = ['<rect class="ours" x="20" y="46" width="4" height="14"/>']
    parts.append(_label(30, 58, "Loopwright, tuned", "ink"))
    x = 158
    for name in (n for n in lines[0][1] if n in _PEERS):
        parts.append(f'<circle cx="{x + 6}" cy="53" r="5" fill="{COLOURS[_PEERS[name]]}"/>')
        parts.append(_label(x + 16, 58, name, "ink"))
        x += 34 + round(7.2 * len(name))
    return "\n".join(parts)


def _row(line: Line, y: int) -> str:
    workload, times = line
    ours = times["tuned"]
    parts = [_label(_LEFT - 16, y + 5, _short(workload), "ink", text_anchor="end")]
    for name in _PEERS:
        ratio = times[name] / ours
        hint = escape(f"{name}: {times[name]:g} ms, {ratio:.2f}x")
        parts.append(
            f'<circle cx="{_x(ratio):.1f}" cy="{y}" r="5" fill="{COLOURS[_PEERS[name]]}">'
            f"<title>{hint}</title></circle>"
        )
    best = min(_PEERS, key=lambda name: times[name])
    text = f"{times[best] / ours:.2f}x {best}"
    parts.append(_label(_WIDTH - 16, y + 5, text, "soft", text_anchor="end", font_size=12))
    return "\n".join(parts)


def _short(workload: str) -> str:
    """Returns the name of a workload without marks of code, and without its last details."""
    return re.sub(
        r", (constant right side|16M elements|\d+ ch.*|128 -> .*)$", "", workload.replace("`", "")
    )


if __name__ == "__main__":
    print(svg(read_table(Path(sys.argv[1]).read_text())), end="")
